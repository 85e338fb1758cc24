//! A product on vectors of simulated devices, from the pattern of A alone: its time, and the parts that the time consists of.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::peer_copies::simulated_peer_copies;
use crate::cost::{Network, VALID_RATES};
use crate::device::Description;
use crate::device::completion::Timeouts;
use crate::error::Result;
use crate::plan::Plan;
use crate::runtime::run::{Planned, Round, RunReport};
use crate::runtime::vectors::exchange::{Exchange, MessageGroups, OwnedChunk};
use crate::runtime::vectors::graph::{CompleteMessages, DirectMessages, GraphSource, Wanted};
use crate::runtime::vectors::owners::{Owners, distribution};
use crate::runtime::vectors::row_distribution::RowDistribution;
use crate::runtime::vectors::simulated_machine::SimulatedMachine;
use crate::runtime::vectors::simulated_memory::SimulatedMemory;
use crate::work::Work;

/// A product Y = A X on simulated devices. A, X and Y stay on the devices, and rows of X are exchanged before the product.
pub struct SimulatedVectors {
    plan: Plan,
    owners: Owners,
    peer_copies: Vec<bool>,
    planned: Arc<Planned>,
    descriptions: Vec<Description>,
}

/// The parts of the simulated time of a product, and what crossed between devices.
///
/// The times without latency and without a network are those of further simulations.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct TimeParts {
    /// Seconds of the product.
    pub product_s: f64,
    /// Seconds of the kernels of a device: the mean over all devices.
    pub kernels_s: f64,
    /// By how much longer the kernels of the slowest device take.
    pub imbalance_s: f64,
    /// Seconds of the exchange that are not hidden behind kernels: packing and storing rows, and copies within a node.
    pub packing_s: f64,
    /// Seconds by which the bandwidth of the network prolongs the product.
    pub bandwidth_s: f64,
    /// Seconds by which the latency of the network prolongs the product.
    pub latency_s: f64,
    /// Messages between devices.
    pub messages: u64,
    /// Those between nodes.
    pub network_messages: u64,
    /// Bytes of all messages.
    pub exchanged_bytes: u64,
    /// Bytes of those between nodes.
    pub network_bytes: u64,
}

impl SimulatedVectors {
    /// The product of a plan for vectors that stay on simulated devices. Runs in the rayon pool that calls it.
    pub fn new(plan: Plan, work: &Work<'_>) -> Result<Self> {
        let machine = Arc::new(SimulatedMachine::new(&plan)?);
        let y = RowDistribution {
            machine: Some(machine.clone()),
            ..distribution(&plan, Timeouts::default(), |_| None)?
        };
        let build = |x: &RowDistribution, chunks: &[OwnedChunk]| Ok(Exchange::new(x, chunks, work));
        let owners = Owners::new(&plan, y, None, build)?;
        // X and Y must fit.
        let _memory = [
            SimulatedMemory::allocate(&machine, &owners.x, plan.pitch_bytes())?,
            SimulatedMemory::allocate(&machine, &owners.y, plan.pitch_bytes())?,
        ];
        let peer_copies = simulated_peer_copies(&plan, &owners.x, &owners.exchange);
        let planned = planned(&plan, &owners, &peer_copies)?;
        let descriptions = machine.descriptions();
        Ok(Self { plan, owners, peer_copies, planned, descriptions })
    }

    /// The plan, whose predicted time has no exchange.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The descriptions of all devices, the host first and the networks last.
    pub fn descriptions(&self) -> &[Description] {
        &self.descriptions
    }

    /// Simulates one product with its exchange, starting at time zero.
    pub fn run(&self) -> Result<RunReport> {
        simulated(&self.plan, &self.planned)
    }

    /// The parts of the time of `report`, a result of [`Self::run`].
    pub fn parts(&self, report: &RunReport) -> Result<TimeParts> {
        let product_s = report.seconds();
        let mut kernels = vec![0.0; self.plan.devices.len()];
        for computed in report.computed() {
            kernels[computed.device.index()] += computed.ns as f64 * 1e-9;
        }
        let computing: Vec<f64> = self.plan.computing().map(|device| kernels[device as usize]).collect();
        let kernels_s = computing.iter().sum::<f64>() / computing.len().max(1) as f64;
        let slowest_s = computing.iter().copied().fold(0.0, f64::max);
        let node = |owner: usize| {
            let index = self.owners.x.parts[owner].index;
            self.plan.cluster.as_ref().map_or(0, |cluster| cluster.node(index))
        };
        let mut parts =
            TimeParts { product_s, kernels_s, imbalance_s: slowest_s - kernels_s, ..TimeParts::default() };
        for message in &self.owners.exchange.messages {
            let bytes = message.rows.len() as u64 * self.plan.pitch_bytes();
            parts.messages += 1;
            parts.exchanged_bytes += bytes;
            if node(message.from) != node(message.to) {
                parts.network_messages += 1;
                parts.network_bytes += bytes;
            }
        }
        let (mut no_latency_s, mut no_network_s) = (product_s, product_s);
        if let Some(cluster) = self.plan.cluster.as_ref().filter(|_| parts.network_messages > 0) {
            let no_latency = Network { latency_us: 0.0, ..cluster.network.clone() };
            let rate = *VALID_RATES.end();
            let no_network =
                Network { message_gb_per_s: rate, injection_gb_per_s: rate, ..no_latency.clone() };
            no_latency_s = self.seconds_with(no_latency)?.min(product_s);
            no_network_s = self.seconds_with(no_network)?.min(no_latency_s);
        }
        parts.packing_s = (no_network_s - slowest_s).max(0.0);
        parts.bandwidth_s = no_latency_s - no_network_s;
        parts.latency_s = product_s - no_latency_s;
        Ok(parts)
    }

    /// Seconds of the product with another network.
    fn seconds_with(&self, network: Network) -> Result<f64> {
        let mut plan = self.plan.clone();
        if let Some(cluster) = &mut plan.cluster {
            cluster.network = network;
        }
        let planned = planned(&plan, &self.owners, &self.peer_copies)?;
        Ok(simulated(&plan, &planned)?.seconds())
    }
}

/// The graph of a product with its exchange.
fn planned(plan: &Plan, owners: &Owners, peer_copies: &[bool]) -> Result<Arc<Planned>> {
    let on_devices = owners.x.on_devices();
    let groups = MessageGroups::new(&owners.x, &owners.exchange, &on_devices, plan.pitch_bytes());
    let source = GraphSource {
        plan,
        x: &owners.x,
        chunks: &owners.chunks,
        exchange: &owners.exchange,
        groups: &groups,
        peer_copies,
        row_bytes: plan.pitch_bytes(),
        packed_row_bytes: plan.row_bytes(),
        direct: &DirectMessages::default(),
        on_devices,
    };
    let (chunks, ranks) = (vec![true; owners.chunks.len()], CompleteMessages::default());
    let wanted = Wanted { exchange: true, reads_y: false, chunks, ranks };
    Ok(Arc::new(Planned::new(source.graph(&wanted))?))
}

fn simulated(plan: &Plan, planned: &Arc<Planned>) -> Result<RunReport> {
    let machine = SimulatedMachine::new(plan)?;
    let outcome = machine.run(planned)?;
    let rounds = vec![Round { planned: planned.clone(), outcome }];
    Ok(RunReport {
        start_ns: 0,
        end_ns: machine.now_ns(),
        rounds,
        faults: Vec::new(),
        cancelled: false,
        check_s: None,
    })
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
