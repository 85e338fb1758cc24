//! The coordinator's state and its loop.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::sync::atomic::Ordering;
use std::time::Instant;

use crossbeam::channel::Receiver;

use super::choices::Choices;
use super::schedule::LANE_KINDS;
use super::schedule::lane_kind;
use super::slots::Slots;
use super::{Binder, ExecOptions, Outcome, Schedule};
use crate::device::{Completion, Device, Fence, LaneKind};
use crate::error::{Error, Result};
use crate::graph::{Graph, StrandId, Task, TaskId};

/// Where a task stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// For something before it, or for its choice.
    Waiting,
    /// For a slot or a lane.
    Ready,
    /// On a lane.
    Submitted,
    /// Ended well.
    Done,
    /// Failed, or will never start.
    Dropped,
    /// Of a strand whose choice another one took; counts as done.
    Skipped,
}

/// What is known of a strand.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Strand {
    /// Operations on lanes.
    pub(super) in_flight: u32,
    /// Tasks that are not done.
    pub(super) left: u32,
    /// Whether anything of it was ever submitted.
    pub(super) started: bool,
    /// Whether it stopped for good.
    pub(super) failed: bool,
    /// Whether some operation of it never ended: its slots cannot be used again.
    pub(super) hung: bool,
}

/// What is known of a lane.
#[derive(Debug, Clone)]
pub(super) struct Lane {
    pub(super) kind: LaneKind,
    pub(super) depth: usize,
    pub(super) load: usize,
}

/// What is known of a device.
#[derive(Debug)]
pub(super) struct DeviceState {
    pub(super) stream_ordered: bool,
    pub(super) dead: bool,
    pub(super) lanes: Vec<Lane>,
    pub(super) in_flight: HashMap<Fence, (TaskId, u32)>,
    pub(super) link_bytes: u64,
}

/// Ready tasks for the lanes of one kind on one device.
#[derive(Debug, Default)]
pub(super) struct Queue {
    /// By rank.
    pub(super) ready: BinaryHeap<Reverse<u32>>,
    /// Whether it is on the list of queues to be looked at.
    pub(super) listed: bool,
}

pub(super) struct Coordinator<'a, 'd, 'run> {
    pub(super) graph: &'a Graph,
    pub(super) schedule: &'a Schedule,
    pub(super) devices: &'a mut [&'d mut dyn Device<'run>],
    pub(super) completions: &'a Receiver<Completion>,
    pub(super) binder: &'a mut dyn Binder<'run>,
    pub(super) options: &'a ExecOptions<'a>,
    pub(super) states: Vec<State>,
    /// For each task the edges into it that are not satisfied.
    pub(super) missing: Vec<u32>,
    pub(super) fences: Vec<Fence>,
    pub(super) strands: Vec<Strand>,
    pub(super) device_states: Vec<DeviceState>,
    pub(super) queues: Vec<Queue>,
    pub(super) to_serve: Vec<usize>,
    pub(super) slots: Slots,
    pub(super) choices: Choices,
    /// Operations on lanes.
    pub(super) in_flight: usize,
    /// When the coordinator last began to wait after a device had been heard of.
    pub(super) last_progress: Instant,
    /// Whether a device was heard of since then.
    pub(super) progressed: bool,
    /// What ends the run once nothing is under way.
    pub(super) error: Option<Error>,
    pub(super) outcome: Outcome,
    /// Fences of the submission in the making.
    pub(super) waits: Vec<Fence>,
}

impl<'a, 'd, 'run> Coordinator<'a, 'd, 'run> {
    pub(super) fn new(
        graph: &'a Graph,
        schedule: &'a Schedule,
        devices: &'a mut [&'d mut dyn Device<'run>],
        completions: &'a Receiver<Completion>,
        binder: &'a mut dyn Binder<'run>,
        options: &'a ExecOptions<'a>,
    ) -> Result<Self> {
        if schedule.indegrees.len() != graph.tasks().len() {
            return Err(Error::Internal("the schedule was made of another graph".into()));
        }
        if devices.is_empty() {
            return Err(Error::Internal("there is no device, not even the host".into()));
        }
        let device_states: Vec<DeviceState> = devices.iter().map(|device| device_state(&**device)).collect();
        for (number, task) in graph.tasks().iter().enumerate() {
            let kind = lane_kind(task.kind);
            let lanes =
                device_states.get(task.device.index()).map_or(&[][..], |device_state| &device_state.lanes);
            if !lanes.iter().any(|lane| lane.kind == kind) {
                return Err(Error::Internal(format!(
                    "task {number} ({}) is for device {}, which has no lane for it",
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
            to_serve: Vec::new(),
            slots: Slots::new(graph),
            choices: Choices::new(graph, schedule, device_states.len()),
            device_states,
            devices,
            in_flight: 0,
            last_progress: Instant::now(),
            progressed: true,
            error: None,
            outcome: Outcome {
                records: Vec::with_capacity(count),
                chosen: vec![None; graph.choices()],
                ..Outcome::default()
            },
            waits: Vec::new(),
        })
    }

    pub(super) fn task(&self, task: TaskId) -> &'a Task {
        &self.graph.tasks()[task.index()]
    }

    pub(super) fn run(mut self) -> Result<Outcome> {
        // Ends of an earlier run, which nobody waits for.
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
                self.wait()?;
            } else if stopping || self.error.is_none() && !self.claim_any() {
                break;
            }
        }
        self.finish()
    }

    fn finish(mut self) -> Result<Outcome> {
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
        let excused = self.outcome.cancelled || !self.outcome.faults.is_empty();
        if let (Some(first), false) = (self.outcome.unfinished.first(), excused) {
            return Err(Error::Internal(format!(
                "the graph cannot go on: {} strands are unfinished, the first of them number {}, and nothing is under way",
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
