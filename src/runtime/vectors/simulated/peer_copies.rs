//! Copies between simulated devices.

use crate::graph::DeviceId;
use crate::plan::Plan;
use crate::runtime::vectors::exchange::{Exchange, Message};
use crate::runtime::vectors::layout::{Layout, Part};

/// For each message whether the receiver copies from the sender's memory: simulated devices of one node can.
pub fn simulated_peer_copies(plan: &Plan, layout: &Layout, exchange: &Exchange) -> Vec<bool> {
    let node = |part: &Part| plan.cluster.as_ref().map_or(0, |cluster| cluster.node(part.index));
    let can_copy = |message: &Message| {
        let (from, to) = (&layout.parts[message.from], &layout.parts[message.to]);
        let are_devices = [from, to].iter().all(|part| part.index != DeviceId::HOST.index());
        are_devices && node(from) == node(to)
    };
    exchange.messages.iter().map(can_copy).collect()
}
