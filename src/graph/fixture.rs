//! Graphs for tests: shaped like the planner's, and modifiable before they are built.

use super::{
    Access, BufferId, ChoiceId, Demand, DeviceId, Graph, GraphBuilder, PoolId, Role, StrandId, Task, TaskId,
    TaskKind,
};

/// A task of the host's CPU without slots.
pub(crate) fn host_task(strand: StrandId) -> Task {
    Task {
        kind: TaskKind::CpuCompute,
        device: DeviceId::HOST,
        strand,
        item: 0,
        takes: None,
        gives: None,
        demand: Demand::default(),
        turn: 0,
    }
}

/// A task with its predecessors and accesses.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) task: Task,
    pub(crate) predecessors: Vec<TaskId>,
    pub(crate) reads: Vec<Access>,
    pub(crate) writes: Vec<Access>,
}

/// A modifiable graph.
#[derive(Debug, Clone, Default)]
pub(crate) struct Draft {
    pub(crate) pools: Vec<(DeviceId, u32)>,
    pub(crate) buffers: Vec<(Role, u64)>,
    pub(crate) strands: Vec<Option<ChoiceId>>,
    pub(crate) choices: u32,
    pub(crate) entries: Vec<Entry>,
}

impl Draft {
    pub(crate) fn pool(&mut self, device: DeviceId, slots: u32) -> PoolId {
        self.pools.push((device, slots));
        PoolId(self.pools.len() as u32 - 1)
    }

    pub(crate) fn buffer(&mut self, role: Role, bytes: u64) -> BufferId {
        self.buffers.push((role, bytes));
        BufferId(self.buffers.len() as u32 - 1)
    }

    pub(crate) fn strand(&mut self, choice: Option<ChoiceId>) -> StrandId {
        self.strands.push(choice);
        StrandId(self.strands.len() as u32 - 1)
    }

    pub(crate) fn choice(&mut self) -> ChoiceId {
        self.choices += 1;
        ChoiceId(self.choices - 1)
    }

    pub(crate) fn add(
        &mut self,
        (kind, device, strand): (TaskKind, DeviceId, StrandId),
        (takes, gives): (Option<PoolId>, Option<PoolId>),
        predecessors: &[TaskId],
        reads: &[Access],
        writes: &[Access],
    ) -> TaskId {
        let demand = Demand {
            alone_ns: 100 + self.entries.len() as u64 % 7,
            link_bytes: 0,
            host_bytes: 0,
            peer: None,
        };
        self.entries.push(Entry {
            task: Task { kind, device, strand, item: 0, takes, gives, demand, turn: 0 },
            predecessors: predecessors.to_vec(),
            reads: reads.to_vec(),
            writes: writes.to_vec(),
        });
        TaskId(self.entries.len() as u32 - 1)
    }

    pub(crate) fn edges(&self) -> Vec<(TaskId, TaskId)> {
        let into = |(to, entry): (usize, &Entry)| {
            entry.predecessors.iter().map(move |&from| (from, TaskId(to as u32))).collect::<Vec<_>>()
        };
        self.entries.iter().enumerate().flat_map(into).collect()
    }

    pub(crate) fn without_edge(&self, (from, to): (TaskId, TaskId)) -> Self {
        let mut less = self.clone();
        less.entries[to.index()].predecessors.retain(|&before| before != from);
        less
    }

    pub(crate) fn graph(&self) -> Graph {
        let mut builder = GraphBuilder::new();
        for (number, &(device, slots)) in self.pools.iter().enumerate() {
            builder.pool(format!("pool {number}"), device, slots);
        }
        for &(role, bytes) in &self.buffers {
            builder.buffer(role, bytes);
        }
        for _ in 0..self.choices {
            builder.choice();
        }
        for &choice in &self.strands {
            builder.strand(choice);
        }
        for entry in &self.entries {
            builder.task(entry.task, &[], &entry.reads, &entry.writes);
        }
        for (from, to) in self.edges() {
            builder.edge(from, to);
        }
        builder.freeze()
    }
}

/// The size of a planner-like graph.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) accelerators: u32,
    /// Chunks of each accelerator.
    pub(crate) chunks: u32,
    pub(crate) host_chunks: u32,
    /// Choices between all devices.
    pub(crate) choices: u32,
    /// Whether a row is split over all devices, with its last part as a choice.
    pub(crate) split: bool,
    /// Slots of every pool.
    pub(crate) slots: u32,
}

const CHUNK_BYTES: u64 = 64;

#[derive(Clone, Copy)]
struct Accelerator {
    device: DeviceId,
    pools: [PoolId; 4],
    x: Access,
    x_upload: TaskId,
}

struct Planner {
    draft: Draft,
    a: BufferId,
    x: Access,
    y: BufferId,
    rows: u64,
    accelerators: Vec<Accelerator>,
}

/// A graph like the planner's: X on every device, chunks streamed through slots, CPU chunks, a split row, choices.
pub(crate) fn planner_like(shape: Shape) -> Draft {
    let mut draft = Draft::default();
    let x = draft.buffer(Role::Input, CHUNK_BYTES);
    let x = Access { buffer: x, begin: 0, end: CHUNK_BYTES };
    let (a, y) = (draft.buffer(Role::Input, CHUNK_BYTES), draft.buffer(Role::Output, 0));
    let mut planner = Planner { draft, a, x, y, rows: 0, accelerators: Vec::new() };
    for number in 1..=shape.accelerators {
        planner.accelerator(DeviceId(number), shape.slots);
    }
    for number in 0..shape.accelerators as usize {
        for _ in 0..shape.chunks {
            let (strand, target) = (planner.draft.strand(None), planner.next_rows());
            planner.streamed(number, strand, target);
        }
    }
    for _ in 0..shape.host_chunks {
        let (strand, target) = (planner.draft.strand(None), planner.next_rows());
        planner.computed(strand, target);
    }
    for _ in 0..shape.choices {
        let target = planner.next_rows();
        planner.chosen(target);
    }
    if shape.split {
        planner.split_row();
    }
    planner.draft.buffers[planner.y.index()].1 = planner.rows;
    planner.draft
}

impl Planner {
    fn scratch(&mut self) -> Access {
        let buffer = self.draft.buffer(Role::Scratch, CHUNK_BYTES);
        Access { buffer, begin: 0, end: CHUNK_BYTES }
    }

    fn next_rows(&mut self) -> Access {
        self.rows += CHUNK_BYTES;
        Access { buffer: self.y, begin: self.rows - CHUNK_BYTES, end: self.rows }
    }

    fn accelerator(&mut self, device: DeviceId, slots: u32) {
        let pools = [(); 4].map(|()| self.draft.pool(device, slots));
        let (pinned, on_device) = (self.scratch(), self.scratch());
        let strand = self.draft.strand(None);
        let (stage, upload) = ((TaskKind::Stage, DeviceId::HOST, strand), (TaskKind::Upload, device, strand));
        let staged = self.draft.add(stage, (None, None), &[], &[self.x], &[pinned]);
        let x_upload = self.draft.add(upload, (None, None), &[staged], &[pinned], &[on_device]);
        self.accelerators.push(Accelerator { device, pools, x: on_device, x_upload });
    }

    /// Adds a chunk streamed through an accelerator. Returns the task that writes `target`.
    fn streamed(&mut self, accelerator: usize, strand: StrandId, target: Access) -> TaskId {
        let Accelerator { device, pools: [pinned, a_slot, y_slot, out], x, x_upload } =
            self.accelerators[accelerator];
        let a = Access { buffer: self.a, begin: 0, end: CHUNK_BYTES };
        let [a_pinned, a_device, y_device, y_pinned] = [(); 4].map(|()| self.scratch());
        let draft = &mut self.draft;
        let host = DeviceId::HOST;
        let stage = draft.add((TaskKind::Stage, host, strand), (Some(pinned), None), &[], &[a], &[a_pinned]);
        let up = (Some(a_slot), Some(pinned));
        let up = draft.add((TaskKind::Upload, device, strand), up, &[stage], &[a_pinned], &[a_device]);
        let run = (Some(y_slot), Some(a_slot));
        let before = [up, x_upload];
        let run = draft.add((TaskKind::Kernel, device, strand), run, &before, &[a_device, x], &[y_device]);
        let down = (Some(out), Some(y_slot));
        let down = draft.add((TaskKind::Download, device, strand), down, &[run], &[y_device], &[y_pinned]);
        draft.add((TaskKind::Merge, host, strand), (None, Some(out)), &[down], &[y_pinned], &[target])
    }

    fn computed(&mut self, strand: StrandId, target: Access) -> TaskId {
        let a = Access { buffer: self.a, begin: 0, end: CHUNK_BYTES };
        let task = (TaskKind::CpuCompute, DeviceId::HOST, strand);
        self.draft.add(task, (None, None), &[], &[a, self.x], &[target])
    }

    /// Adds a choice between all devices. Returns the tasks that write `target`.
    fn chosen(&mut self, target: Access) -> Vec<TaskId> {
        let choice = self.draft.choice();
        let mut writers = Vec::new();
        for number in 0..self.accelerators.len() {
            let strand = self.draft.strand(Some(choice));
            writers.push(self.streamed(number, strand, target));
        }
        let strand = self.draft.strand(Some(choice));
        writers.push(self.computed(strand, target));
        writers
    }

    fn split_row(&mut self) {
        let mut carries = Vec::new();
        let mut writers = Vec::new();
        for number in 0..self.accelerators.len() {
            let (strand, carry) = (self.draft.strand(None), self.scratch());
            writers.push(self.streamed(number, strand, carry));
            carries.push(carry);
        }
        let (strand, carry) = (self.draft.strand(None), self.scratch());
        writers.push(self.computed(strand, carry));
        carries.push(carry);
        let carry = self.scratch();
        writers.extend(self.chosen(carry));
        carries.push(carry);
        let (strand, target) = (self.draft.strand(None), self.next_rows());
        let merge = (TaskKind::Merge, DeviceId::HOST, strand);
        self.draft.add(merge, (None, None), &writers, &carries, &[target]);
    }
}
