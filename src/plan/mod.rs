//! Plans: the device, kernel and memory of every chunk, the reasons, and the task graph of a product.
//!
//! A [`Plan`] is plain data. `make` accesses no device and reads no values of A, and the same request gives the same plan. Plans
//! can be saved, loaded and compared, and made for machines that are not present.

mod balance;
mod blocks;
mod build;
mod build_x;
mod check;
mod check_matrix;
mod choice;
mod data;
mod decreasing;
mod device_counts;
mod device_part;
mod device_parts;
mod draft;
mod explain;
mod file;
mod interior;
mod linear_times;
mod make;
mod memory;
mod outputs;
mod packing;
mod predict;
mod remaining;
mod request;
mod resident;
mod set_up;
mod shares;
mod sharing_gain;
mod tail;
mod transfer;
mod values;
mod vectors;

pub use build::{Item, PlannedGraph, Pools};
pub use data::{
    Chunk, DevicePlan, Mode, PLAN_VERSION, Plan, Registered, SetUp, Slots, SplitRow, XPlan, XRows,
};
pub use device_counts::{DeviceCount, compare_device_counts};
pub use explain::Limit;
pub use make::make;
pub use remaining::Remaining;
pub use request::{DeviceSpec, PlanRequest, ResidentLayout};
pub use vectors::make_on_vectors;

#[cfg(test)]
mod block_tests;
#[cfg(test)]
mod fixture;
#[cfg(test)]
mod reason_tests;
#[cfg(test)]
mod refusal_tests;
#[cfg(test)]
mod resident_tests;
#[cfg(test)]
mod tests;
