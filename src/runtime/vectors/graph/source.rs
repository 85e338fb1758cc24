//! What the task graph of a product on vectors is built from.

use crate::plan::Plan;
use crate::runtime::vectors::exchange::{Exchange, MessageGroups, OwnedChunk};
use crate::runtime::vectors::row_distribution::RowDistribution;

/// The content of a graph.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// Whether rows of X are exchanged; if not, the receivers have them.
    pub exchange: bool,
    /// Whether Y is updated in place.
    pub reads_y: bool,
    /// For each chunk whether it is computed.
    pub chunks: Vec<bool>,
    /// The messages between ranks that are complete.
    pub ranks: CompleteMessages,
}

/// The messages between ranks that an earlier graph of the same product has completed. They are not sent or received again.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CompleteMessages {
    /// For each message to another rank whether it was sent.
    pub sent: Vec<bool>,
    /// For each message from another rank whether it has arrived.
    pub received: Vec<bool>,
}

/// The messages between ranks that the network reads from the memory of a device, or writes there.
#[derive(Debug, Clone, Default)]
pub struct DirectMessages {
    /// For each message to another rank whether it is sent from the memory of its owner.
    pub sent: Vec<bool>,
    /// For each message from another rank whether it is received in the memory of its only receiver.
    pub received: Vec<bool>,
}

/// The product whose graph is built.
pub struct GraphSource<'a> {
    pub plan: &'a Plan,
    /// The owners of X. Those of Y have the same numbers.
    pub x: &'a RowDistribution,
    pub chunks: &'a [OwnedChunk],
    pub exchange: &'a Exchange,
    /// The messages that one kernel packs or stores.
    pub groups: &'a MessageGroups,
    /// For each message whether the receiver copies from the sender's memory.
    pub peer_copies: &'a [bool],
    /// Bytes of a row of X or Y on a device.
    pub row_bytes: u64,
    /// Bytes of a row of X in a message to another rank.
    pub packed_row_bytes: u64,
    /// The messages between ranks that are in device memory.
    pub direct: &'a DirectMessages,
    /// For each owner whether it is a device.
    pub on_devices: Vec<bool>,
}
