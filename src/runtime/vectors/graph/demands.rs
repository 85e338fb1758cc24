//! The predicted times and bytes of the tasks of a product on vectors.

use super::source::GraphSource;
use crate::cost::Network;
use crate::graph::{Demand, DeviceId, TaskKind};
use crate::plan::Chunk;

/// Assumed latency and bandwidth of the network, for the order of tasks.
const NETWORK_LATENCY_S: f64 = 5e-6;
const NETWORK_GB_PER_S: f64 = 10.0;

impl GraphSource<'_> {
    /// A message of `bytes` bytes between ranks, which is in host memory unless it `is_direct`.
    pub(crate) fn message_demand(&self, bytes: u64, is_direct: bool) -> Demand {
        let alone_s = NETWORK_LATENCY_S + bytes as f64 * 1e-9 / NETWORK_GB_PER_S;
        let host_bytes = if is_direct { 0 } else { bytes };
        Demand { alone_ns: nanoseconds(alone_s), link_bytes: bytes, host_bytes, peer: None }
    }

    /// A copy of `bytes` bytes over the link of a device.
    pub(crate) fn copy_demand(&self, owner: usize, kind: TaskKind, bytes: u64) -> Demand {
        let device = self.plan.devices.get(self.device(owner).index());
        let link = device.and_then(|device| device.profile.link.as_ref());
        let alone_s = link.map_or(0.0, |link| {
            let gb_per_s = match kind {
                TaskKind::PeerCopy => link.peer_copy_gb_per_s(),
                TaskKind::Upload => link.to_device_gb_per_s,
                _ => link.from_device_gb_per_s,
            };
            link.latency_us * 1e-6 + bytes as f64 * 1e-9 / gb_per_s.max(1e-3)
        });
        Demand { alone_ns: nanoseconds(alone_s), link_bytes: bytes, host_bytes: bytes, peer: None }
    }

    /// A copy of `bytes` bytes from another device: within the memory of the card if both are devices of one card, else over the
    /// receiver's link.
    pub(crate) fn peer_demand(&self, from: usize, to: usize, bytes: u64) -> Demand {
        let (sender, receiver) = (&self.x.parts[from], &self.x.parts[to]);
        match sender.card() == receiver.card() {
            true => Demand { alone_ns: nanoseconds(receiver.predicted_s(2 * bytes)), ..Demand::default() },
            false => {
                let peer = Some(self.device(from));
                Demand { host_bytes: 0, peer, ..self.copy_demand(to, TaskKind::PeerCopy, bytes) }
            }
        }
    }

    /// A kernel or a job that moves rows within the memory of their owner.
    pub(crate) fn move_demand(&self, owner: usize, bytes: u64) -> Demand {
        let host_bytes = if self.device(owner) == DeviceId::HOST { 2 * bytes } else { 0 };
        let ranks = self.plan.cluster.as_ref().filter(|cluster| cluster.has_cpu_ranks());
        let alone_s = match (host_bytes, ranks) {
            (0, None) => self.x.parts[owner].predicted_s(2 * bytes),
            // The processor of a rank also copies the message into the memory that the ranks share, or from it.
            (0, Some(ranks)) => ranks.host.copy_s(2 * bytes),
            _ => self.plan.host.copy_s(bytes),
        };
        Demand { alone_ns: nanoseconds(alone_s), host_bytes, ..Demand::default() }
    }

    pub(crate) fn compute_demand(&self, chunk: &Chunk, device: DeviceId) -> Demand {
        let Some(planned) = self.plan.devices.get(device.index()) else { return Demand::default() };
        let profile = &planned.profile;
        let (k, dtype) = (self.plan.k, self.plan.dtype);
        let alone_s = chunk.kernel_s(profile, k, dtype);
        let on_host = device == DeviceId::HOST;
        let host_bytes = if on_host { chunk.load(k, dtype).compulsory_bytes } else { 0 };
        Demand { alone_ns: nanoseconds(alone_s), host_bytes, ..Demand::default() }
    }
}

/// A message of `bytes` bytes at either end of a network. It uses the memory of the host if the network cannot use that of GPUs.
pub(crate) fn network_demand(network: &Network, bytes: u64) -> Demand {
    let alone_ns = network.latency_ns() + nanoseconds(network.message_s(bytes));
    let host_bytes = if network.gpu_direct { 0 } else { bytes };
    Demand { alone_ns, link_bytes: bytes, host_bytes, peer: None }
}

fn nanoseconds(seconds: f64) -> u64 {
    (seconds.clamp(0.0, 1e5) * 1e9).round() as u64
}
