//! Decisions from plans and measurements: which processors compute the next product, how they share it, and what is remembered.
//!
//! Everything here is a function of plans, times and requests. It opens no device and reads no clock, so simulated times test it.
//!
//! Products are never computed for measurement alone: the first products of a user run on the CPU while the GPUs are opened, then on
//! the GPUs, then on both, as far as the products that remain pay for each change ([`ProcessorChoice`]).

#[cfg(test)]
mod fixture;
mod processor_choice;
mod product_times;
mod rates;
mod refinement;
mod sharing;
mod tuning;

pub use processor_choice::{Alternative, ProcessorChoice, Processors};
pub use product_times::{ProductKey, ProductTimes};
pub use rates::{ResolvedDevices, restricted_to, scale_times};
pub use refinement::{Computation, device_ratios};
pub use sharing::{
    DeviceObservation, Observation, corrected_by, is_shared, moved_share, raise_memory_bandwidth,
};
pub use tuning::{FormTimes, KERNELS_TO_TIME, correct_profile, kernels_to_time};
