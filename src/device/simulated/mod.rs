//! Simulated devices: a virtual clock, with links and host memory as shared resources.
//!
//! An operation takes at least its `alone_ns`. Its link bytes share the device's link with other copies in the same
//! direction, and are slower while the other direction is busy; its host bytes share the memory bandwidth of the host of its node with
//! all running operations of the node. The bytes of a peer copy share the links of both devices: those between devices where there are
//! some, which all pairs of devices can use. The simulation is deterministic.
//!
//! A network is a device too: the one of a node sends over one direction of its link and receives over the other, and the messages of
//! each direction run at the same time.

mod clock;
mod sharing;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use clock::{ClockedDevice, LinkRates, SimulationState};

use super::{
    Description, Device, Fault, FaultKind, Fence, LaneInfo, LaneKind, Memory, Operation, Pinned,
    Registration, Reports, StableBytes,
};
use crate::graph::Demand;

/// The properties of a simulated device.
#[derive(Debug, Clone, PartialEq)]
pub struct SimulatedSpec {
    /// The device's name, as `--devices` takes it.
    pub name: String,
    /// Bytes of its own memory; `None` for the host.
    pub memory_bytes: Option<u64>,
    /// Bandwidth of its link, per direction.
    pub link_gb_per_s: f64,
    /// How many times longer a copy takes while the link is busy in the other direction too.
    pub link_duplex_factor: f64,
    /// Bandwidth of its links to other devices of its node, per direction; without them peer copies use the link above.
    pub peer_gb_per_s: Option<f64>,
    /// Latency of a copy over the link.
    pub link_latency_ns: u64,
    /// The number of its node; 0 where there is one.
    pub node: usize,
    /// Whether operations of one lane run at the same time, as messages on a network do.
    pub is_concurrent: bool,
    /// Its lanes.
    pub lanes: Vec<LaneInfo>,
}

/// Operations in flight per lane of an accelerator.
const LANE_DEPTH: usize = 64;
/// Messages in flight per direction of a node's network.
const MESSAGES_IN_FLIGHT: usize = 1 << 16;

impl SimulatedSpec {
    /// An accelerator with an upload, a compute and a download lane, and a full-duplex link.
    pub fn accelerator(
        name: impl Into<String>,
        memory_bytes: u64,
        link_gb_per_s: f64,
        link_latency_ns: u64,
    ) -> Self {
        let lanes = vec![
            lane("upload", LaneKind::Upload, LANE_DEPTH),
            lane("compute", LaneKind::Compute, LANE_DEPTH),
            lane("download", LaneKind::Download, LANE_DEPTH),
        ];
        Self {
            name: name.into(),
            memory_bytes: Some(memory_bytes),
            link_gb_per_s,
            link_duplex_factor: 1.0,
            peer_gb_per_s: None,
            link_latency_ns,
            node: 0,
            is_concurrent: false,
            lanes,
        }
    }

    /// A host that runs `pool_lanes` chunks and `copy_lanes` copies concurrently.
    pub fn host(name: impl Into<String>, pool_lanes: usize, copy_lanes: usize) -> Self {
        let pool = (0..pool_lanes).map(|at| lane(&format!("pool {at}"), LaneKind::Pool, 2));
        let copy = (0..copy_lanes).map(|at| lane(&format!("copy {at}"), LaneKind::Copy, 2));
        let lanes = pool.chain(copy).collect();
        Self {
            name: name.into(),
            memory_bytes: None,
            link_gb_per_s: 0.0,
            link_duplex_factor: 1.0,
            peer_gb_per_s: None,
            link_latency_ns: 0,
            node: 0,
            is_concurrent: false,
            lanes,
        }
    }

    /// The network of a node, which sends at up to `injection_gb_per_s` and receives at the same rate.
    pub fn network(
        name: impl Into<String>,
        node: usize,
        injection_gb_per_s: f64,
        link_latency_ns: u64,
    ) -> Self {
        let lanes = vec![
            lane("send", LaneKind::Send, MESSAGES_IN_FLIGHT),
            lane("receive", LaneKind::Receive, MESSAGES_IN_FLIGHT),
        ];
        Self {
            name: name.into(),
            memory_bytes: None,
            link_gb_per_s: injection_gb_per_s,
            link_duplex_factor: 1.0,
            peer_gb_per_s: None,
            link_latency_ns,
            node,
            is_concurrent: true,
            lanes,
        }
    }
}

fn lane(name: &str, kind: LaneKind, depth: usize) -> LaneInfo {
    LaneInfo { name: name.into(), kind, depth }
}

/// The clock that all devices of a run share, and the host memory that those of a node share. Clones refer to the same simulation.
#[derive(Debug, Clone)]
pub struct Simulation {
    state: Arc<Mutex<SimulationState>>,
}

impl Simulation {
    /// A simulation of one node at time zero with the given host memory bandwidth.
    pub fn new(host_memory_gb_per_s: f64) -> Self {
        Self::of_nodes(1, host_memory_gb_per_s)
    }

    /// A simulation of `nodes` nodes at time zero, each with the given host memory bandwidth.
    pub fn of_nodes(nodes: usize, host_memory_gb_per_s: f64) -> Self {
        let mut state = SimulationState::new();
        (0..nodes).for_each(|_| state.add_node(host_memory_gb_per_s));
        Self { state: Arc::new(Mutex::new(state)) }
    }

    /// Adds a device to the simulation.
    pub fn device(&self, spec: &SimulatedSpec, reports: Reports) -> SimulatedDevice {
        let lanes = spec.lanes.iter().map(|lane| lane.kind).collect();
        let link = LinkRates { gb_per_s: spec.link_gb_per_s, duplex_factor: spec.link_duplex_factor };
        let peer_link = spec.peer_gb_per_s.map(|gb_per_s| LinkRates { gb_per_s, duplex_factor: 1.0 });
        let SimulatedSpec { is_concurrent, link_latency_ns: latency_ns, node, .. } = *spec;
        let clocked = ClockedDevice { lanes, is_concurrent, link, peer_link, latency_ns, node };
        let number = self.state().add_device(clocked, reports);
        SimulatedDevice {
            description: Description {
                name: spec.name.clone(),
                memory_bytes: spec.memory_bytes,
                lanes: spec.lanes.clone(),
                stream_ordered: true,
            },
            simulation: self.clone(),
            number,
            allocations: Vec::new(),
            closed: false,
        }
    }

    /// Nanoseconds since the simulation began.
    pub fn now_ns(&self) -> u64 {
        self.state().now_ns()
    }

    fn state(&self) -> MutexGuard<'_, SimulationState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A device of a [`Simulation`]. It accepts only [`Operation::Pass`].
#[derive(Debug)]
pub struct SimulatedDevice {
    description: Description,
    simulation: Simulation,
    number: usize,
    /// Bytes of each allocation; zero once freed.
    allocations: Vec<u64>,
    closed: bool,
}

impl<'run> Device<'run> for SimulatedDevice {
    fn describe(&self) -> &Description {
        &self.description
    }

    /// Counts the bytes without allocating them.
    fn allocate(&mut self, bytes: u64) -> Result<Memory, Fault> {
        self.open()?;
        let name = &self.description.name;
        let Some(limit) = self.description.memory_bytes else {
            let message = format!("{name} has no memory of its own");
            return Err(Fault::new(FaultKind::OutOfMemory, message));
        };
        let free = limit - self.allocations.iter().sum::<u64>();
        if bytes > free {
            let message = format!("{name}: {bytes} bytes requested, {free} of {limit} bytes free");
            return Err(Fault::new(FaultKind::OutOfMemory, message));
        }
        self.allocations.push(bytes);
        Ok(Memory(self.allocations.len() as u32 - 1))
    }

    fn free(&mut self, memory: Memory) {
        self.allocations.get_mut(memory.0 as usize).into_iter().for_each(|bytes| *bytes = 0);
    }

    /// Empty pinned memory, since nothing is copied.
    fn allocate_pinned(&mut self, _bytes: u64) -> Result<Pinned, Fault> {
        self.open()?;
        Pinned::pageable(0).map_err(|error| Fault::new(FaultKind::OutOfMemory, error.message()))
    }

    fn register<'a>(&mut self, _bytes: StableBytes<'a>) -> Result<Registration<'a>, Fault> {
        self.open()?;
        Ok(Registration::nothing())
    }

    fn submit(
        &mut self,
        lane: usize,
        operation: Operation<'run>,
        demand: Demand,
        waits: &[Fence],
    ) -> Result<Fence, Fault> {
        self.open()?;
        if !matches!(operation, Operation::Pass) {
            let message = format!("{} is simulated and runs no real operations", self.description.name);
            return Err(Fault::new(FaultKind::Misuse, message));
        }
        self.simulation.state().submit(self.number, lane, demand, waits)
    }

    fn mark_synchronized(&mut self) {}

    fn advance(&mut self) -> bool {
        self.simulation.state().advance()
    }

    fn now_ns(&self) -> u64 {
        self.simulation.now_ns()
    }

    fn close(&mut self) {
        if !self.closed {
            self.closed = true;
            self.simulation.state().abandon(self.number);
        }
    }
}

impl SimulatedDevice {
    fn open(&self) -> Result<(), Fault> {
        if self.closed {
            return Err(Fault::new(FaultKind::Lost, format!("{} is closed", self.description.name)));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
