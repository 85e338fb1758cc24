//! Sums of the columns of a dense matrix: the interface of programs, and the operations of each task.

mod colmean_job;
mod sums;

pub use sums::{ColumnSums, ColumnSumsBuilder};
