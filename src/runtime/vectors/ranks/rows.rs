//! The rows of a multivector that a rank owns, among those of all ranks, and the messages that bring it the rows of others.

use std::ops::Range;
use std::sync::Arc;

use super::lists::Span;
use super::reduction::Reductions;
use crate::device::network::Communicator;

/// The rows of a rank among those of all ranks.
pub struct RankRows {
    /// The ranks.
    pub communicator: Arc<dyn Communicator>,
    /// The own rows, in the numbers of the distribution.
    pub own: Range<u64>,
    /// The own rows, in the numbers of the whole multivector.
    pub span: Span,
    /// The messages from other ranks, in the order of their rows; they contain all ghost rows.
    pub arrivals: Vec<Arrival>,
    /// Sums over the rows of all ranks.
    pub reductions: Reductions,
}

impl RankRows {
    /// The numbers in the whole multivector of own rows.
    pub fn whole(&self, rows: &Range<u64>) -> Range<u64> {
        let number = |row: u64| row - self.own.start + self.span.first;
        number(rows.start)..number(rows.end)
    }
}

/// A message from another rank.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arrival {
    /// The other rank.
    pub rank: usize,
    /// The number of the message among those of the same sender and receiver.
    pub tag: u32,
    /// The ghost rows.
    pub rows: Range<u64>,
}

/// A message to another rank.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Departure {
    /// The owner of the rows, as an index of the distribution's parts.
    pub from: usize,
    /// The other rank.
    pub rank: usize,
    /// The number of the message among those of the same sender and receiver.
    pub tag: u32,
    /// The rows, ascending, in the numbers of the distribution.
    pub rows: Vec<u32>,
}
