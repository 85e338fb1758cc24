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

use crate::device::NetworkDevice;
use crate::device::network::Communicator;
use crate::runtime::Runtime;

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
    pub network: Arc<Mutex<NetworkDevice>>,
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

/// Messages between ranks, with every product, whose rows a device of this rank has or needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MessagesOfDevices {
    /// Number of all of them.
    pub all: u64,
    /// Number of those that go directly from or to the memory of a device. The others go through host memory.
    pub direct: u64,
}
