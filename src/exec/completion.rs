//! Handles completions: from submitted to done.

use super::coordinator::{Coordinator, State};
use super::schedule::queue_of;
use super::{Counter, Record};
use crate::device::Completion;
use crate::graph::{PoolId, StrandId};

impl Coordinator<'_, '_, '_> {
    /// Processes a completion. Completions of unknown operations are ignored.
    pub(super) fn complete(&mut self, completion: Completion) {
        let device = completion.device;
        let Some(device_state) = self.device_states.get_mut(device.index()) else { return };
        let Some((task, lane)) = device_state.in_flight.remove(&completion.fence) else { return };
        let at = *self.task(task);
        let device_state = &mut self.device_states[device.index()];
        device_state.lanes[lane as usize].load -= 1;
        device_state.link_bytes -= at.demand.link_bytes;
        let (kind, link_bytes) = (device_state.lanes[lane as usize].kind, device_state.link_bytes);
        self.list(queue_of(device, kind));
        self.in_flight -= 1;
        self.progressed = true;
        if at.demand.link_bytes > 0 {
            self.sample(completion.end_ns, Counter::LinkBytes(device), link_bytes);
        }
        self.strands[at.strand.index()].in_flight -= 1;
        match completion.result {
            Err(fault) => self.fail(task, fault),
            Ok(()) => {
                let Completion { start_ns, end_ns, .. } = completion;
                self.outcome.records.push(Record { task, lane, start_ns, end_ns });
                if self.strands[at.strand.index()].failed {
                    self.states[task.index()] = State::Dropped;
                } else {
                    self.states[task.index()] = State::Done;
                    self.strands[at.strand.index()].left -= 1;
                    if let Some(pool) = at.gives
                        && self.slots.give(at.strand, task)
                    {
                        self.given(pool, end_ns);
                    }
                    let graph = self.graph;
                    let ordered_by_device = self.device_states[device.index()].stream_ordered;
                    for &later in graph.successors(task) {
                        if !ordered_by_device || graph.tasks()[later.index()].device != device {
                            self.satisfy(later);
                        }
                    }
                }
            }
        }
        self.release(at.strand, completion.end_ns);
    }

    /// Releases all slots of a stopped strand once none of its operations is in flight.
    pub(super) fn release(&mut self, strand: StrandId, at_ns: u64) {
        let state = self.strands[strand.index()];
        if !state.failed || state.hung || state.in_flight > 0 {
            return;
        }
        while let Some(pool) = self.slots.give_any(strand) {
            self.given(pool, at_ns);
        }
    }

    /// Records that a slot became free and requeues a waiting task.
    fn given(&mut self, pool: PoolId, at_ns: u64) {
        self.sample(at_ns, Counter::Slots(pool), self.slots.in_use(pool));
        self.wake(pool);
    }
}
