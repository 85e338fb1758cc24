//! The messages of rows between ranks, on which the ranks agree.

use std::ops::Range;

use crate::device::network::{Communicator, MESSAGES_PER_CALL};
use crate::error::{Error, Result};
use crate::runtime::vectors::ranks::{Arrival, Departure, RankLists};
use crate::runtime::vectors::row_distribution::RowDistribution;

/// The messages to other ranks, where X is owned as `distribution` says.
pub fn departures(distribution: &RowDistribution, lists: &RankLists) -> Vec<Departure> {
    let begin = lists.own_columns().start;
    let mut departures: Vec<Departure> = Vec::new();
    for (rank, needed) in lists.needed.iter().enumerate() {
        let first = departures.len();
        for &row in needed {
            let row = u64::from(row) + begin;
            let from = distribution.owner(row);
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
