//! The coordinator: runs a task graph on a list of devices.
//!
//! The caller's thread owns all mutable state; devices report completions over a channel. A task is submitted once its
//! predecessors have completed and a slot is free. On a stream-ordered device it is enough that its predecessors on that
//! device were submitted. Faults are reported in the [`ExecOutcome`] together with the strands they left unfinished; all
//! other work continues. The call always returns: a watchdog declares a device dead if it reports nothing for too long.

mod choices;
mod claims;
mod completion;
mod coordinator;
mod dispatch;
mod failure;
mod outcome;
mod schedule;
mod short_waits;
mod slots;
mod watchdog;

use std::sync::atomic::AtomicBool;

use crossbeam::channel::Receiver;

pub use outcome::{Counter, ExecOutcome, Record, Sample, TaskFault};
pub use schedule::TaskSchedule;
pub use slots::HeldSlots;

use crate::device::completion::Timeouts;
use crate::device::{Completion, Device, Operation};
use crate::error::Result;
use crate::graph::{Graph, TaskId};

/// Builds the operation of a task.
pub trait Binder<'run> {
    /// The operation of `task`. Its strand holds `slots`, including the slot that the task takes.
    fn operation(&mut self, task: TaskId, slots: &HeldSlots) -> Result<Operation<'run>>;
}

/// How a graph is run.
#[derive(Debug, Clone, Copy, Default)]
pub struct ExecOptions<'a> {
    /// Once true, nothing more is submitted.
    pub cancel: Option<&'a AtomicBool>,
    /// How long no completion may arrive while work is in flight.
    pub timeouts: Timeouts,
    /// Whether the calling thread may occupy a hardware thread while it waits for short operations.
    pub may_poll: bool,
}

/// Runs `graph` on `devices`, which report on `completions`. `schedule` must be the schedule of `graph`.
///
/// Returns an error for a bug in the graph, for an operation that the binder cannot build, and if the host hangs. In the
/// last case host jobs may still run until the host's device is closed.
pub fn execute<'run>(
    graph: &Graph,
    schedule: &TaskSchedule,
    devices: &mut [&mut dyn Device<'run>],
    completions: &Receiver<Completion>,
    binder: &mut dyn Binder<'run>,
    options: &ExecOptions<'_>,
) -> Result<ExecOutcome> {
    coordinator::Coordinator::new(graph, schedule, devices, completions, binder, options)?.run()
}

#[cfg(test)]
mod tests;
