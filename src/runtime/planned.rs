//! A plan's graph made ready to run: proven sound, its priorities known, each strand's device looked up.

use crate::error::{Error, Result};
use crate::exec::Schedule;
use crate::graph::{DeviceId, StrandId, Task, TaskId};
use crate::plan::{Item, PlannedGraph};

/// A graph and what is known of it before it runs.
pub struct Planned {
    /// The graph as planned.
    pub planned: PlannedGraph,
    /// What the coordinator knows of it.
    pub schedule: Schedule,
    /// The device that each strand goes through: the host where it goes through no other.
    strand_devices: Vec<DeviceId>,
    /// What each strand works on.
    strand_items: Vec<Option<Item>>,
}

impl Planned {
    /// Proves the graph sound and looks it over.
    pub fn new(planned: PlannedGraph) -> Result<Self> {
        let graph = &planned.graph;
        graph
            .validate()
            .map_err(|unsound| Error::Internal(format!("the plan's graph is unsound: {unsound}")))?;
        let schedule = Schedule::new(graph)?;
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

    /// What a strand works on, and the device it goes through.
    pub fn strand(&self, strand: StrandId) -> Option<(Item, DeviceId)> {
        let item = self.strand_items.get(strand.index()).copied().flatten()?;
        Some((item, *self.strand_devices.get(strand.index())?))
    }

    /// A task, what it works on, and the device that its strand goes through.
    pub fn task(&self, id: TaskId) -> Result<(&Task, Item, DeviceId)> {
        let found = self.planned.graph.tasks().get(id.index()).and_then(|task| {
            let item = *self.planned.items.get(task.item as usize)?;
            let device = *self.strand_devices.get(task.strand.index())?;
            Some((task, item, device))
        });
        found.ok_or_else(|| Error::Internal(format!("task {} of the graph is none of its plan", id.0)))
    }

    /// The task in words, such as `kernel of chunk 3`.
    pub fn describe(&self, id: TaskId) -> String {
        match self.task(id) {
            Ok((task, Item::X(_), _)) => format!("{} of X", task.kind.name()),
            Ok((task, Item::Chunk(chunk), _)) => format!("{} of chunk {chunk}", task.kind.name()),
            Ok((task, Item::SplitRow(row), _)) => format!("{} of split row {row}", task.kind.name()),
            Err(_) => format!("task {}", id.0),
        }
    }
}
