//! Plans: which chunk is computed where, with which kernel, in which memory, and why; and the task graph that follows.
//!
//! A [`Plan`] is pure data. Making one ([`make`]) touches no device and reads no values, and the same request gives the
//! same plan. It can be saved, loaded and compared, and made for a machine that is not here.

mod balance;
mod build;
mod check;
mod choice;
mod data;
mod draft;
mod file;
mod kernels;
mod make;
mod memory;
mod outputs;
mod part;
mod parts;
mod predict;
mod remaining;
mod request;
mod tail;
mod transfer;
mod x;

pub use build::{Item, PlannedGraph, Pools};
pub use data::{Chunk, DevicePlan, Mode, PLAN_VERSION, Plan, Registered, Slots, SplitRow, XPlan};
pub use make::make;
pub use remaining::Remaining;
pub use request::{DeviceSpec, PlanRequest};

#[cfg(test)]
mod tests;
