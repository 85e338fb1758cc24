//! The static schedule of a graph: computed once, used for every run.

use crate::device::LaneKind;
use crate::error::{Error, Result};
use crate::graph::{DeviceId, Graph, StrandId, TaskId, TaskKind};

/// Priorities, strands and choices of a graph, as the coordinator needs them.
#[derive(Debug, Clone)]
pub struct TaskSchedule {
    /// Priority rank of each task: the lower turn first, then the longer remaining path, then the lower task number.
    pub(super) ranks: Vec<u32>,
    /// The tasks by rank.
    pub(super) by_rank: Vec<TaskId>,
    /// Number of edges into each task.
    pub(super) indegrees: Vec<u32>,
    /// For each strand its first task: the highest-ranked one without predecessors in the strand.
    pub(super) entries: Vec<Option<TaskId>>,
    /// For each strand its device: the first that is not the host, otherwise the host.
    pub(super) strand_devices: Vec<DeviceId>,
    strand_starts: Vec<u32>,
    strand_tasks: Vec<TaskId>,
    choice_starts: Vec<u32>,
    choice_strands: Vec<StrandId>,
}

impl TaskSchedule {
    /// Computes the schedule. Fails if the graph has a cycle or refers to something that does not exist.
    pub fn new(graph: &Graph) -> Result<Self> {
        check_numbers(graph)?;
        let tasks = graph.tasks();
        let task_numbers = || (0..tasks.len() as u32).map(TaskId);
        let indegrees: Vec<u32> = task_numbers().map(|task| graph.predecessors(task).len() as u32).collect();
        let cycle = |task: TaskId| Error::Internal(format!("task {} is on a cycle of the graph", task.0));
        let order = graph.topological_order().map_err(cycle)?;

        let mut remaining_ns = vec![0u64; tasks.len()];
        for &task in order.iter().rev() {
            let behind = graph.successors(task).iter().map(|next| remaining_ns[next.index()]).max();
            // At least 1 ns, so that a task without a prediction still lengthens its path.
            let own = tasks[task.index()].demand.alone_ns.max(1);
            remaining_ns[task.index()] = behind.unwrap_or(0).saturating_add(own);
        }
        let mut by_rank: Vec<TaskId> = task_numbers().collect();
        by_rank.sort_unstable_by_key(|task| {
            (tasks[task.index()].turn, std::cmp::Reverse(remaining_ns[task.index()]), *task)
        });
        let mut ranks = vec![0; tasks.len()];
        for (rank, task) in by_rank.iter().enumerate() {
            ranks[task.index()] = rank as u32;
        }

        let strands = graph.strands().len();
        let (strand_starts, strand_tasks) =
            grouped(strands, task_numbers().map(|task| (tasks[task.index()].strand.index(), task)));
        let (choice_starts, choice_strands) = grouped(
            graph.choices(),
            graph.strands().iter().enumerate().filter_map(|(strand, choice)| {
                choice.map(|choice| (choice.index(), StrandId(strand as u32)))
            }),
        );
        let mut schedule = Self {
            ranks,
            by_rank,
            indegrees,
            entries: Vec::new(),
            strand_devices: Vec::new(),
            strand_starts,
            strand_tasks,
            choice_starts,
            choice_strands,
        };
        for strand in (0..strands as u32).map(StrandId) {
            let own = schedule.strand(strand);
            let starts = |task: &&TaskId| {
                graph.predecessors(**task).iter().all(|before| tasks[before.index()].strand != strand)
            };
            let entry = own.iter().filter(starts).min_by_key(|task| schedule.ranks[task.index()]).copied();
            let away = own.iter().map(|task| tasks[task.index()].device).find(|&at| at != DeviceId::HOST);
            schedule.entries.push(entry);
            schedule.strand_devices.push(away.unwrap_or(DeviceId::HOST));
        }
        Ok(schedule)
    }

    /// The tasks of a strand.
    pub(super) fn strand(&self, strand: StrandId) -> &[TaskId] {
        let (begin, end) = (self.strand_starts[strand.index()], self.strand_starts[strand.index() + 1]);
        &self.strand_tasks[begin as usize..end as usize]
    }

    /// The strands of a choice.
    pub(super) fn choice(&self, choice: usize) -> &[StrandId] {
        &self.choice_strands[self.choice_starts[choice] as usize..self.choice_starts[choice + 1] as usize]
    }
}

/// The kind of lane on which a kind of task runs.
pub(super) fn lane_kind(kind: TaskKind) -> LaneKind {
    match kind {
        TaskKind::Stage | TaskKind::Merge => LaneKind::Copy,
        TaskKind::Upload | TaskKind::PeerCopy => LaneKind::Upload,
        TaskKind::Kernel => LaneKind::Compute,
        TaskKind::Download => LaneKind::Download,
        TaskKind::CpuCompute | TaskKind::Reduce => LaneKind::Pool,
        TaskKind::Send => LaneKind::Send,
        TaskKind::Receive => LaneKind::Receive,
    }
}

/// Number of kinds of lanes.
pub(super) const LANE_KINDS: usize = 7;

/// The index of the queue for lanes of `kind` on `device`.
pub(super) fn queue_of(device: DeviceId, kind: LaneKind) -> usize {
    let kind = match kind {
        LaneKind::Upload => 0,
        LaneKind::Compute => 1,
        LaneKind::Download => 2,
        LaneKind::Pool => 3,
        LaneKind::Copy => 4,
        LaneKind::Send => 5,
        LaneKind::Receive => 6,
    };
    device.index() * LANE_KINDS + kind
}

fn check_numbers(graph: &Graph) -> Result<()> {
    let (tasks, pools) = (graph.tasks(), graph.pools());
    let wrong = |number: usize, what: &str| {
        Err(Error::Internal(format!("task {number} of the graph refers to {what} that does not exist")))
    };
    for (number, task) in tasks.iter().enumerate() {
        let id = TaskId(number as u32);
        let mut neighbours = graph.predecessors(id).iter().chain(graph.successors(id));
        if neighbours.any(|other| other.index() >= tasks.len()) {
            return wrong(number, "a task");
        }
        if task.strand.index() >= graph.strands().len() {
            return wrong(number, "a strand");
        }
        if [task.takes, task.gives].iter().flatten().any(|pool| pool.index() >= pools.len()) {
            return wrong(number, "a slot pool");
        }
    }
    if graph.strands().iter().flatten().any(|choice| choice.index() >= graph.choices()) {
        return Err(Error::Internal("a strand of the graph refers to a choice that does not exist".into()));
    }
    Ok(())
}

/// Groups items, keeping their order. Returns the start index of each group, and the items.
fn grouped<T: Copy>(groups: usize, items: impl Iterator<Item = (usize, T)> + Clone) -> (Vec<u32>, Vec<T>) {
    let mut starts = vec![0u32; groups + 1];
    for (group, _) in items.clone() {
        starts[group + 1] += 1;
    }
    for group in 0..groups {
        starts[group + 1] += starts[group];
    }
    let mut cursors = starts.clone();
    let mut sorted: Vec<Option<T>> = vec![None; starts[groups] as usize];
    for (group, item) in items {
        sorted[cursors[group] as usize] = Some(item);
        cursors[group] += 1;
    }
    (starts, sorted.into_iter().flatten().collect())
}
