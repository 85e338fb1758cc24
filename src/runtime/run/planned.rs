//! A plan's graph, ready to run: validated, with its schedule and each strand's device.

use crate::error::{Error, Result};
use crate::exec::TaskSchedule;
use crate::graph::{DeviceId, Graph, StrandId, Task, TaskId};
use crate::plan::{Item, PlannedGraph, Pools, XPlan};

/// A validated graph with its schedule.
pub struct Planned {
    planned: PlannedGraph,
    /// Its schedule.
    pub schedule: TaskSchedule,
    /// For each strand its accelerator, or the host if it uses none.
    strand_devices: Vec<DeviceId>,
    /// For each strand its item: X, a chunk or a split row.
    strand_items: Vec<Option<Item>>,
}

impl Planned {
    /// Validates the graph and computes its schedule.
    pub fn new(planned: PlannedGraph) -> Result<Self> {
        let graph = &planned.graph;
        graph
            .validate()
            .map_err(|unsound| Error::Internal(format!("the plan's graph is invalid: {unsound}")))?;
        let schedule = TaskSchedule::new(graph)?;
        let mut strand_devices = vec![DeviceId::HOST; graph.strands().len()];
        let mut strand_items = vec![None; graph.strands().len()];
        for task in graph.tasks() {
            strand_items[task.strand.index()] = planned.items.get(task.item as usize).copied();
            if task.device != DeviceId::HOST {
                strand_devices[task.strand.index()] = task.device;
            }
        }
        Ok(Self { planned, schedule, strand_devices, strand_items })
    }

    /// The graph.
    pub fn graph(&self) -> &Graph {
        &self.planned.graph
    }

    /// The data of each task, by its `item`.
    pub fn items(&self) -> &[Item] {
        &self.planned.items
    }

    /// The pools of each device of the plan.
    pub fn pools(&self) -> &[Pools] {
        &self.planned.pools
    }

    /// The part of X that each device needs; more than planned where it takes over chunks of another device.
    pub fn x(&self) -> &[XPlan] {
        &self.planned.x
    }

    /// A strand's item and device.
    pub fn strand(&self, strand: StrandId) -> Option<(Item, DeviceId)> {
        let item = self.strand_items.get(strand.index()).copied().flatten()?;
        Some((item, *self.strand_devices.get(strand.index())?))
    }

    /// A task, its item, and the device of its strand.
    pub fn task(&self, id: TaskId) -> Result<(&Task, Item, DeviceId)> {
        let found = self.planned.graph.tasks().get(id.index()).and_then(|task| {
            let item = *self.planned.items.get(task.item as usize)?;
            let device = *self.strand_devices.get(task.strand.index())?;
            Some((task, item, device))
        });
        found
            .ok_or_else(|| Error::Internal(format!("task {} of the graph does not belong to its plan", id.0)))
    }

    /// The task's name in messages, such as `kernel of chunk 3`.
    pub fn describe(&self, id: TaskId) -> String {
        match self.task(id) {
            Ok((task, Item::X { block, .. }, _)) => format!("{} of block {block} of X", task.kind.name()),
            Ok((task, Item::Chunk(chunk) | Item::ChunkPart { chunk, .. }, _)) => {
                format!("{} of chunk {chunk}", task.kind.name())
            }
            Ok((task, Item::SplitRow(row), _)) => format!("{} of split row {row}", task.kind.name()),
            Ok((task, Item::Sent(message), _)) => {
                format!("{} of the rows sent in message {message}", task.kind.name())
            }
            Ok((task, Item::Received(message), _)) => {
                format!("{} of the rows received in message {message}", task.kind.name())
            }
            Ok((task, Item::ToRank { rank, .. }, _)) => {
                format!("{} of rows for rank {rank}", task.kind.name())
            }
            Ok((task, Item::FromRank { rank, .. }, _)) => {
                format!("{} of rows of rank {rank}", task.kind.name())
            }
            Ok((task, Item::PartialSums { rank }, _)) => {
                format!("{} of the partial sums of rank {rank}", task.kind.name())
            }
            Err(_) => format!("task {}", id.0),
        }
    }
}
