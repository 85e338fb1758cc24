//! The floating tail: choices, each taken by the device that is free first.
//!
//! Accelerators take choices from the first upward, the host from the last downward, so that they meet somewhere. A
//! device takes one only when nothing of its own waits for what the choice would need first.

use super::Schedule;
use super::coordinator::{Coordinator, LANE_KINDS, State, queue_of};
use super::schedule::lane_kind;
use crate::graph::{DeviceId, Graph, PoolId, StrandId, TaskId};

/// A lane counts as free for a choice while it has fewer operations than this: one under way, one behind it.
const LANE_AHEAD: usize = 2;

/// What a strand needs first.
#[derive(Debug, Clone, Copy)]
enum Need {
    Slot(PoolId),
    Lane(usize),
}

/// Which choices are open, and who still has work of its own.
#[derive(Debug)]
pub(super) struct Choices {
    open: usize,
    /// For each device its strands of choices, in the order in which it would take them.
    offers: Vec<Vec<StrandId>>,
    /// For each device the first of its offers that may still be open.
    next: Vec<usize>,
    /// Strands that must run and have not begun, by the pool they need first.
    waiting_for_slot: Vec<u32>,
    /// Strands that must run and have not begun, by the queue they need first.
    waiting_for_lane: Vec<u32>,
}

impl Choices {
    pub(super) fn new(graph: &Graph, schedule: &Schedule, devices: usize) -> Self {
        let mut choices = Self {
            open: graph.choices(),
            offers: vec![Vec::new(); devices],
            next: vec![0; devices],
            waiting_for_slot: vec![0; graph.pools().len()],
            waiting_for_lane: vec![0; devices * LANE_KINDS],
        };
        if choices.open == 0 {
            return choices;
        }
        for (strand, choice) in graph.strands().iter().enumerate() {
            if choice.is_none()
                && let Some(entry) = schedule.entries[strand]
            {
                *choices.waiting(need(graph, entry)) += 1;
            }
        }
        for choice in 0..graph.choices() {
            for &strand in schedule.choice(choice) {
                choices.offers[schedule.strand_devices[strand.index()].index()].push(strand);
            }
        }
        if let Some(host) = choices.offers.first_mut() {
            host.reverse();
        }
        choices
    }

    fn waiting(&mut self, need: Need) -> &mut u32 {
        match need {
            Need::Slot(pool) => &mut self.waiting_for_slot[pool.index()],
            Need::Lane(queue) => &mut self.waiting_for_lane[queue],
        }
    }
}

fn need(graph: &Graph, entry: TaskId) -> Need {
    let task = &graph.tasks()[entry.index()];
    match task.takes {
        Some(pool) => Need::Slot(pool),
        None => Need::Lane(queue_of(task.device, lane_kind(task.kind))),
    }
}

impl Coordinator<'_, '_, '_> {
    /// Notes that a strand begins, or never will.
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

    /// Lets each device that is free take the next choice; says whether any did.
    pub(super) fn claim(&mut self) -> bool {
        if self.choices.open == 0 {
            return false;
        }
        let mut any = false;
        for device in 0..self.stations.len() {
            if let Some(strand) = self.next_offer(device)
                && self.could_begin(strand, true)
            {
                self.choose(strand);
                any = true;
            }
        }
        any
    }

    /// Takes any choice that could begin, whoever else waits: for when nothing is under way.
    pub(super) fn claim_anything(&mut self) -> bool {
        if self.choices.open == 0 {
            return false;
        }
        for device in 0..self.stations.len() {
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
                let mut lanes = self.stations[device.index()].lanes.iter();
                lanes.any(|lane| {
                    queue_of(device, lane.kind) == queue && lane.load < lane.depth.min(LANE_AHEAD)
                })
            }
        }
    }

    /// The strand takes its choice; the others are skipped for good.
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
