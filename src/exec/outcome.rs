//! What became of a graph.

use crate::device::Fault;
use crate::graph::{ChoiceId, DeviceId, PoolId, StrandId, TaskId};

/// A task that ended well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record {
    /// The task.
    pub task: TaskId,
    /// The lane of its device that it ran on.
    pub lane: u32,
    /// When it began, on its device's clock.
    pub start_ns: u64,
    /// When it ended.
    pub end_ns: u64,
}

/// A task that failed. What failed only because something before it did is not listed again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskFault {
    /// The task; where a device hangs, the first of those under way.
    pub task: TaskId,
    /// The device it ran on.
    pub device: DeviceId,
    /// What went wrong.
    pub fault: Fault,
}

/// What a sample counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Counter {
    /// Slots of a pool that are in use.
    Slots(PoolId),
    /// Bytes of the operations that are under way on a device's link.
    LinkBytes(DeviceId),
}

/// A counter's value from some time on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    /// When, on the clock of the counted device (for a pool, of the device whose task changed it).
    pub at_ns: u64,
    /// What is counted.
    pub counter: Counter,
    /// Its value.
    pub value: u64,
}

/// What became of a graph.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Outcome {
    /// Tasks that ended well, in the order in which their ends were seen.
    pub records: Vec<Record>,
    /// Tasks that failed.
    pub faults: Vec<TaskFault>,
    /// Devices that are lost or hang.
    pub dead: Vec<DeviceId>,
    /// Strands whose work is not done: they failed, waited for something that failed, or were never started. Of a
    /// choice that nobody took, the first strand stands for all.
    pub unfinished: Vec<StrandId>,
    /// For each choice the strand that took it.
    pub chosen: Vec<Option<StrandId>>,
    /// Whether the run was asked to stop.
    pub cancelled: bool,
    /// Slots and bytes over time.
    pub samples: Vec<Sample>,
}

impl Outcome {
    /// The strand that took `choice`.
    pub fn chosen(&self, choice: ChoiceId) -> Option<StrandId> {
        self.chosen.get(choice.index()).copied().flatten()
    }

    /// Whether everything was done.
    pub fn is_complete(&self) -> bool {
        self.unfinished.is_empty()
    }
}
