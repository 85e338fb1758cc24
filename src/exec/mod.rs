//! The coordinator: runs a task graph on a list of devices.
//!
//! One thread, the caller's, owns all that changes; devices report over a channel. A task starts once everything it
//! waits for has ended, or has been submitted where the device orders it by itself, and once there is a slot for it.
//! Whatever fails is reported in the [`Outcome`] together with the strands it left unfinished; everything else goes on.
//! The call ends whatever the devices do: those that stay silent for too long count as dead.

mod choices;
mod claims;
mod completion;
mod coordinator;
mod dispatch;
mod failure;
mod outcome;
mod schedule;
mod slots;
mod watchdog;

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use crossbeam::channel::Receiver;

pub use outcome::{Counter, Outcome, Record, Sample, TaskFault};
pub use schedule::Schedule;
pub use slots::HeldSlots;

use crate::device::{Completion, Device, Operation};
use crate::error::Result;
use crate::graph::{Graph, TaskId};

/// Turns a task into what its device is asked to do.
pub trait Binder<'run> {
    /// The operation of a task whose strand holds `slots`, the one that the task takes included.
    fn operation(&mut self, task: TaskId, slots: &HeldSlots) -> Result<Operation<'run>>;
}

/// How a graph is run.
#[derive(Debug, Clone, Copy)]
pub struct ExecOptions<'a> {
    /// Once true, nothing more is launched.
    pub cancel: Option<&'a AtomicBool>,
    /// How long the devices may stay silent while work is under way, or twenty times what the longest task under way
    /// should take, if that is more.
    pub watchdog_timeout: Duration,
}

impl Default for ExecOptions<'_> {
    fn default() -> Self {
        Self { cancel: None, watchdog_timeout: Duration::from_secs(30) }
    }
}

/// Runs `graph`, of which `schedule` was made, on `devices`, which report over `completions`.
///
/// An error is a bug in the graph, an operation that the binder could not make, or a host that hangs: host jobs may
/// then still be under way until the host's device is closed.
pub fn execute<'run>(
    graph: &Graph,
    schedule: &Schedule,
    devices: &mut [&mut dyn Device<'run>],
    completions: &Receiver<Completion>,
    binder: &mut dyn Binder<'run>,
    options: &ExecOptions<'_>,
) -> Result<Outcome> {
    coordinator::Coordinator::new(graph, schedule, devices, completions, binder, options)?.run()
}

#[cfg(test)]
mod tests;
