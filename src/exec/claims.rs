//! Dynamic load balancing at the end of a run: each choice is taken by the first device with free capacity.
//!
//! Accelerators take choices in ascending order, the host in descending order. A device takes a choice only if none of
//! its mandatory strands waits for the resource that the choice needs first.

use super::choices::{Need, need};
use super::coordinator::{Coordinator, State};
use super::schedule::{LANE_KINDS, queue_of};
use crate::graph::{DeviceId, StrandId};

/// A lane can take a choice while it has fewer operations than this: one running and one queued.
const LANE_AHEAD: usize = 2;

impl Coordinator<'_, '_, '_> {
    /// Marks a strand as started, or as never to be started.
    pub(super) fn begin_strand(&mut self, strand: StrandId) {
        if self.choices.open == 0 || std::mem::replace(&mut self.strands[strand.index()].started, true) {
            return;
        }
        let counted = match self.graph.strands()[strand.index()] {
            None => true,
            Some(choice) => self.outcome.chosen[choice.index()] == Some(strand),
        };
        if let (true, Some(entry)) = (counted, self.schedule.entries[strand.index()]) {
            *self.choices.waiting(need(self.graph, entry)) -= 1;
        }
    }

    /// Lets each device with free capacity take its next choice. Returns whether any did.
    pub(super) fn claim(&mut self) -> bool {
        if self.choices.open == 0 {
            return false;
        }
        let mut any = false;
        for device in 0..self.device_states.len() {
            if let Some(strand) = self.next_offer(device)
                && self.could_begin(strand, true)
            {
                self.choose(strand);
                any = true;
            }
        }
        any
    }

    /// Takes any choice that can start, regardless of waiting strands. Called when nothing is in flight.
    pub(super) fn claim_any(&mut self) -> bool {
        if self.choices.open == 0 {
            return false;
        }
        for device in 0..self.device_states.len() {
            for at in self.choices.next[device]..self.choices.offers[device].len() {
                let strand = self.choices.offers[device][at];
                if self.is_open(strand) && self.could_begin(strand, false) {
                    self.choose(strand);
                    return true;
                }
            }
        }
        false
    }

    fn is_open(&self, strand: StrandId) -> bool {
        let choice = self.graph.strands()[strand.index()];
        !self.strands[strand.index()].failed
            && choice.is_some_and(|choice| self.outcome.chosen[choice.index()].is_none())
    }

    fn next_offer(&mut self, device: usize) -> Option<StrandId> {
        loop {
            let strand = *self.choices.offers[device].get(self.choices.next[device])?;
            if self.is_open(strand) {
                return Some(strand);
            }
            self.choices.next[device] += 1;
        }
    }

    fn could_begin(&mut self, strand: StrandId, after_own: bool) -> bool {
        let Some(entry) = self.schedule.entries[strand.index()] else { return true };
        if self.missing[entry.index()] > 0 {
            return false;
        }
        let need = need(self.graph, entry);
        if after_own && *self.choices.waiting(need) > 0 {
            return false;
        }
        match need {
            Need::Slot(pool) => self.slots.has_free(pool),
            Need::Lane(queue) => {
                let device = DeviceId((queue / LANE_KINDS) as u32);
                let mut lanes = self.device_states[device.index()].lanes.iter();
                lanes.any(|lane| {
                    queue_of(device, lane.kind) == queue && lane.load < lane.depth.min(LANE_AHEAD)
                })
            }
        }
    }

    /// Assigns the strand's choice to it; the choice's other strands are skipped.
    fn choose(&mut self, strand: StrandId) {
        let Some(choice) = self.graph.strands()[strand.index()] else { return };
        self.choices.open -= 1;
        let (graph, schedule) = (self.graph, self.schedule);
        self.outcome.chosen[choice.index()] = Some(strand);
        if let Some(entry) = schedule.entries[strand.index()] {
            *self.choices.waiting(need(graph, entry)) += 1;
        }
        for &other in schedule.choice(choice.index()) {
            if other == strand {
                continue;
            }
            for &task in schedule.strand(other) {
                self.states[task.index()] = State::Skipped;
            }
            for &task in schedule.strand(other) {
                for &later in graph.successors(task) {
                    self.satisfy(later);
                }
            }
        }
        for &task in schedule.strand(strand) {
            if self.missing[task.index()] == 0 {
                self.make_ready(task);
            }
        }
    }
}
