//! Collects tasks and edges and freezes them into a [`Graph`].

use super::{
    Access, Buffer, BufferId, ChoiceId, DeviceId, Graph, Lists, Pool, PoolId, Role, StrandId, Task, TaskId,
};

/// A graph in the making. Numbers are given in the order of the calls, so the same calls give the same graph.
#[derive(Debug, Clone, Default)]
pub struct GraphBuilder {
    tasks: Vec<Task>,
    edges: Vec<(TaskId, TaskId)>,
    reads: Vec<(TaskId, Access)>,
    writes: Vec<(TaskId, Access)>,
    buffers: Vec<Buffer>,
    pools: Vec<Pool>,
    strands: Vec<Option<ChoiceId>>,
    choices: u32,
}

impl GraphBuilder {
    /// An empty graph.
    pub fn new() -> Self {
        Self::default()
    }

    /// A pool of `slots` slots.
    pub fn pool(&mut self, name: impl Into<String>, device: DeviceId, slots: u32) -> PoolId {
        self.pools.push(Pool { name: name.into(), device, slots });
        PoolId(self.pools.len() as u32 - 1)
    }

    /// A buffer of `bytes` bytes. What a strand keeps in a slot is a buffer of its own: slots are reused, buffers not.
    pub fn buffer(&mut self, role: Role, bytes: u64) -> BufferId {
        self.buffers.push(Buffer { role, bytes });
        BufferId(self.buffers.len() as u32 - 1)
    }

    /// A choice: of the strands that name it, one runs. Choices made later are taken later by accelerators and sooner
    /// by the host.
    pub fn choice(&mut self) -> ChoiceId {
        self.choices += 1;
        ChoiceId(self.choices - 1)
    }

    /// A strand, by itself or as one of a choice's.
    pub fn strand(&mut self, choice: Option<ChoiceId>) -> StrandId {
        self.strands.push(choice);
        StrandId(self.strands.len() as u32 - 1)
    }

    /// A task that waits for `predecessors`, reads `reads` and writes `writes`.
    pub fn task(
        &mut self,
        task: Task,
        predecessors: &[TaskId],
        reads: &[Access],
        writes: &[Access],
    ) -> TaskId {
        let id = TaskId(self.tasks.len() as u32);
        self.tasks.push(task);
        self.edges.extend(predecessors.iter().map(|&before| (before, id)));
        self.reads.extend(reads.iter().map(|&access| (id, access)));
        self.writes.extend(writes.iter().map(|&access| (id, access)));
        id
    }

    /// Makes `later` wait for `earlier` too.
    pub fn edge(&mut self, earlier: TaskId, later: TaskId) {
        self.edges.push((earlier, later));
    }

    /// The graph, which no longer changes.
    pub fn freeze(self) -> Graph {
        let count = self.tasks.len();
        let forward = self.edges.iter().map(|&(from, to)| (from, to));
        let backward = self.edges.iter().map(|&(from, to)| (to, from));
        Graph {
            predecessors: lists(count, backward),
            successors: lists(count, forward),
            reads: lists(count, self.reads.iter().copied()),
            writes: lists(count, self.writes.iter().copied()),
            tasks: self.tasks,
            buffers: self.buffers,
            pools: self.pools,
            strands: self.strands,
            choices: self.choices,
        }
    }
}

/// The items of each task in one array, in the order they came; items of tasks that do not exist are left out.
fn lists<T: Copy>(count: usize, items: impl Iterator<Item = (TaskId, T)> + Clone) -> Lists<T> {
    let inside = items.filter(|(task, _)| task.index() < count);
    let mut starts = vec![0u32; count + 1];
    for (task, _) in inside.clone() {
        starts[task.index() + 1] += 1;
    }
    for index in 0..count {
        starts[index + 1] += starts[index];
    }
    let mut cursors = starts.clone();
    let Some(filler) = inside.clone().next().map(|(_, item)| item) else {
        return Lists { starts, items: Vec::new() };
    };
    let mut sorted = vec![filler; starts[count] as usize];
    for (task, item) in inside {
        let cursor = &mut cursors[task.index()];
        sorted[*cursor as usize] = item;
        *cursor += 1;
    }
    Lists { starts, items: sorted }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::{Demand, TaskKind};

    fn task(strand: StrandId) -> Task {
        Task {
            kind: TaskKind::CpuCompute,
            device: DeviceId::HOST,
            strand,
            item: 0,
            takes: None,
            gives: None,
            demand: Demand::default(),
        }
    }

    #[test]
    fn edges_are_seen_from_both_ends() {
        let mut builder = GraphBuilder::new();
        let strand = builder.strand(None);
        let first = builder.task(task(strand), &[], &[], &[]);
        let second = builder.task(task(strand), &[first], &[], &[]);
        let third = builder.task(task(strand), &[first], &[], &[]);
        builder.edge(second, third);
        let graph = builder.freeze();
        assert_eq!(graph.successors(first), &[second, third]);
        assert_eq!(graph.predecessors(third), &[first, second]);
        assert_eq!(graph.edges().collect::<Vec<_>>(), [(first, second), (first, third), (second, third)]);
    }

    #[test]
    fn reads_and_writes_stay_with_their_tasks() {
        let mut builder = GraphBuilder::new();
        let strand = builder.strand(None);
        let buffer = builder.buffer(Role::Scratch, 8);
        let access = |begin, end| Access { buffer, begin, end };
        let first = builder.task(task(strand), &[], &[], &[access(0, 4), access(4, 8)]);
        let second = builder.task(task(strand), &[first], &[access(0, 8)], &[]);
        let graph = builder.freeze();
        assert_eq!(graph.writes(first), &[access(0, 4), access(4, 8)]);
        assert_eq!((graph.reads(first).len(), graph.reads(second)), (0, &[access(0, 8)][..]));
        assert_eq!(graph.writes(second), &[]);
    }
}
