//! Kernels: what each one needs, in which order it adds, the bodies that run on a CPU and the text of those for GPUs.

pub mod cpu;
pub mod cuda;
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
