//! Kernels for the CPU's vector units, all of canonical order.
//!
//! The bodies are a crate of their own, `kernels/cpu`. `grouping`, `hubs` and `tuning` decide which rows run side by
//! side; `rows_plan` and `sell_plan` keep those decisions; `running` carries them out; `product` is the face.

mod grouping;
mod hubs;
mod layout;
mod product;
mod rows_plan;
mod running;
mod sell_plan;
mod tuning;

pub use product::CpuProduct;
pub use rows_plan::CpuSettings;

use crate::matrix::Scalar;

/// Scalars that have kernels: both of them.
pub trait Kernels: Scalar + rowloom_cpu::Kernels {}
impl<T: Scalar + rowloom_cpu::Kernels> Kernels for T {}
