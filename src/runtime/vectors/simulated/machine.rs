//! Vectors on simulated devices: shapes and times without values.
//!
//! Products and row-wise operations run as graphs in virtual time. To read values is an error.

use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crossbeam::channel::{Receiver, unbounded};

use crate::device::simulated::{SimulatedDevice, Simulation};
use crate::device::{Completion, Description, Device, Fault, Memory, Reports};
use crate::error::{Error, Result};
use crate::exec::{ExecOptions, Outcome, Schedule, execute};
use crate::graph::{Access, Demand, DeviceId, Graph, GraphBuilder, Role, Task, TaskKind};
use crate::plan::Plan;
use crate::runtime::run::{Planned, TimeOnly, simulation, specs};
use crate::runtime::vectors::exchange::{Exchange, Message};
use crate::runtime::vectors::layout::{Layout, Part};

/// The simulated devices of a plan, the host first. Their clock runs on from one operation to the next.
pub struct SimulatedMachine {
    simulation: Simulation,
    state: Mutex<State>,
}

struct State {
    devices: Vec<SimulatedDevice>,
    completions: Receiver<Completion>,
}

impl SimulatedMachine {
    /// The devices of `plan` at time zero. A has its place in their memory.
    pub fn new(plan: &Plan) -> Result<Self> {
        let (sender, completions) = unbounded();
        let simulation = simulation(plan);
        let device =
            |(index, spec)| simulation.device(&spec, Reports::new(DeviceId(index as u32), sender.clone()));
        let mut devices: Vec<SimulatedDevice> = specs(plan).enumerate().map(device).collect();
        for (device, planned) in devices.iter_mut().zip(&plan.devices).skip(1) {
            let bytes = planned.slots.resident_bytes.saturating_add(planned.slots.scratch_bytes);
            Device::allocate(device, bytes).map_err(|fault| fault.into_error(&planned.name))?;
        }
        Ok(Self { simulation, state: Mutex::new(State { devices, completions }) })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Nanoseconds on the simulated clock.
    pub fn now_ns(&self) -> u64 {
        self.simulation.now_ns()
    }

    /// The descriptions of all devices, the host first.
    pub fn descriptions(&self) -> Vec<Description> {
        self.state().devices.iter().map(|device| Device::describe(device).clone()).collect()
    }

    /// Runs a graph in virtual time.
    pub fn run(&self, planned: &Planned) -> Result<Outcome> {
        self.run_graph(&planned.planned.graph, &planned.schedule)
    }

    fn run_graph(&self, graph: &Graph, schedule: &Schedule) -> Result<Outcome> {
        let State { devices, completions } = &mut *self.state();
        let mut list: Vec<&mut dyn Device<'_>> =
            devices.iter_mut().map(|device| device as &mut dyn Device<'_>).collect();
        let options = ExecOptions::default();
        let outcome = execute(graph, schedule, &mut list, completions, &mut TimeOnly, &options)?;
        match outcome.faults.first() {
            Some(fault) => Err(Error::Internal(format!("simulated task: {}", fault.fault.message))),
            None => Ok(outcome),
        }
    }

    /// An operation on the own rows of every owner, which moves `row_bytes` bytes of memory per row.
    pub fn row_wise(&self, layout: &Layout, row_bytes: u64) -> Result<()> {
        self.on_each(layout, 0..layout.rows, |part, rows| {
            let on_host = part.index == DeviceId::HOST.index();
            let bytes = rows.saturating_mul(row_bytes);
            let alone_ns = (part.predicted_s(bytes).min(1e5) * 1e9) as u64;
            let host_bytes = if on_host { bytes } else { 0 };
            let kind = if on_host { TaskKind::CpuCompute } else { TaskKind::Kernel };
            (kind, Demand { alone_ns, link_bytes: 0, host_bytes, peer: None })
        })
    }

    /// A copy from host memory of `row_bytes` bytes for each of `rows` to its owner.
    pub fn copy_in(&self, layout: &Layout, rows: Range<u64>, row_bytes: u64) -> Result<()> {
        self.on_each(layout, rows, |part, rows| {
            let bytes = rows.saturating_mul(row_bytes);
            match part.index == DeviceId::HOST.index() {
                true => (TaskKind::CpuCompute, Demand { host_bytes: 2 * bytes, ..Demand::default() }),
                false => (
                    TaskKind::Upload,
                    Demand { alone_ns: 0, link_bytes: bytes, host_bytes: bytes, peer: None },
                ),
            }
        })
    }

    /// Runs one task for each owner of some of `rows`, of which `task` gets the number.
    fn on_each(
        &self,
        layout: &Layout,
        rows: Range<u64>,
        task: impl Fn(&Part, u64) -> (TaskKind, Demand),
    ) -> Result<()> {
        let mut graph = GraphBuilder::new();
        for part in &layout.parts {
            let rows = part.own.end.min(rows.end).saturating_sub(part.own.start.max(rows.start));
            if rows == 0 {
                continue;
            }
            let (kind, demand) = task(part, rows);
            let (strand, device) = (graph.strand(None), DeviceId(part.index as u32));
            let y = Access { buffer: graph.buffer(Role::InOut, rows), begin: 0, end: rows };
            let task = Task { kind, device, strand, item: 0, takes: None, gives: None, demand, turn: 0 };
            graph.task(task, &[], &[y], &[y]);
        }
        let graph = graph.freeze();
        let schedule = Schedule::new(&graph)?;
        self.run_graph(&graph, &schedule).map(drop)
    }
}

/// The memory of a multivector on simulated devices: bytes that are counted. It is freed when this is dropped.
pub struct SimulatedMemory {
    machine: Arc<SimulatedMachine>,
    /// For each allocation its device.
    memories: Vec<(usize, Memory)>,
}

impl SimulatedMemory {
    /// Allocates `row_bytes` bytes for each row that an owner has room for.
    pub fn allocate(machine: &Arc<SimulatedMachine>, layout: &Layout, row_bytes: u64) -> Result<Self> {
        let mut memory = Self { machine: machine.clone(), memories: Vec::new() };
        let mut state = machine.state();
        for part in layout.parts.iter().filter(|part| part.index != DeviceId::HOST.index()) {
            let bytes = (part.held.end - part.held.start).saturating_mul(row_bytes);
            let Some(device) = state.devices.get_mut(part.index) else { continue };
            let allocated = Device::allocate(device, bytes);
            let allocated = allocated.map_err(|fault: Fault| fault.into_error(&part.name));
            memory.memories.push((part.index, allocated?));
        }
        drop(state);
        Ok(memory)
    }
}

impl SimulatedMemory {
    /// The devices.
    pub fn machine(&self) -> &SimulatedMachine {
        &self.machine
    }
}

impl Drop for SimulatedMemory {
    fn drop(&mut self) {
        let mut state = self.machine.state();
        for (index, memory) in self.memories.drain(..) {
            state.devices.get_mut(index).into_iter().for_each(|device| Device::free(device, memory));
        }
    }
}

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

/// The error of a call that needs values.
pub fn no_values(layout: &Layout) -> Error {
    let device = layout.parts.iter().find(|part| part.index != DeviceId::HOST.index());
    let device = device.or(layout.parts.first()).map_or_else(|| "sim".into(), |part| part.name.clone());
    Error::usage(format!(
        "{device} is simulated: simulated devices compute no values, only times; use cpu, cuda:0 or emu:0 for values and solvers"
    ))
}
