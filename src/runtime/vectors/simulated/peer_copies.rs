//! Copies between simulated devices.

use crate::graph::DeviceId;
use crate::plan::Plan;
use crate::runtime::vectors::exchange::{Exchange, Message};
use crate::runtime::vectors::row_distribution::{Part, RowDistribution};

/// For each message whether the receiver copies from the sender's memory: simulated devices of one node can.
pub fn simulated_peer_copies(plan: &Plan, distribution: &RowDistribution, exchange: &Exchange) -> Vec<bool> {
    let node = |part: &Part| plan.cluster.as_ref().map_or(0, |cluster| cluster.node(part.index));
    let can_copy = |message: &Message| {
        let (from, to) = (&distribution.parts[message.from], &distribution.parts[message.to]);
        let are_devices = [from, to].iter().all(|part| part.index != DeviceId::HOST.index());
        are_devices && node(from) == node(to)
    };
    exchange.messages.iter().map(can_copy).collect()
}
