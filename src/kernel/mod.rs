//! Kernels: what each one needs, in which order it adds, and the bodies that run on a CPU.

pub mod cpu;
mod doubled;
pub mod order;
pub mod partition;
pub mod reference;
pub mod table;
pub mod verify;

pub use order::Order;
pub use partition::Schedule;
pub use table::{Format, KernelId, KernelInfo, Processor, TABLE, kernels_of};
pub use verify::{Verification, verify};
