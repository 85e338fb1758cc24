//! What jobs with a dense A have in common: A in host memory and its copies, the builder, and runs of one plan.

mod builder;
mod operand;
mod planned_work;
mod rows;

pub use builder::DenseBuilder;
pub use operand::DenseOperand;
pub use planned_work::{DenseJob, DenseWork};
pub use rows::{DenseA, bytes_of, rows_of_device};
