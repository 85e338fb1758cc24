//! Multivectors on simulated devices: bytes that are counted, and the times of row-wise operations and copies.
//!
//! To read values is an error.

use std::ops::Range;
use std::sync::Arc;

use super::row_distribution::{Part, RowDistribution};
use super::simulated_machine::SimulatedMachine;
use crate::device::{Device, Fault, Memory};
use crate::error::{Error, Result};
use crate::exec::TaskSchedule;
use crate::graph::{Access, Demand, DeviceId, GraphBuilder, Role, Task, TaskKind};

impl SimulatedMachine {
    /// An operation on the own rows of every owner, which moves `row_bytes` bytes of memory per row.
    pub fn row_wise(&self, distribution: &RowDistribution, row_bytes: u64) -> Result<()> {
        self.on_each(distribution, 0..distribution.rows, |part, rows| {
            let on_host = part.index == DeviceId::HOST.index();
            let bytes = rows.saturating_mul(row_bytes);
            let alone_ns = (part.predicted_s(bytes).min(1e5) * 1e9) as u64;
            let host_bytes = if on_host { bytes } else { 0 };
            let kind = if on_host { TaskKind::CpuCompute } else { TaskKind::Kernel };
            (kind, Demand { alone_ns, link_bytes: 0, host_bytes, peer: None })
        })
    }

    /// A copy from host memory of `row_bytes` bytes for each of `rows` to its owner.
    pub fn copy_in(&self, distribution: &RowDistribution, rows: Range<u64>, row_bytes: u64) -> Result<()> {
        self.on_each(distribution, rows, |part, rows| {
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
        distribution: &RowDistribution,
        rows: Range<u64>,
        task: impl Fn(&Part, u64) -> (TaskKind, Demand),
    ) -> Result<()> {
        let mut graph = GraphBuilder::new();
        for part in &distribution.parts {
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
        let schedule = TaskSchedule::new(&graph)?;
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
    pub fn allocate(
        machine: &Arc<SimulatedMachine>,
        distribution: &RowDistribution,
        row_bytes: u64,
    ) -> Result<Self> {
        let mut memory = Self { machine: machine.clone(), memories: Vec::new() };
        let mut state = machine.state();
        for part in distribution.parts.iter().filter(|part| part.index != DeviceId::HOST.index()) {
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

/// The error of a call that needs values.
pub fn no_values(distribution: &RowDistribution) -> Error {
    let device = distribution.parts.iter().find(|part| part.index != DeviceId::HOST.index());
    let device = device.or(distribution.parts.first()).map_or_else(|| "sim".into(), |part| part.name.clone());
    Error::usage(format!(
        "{device} is simulated: simulated devices compute no values, only times; use cpu, cuda:0 or emu:0 for values and solvers"
    ))
}
