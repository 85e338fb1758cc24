//! Propagation of faults.
//!
//! A fault stops its strand. A stopped strand stops every strand that waits for one of its unfinished tasks. While a
//! choice is open, a stopped strand of it stops no other strand as long as some strand can still take the choice.
//!
//! After a fault nothing waits for messages from other ranks: another rank may send them only after it has received what this one
//! sends once it has recovered.

use super::TaskFault;
use super::coordinator::{Coordinator, State};
use crate::device::Fault;
use crate::graph::{DeviceId, StrandId, TaskId, TaskKind};

impl Coordinator<'_, '_, '_> {
    /// Handles the fault of a task, at submission or completion.
    pub(super) fn fail(&mut self, task: TaskId, fault: Fault) {
        let at = *self.task(task);
        let fatal = fault.closes_device();
        let known = if fatal {
            self.device_states[at.device.index()].dead
        } else {
            self.strands[at.strand.index()].failed
        };
        if !known {
            self.outcome.faults.push(TaskFault { task, device: at.device, fault });
        }
        self.states[task.index()] = State::Dropped;
        self.stop(at.strand);
        if fatal {
            self.mark_dead(at.device);
        }
    }

    /// Marks `device` as dead: it gets no more tasks, and every strand that still needs it stops.
    pub(super) fn mark_dead(&mut self, device: DeviceId) {
        let device_state = &mut self.device_states[device.index()];
        if device_state.dead {
            return;
        }
        device_state.dead = true;
        self.outcome.dead.push(device);
        for (number, task) in self.graph.tasks().iter().enumerate() {
            let over = matches!(self.states[number], State::Done | State::Skipped);
            if task.device == device && !over {
                self.stop(task.strand);
            }
        }
    }

    /// Stops a strand and all strands that wait for it.
    fn stop(&mut self, strand: StrandId) {
        let (graph, schedule) = (self.graph, self.schedule);
        let mut stopping = vec![strand];
        while let Some(strand) = stopping.pop() {
            if std::mem::replace(&mut self.strands[strand.index()].failed, true) {
                continue;
            }
            self.begin_strand(strand);
            for &task in schedule.strand(strand) {
                let state = &mut self.states[task.index()];
                if matches!(state, State::Waiting | State::Ready) {
                    *state = State::Dropped;
                }
            }
            if let Some(choice) = graph.strands()[strand.index()]
                && self.outcome.chosen[choice.index()].is_none()
            {
                let strands = schedule.choice(choice.index());
                if strands.iter().any(|other| !self.strands[other.index()].failed) {
                    continue;
                }
                // No strand can take the choice any more.
                for &other in strands {
                    self.stop_followers(other, &mut stopping);
                }
            } else {
                self.stop_followers(strand, &mut stopping);
            }
            self.release_stopped(strand);
        }
    }

    /// Stops the tasks in flight if a fault has happened and all of them receive messages from other ranks. Their device keeps the
    /// messages for a later run.
    pub(super) fn leave_receives(&mut self) -> bool {
        if self.outcome.faults.is_empty() {
            return false;
        }
        let mut in_flight = self.device_states.iter().flat_map(|state| state.in_flight.values());
        if !in_flight.all(|(task, _)| self.task(*task).kind == TaskKind::Receive) {
            return false;
        }
        for (device, state) in self.devices.iter_mut().zip(&self.device_states) {
            if !state.in_flight.is_empty() && !device.keep_receives() {
                return false;
            }
        }
        while let Ok(completion) = self.completions.try_recv() {
            self.complete(completion);
        }
        for number in 0..self.device_states.len() {
            let left: Vec<TaskId> =
                self.device_states[number].in_flight.drain().map(|(_, (task, _))| task).collect();
            self.in_flight -= left.len();
            for task in left {
                let strand = self.task(task).strand;
                self.strands[strand.index()].in_flight -= 1;
                self.states[task.index()] = State::Dropped;
                self.stop(strand);
            }
        }
        true
    }

    fn stop_followers(&self, strand: StrandId, stopping: &mut Vec<StrandId>) {
        for &task in self.schedule.strand(strand) {
            if self.states[task.index()] == State::Done {
                continue;
            }
            for &later in self.graph.successors(task) {
                let follower = self.task(later).strand;
                if follower != strand && self.states[later.index()] != State::Skipped {
                    stopping.push(follower);
                }
            }
        }
    }

    fn release_stopped(&mut self, strand: StrandId) {
        if !self.slots.holds_any(strand) {
            return;
        }
        let at_ns = self.devices[self.schedule.strand_devices[strand.index()].index()].now_ns();
        self.release(strand, at_ns);
    }
}
