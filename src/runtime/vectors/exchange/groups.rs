//! Messages whose rows one kernel packs on their sender, and messages whose rows one kernel stores on their receiver.
//!
//! Each launch of a kernel takes some microseconds, and a device of a large cluster exchanges rows with all others. A kernel for
//! several messages saves launches. In return, the first message is sent when the rows of all are packed, and the rows of the first
//! message are stored when all have arrived. Messages are therefore taken together if the launches take longer than moving the rows
//! of the other messages.

use std::collections::BTreeMap;

use super::messages::Exchange;
use crate::runtime::vectors::row_distribution::{Part, RowDistribution};

/// The groups of the messages of an exchange, by what is done with them.
#[derive(Debug, Default)]
pub struct MessageGroups {
    /// Messages that are packed together. They have the same sender.
    pub packed: Groups,
    /// Messages that are stored together. They have the same receiver, and the same chunks wait for them.
    pub stored: Groups,
}

/// Groups of messages. Every message is in one group.
#[derive(Debug, Default)]
pub struct Groups {
    /// The messages of each group, ascending.
    pub groups: Vec<Vec<usize>>,
    places: Vec<MessagePlace>,
}

/// The place of a message in its group.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MessagePlace {
    /// The group.
    pub group: usize,
    /// Number of rows of the messages before it in the group.
    pub first_row: u64,
    /// Number of its rows.
    pub rows: u64,
}

impl Groups {
    /// The place of a message, which must exist.
    pub fn place(&self, message: usize) -> MessagePlace {
        self.places.get(message).copied().unwrap_or_default()
    }

    /// Number of rows of a group.
    pub fn rows(&self, group: usize) -> u64 {
        let last = self.groups.get(group).and_then(|messages| messages.last());
        last.map_or(0, |&last| {
            let MessagePlace { first_row, rows, .. } = self.place(last);
            first_row + rows
        })
    }

    /// Adds the messages of `part`: as one group if that is predicted to be faster, else as a group each.
    fn add(&mut self, exchange: &Exchange, part: &Part, messages: Vec<usize>, row_bytes: u64) {
        let rows = |message: &usize| exchange.messages[*message].rows.len() as u64;
        let bytes: Vec<u64> = messages.iter().map(|message| rows(message) * row_bytes).collect();
        let groups = match takes_one_launch(part, &bytes) {
            true => vec![messages],
            false => messages.into_iter().map(|message| vec![message]).collect(),
        };
        for messages in groups {
            let (group, mut first_row) = (self.groups.len(), 0);
            for message in &messages {
                self.places[*message] = MessagePlace { group, first_row, rows: rows(message) };
                first_row += rows(message);
            }
            self.groups.push(messages);
        }
    }
}

impl MessageGroups {
    /// The groups for rows of `row_bytes` bytes. The host packs and stores every message by itself.
    pub fn new(
        distribution: &RowDistribution,
        exchange: &Exchange,
        on_devices: &[bool],
        row_bytes: u64,
    ) -> Self {
        let mut of_sender: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        let mut of_receiver: BTreeMap<(usize, &[usize]), Vec<usize>> = BTreeMap::new();
        let mut waiting: Vec<Vec<usize>> = vec![Vec::new(); exchange.messages.len()];
        for (chunk, needs) in exchange.needs.iter().enumerate() {
            needs.iter().for_each(|&message| waiting[message].push(chunk));
        }
        for (index, message) in exchange.messages.iter().enumerate() {
            of_sender.entry(message.from).or_default().push(index);
            of_receiver.entry((message.to, &waiting[index])).or_default().push(index);
        }
        let none =
            || Groups { groups: Vec::new(), places: vec![MessagePlace::default(); exchange.messages.len()] };
        let mut groups = Self { packed: none(), stored: none() };
        let senders = of_sender.into_iter().map(|(owner, messages)| (false, owner, messages));
        let receivers = of_receiver.into_iter().map(|((owner, _), messages)| (true, owner, messages));
        for (are_stored, owner, messages) in senders.chain(receivers) {
            let to = if are_stored { &mut groups.stored } else { &mut groups.packed };
            let part = &distribution.parts[owner];
            match on_devices.get(owner) {
                Some(true) => to.add(exchange, part, messages, row_bytes),
                _ => messages.into_iter().for_each(|one| to.add(exchange, part, vec![one], row_bytes)),
            }
        }
        groups
    }
}

/// Whether one launch for messages of `bytes` bytes each takes less time than it delays the largest of them.
fn takes_one_launch(part: &Part, bytes: &[u64]) -> bool {
    let others = bytes.iter().sum::<u64>() - bytes.iter().copied().max().unwrap_or(0);
    let moved_s = part.predicted_s(2 * others) - part.launch_s;
    bytes.len().saturating_sub(1) as f64 * part.launch_s >= moved_s
}

#[cfg(test)]
mod tests {
    use crate::runtime::vectors::exchange::messages::Message;
    use std::sync::Arc;

    use super::*;

    const LAUNCH_S: f64 = 1e-5;

    /// Owners with memory of 1 GB/s: 5000 bytes are moved, which is to say read and written, in the time of a launch.
    fn distribution(owners: usize) -> RowDistribution {
        let part = |index| Part {
            planned: None,
            index,
            own: 0..0,
            held: 0..0,
            name: format!("sim:{index}"),
            stream_gb_per_s: 1.0,
            launch_s: LAUNCH_S,
            operations: Arc::default(),
        };
        RowDistribution {
            rows: 0,
            parts: (0..owners).map(part).collect(),
            ranks: None,
            machine: None,
            reading: Arc::default(),
        }
    }

    /// An exchange of messages with a sender, a receiver and a number of rows, and the messages that each chunk needs.
    fn exchange(messages: &[(usize, usize, u32)], needs: &[&[usize]]) -> Exchange {
        let message =
            |&(from, to, rows): &(usize, usize, u32)| Message { from, to, rows: (0..rows).collect() };
        Exchange {
            messages: messages.iter().map(message).collect(),
            needs: needs.iter().map(|needs| needs.to_vec()).collect(),
            needs_of_ranks: Vec::new(),
            receivers: Vec::new(),
            departures: Vec::new(),
        }
    }

    #[test]
    fn small_messages_of_a_device_take_one_launch_and_large_ones_a_launch_each() {
        let all = [(1, 0, 3), (2, 0, 4), (0, 1, 5), (0, 2, 6)];
        let exchange = exchange(&all, &[&[0, 1], &[2], &[3]]);
        let small = MessageGroups::new(&distribution(3), &exchange, &[true; 3], 100);
        assert_eq!(small.packed.groups, [vec![2, 3], vec![0], vec![1]]);
        assert_eq!(small.stored.groups, [vec![0, 1], vec![2], vec![3]]);
        assert_eq!(small.packed.place(3), MessagePlace { group: 0, first_row: 5, rows: 6 });
        assert_eq!((small.packed.rows(0), small.stored.rows(0)), (11, 7));
        // Three rows of the smaller message take longer than a launch.
        let large = MessageGroups::new(&distribution(3), &exchange, &[true; 3], 2000);
        assert_eq!((large.packed.groups.len(), large.stored.groups.len()), (4, 4));
        // The host packs and stores every message by itself.
        let host = MessageGroups::new(&distribution(3), &exchange, &[false; 3], 100);
        assert_eq!((host.packed.groups.len(), host.stored.groups.len()), (4, 4));
    }

    #[test]
    fn no_chunk_waits_for_rows_that_it_does_not_need() {
        // The first rows of owner 1 need owner 0, and its last rows owner 2.
        let exchange = exchange(&[(0, 1, 3), (2, 1, 3), (3, 1, 3)], &[&[0], &[1, 2]]);
        let groups = MessageGroups::new(&distribution(4), &exchange, &[true; 4], 8);
        assert_eq!(groups.stored.groups, [vec![0], vec![1, 2]]);
    }
}
