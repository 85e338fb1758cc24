//! The task graph: an arena of tasks with compressed edge lists, immutable once built.
//!
//! A graph refers to devices by number and contains no times. [`GraphBuilder`] collects tasks, edges, buffers and slots;
//! [`GraphBuilder::freeze`] builds the graph, which is then validated and run.

mod builder;
#[cfg(test)]
pub(crate) mod fixture;
mod task;
mod validate;

pub use builder::GraphBuilder;
pub use task::{
    Access, BufferId, ChoiceId, Demand, DeviceId, PoolId, Role, StrandId, Task, TaskId, TaskKind,
};
pub use validate::{Named, Unsound};

/// A pool of equal slots.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pool {
    /// The pool's name in messages and counters, such as `emu:0 A`.
    pub name: String,
    /// The device whose memory contains the slots.
    pub device: DeviceId,
    /// Number of slots.
    pub slots: u32,
}

/// A buffer, for validation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Buffer {
    /// Its role.
    pub role: Role,
    /// Number of bytes.
    pub bytes: u64,
}

/// Lists of varying length in one array: list `i` is `items[starts[i]..starts[i + 1]]`.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Lists<T> {
    starts: Vec<u32>,
    items: Vec<T>,
}

impl<T> Lists<T> {
    fn get(&self, index: usize) -> &[T] {
        match (self.starts.get(index), self.starts.get(index + 1)) {
            (Some(&begin), Some(&end)) => &self.items[begin as usize..end as usize],
            _ => &[],
        }
    }
}

/// An immutable task graph.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Graph {
    tasks: Vec<Task>,
    predecessors: Lists<TaskId>,
    successors: Lists<TaskId>,
    reads: Lists<Access>,
    writes: Lists<Access>,
    buffers: Vec<Buffer>,
    pools: Vec<Pool>,
    /// For each strand its choice, if it belongs to one.
    strands: Vec<Option<ChoiceId>>,
    choices: u32,
}

impl Graph {
    /// All tasks, by number.
    pub fn tasks(&self) -> &[Task] {
        &self.tasks
    }

    /// Tasks that must complete before `task` starts.
    pub fn predecessors(&self, task: TaskId) -> &[TaskId] {
        self.predecessors.get(task.index())
    }

    /// Tasks that wait for `task`.
    pub fn successors(&self, task: TaskId) -> &[TaskId] {
        self.successors.get(task.index())
    }

    /// Bytes that `task` reads.
    pub fn reads(&self, task: TaskId) -> &[Access] {
        self.reads.get(task.index())
    }

    /// Bytes that `task` writes.
    pub fn writes(&self, task: TaskId) -> &[Access] {
        self.writes.get(task.index())
    }

    /// All buffers, by number.
    pub fn buffers(&self) -> &[Buffer] {
        &self.buffers
    }

    /// All slot pools, by number.
    pub fn pools(&self) -> &[Pool] {
        &self.pools
    }

    /// For each strand its choice, if it belongs to one.
    pub fn strands(&self) -> &[Option<ChoiceId>] {
        &self.strands
    }

    /// Number of choices.
    pub fn choices(&self) -> usize {
        self.choices as usize
    }

    /// A topological order of the tasks, or a task that is on a cycle or behind one.
    pub fn topological_order(&self) -> Result<Vec<TaskId>, TaskId> {
        let ids = || (0..self.tasks.len() as u32).map(TaskId);
        let mut missing: Vec<usize> = ids().map(|id| self.predecessors(id).len()).collect();
        let mut order: Vec<TaskId> = ids().filter(|id| missing[id.index()] == 0).collect();
        order.reserve(missing.len() - order.len());
        let mut next = 0;
        while let Some(&task) = order.get(next) {
            next += 1;
            for &later in self.successors(task) {
                missing[later.index()] -= 1;
                if missing[later.index()] == 0 {
                    order.push(later);
                }
            }
        }
        match missing.iter().position(|&missing| missing > 0) {
            Some(stuck) => Err(TaskId(stuck as u32)),
            None => Ok(order),
        }
    }

    /// All edges, from the earlier to the later task.
    pub fn edges(&self) -> impl Iterator<Item = (TaskId, TaskId)> + '_ {
        (0..self.tasks.len() as u32)
            .map(TaskId)
            .flat_map(|from| self.successors(from).iter().map(move |&to| (from, to)))
    }
}
