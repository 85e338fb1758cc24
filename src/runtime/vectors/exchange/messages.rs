//! The rows that owners send each other before a product: the rows of X that another owner has and this one's columns refer to.

use std::ops::Range;

use rayon::prelude::*;

use crate::runtime::vectors::ranks::Departure;
use crate::runtime::vectors::row_distribution::{RowDistribution, Source};
use crate::work::{ChunkRows, Work};

/// One message: rows of one owner for another.
pub struct Message {
    /// The owner, as an index of the distribution's parts.
    pub from: usize,
    /// The receiver.
    pub to: usize,
    /// The rows of X, ascending.
    pub rows: Vec<u32>,
}

impl Message {
    /// Whether the rows follow one another, so that they are a range of the receiver's memory.
    fn is_consecutive(&self) -> bool {
        let (first, last) = (self.rows.first(), self.rows.last());
        first.zip(last).is_some_and(|(first, last)| (last - first) as usize + 1 == self.rows.len())
    }
}

/// A chunk: its owner and its rows.
pub struct OwnedChunk {
    /// The owner, as an index of the distribution's parts.
    pub owner: usize,
    /// Its rows of the matrix.
    pub rows: Range<u64>,
    /// Its rows of Y. They have other numbers where Y has room for rows of lower ranks.
    pub stored: Range<u64>,
}

/// The owners and the messages from other ranks that the columns of a chunk refer to, ascending.
struct ChunkSources {
    chunk: usize,
    owners: Vec<usize>,
    arrivals: Vec<usize>,
}

/// All messages of a product; made once.
pub struct Exchange {
    /// The messages, ordered by receiver and by sender.
    pub messages: Vec<Message>,
    /// For each chunk the messages that its columns refer to; none for interior rows.
    pub needs: Vec<Vec<usize>>,
    /// For each chunk the messages from other ranks that its columns refer to.
    pub needs_of_ranks: Vec<Vec<usize>>,
    /// For each message from another rank the owners that it is for, ascending.
    pub receivers: Vec<Vec<usize>>,
    /// The messages to other ranks.
    pub departures: Vec<Departure>,
}

impl Exchange {
    /// The messages that `chunks` need, where X is owned as `distribution` says. Computed in the rayon pool of the caller.
    pub fn new(distribution: &RowDistribution, chunks: &[OwnedChunk], work: &Work<'_>) -> Self {
        let owners = distribution.parts.len();
        let mut messages: Vec<Message> = Vec::new();
        let mut needs = vec![Vec::new(); chunks.len()];
        let mut needs_of_ranks: Vec<Vec<usize>> = vec![Vec::new(); chunks.len()];
        let arrivals = distribution.ranks.as_ref().map_or(0, |ranks| ranks.arrivals.len());
        let mut receivers: Vec<Vec<usize>> = vec![Vec::new(); arrivals];
        let mut of_owner: Vec<Vec<usize>> = vec![Vec::new(); owners];
        if owners > 1 || arrivals > 0 {
            chunks.iter().enumerate().for_each(|(index, chunk)| of_owner[chunk.owner].push(index));
        }
        let received = of_owner.par_iter().enumerate().map(|(to, own)| {
            let mut lists: Vec<Vec<u32>> = vec![Vec::new(); owners];
            let mut of_chunks: Vec<ChunkSources> = Vec::new();
            for &index in own {
                let rows = &chunks[index].rows;
                let piece = ChunkRows::Rows { begin: rows.start as usize, end: rows.end as usize };
                let mut sources = ChunkSources { chunk: index, owners: Vec::new(), arrivals: Vec::new() };
                for column in work.x_list(&[piece]) {
                    let owner = match distribution.source(u64::from(column)) {
                        Source::Part(owner) => owner,
                        Source::Rank(arrival) => {
                            if sources.arrivals.last() != Some(&arrival) {
                                sources.arrivals.push(arrival);
                            }
                            continue;
                        }
                    };
                    if owner != to {
                        lists[owner].push(column);
                        if sources.owners.last() != Some(&owner) {
                            sources.owners.push(owner);
                        }
                    }
                }
                of_chunks.push(sources);
            }
            let filled = lists.into_iter().enumerate().filter(|(_, rows)| !rows.is_empty());
            let of_receiver = filled.map(|(from, mut rows)| {
                // Two chunks of the receiver may need the same row.
                rows.sort_unstable();
                rows.dedup();
                rows.shrink_to_fit();
                Message { from, to, rows }
            });
            (of_receiver.collect::<Vec<_>>(), of_chunks)
        });
        for (to, (of_receiver, of_chunks)) in received.collect::<Vec<_>>().into_iter().enumerate() {
            for ChunkSources { chunk, owners, arrivals } in of_chunks {
                // Columns ascend, and owners with them.
                let numbers = of_receiver.iter().zip(messages.len()..);
                let needed = numbers.filter(|(message, _)| owners.binary_search(&message.from).is_ok());
                needs[chunk] = needed.map(|(_, number)| number).collect();
                for &arrival in &arrivals {
                    let receivers = receivers.get_mut(arrival).into_iter();
                    receivers.filter(|list| list.last() != Some(&to)).for_each(|list| list.push(to));
                }
                needs_of_ranks[chunk] = arrivals;
            }
            messages.extend(of_receiver);
        }
        Self { messages, needs, needs_of_ranks, receivers, departures: Vec::new() }
    }

    /// Whether a copy from the sender's memory can write the rows of a message to their places in X. Operations on X name all rows that
    /// the receiver has room for. The copy is therefore ordered with all of them only if it is the receiver's one message, those of other
    /// ranks included.
    pub fn is_copied_in_place(&self, message: usize) -> bool {
        // Messages are ordered by receiver, so others of the same receiver are its neighbours.
        let receiver = |index: Option<usize>| Some(self.messages.get(index?)?.to);
        let neighbours = [receiver(message.checked_sub(1)), receiver(message.checked_add(1))];
        self.messages.get(message).is_some_and(|message| {
            let from_ranks = self.receivers.iter().any(|receivers| receivers.contains(&message.to));
            message.is_consecutive() && !neighbours.contains(&Some(message.to)) && !from_ranks
        })
    }

    /// Whether the columns of a chunk refer to rows of its owner only.
    pub fn is_interior(&self, chunk: usize) -> bool {
        let is_empty = |needs: &[Vec<usize>]| needs.get(chunk).is_none_or(Vec::is_empty);
        is_empty(&self.needs) && is_empty(&self.needs_of_ranks)
    }

    /// Number of rows that cross between owners of this rank with every product.
    pub fn rows(&self) -> usize {
        self.messages.iter().map(|message| message.rows.len()).sum()
    }
}
