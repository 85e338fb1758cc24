//! Submits ready tasks: queues, slots and lanes.

use std::cmp::Reverse;

use super::coordinator::{Coordinator, State};
use super::schedule::{lane_kind, queue_of};
use super::{Counter, Sample};
use crate::graph::{PoolId, TaskId};

impl Coordinator<'_, '_, '_> {
    /// Submits every task that can be submitted, and lets devices with free capacity take choices.
    pub(super) fn dispatch(&mut self) {
        loop {
            while let Some(queue) = self.to_serve.pop_back() {
                self.queues[queue].listed = false;
                self.serve(queue);
                if self.error.is_some() {
                    return;
                }
            }
            if !self.claim() {
                return;
            }
        }
    }

    /// Marks one incoming edge of `task` as satisfied.
    pub(super) fn satisfy(&mut self, task: TaskId) {
        let missing = &mut self.missing[task.index()];
        *missing -= 1;
        if *missing == 0 {
            self.make_ready(task);
        }
    }

    /// Queues a task whose edges are all satisfied, unless its choice is open or another strand's.
    pub(super) fn make_ready(&mut self, task: TaskId) {
        let at = self.task(task);
        let may_run = match self.graph.strands()[at.strand.index()] {
            None => true,
            Some(choice) => self.outcome.chosen[choice.index()] == Some(at.strand),
        };
        if may_run && self.states[task.index()] == State::Waiting {
            self.states[task.index()] = State::Ready;
            self.enqueue(task);
        }
    }

    fn enqueue(&mut self, task: TaskId) {
        let at = self.task(task);
        let queue = queue_of(at.device, lane_kind(at.kind));
        self.queues[queue].ready.push(Reverse(self.schedule.ranks[task.index()]));
        self.list(queue);
    }

    /// Puts the queue on the list of queues to serve.
    pub(super) fn list(&mut self, queue: usize) {
        if !self.queues[queue].listed {
            self.queues[queue].listed = true;
            self.to_serve.push_back(queue);
        }
    }

    /// Requeues the highest-ranked task that waits for a slot of `pool`, if a slot is free.
    pub(super) fn wake(&mut self, pool: PoolId) {
        if !self.slots.has_free(pool) {
            return;
        }
        while let Some(rank) = self.slots.unpark(pool) {
            let task = self.schedule.by_rank[rank as usize];
            if self.states[task.index()] == State::Ready {
                self.enqueue(task);
                return;
            }
        }
    }

    /// The least loaded lane below its depth that can run `task`.
    fn free_lane(&self, task: TaskId) -> Option<usize> {
        let at = self.task(task);
        let kind = lane_kind(at.kind);
        let lanes = self.device_states[at.device.index()].lanes.iter().enumerate();
        let free = lanes.filter(|(_, lane)| lane.kind == kind && lane.load < lane.depth);
        free.min_by_key(|(_, lane)| lane.load).map(|(number, _)| number)
    }

    /// Whether a task with an earlier turn waits for a slot in the same queue. A lane without operations is given the task all the
    /// same, since the slot might be released only after it.
    fn would_overtake(&self, task: TaskId, lane: usize, queue: usize) -> bool {
        let at = self.task(task);
        if at.turn == 0 || self.device_states[at.device.index()].lanes[lane].load == 0 {
            return false;
        }
        self.slots.first_waiting().any(|rank| {
            let waiting = self.task(self.schedule.by_rank[rank as usize]);
            waiting.turn < at.turn && queue_of(waiting.device, lane_kind(waiting.kind)) == queue
        })
    }

    fn serve(&mut self, queue: usize) {
        while let Some(&Reverse(rank)) = self.queues[queue].ready.peek() {
            let task = self.schedule.by_rank[rank as usize];
            let takes = self.task(task).takes;
            if self.states[task.index()] != State::Ready {
                self.queues[queue].ready.pop();
                // It may have been requeued for a free slot, which the next waiting task can use instead.
                if let Some(pool) = takes {
                    self.wake(pool);
                }
                continue;
            }
            let Some(lane) = self.free_lane(task) else { return };
            if self.would_overtake(task, lane, queue) {
                // The queue is served again when an operation of the lane completes or a slot becomes free.
                return;
            }
            self.queues[queue].ready.pop();
            match takes {
                Some(pool) if !self.slots.has_free(pool) => self.slots.park(pool, rank),
                _ => {
                    self.submit(task, lane);
                    self.serve_last(queue);
                    return;
                }
            }
        }
    }

    /// Lists a queue behind all others: a kernel is submitted after its own upload and not after the uploads of all chunks, since a
    /// device takes some microseconds to accept each.
    fn serve_last(&mut self, queue: usize) {
        let has_more = !self.queues[queue].ready.is_empty();
        if self.error.is_none() && has_more && !self.queues[queue].listed {
            self.queues[queue].listed = true;
            self.to_serve.push_front(queue);
        }
    }

    fn submit(&mut self, task: TaskId, lane: usize) {
        let at = *self.task(task);
        let (graph, device) = (self.graph, at.device.index());
        self.begin_strand(at.strand);
        self.waits.clear();
        for &before in graph.predecessors(task) {
            let ran = matches!(self.states[before.index()], State::Submitted | State::Done);
            if ran && graph.tasks()[before.index()].device == at.device {
                self.waits.push(self.fences[before.index()]);
            }
        }
        let now_ns = self.devices[device].now_ns();
        if let Some(pool) = at.takes {
            self.slots.take(pool, at.strand, at.device, &mut self.waits);
            self.sample(now_ns, Counter::Slots(pool), self.slots.in_use(pool));
        }
        let operation = match self.binder.operation(task, self.slots.held(at.strand)) {
            Ok(operation) => operation,
            Err(error) => {
                self.error = Some(error);
                return;
            }
        };
        // While nothing is in flight this thread has nothing else to do.
        let operation = if self.in_flight > 0 { operation.on_another_thread() } else { operation };
        match self.devices[device].submit(lane, operation, at.demand, &self.waits) {
            Ok(fence) => {
                self.fences[task.index()] = fence;
                self.states[task.index()] = State::Submitted;
                self.slots.used(at.strand, at.device, fence);
                if let Some(pool) = at.gives {
                    self.slots.leave(pool, at.strand, task);
                }
                self.strands[at.strand.index()].in_flight += 1;
                self.in_flight += 1;
                let device_state = &mut self.device_states[device];
                device_state.in_flight.insert(fence, (task, lane as u32));
                device_state.lanes[lane].load += 1;
                device_state.link_bytes += at.demand.link_bytes;
                let (stream_ordered, link_bytes) = (device_state.stream_ordered, device_state.link_bytes);
                if at.demand.link_bytes > 0 {
                    self.sample(now_ns, Counter::LinkBytes(at.device), link_bytes);
                }
                if stream_ordered {
                    for &later in graph.successors(task) {
                        if graph.tasks()[later.index()].device == at.device {
                            self.satisfy(later);
                        }
                    }
                }
            }
            Err(fault) => self.fail(task, fault),
        }
    }

    pub(super) fn sample(&mut self, at_ns: u64, counter: Counter, value: u64) {
        self.outcome.samples.push(Sample { at_ns, counter, value });
    }
}
