//! Jobs with a dense A. They have in common: A in host memory and its copies, the builder, and runs of one plan.

mod builder;
pub(crate) mod colmean;
pub(crate) mod gemm;
mod operand;
mod planned_work;
mod rows;
#[cfg(all(test, feature = "emulator"))]
mod tests;

pub use builder::DenseBuilder;
pub use operand::DenseOperand;
pub use planned_work::{DenseJob, DenseWork};
