//! What commands read and write: matrices, multivectors and dense tables, with the threads that do it.

pub mod collection;
pub mod dense;
pub mod output;
pub mod session;
pub mod standard_input;
pub mod x;
#[cfg(feature = "mpi")]
pub mod x_rows;
