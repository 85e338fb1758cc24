//! The rows of a multivector among those of all ranks, and the messages of rows between ranks.
//!
//! A rank owns consecutive rows. Its columns refer to its own rows and to rows of other ranks, of which it keeps copies: ghost rows.
//! Rows are numbered within the rank in the order of their numbers in the whole multivector, so that sums keep their order: ghost rows
//! of lower ranks, own rows, ghost rows of higher ranks.
//!
//! Every owner of rows (the host or a device) sends one message to each rank that needs some of its rows. The rows of a message are
//! consecutive ghost rows of the receiver.

use std::ops::Range;
use std::sync::{Arc, Mutex};

use super::reduction::Reductions;
use crate::device::Network;
use crate::device::network::{Communicator, MESSAGES_PER_CALL};
use crate::error::{Error, Result};
use crate::runtime::Runtime;
use crate::runtime::vectors::layout::Layout;

/// Consecutive rows of a multivector that spans all ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// The number of the first row.
    pub first: u64,
    /// Number of rows.
    pub rows: u64,
    /// Number of rows of the whole multivector.
    pub total: u64,
}

/// The rows that ranks need of each other, for one matrix.
pub struct RankLists {
    /// The ranks.
    pub communicator: Arc<dyn Communicator>,
    /// The runtime of this rank.
    pub runtime: Runtime,
    /// The network of this rank.
    pub network: Arc<Mutex<Network>>,
    /// Whether messages may be in the memory of devices.
    pub direct: bool,
    /// The own rows of X.
    pub x: Span,
    /// The own rows of Y.
    pub y: Span,
    /// Whether a multivector can be both X and Y.
    pub is_square: bool,
    /// For each rank the number of its rows of X that this rank needs.
    pub ghosts: Vec<u64>,
    /// For each rank the own rows of X that it needs, ascending and counted from the first own row.
    pub needed: Vec<Vec<u32>>,
}

impl RankLists {
    /// The columns of the matrix that refer to own rows of X.
    pub fn own_columns(&self) -> Range<u64> {
        let below = self.ghosts.iter().take(self.communicator.rank()).sum::<u64>();
        below..below + self.x.rows
    }

    /// Number of own rows and ghost rows of X.
    pub fn columns(&self) -> u64 {
        self.ghosts.iter().sum::<u64>() + self.x.rows
    }
}

/// The rows of a rank among those of all ranks.
pub struct RankRows {
    /// The ranks.
    pub communicator: Arc<dyn Communicator>,
    /// The own rows, in the numbers of the layout.
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
    /// The owner of the rows, as an index of the layout's parts.
    pub from: usize,
    /// The other rank.
    pub rank: usize,
    /// The number of the message among those of the same sender and receiver.
    pub tag: u32,
    /// The rows, ascending, in the numbers of the layout.
    pub rows: Vec<u32>,
}

/// Messages between ranks, with every product, whose rows a device of this rank has or needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MessagesOfDevices {
    /// Number of all of them.
    pub all: u64,
    /// Number of those that go directly from or to the memory of a device. The others go through host memory.
    pub direct: u64,
}

/// The messages to other ranks, where X is owned as `layout` says.
pub fn departures(layout: &Layout, lists: &RankLists) -> Vec<Departure> {
    let begin = lists.own_columns().start;
    let mut departures: Vec<Departure> = Vec::new();
    for (rank, needed) in lists.needed.iter().enumerate() {
        let first = departures.len();
        for &row in needed {
            let row = u64::from(row) + begin;
            let from = layout.owner(row);
            match departures[first..].last_mut().filter(|departure| departure.from == from) {
                Some(departure) => departure.rows.push(row as u32),
                None => {
                    let tag = (departures.len() - first) as u32;
                    departures.push(Departure { from, rank, tag, rows: vec![row as u32] });
                }
            }
        }
    }
    departures
}

/// For each rank the rows of each of its owners, in the numbers of the whole multivector, which the ranks tell each other now. The rows
/// of `parts` are counted from the first row of this rank.
pub fn owners_of_ranks(
    communicator: &dyn Communicator,
    parts: impl Iterator<Item = Range<u64>>,
    first: u64,
) -> Result<Vec<Vec<Range<u64>>>> {
    let own: Vec<u64> = parts.flat_map(|rows| [rows.start + first, rows.end + first]).collect();
    let all = communicator.all_gather(bytemuck::cast_slice(&own))?;
    let ranges = |bytes: &Vec<u8>| {
        let bounds: Vec<u64> = bytemuck::pod_collect_to_vec(bytes);
        bounds.chunks_exact(2).map(|bounds| bounds[0]..bounds[1].max(bounds[0])).collect()
    };
    Ok(all.iter().map(ranges).collect())
}

/// The messages from other ranks, which these tell each other now.
pub fn arrivals(lists: &RankLists, departures: &[Departure]) -> Result<Vec<Arrival>> {
    let ranks = &lists.communicator;
    let mut lengths: Vec<Vec<u8>> = vec![Vec::new(); ranks.size()];
    for departure in departures {
        let length = (departure.rows.len() as u64).to_le_bytes();
        lengths.get_mut(departure.rank).into_iter().for_each(|list| list.extend_from_slice(&length));
    }
    if departures.iter().any(|departure| departure.tag >= MESSAGES_PER_CALL) {
        return Err(Error::Internal("a rank has too many owners of rows".into()));
    }
    let mut arrivals = Vec::new();
    let mut next = 0;
    for (rank, lengths) in ranks.all_to_all(lengths)?.iter().enumerate() {
        if rank == ranks.rank() {
            next += lists.x.rows;
            continue;
        }
        let begin = next;
        for (tag, length) in lengths.chunks_exact(8).enumerate() {
            let length = length.try_into().map_or(0, u64::from_le_bytes);
            arrivals.push(Arrival { rank, tag: tag as u32, rows: next..next.saturating_add(length) });
            next = next.saturating_add(length);
        }
        let expected = lists.ghosts.get(rank).copied().unwrap_or(0);
        if next - begin != expected {
            let reason = format!("it sends {} rows where {expected} are needed", next - begin);
            return Err(ranks.rank_error(rank, reason));
        }
    }
    Ok(arrivals)
}
