//! Multivectors that span the ranks of a job: the rows of each rank, their messages, and sums over all of them.

mod lists;
mod reduction;

pub use lists::{
    Arrival, Departure, MessagesOfDevices, RankLists, RankRows, Span, arrivals, departures, owners_of_ranks,
};
pub use reduction::{Reductions, Shape};
