//! Reachability: whether a task comes before another by edges.
//!
//! A spanning forest whose subtrees are number ranges answers most queries in constant time. The rest use a backward
//! search that is bounded by the level of the earlier task.

use super::{Graph, TaskId, Unsound};

pub(super) struct Reach<'a> {
    graph: &'a Graph,
    /// The tasks in topological order.
    pub(super) order: Vec<TaskId>,
    /// The position of each task in that order.
    pub(super) positions: Vec<u32>,
    /// Number of edges on the longest path to each task.
    levels: Vec<u32>,
    /// For each task the range of numbers of its subtree; its own number is the first.
    trees: Vec<(u32, u32)>,
    visits: Visits,
    stack: Vec<TaskId>,
}

/// A set of tasks that is cleared in constant time.
pub(super) struct Visits {
    marks: Vec<u32>,
    current: u32,
}

impl Visits {
    pub(super) fn new(tasks: usize) -> Self {
        Self { marks: vec![0; tasks], current: 0 }
    }

    pub(super) fn clear(&mut self) {
        self.current = self.current.checked_add(1).unwrap_or_else(|| {
            self.marks.fill(0);
            1
        });
    }

    /// Inserts the task. Returns whether it was not in the set.
    pub(super) fn insert(&mut self, task: TaskId) -> bool {
        std::mem::replace(&mut self.marks[task.index()], self.current) != self.current
    }
}

impl<'a> Reach<'a> {
    pub(super) fn new(graph: &'a Graph) -> Result<Self, Unsound> {
        let count = graph.tasks.len();
        let order = graph.topological_order().map_err(|stuck| Unsound::Cycle { task: graph.named(stuck) })?;
        let mut positions = vec![0; count];
        let mut levels = vec![0u32; count];
        let mut parents: Vec<Option<TaskId>> = vec![None; count];
        for (position, &task) in order.iter().enumerate() {
            positions[task.index()] = position as u32;
            let nearest = graph.predecessors(task).iter().max_by_key(|before| levels[before.index()]);
            if let Some(nearest) = nearest {
                levels[task.index()] = levels[nearest.index()] + 1;
                parents[task.index()] = Some(*nearest);
            }
        }
        let mut sizes = vec![1u32; count];
        for &task in order.iter().rev() {
            if let Some(parent) = parents[task.index()] {
                sizes[parent.index()] += sizes[task.index()];
            }
        }
        let mut roots = 0;
        let mut unused = vec![0u32; count];
        let mut trees = vec![(0, 0); count];
        for &task in &order {
            let counter = parents[task.index()].map_or(&mut roots, |parent| &mut unused[parent.index()]);
            let begin = *counter;
            *counter += sizes[task.index()];
            trees[task.index()] = (begin, begin + sizes[task.index()]);
            unused[task.index()] = begin + 1;
        }
        let visits = Visits::new(count);
        Ok(Self { graph, order, positions, levels, trees, visits, stack: Vec::new() })
    }

    /// Whether `later` waits for `earlier`, directly or not.
    pub(super) fn reaches(&mut self, earlier: TaskId, later: TaskId) -> bool {
        if self.levels[earlier.index()] >= self.levels[later.index()] {
            return false;
        }
        let (onward, back) = (self.graph.successors(earlier), self.graph.predecessors(later));
        let direct =
            if onward.len() < back.len() { onward.contains(&later) } else { back.contains(&earlier) };
        if direct || self.is_above(earlier, later) {
            return true;
        }
        self.visits.clear();
        self.stack.clear();
        self.stack.push(later);
        while let Some(task) = self.stack.pop() {
            for &before in self.graph.predecessors(task) {
                if self.is_above(earlier, before) {
                    return true;
                }
                if self.levels[before.index()] > self.levels[earlier.index()] && self.visits.insert(before) {
                    self.stack.push(before);
                }
            }
        }
        false
    }

    /// Whether `task` is in the subtree of `above`.
    fn is_above(&self, above: TaskId, task: TaskId) -> bool {
        let (begin, end) = self.trees[above.index()];
        (begin..end).contains(&self.trees[task.index()].0)
    }
}
