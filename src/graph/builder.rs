//! Collects tasks and edges and builds a [`Graph`] from them.

use super::{
    Access, Buffer, BufferId, ChoiceId, DeviceId, Graph, Lists, Pool, PoolId, Role, StrandId, Task, TaskId,
};

/// Builds a graph. Numbers are assigned in the order of the calls, so equal calls give equal graphs.
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
    /// An empty builder.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a pool of `slots` slots.
    pub fn pool(&mut self, name: impl Into<String>, device: DeviceId, slots: u32) -> PoolId {
        self.pools.push(Pool { name: name.into(), device, slots });
        PoolId(self.pools.len() as u32 - 1)
    }

    /// Adds a buffer of `bytes` bytes. Each strand's content of a slot is a separate buffer: slots are reused, buffers not.
    pub fn buffer(&mut self, role: Role, bytes: u64) -> BufferId {
        self.buffers.push(Buffer { role, bytes });
        BufferId(self.buffers.len() as u32 - 1)
    }

    /// The role of a buffer.
    pub fn role(&self, buffer: BufferId) -> Option<Role> {
        self.buffers.get(buffer.index()).map(|buffer| buffer.role)
    }

    /// Adds a choice: exactly one of its strands runs. Accelerators take choices in the order of their numbers, the host
    /// in reverse order.
    pub fn choice(&mut self) -> ChoiceId {
        self.choices += 1;
        ChoiceId(self.choices - 1)
    }

    /// Adds a strand, mandatory or as one alternative of a choice.
    pub fn strand(&mut self, choice: Option<ChoiceId>) -> StrandId {
        self.strands.push(choice);
        StrandId(self.strands.len() as u32 - 1)
    }

    /// Adds a task that waits for `predecessors`, reads `reads` and writes `writes`.
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

    /// Adds an edge: `later` waits for `earlier`.
    pub fn edge(&mut self, earlier: TaskId, later: TaskId) {
        self.edges.push((earlier, later));
    }

    /// Builds the immutable graph.
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

/// The items of each task in one array, in insertion order. Items of tasks that do not exist are left out.
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
    use crate::graph::fixture::host_task as task;

    #[test]
    fn edges_are_listed_as_predecessors_and_successors() {
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
    fn reads_and_writes_are_listed_by_task() {
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
