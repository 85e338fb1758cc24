//! Multivectors that span the ranks of a job: the rows of each rank, their messages, and sums over all of them.

mod lists;
mod reduce;
mod reduction;
mod rows;

pub use lists::{MessagesOfDevices, RankLists, Span};
pub use reduction::{Reductions, Shape};
pub use rows::{Arrival, Departure, RankRows};
