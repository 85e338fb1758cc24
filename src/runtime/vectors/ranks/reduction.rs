//! The reduction of partial results over all ranks, as a task graph.
//!
//! Tasks of the network send the partial results of this rank to every other rank and receive theirs; one task of the host adds all of
//! them in the order of rows, so every rank has the same bits. Ranks own consecutive rows and know the owners of all rows, so they
//! know the length of every message. The graph and its memory are made once for each kind of sum and number of columns.

use std::ops::Range;
use std::sync::{Arc, Mutex};

use crate::device::{Cpu, Description, MessageBytes, NetworkDevice, Operation, Pinned, RankMessage};
use crate::error::{Error, Result};
use crate::exec::{Binder, HeldSlots};
use crate::graph::{Access, Demand, DeviceId, GraphBuilder, Role, Task, TaskId, TaskKind};
use crate::kernel::vectors::Sum;
use crate::plan::{Item, Plan, PlannedGraph};
use crate::runtime::Runtime;
use crate::runtime::run::Planned;

/// The network in the graph of a reduction: it follows the host.
const NETWORK: DeviceId = DeviceId(1);

/// Reductions over all ranks.
pub struct Reductions {
    /// For each rank the rows of each of its owners, in the numbers of the whole multivector.
    pub owners: Vec<Vec<Range<u64>>>,
    pub runtime: Runtime,
    pub network: Arc<Mutex<NetworkDevice>>,
    /// The plan of the product, and the devices of a reduction, for traces.
    pub traced: (Arc<Plan>, Arc<[Description]>),
    pub(super) made: Mutex<Vec<(Shape, Reduction)>>,
}

/// What the messages of a reduction depend on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    pub sum: Sum,
    pub k: usize,
    pub value_bytes: usize,
}

impl Shape {
    /// Bytes of the partial results of an owner of `rows`: the rows of its first and its last block, of X and Y, if others own rows of
    /// these blocks, and the partial results of its whole blocks.
    fn bytes(self, rows: &Range<u64>, total: u64) -> u64 {
        let owned = self.sum.owned(rows.clone(), total);
        let length = |range: &Range<u64>| range.end - range.start;
        let edges = 2 * (length(&owned.head) + length(&owned.tail)) * self.k as u64;
        let partials = length(&owned.blocks) * self.sum.length(self.k as u64, self.k as u64);
        (edges + partials) * self.value_bytes as u64
    }
}

/// The graph of a reduction and the memory of its messages.
pub(super) struct Reduction {
    pub(super) planned: Arc<Planned>,
    /// For each rank its partial results.
    pub(super) partials: Vec<Pinned>,
}

impl Reductions {
    /// No graph is made yet.
    pub fn new(
        owners: Vec<Vec<Range<u64>>>,
        runtime: Runtime,
        network: Arc<Mutex<NetworkDevice>>,
        plan: &Plan,
    ) -> Self {
        let devices = [Cpu::description(), NetworkDevice::description()];
        let traced = (Arc::new(plan.clone()), devices.into());
        Self { owners, runtime, network, traced, made: Mutex::default() }
    }

    pub(super) fn make(&self, shape: Shape, rank: usize, total: u64) -> Result<Reduction> {
        let bytes = |owners: &Vec<Range<u64>>| owners.iter().map(|rows| shape.bytes(rows, total)).sum();
        let bytes: Vec<u64> = self.owners.iter().map(bytes).collect();
        let memory = |bytes: &u64| Pinned::pageable(*bytes as usize);
        let partials = bytes.iter().map(memory).collect::<Result<_>>()?;
        let result_bytes = shape.sum.length(shape.k as u64, shape.k as u64) * shape.value_bytes as u64;
        let planned = Arc::new(Planned::new(graph(&bytes, rank, result_bytes))?);
        Ok(Reduction { planned, partials })
    }
}

/// The graph of a reduction. `bytes` has the length of each rank's partial results.
fn graph(bytes: &[u64], own: usize, result_bytes: u64) -> PlannedGraph {
    let mut graph = GraphBuilder::new();
    let mut items = Vec::new();
    let mut task = |graph: &mut GraphBuilder, kind: TaskKind, device: DeviceId, rank: usize, bytes: u64| {
        items.push(Item::PartialSums { rank: rank as u32 });
        let (strand, item) = (graph.strand(None), items.len() as u32 - 1);
        let link_bytes = if kind.is_network() { bytes } else { 0 };
        let demand = Demand { link_bytes, host_bytes: bytes, ..Demand::default() };
        Task { kind, device, strand, item, takes: None, gives: None, demand, turn: 0 }
    };
    let partials: Vec<Access> = bytes
        .iter()
        .enumerate()
        .map(|(rank, &end)| {
            let role = if rank == own { Role::Input } else { Role::Scratch };
            Access { buffer: graph.buffer(role, end), begin: 0, end }
        })
        .collect();
    let others = || (0..bytes.len()).filter(|&rank| rank != own);
    let mut received = Vec::new();
    for rank in others().filter(|&rank| bytes[rank] > 0) {
        let receive = task(&mut graph, TaskKind::Receive, NETWORK, rank, bytes[rank]);
        received.push(graph.task(receive, &[], &[], &[partials[rank]]));
    }
    for rank in others().filter(|_| bytes[own] > 0) {
        let send = task(&mut graph, TaskKind::Send, NETWORK, rank, bytes[own]);
        graph.task(send, &[], &[partials[own]], &[]);
    }
    let read: Vec<Access> = partials.into_iter().filter(|access| access.end > 0).collect();
    let result = Access { buffer: graph.buffer(Role::Output, result_bytes), begin: 0, end: result_bytes };
    let reduce = task(&mut graph, TaskKind::Reduce, DeviceId::HOST, own, bytes.iter().sum());
    graph.task(reduce, &received, &read, &[result]);
    PlannedGraph { graph: graph.freeze(), items, pools: Vec::new(), x: Vec::new() }
}

/// The job of the host that adds the partial results.
pub(super) type Add<'scope> = Box<dyn FnOnce() -> Result<()> + Send + 'scope>;

/// The operations of a reduction.
pub(super) struct ReductionBinder<'scope> {
    pub planned: &'scope Planned,
    pub partials: &'scope [Pinned],
    pub own: usize,
    /// Until it is bound.
    pub add: Option<Add<'scope>>,
}

impl<'scope> Binder<'scope> for ReductionBinder<'scope> {
    fn operation(&mut self, task: TaskId, _slots: &HeldSlots) -> Result<Operation<'scope>> {
        let wrong = || Error::Internal("a reduction has no such task".into());
        let (task, Item::PartialSums { rank }, _) = self.planned.task(task)? else { return Err(wrong()) };
        let rank = rank as usize;
        let message = |of: usize| {
            let bytes = MessageBytes::Host(self.partials.get(of).ok_or_else(wrong)?.clone());
            // A rank sends one message to each other rank.
            Ok(RankMessage { rank, tag: 0, bytes })
        };
        match task.kind {
            TaskKind::Send => Ok(Operation::Send(message(self.own)?)),
            TaskKind::Receive => Ok(Operation::Receive(message(rank)?)),
            _ => Ok(Operation::Job(self.add.take().ok_or_else(wrong)?)),
        }
    }
}
