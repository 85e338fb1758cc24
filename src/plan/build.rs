//! The task graph of a plan, or of the work that remains of it.
//!
//! Every edge is a data dependency: X, a chunk of A, a slice of Y, or a partial sum. Strands take slots in the order of pool
//! numbers (page-locked in, A, Y, page-locked out), so no two strands can deadlock.

use super::data::{Chunk, Mode, Plan, XPlan, XRows};
use super::outputs::Outputs;
use super::predict::{Steps, cpu_bytes};
use super::remaining::Remaining;
use crate::error::Result;
use crate::graph::{
    Access, BufferId, ChoiceId, Demand, DeviceId, Graph, GraphBuilder, PoolId, Role, StrandId, Task, TaskId,
    TaskKind,
};
use crate::work::ChunkRows;

/// The data that a task works on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Item {
    /// A block of rows of X, for a device; all of its part of X where that is copied in one piece.
    X {
        /// The device.
        device: u32,
        /// The number of the block, in the order of the copies.
        block: u32,
        /// The rows of X. A selection of rows counts from 0.
        rows: XRows,
    },
    /// A chunk of the plan.
    Chunk(u32),
    /// A part of a chunk of A that is copied to the device where it stays.
    ChunkPart {
        /// The chunk.
        chunk: u32,
        /// Its first byte, as the device stores the chunk.
        begin: u64,
        /// One past its last byte.
        end: u64,
    },
    /// The partial sums of a split row of the plan.
    SplitRow(u32),
    /// Rows of X that one device sends to another, on the side of the sender; the number of the message.
    Sent(u32),
    /// The same rows on the side of the receiver.
    Received(u32),
    /// Rows of X that this rank sends to another.
    ToRank {
        /// The other rank.
        rank: u32,
        /// The number of the message among those to other ranks.
        message: u32,
    },
    /// Rows of X that this rank receives from another.
    FromRank {
        /// The other rank.
        rank: u32,
        /// The number of the message among those from other ranks.
        message: u32,
        /// The owner that the rows are stored for; any for the message itself.
        to: u32,
    },
    /// The partial results of a sum over the rows of all ranks.
    PartialSums {
        /// The other rank of a message; this rank where they are added.
        rank: u32,
    },
}

/// The slot pools of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pools {
    /// Page-locked memory for copies to the device.
    pub pinned_in: Option<PoolId>,
    /// A on the device.
    pub a: Option<PoolId>,
    /// Slices of Y on the device.
    pub y: Option<PoolId>,
    /// Page-locked memory for copies from the device.
    pub pinned_out: Option<PoolId>,
}

/// A graph and the meaning of its indices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedGraph {
    /// The graph.
    pub graph: Graph,
    /// The data of each task, by its `item`.
    pub items: Vec<Item>,
    /// The pools of each device of the plan.
    pub pools: Vec<Pools>,
    /// The part of X that each device needs; more than planned where it takes over chunks of another device.
    pub x: Vec<XPlan>,
}

const NO_POOLS: Pools = Pools { pinned_in: None, a: None, y: None, pinned_out: None };

/// Upper bound of a task's predicted time: a day. It keeps sums and watchdog timeouts finite.
const MAX_TASK_S: f64 = 86400.0;

/// How a chunk is computed on a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Route {
    Host,
    /// Its part of A is resident.
    Resident,
    /// Its part of A is copied first.
    Copied,
}

impl Plan {
    /// The graph of one product, or of the work that remains of it. Chunks of lost devices go to the others; an error where no
    /// device can take them.
    #[doc(hidden)]
    pub fn graph(&self, remaining: &Remaining) -> Result<PlannedGraph> {
        Builder::new(self).run_graph(remaining)
    }

    /// The graph that copies the resident part of A to the devices for which `to` is true; empty where nothing is resident.
    #[doc(hidden)]
    pub fn prepare_graph(&self, to: &[bool]) -> PlannedGraph {
        Builder::new(self).prepare_graph(to)
    }
}

/// A block of X on a device.
#[derive(Debug, Clone, Copy)]
pub(super) struct XBlock {
    pub(super) rows: XRows,
    /// All of X on the device.
    pub(super) whole: Access,
    /// `None` where the device holds it already.
    pub(super) upload: Option<TaskId>,
}

pub(super) struct Builder<'a> {
    pub plan: &'a Plan,
    pub graph: GraphBuilder,
    items: Vec<Item>,
    pools: Vec<Pools>,
    pub x: Vec<XPlan>,
    /// For each device the blocks of its X, with the tasks that upload them.
    pub x_blocks: Vec<Vec<XBlock>>,
    /// For each chunk its place in the order of its device.
    pub turns: Vec<u32>,
    host_a: BufferId,
    pub host_x: BufferId,
}

impl<'a> Builder<'a> {
    fn new(plan: &'a Plan) -> Self {
        let mut graph = GraphBuilder::new();
        let host_a = graph.buffer(Role::Input, plan.a_value_bytes());
        let host_x = graph.buffer(Role::Input, plan.matrix.cols.saturating_mul(plan.row_bytes()));
        let devices = plan.devices.len();
        let x = plan.devices.iter().map(|device| device.x).collect();
        let (pools, x_blocks) = (vec![NO_POOLS; devices], vec![Vec::new(); devices]);
        let turns = plan.turns();
        Self { plan, graph, items: Vec::new(), pools, x, x_blocks, turns, host_a, host_x }
    }

    fn finish(self) -> PlannedGraph {
        PlannedGraph { graph: self.graph.freeze(), items: self.items, pools: self.pools, x: self.x }
    }

    pub fn item(&mut self, item: Item) -> u32 {
        self.items.push(item);
        self.items.len() as u32 - 1
    }

    /// The pools of all GPUs, numbered in the order in which a strand takes slots.
    fn make_pools(&mut self) {
        for (index, device) in self.plan.devices.iter().enumerate() {
            if device.profile.link.is_none() || device.slots.y_slots == 0 {
                continue;
            }
            let (slots, id) = (&device.slots, DeviceId(index as u32));
            let mut pool = |what: &str, count: u32| {
                (count > 0).then(|| self.graph.pool(format!("{} {what}", device.name), id, count))
            };
            self.pools[index] = Pools {
                pinned_in: pool("page-locked in", slots.pinned_in_slots),
                a: pool("A", slots.a_slots),
                y: pool("Y", slots.y_slots),
                pinned_out: pool("page-locked out", slots.pinned_out_slots),
            };
        }
    }

    fn prepare_graph(mut self, to: &[bool]) -> PlannedGraph {
        if self.plan.mode == Mode::Resident {
            self.make_pools();
            for (index, chunk) in self.plan.chunks.iter().enumerate() {
                let device = chunk.home;
                let on = &self.plan.devices[device as usize];
                if on.profile.link.is_none() || to.get(device as usize) != Some(&true) {
                    continue;
                }
                let slot_bytes = on.slots.pinned_in_slot_bytes;
                if !on.registered.a && chunk.staged_bytes > slot_bytes && slot_bytes > 0 {
                    self.copy_parts(index as u32, chunk, device, slot_bytes);
                    continue;
                }
                let strand = self.graph.strand(None);
                let item = self.item(Item::Chunk(index as u32));
                self.copy_chunk(chunk, device, (strand, item), None, Role::Output);
            }
        }
        self.finish()
    }

    fn run_graph(mut self, remaining: &Remaining) -> Result<PlannedGraph> {
        let takers = self.plan.takers(remaining)?;
        self.make_pools();
        self.copy_x(&takers, remaining.x_is_held);
        let outputs = Outputs::new(self.plan, remaining, &mut self.graph);
        let mut carries: Vec<Option<Carries>> = vec![None; self.plan.chunks.len()];
        for (index, chunk) in self.plan.chunks.iter().enumerate() {
            let row_bytes = self.plan.row_bytes();
            let bytes = self.plan.result_rows(chunk) * row_bytes;
            let is_cut = matches!(chunk.rows, ChunkRows::Segments { .. });
            let to_do = remaining.chunks.get(index).copied().unwrap_or(false);
            if !to_do {
                if is_cut {
                    let all = Access { buffer: self.graph.buffer(Role::Input, bytes), begin: 0, end: bytes };
                    carries[index] = Some(Carries { writers: Vec::new(), all });
                }
                continue;
            }
            let target = match chunk.rows {
                ChunkRows::Rows { begin, .. } => outputs.access(begin as u64, chunk.slice_rows(), row_bytes),
                ChunkRows::Segments { .. } => {
                    let buffer = self.graph.buffer(Role::Scratch, bytes);
                    Access { buffer, begin: 0, end: bytes }
                }
            };
            let devices = &takers[index];
            let choice = (devices.len() > 1).then(|| self.graph.choice());
            let item = self.item(Item::Chunk(index as u32));
            // One strand of a choice runs; tasks that need its result wait for the end of each.
            let strands =
                devices.iter().map(|&device| self.chunk_strand(chunk, device, item, choice, target));
            let writers: Vec<TaskId> = strands.collect();
            if is_cut {
                carries[index] = Some(Carries { writers, all: target });
            }
        }
        for (index, split) in self.plan.split_rows.iter().enumerate() {
            if remaining.split_rows.get(index).copied().unwrap_or(false) {
                self.merge_carries(index as u32, split.row, &split.chunks, &carries, &outputs);
            }
        }
        Ok(self.finish())
    }

    /// Copies a chunk of A to a device. Returns the bytes on the device and the upload.
    fn copy_chunk(
        &mut self,
        chunk: &Chunk,
        device: u32,
        (strand, item): (StrandId, u32),
        a: Option<PoolId>,
        role: Role,
    ) -> (Access, TaskId) {
        let plan = self.plan;
        let turn = self.turn(item);
        let steps = self.steps(chunk, device);
        let pools = self.pools[device as usize];
        let bytes = chunk.staged_bytes;
        let arrived = Access { buffer: self.graph.buffer(role, bytes), begin: 0, end: bytes };
        let read = Access { buffer: self.host_a, begin: 0, end: plan.a_value_bytes() };
        let (before, from) = if plan.devices[device as usize].registered.a {
            (Vec::new(), read)
        } else {
            let staged = Access { buffer: self.graph.buffer(Role::Scratch, bytes), begin: 0, end: bytes };
            let copy = demand(steps.stage_s, 0, bytes.saturating_mul(2));
            let stage = task(TaskKind::Stage, DeviceId::HOST, strand, item, (pools.pinned_in, None), copy);
            let stage = Task { turn, ..stage };
            (vec![self.graph.task(stage, &[], &nonempty(read), &nonempty(staged))], staged)
        };
        let cross = demand(steps.upload_s, bytes, bytes);
        let gives = pools.pinned_in.filter(|_| !before.is_empty());
        let upload = task(TaskKind::Upload, DeviceId(device), strand, item, (a, gives), cross);
        let upload = Task { turn, ..upload };
        let upload = self.graph.task(upload, &before, &nonempty(from), &nonempty(arrived));
        (arrived, upload)
    }

    /// Copies a chunk of A to a device in parts of at most `part_bytes`, each in a slot of its own.
    fn copy_parts(&mut self, index: u32, chunk: &Chunk, device: u32, part_bytes: u64) {
        let (all, steps, pools) =
            (chunk.staged_bytes, self.steps(chunk, device), self.pools[device as usize]);
        let arrived = self.graph.buffer(Role::Output, all);
        let read = Access { buffer: self.host_a, begin: 0, end: self.plan.a_value_bytes() };
        let mut begin = 0;
        while begin < all {
            let end = all.min(begin + part_bytes);
            let (bytes, share) = (end - begin, (end - begin) as f64 / all as f64);
            let strand = self.graph.strand(None);
            let item = self.item(Item::ChunkPart { chunk: index, begin, end });
            let staged = Access { buffer: self.graph.buffer(Role::Scratch, bytes), begin: 0, end: bytes };
            let copy = demand(share * steps.stage_s, 0, bytes.saturating_mul(2));
            let stage = task(TaskKind::Stage, DeviceId::HOST, strand, item, (pools.pinned_in, None), copy);
            let stage = self.graph.task(stage, &[], &nonempty(read), &nonempty(staged));
            let cross = demand(share * steps.upload_s, bytes, bytes);
            let upload =
                task(TaskKind::Upload, DeviceId(device), strand, item, (None, pools.pinned_in), cross);
            let to = Access { buffer: arrived, begin, end };
            self.graph.task(upload, &[stage], &nonempty(staged), &nonempty(to));
            begin = end;
        }
    }

    /// The turn of the tasks of a chunk's item.
    fn turn(&self, item: u32) -> u32 {
        match self.items.get(item as usize) {
            Some(Item::Chunk(chunk)) => self.turns.get(*chunk as usize).copied().unwrap_or(0),
            _ => 0,
        }
    }

    fn steps(&self, chunk: &Chunk, device: u32) -> Steps {
        let device = &self.plan.devices[device as usize];
        Steps::of_chunk(self.plan, device, &self.plan.host, chunk)
    }

    /// The tasks that compute a chunk on a device and write `target`. Returns the last one.
    fn chunk_strand(
        &mut self,
        chunk: &Chunk,
        device: u32,
        item: u32,
        choice: Option<ChoiceId>,
        target: Access,
    ) -> TaskId {
        let plan = self.plan;
        let strand = self.graph.strand(choice);
        let steps = self.steps(chunk, device);
        let pools = self.pools[device as usize];
        let slice_bytes = chunk.result_bytes(plan.output, plan.k, plan.dtype);
        let route = plan.route(chunk, device);
        if route == Route::Host {
            let bytes = cpu_bytes(&plan.host, chunk, steps.kernel_s, plan.k, plan.dtype);
            let computed = demand(steps.kernel_s, 0, bytes);
            let compute = task(TaskKind::CpuCompute, DeviceId::HOST, strand, item, (None, None), computed);
            return self.graph.task(compute, &[], &self.old(target), &nonempty(target));
        }
        let (a, copied) = if route == Route::Resident {
            let bytes = chunk.staged_bytes;
            let buffer = self.graph.buffer(Role::Input, bytes);
            (Access { buffer, begin: 0, end: bytes }, None)
        } else {
            let (a, upload) = self.copy_chunk(chunk, device, (strand, item), pools.a, Role::Scratch);
            (a, Some(upload))
        };
        let (x_uploads, x) = self.x_of_chunk(chunk, device);
        let before: Vec<TaskId> = copied.into_iter().chain(x_uploads).collect();
        let reads: Vec<Access> = nonempty(a).into_iter().chain(x).collect();
        let slice =
            Access { buffer: self.graph.buffer(Role::Scratch, slice_bytes), begin: 0, end: slice_bytes };
        let id = DeviceId(device);
        let gives = if route == Route::Copied { pools.a } else { None };
        let turn = self.turn(item);
        let kernel = task(TaskKind::Kernel, id, strand, item, (pools.y, gives), demand(steps.kernel_s, 0, 0));
        let kernel = Task { turn, ..kernel };
        let kernel = self.graph.task(kernel, &before, &reads, &nonempty(slice));
        let cross = demand(steps.download_s, slice_bytes, slice_bytes);
        if plan.devices[device as usize].registered.y {
            let download = task(TaskKind::Download, id, strand, item, (None, pools.y), cross);
            let download = Task { turn, ..download };
            return self.graph.task(download, &[kernel], &nonempty(slice), &nonempty(target));
        }
        let pinned =
            Access { buffer: self.graph.buffer(Role::Scratch, slice_bytes), begin: 0, end: slice_bytes };
        let download = task(TaskKind::Download, id, strand, item, (pools.pinned_out, pools.y), cross);
        let download = Task { turn, ..download };
        let download = self.graph.task(download, &[kernel], &nonempty(slice), &nonempty(pinned));
        let copy = demand(steps.merge_s, 0, slice_bytes.saturating_mul(2));
        let merge = task(TaskKind::Merge, DeviceId::HOST, strand, item, (None, pools.pinned_out), copy);
        let merge = Task { turn, ..merge };
        let reads = [nonempty(pinned), self.old(target)].concat();
        self.graph.task(merge, &[download], &reads, &nonempty(target))
    }

    /// The old bytes that the task that writes `target` reads: all of them if rows of Y are updated, none if they are written. Partial
    /// sums are always written.
    fn old(&self, target: Access) -> Vec<Access> {
        let is_updated = self.graph.role(target.buffer) == Some(Role::InOut);
        if is_updated { nonempty(target) } else { Vec::new() }
    }

    fn merge_carries(
        &mut self,
        index: u32,
        row: u64,
        chunks: &[u32],
        carries: &[Option<Carries>],
        outputs: &Outputs,
    ) {
        let row_bytes = self.plan.row_bytes();
        let parts: Vec<&Carries> =
            chunks.iter().filter_map(|&chunk| carries.get(chunk as usize)?.as_ref()).collect();
        let before: Vec<TaskId> = parts.iter().flat_map(|part| part.writers.iter().copied()).collect();
        let target = outputs.access(row, 1, row_bytes);
        let mut reads: Vec<Access> = parts.iter().flat_map(|part| nonempty(part.all)).collect();
        reads.extend(self.old(target));
        let bytes: u64 = parts.iter().map(|part| part.all.end).sum();
        let strand = self.graph.strand(None);
        let item = self.item(Item::SplitRow(index));
        let copy = demand(self.plan.host.copy_s(bytes), 0, bytes + row_bytes);
        let merge = task(TaskKind::Merge, DeviceId::HOST, strand, item, (None, None), copy);
        self.graph.task(merge, &before, &reads, &nonempty(target));
    }
}

/// The partial sums of a chunk's segments, and the tasks that may write them; no tasks where the sums exist already.
#[derive(Clone)]
struct Carries {
    writers: Vec<TaskId>,
    all: Access,
}

impl Plan {
    fn route(&self, chunk: &Chunk, device: u32) -> Route {
        match self.devices.get(device as usize) {
            Some(there) if there.profile.link.is_some() => {
                if self.mode == Mode::Resident && chunk.home == device {
                    Route::Resident
                } else {
                    Route::Copied
                }
            }
            _ => Route::Host,
        }
    }
}

/// A task that takes a slot of one pool and gives one back to another, where it does.
pub(super) fn task(
    kind: TaskKind,
    device: DeviceId,
    strand: StrandId,
    item: u32,
    (takes, gives): (Option<PoolId>, Option<PoolId>),
    demand: Demand,
) -> Task {
    Task { kind, device, strand, item, takes, gives, demand, turn: 0 }
}

pub(super) fn demand(alone_s: f64, link_bytes: u64, host_bytes: u64) -> Demand {
    Demand { alone_ns: (alone_s.min(MAX_TASK_S) * 1e9).round() as u64, link_bytes, host_bytes, peer: None }
}

/// An empty list for an access of no bytes.
pub(super) fn nonempty(access: Access) -> Vec<Access> {
    if access.end > access.begin { vec![access] } else { Vec::new() }
}
