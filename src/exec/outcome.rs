//! The result of running a graph.

use crate::device::Fault;
use crate::graph::{ChoiceId, DeviceId, PoolId, StrandId, TaskId};

/// A task that completed successfully.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record {
    /// The task.
    pub task: TaskId,
    /// The lane it ran on.
    pub lane: u32,
    /// Start time on its device's clock.
    pub start_ns: u64,
    /// End time on the same clock.
    pub end_ns: u64,
}

/// A task that failed. Tasks that failed only because a predecessor failed are not listed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskFault {
    /// The task. If a device hangs, the first of its tasks in flight.
    pub task: TaskId,
    /// The device it ran on.
    pub device: DeviceId,
    /// The fault.
    pub fault: Fault,
}

/// What a sample counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Counter {
    /// Slots in use of a pool.
    Slots(PoolId),
    /// Bytes of the operations in flight on a device's link.
    LinkBytes(DeviceId),
}

/// A counter's value from a point in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    /// The time, on the clock of the counted device; for a pool, of the device whose task changed it.
    pub at_ns: u64,
    /// What is counted.
    pub counter: Counter,
    /// Its value.
    pub value: u64,
}

/// The result of running a graph.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ExecOutcome {
    /// Successful tasks, in the order of their completions.
    pub records: Vec<Record>,
    /// Tasks that failed.
    pub faults: Vec<TaskFault>,
    /// Devices that were lost or hang.
    pub dead: Vec<DeviceId>,
    /// Strands whose work is not done: they failed, waited for a failed strand, or were never started. An open choice is
    /// represented by its first strand.
    pub unfinished: Vec<StrandId>,
    /// For each choice the strand that took it, if any.
    pub chosen: Vec<Option<StrandId>>,
    /// Whether the run was cancelled.
    pub cancelled: bool,
    /// Slots in use and bytes in flight over time.
    pub samples: Vec<Sample>,
}

impl ExecOutcome {
    /// The strand that took `choice`.
    pub fn chosen(&self, choice: ChoiceId) -> Option<StrandId> {
        self.chosen.get(choice.index()).copied().flatten()
    }

    /// Whether all work was done.
    pub fn is_complete(&self) -> bool {
        self.unfinished.is_empty()
    }
}
