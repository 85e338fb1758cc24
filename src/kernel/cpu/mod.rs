//! CPU kernels with SIMD, all of canonical order.
//!
//! The crate `kernels/cpu` holds the compiled inner loops (bodies). `tuning`, `grouping` and `hub_rows` decide which rows are
//! computed together; `rows_plan` and `sell_plan` store these decisions; `store_choice` times two kinds of stores; `run` executes the
//! plans, and `observed` lets a check see the rows; `product` is the public interface.

mod grouping;
mod hub_rows;
mod observed;
mod piece;
mod product;
mod row_layout;
mod rows_plan;
mod run;
mod sell_plan;
mod store_choice;
mod tuning;

pub use observed::{PieceObserver, RowsObserver};
pub use product::CpuProduct;
pub(crate) use product::PreparedKernel;
pub(super) use row_layout::RowLayout;
pub use rows_plan::CpuSettings;
pub(super) use rows_plan::RowsPlan;

use crate::matrix::Scalar;

/// Scalars with compiled CPU kernels: `f64` and `f32`.
pub trait Kernels:
    Scalar
    + rowloom_cpu::Kernels
    + rowloom_cpu::MultivectorKernels
    + rowloom_cpu::ColumnKernels
    + rowloom_cpu::WeightedSumKernels
    + rowloom_cpu::RowSumKernels
{
}
impl Kernels for f64 {}
impl Kernels for f32 {}

/// What a program should know about a build whose kernels are compiled without optimisation; `None` with it.
pub fn slow_build() -> Option<&'static str> {
    (!rowloom_cpu::OPTIMISED).then_some(
        "build: the CPU kernels are compiled without optimisation and are many times slower; add [profile.dev.package.rowloom-cpu] \
         with opt-level = 3 to Cargo.toml",
    )
}
