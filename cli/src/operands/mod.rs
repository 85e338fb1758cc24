//! What commands read and write: matrices, multivectors and dense tables, with the threads that do it.

pub mod collection;
pub mod dense;
pub mod output;
#[cfg(feature = "mpi")]
pub mod rank_x;
pub mod session;
pub mod standard_input;
pub mod x;
