//! The coordinator's state and main loop.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::sync::atomic::Ordering;
use std::time::Instant;

use crossbeam::channel::Receiver;

use super::choices::Choices;
use super::schedule::LANE_KINDS;
use super::schedule::lane_kind;
use super::slots::Slots;
use super::{Binder, ExecOptions, ExecOutcome, TaskSchedule};
use crate::device::{Completion, Device, Fence, LaneKind};
use crate::error::{Error, Result};
use crate::graph::{Graph, StrandId, Task, TaskId};

/// The state of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// Waits for predecessors or for its choice.
    Waiting,
    /// Waits for a slot or a lane.
    Ready,
    /// Submitted to a lane.
    Submitted,
    /// Completed successfully.
    Done,
    /// Failed, or never to be started.
    Dropped,
    /// Belongs to a strand whose choice another strand took; counts as done.
    Skipped,
}

/// The state of a strand.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Strand {
    /// Operations in flight.
    pub(super) in_flight: u32,
    /// Tasks that are not done.
    pub(super) left: u32,
    /// Whether any task of it was submitted.
    pub(super) started: bool,
    /// Whether it was stopped by a fault.
    pub(super) failed: bool,
    /// Whether one of its operations hangs, so that its slots cannot be reused.
    pub(super) hung: bool,
}

/// The state of a lane.
#[derive(Debug, Clone)]
pub(super) struct Lane {
    pub(super) kind: LaneKind,
    pub(super) depth: usize,
    pub(super) load: usize,
}

/// The state of a device.
#[derive(Debug)]
pub(super) struct DeviceState {
    pub(super) stream_ordered: bool,
    pub(super) dead: bool,
    pub(super) lanes: Vec<Lane>,
    pub(super) in_flight: HashMap<Fence, (TaskId, u32)>,
    pub(super) link_bytes: u64,
}

/// The ready tasks for the lanes of one kind on one device.
#[derive(Debug, Default)]
pub(super) struct Queue {
    /// Ordered by rank.
    pub(super) ready: BinaryHeap<Reverse<u32>>,
    /// Whether it is in `to_serve`.
    pub(super) listed: bool,
}

pub(super) struct Coordinator<'a, 'd, 'run> {
    pub(super) graph: &'a Graph,
    pub(super) schedule: &'a TaskSchedule,
    pub(super) devices: &'a mut [&'d mut dyn Device<'run>],
    pub(super) completions: &'a Receiver<Completion>,
    pub(super) binder: &'a mut dyn Binder<'run>,
    pub(super) options: &'a ExecOptions<'a>,
    pub(super) states: Vec<State>,
    /// For each task the number of unsatisfied incoming edges.
    pub(super) missing: Vec<u32>,
    pub(super) fences: Vec<Fence>,
    pub(super) strands: Vec<Strand>,
    pub(super) device_states: Vec<DeviceState>,
    pub(super) queues: Vec<Queue>,
    pub(super) to_serve: VecDeque<usize>,
    pub(super) slots: Slots,
    pub(super) choices: Choices,
    /// Operations in flight.
    pub(super) in_flight: usize,
    /// When the coordinator last started to wait after a completion had arrived; the watchdog measures from here.
    pub(super) last_progress: Instant,
    /// Whether a completion arrived since then.
    pub(super) progressed: bool,
    /// The error that ends the run once nothing is in flight.
    pub(super) error: Option<Error>,
    pub(super) outcome: ExecOutcome,
    /// The waits of the current submission; a reused buffer.
    pub(super) waits: Vec<Fence>,
}

impl<'a, 'd, 'run> Coordinator<'a, 'd, 'run> {
    pub(super) fn new(
        graph: &'a Graph,
        schedule: &'a TaskSchedule,
        devices: &'a mut [&'d mut dyn Device<'run>],
        completions: &'a Receiver<Completion>,
        binder: &'a mut dyn Binder<'run>,
        options: &'a ExecOptions<'a>,
    ) -> Result<Self> {
        if schedule.indegrees.len() != graph.tasks().len() {
            return Err(Error::Internal("the schedule belongs to another graph".into()));
        }
        if devices.is_empty() {
            return Err(Error::Internal(
                "the device list is empty; it must contain at least the host".into(),
            ));
        }
        let device_states: Vec<DeviceState> = devices.iter().map(|device| device_state(&**device)).collect();
        for (number, task) in graph.tasks().iter().enumerate() {
            let kind = lane_kind(task.kind);
            let lanes =
                device_states.get(task.device.index()).map_or(&[][..], |device_state| &device_state.lanes);
            if !lanes.iter().any(|lane| lane.kind == kind) {
                return Err(Error::Internal(format!(
                    "task {number} ({}) needs a lane that device {} does not have",
                    task.kind.name(),
                    task.device.0
                )));
            }
        }
        let mut strands = vec![Strand::default(); graph.strands().len()];
        for task in graph.tasks() {
            strands[task.strand.index()].left += 1;
        }
        let count = graph.tasks().len();
        Ok(Self {
            graph,
            schedule,
            completions,
            binder,
            options,
            states: vec![State::Waiting; count],
            missing: schedule.indegrees.clone(),
            fences: vec![Fence(0); count],
            strands,
            queues: (0..device_states.len() * LANE_KINDS).map(|_| Queue::default()).collect(),
            to_serve: VecDeque::new(),
            slots: Slots::new(graph),
            choices: Choices::new(graph, schedule, device_states.len()),
            device_states,
            devices,
            in_flight: 0,
            last_progress: Instant::now(),
            progressed: true,
            error: None,
            outcome: ExecOutcome {
                records: Vec::with_capacity(count),
                chosen: vec![None; graph.choices()],
                ..ExecOutcome::default()
            },
            waits: Vec::new(),
        })
    }

    pub(super) fn task(&self, task: TaskId) -> &'a Task {
        &self.graph.tasks()[task.index()]
    }

    pub(super) fn run(mut self) -> Result<ExecOutcome> {
        // Discards late completions of an earlier run.
        while self.completions.try_recv().is_ok() {}
        for device in self.devices.iter_mut() {
            device.mark_synchronized();
        }
        for number in 0..self.missing.len() {
            if self.missing[number] == 0 {
                self.make_ready(TaskId(number as u32));
            }
        }
        loop {
            while let Ok(completion) = self.completions.try_recv() {
                self.complete(completion);
            }
            self.outcome.cancelled |= self.options.cancel.is_some_and(|flag| flag.load(Ordering::Relaxed));
            let stopping = self.outcome.cancelled || self.error.is_some();
            if !stopping {
                self.dispatch();
            }
            if self.in_flight > 0 {
                if !self.leave_receives() {
                    self.wait()?;
                }
            } else if stopping || self.error.is_none() && !self.claim_any() {
                break;
            }
        }
        self.finish()
    }

    fn finish(mut self) -> Result<ExecOutcome> {
        if let Some(error) = self.error {
            return Err(error);
        }
        for (number, strand) in self.strands.iter().enumerate() {
            let id = StrandId(number as u32);
            let counts = match self.graph.strands()[number] {
                None => true,
                Some(choice) => match self.outcome.chosen[choice.index()] {
                    Some(chosen) => chosen == id,
                    None => self.schedule.choice(choice.index()).first() == Some(&id),
                },
            };
            if counts && (strand.failed || strand.left > 0) {
                self.outcome.unfinished.push(id);
            }
        }
        let explained = self.outcome.cancelled || !self.outcome.faults.is_empty();
        if let (Some(first), false) = (self.outcome.unfinished.first(), explained) {
            return Err(Error::Internal(format!(
                "the graph is deadlocked: {} strands are unfinished (the first is strand {}) and nothing is in flight",
                self.outcome.unfinished.len(),
                first.0
            )));
        }
        Ok(self.outcome)
    }
}

fn device_state<'run>(device: &(dyn Device<'run> + '_)) -> DeviceState {
    let description = device.describe();
    let lanes = description.lanes.iter();
    DeviceState {
        stream_ordered: description.stream_ordered,
        dead: false,
        lanes: lanes.map(|lane| Lane { kind: lane.kind, depth: lane.depth.max(1), load: 0 }).collect(),
        in_flight: HashMap::new(),
        link_bytes: 0,
    }
}
