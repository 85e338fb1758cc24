//! Kernels: the storage format and the accumulation order of each, the CPU kernels, and the source text of the GPU kernels.

pub mod check;
pub mod colmean;
pub mod cpu;
pub mod cuda;
mod double_double;
pub mod gemm;
mod id;
mod names;
pub mod order;
pub mod partition;
pub mod reference;
pub mod scaling;
mod sources;
pub mod table;
pub mod vectors;
pub mod verify;
pub mod verify_complex;

pub use id::{Format, KernelId, KindOfWork, Processor};
pub use order::Order;
pub use partition::Schedule;
pub use table::{KernelInfo, TABLE, kernels_for, kernels_of};
pub use verify::{Verification, verify};
pub use verify_complex::verify_complex;
