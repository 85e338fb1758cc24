//! State of the choices (chunks that several devices may take): which are open, and which devices have other work first.

use super::TaskSchedule;
use super::schedule::{LANE_KINDS, lane_kind, queue_of};
use crate::graph::{Graph, PoolId, StrandId, TaskId};

/// The first resource that a strand needs.
#[derive(Debug, Clone, Copy)]
pub(super) enum Need {
    Slot(PoolId),
    Lane(usize),
}

/// The open choices, and the number of unstarted mandatory strands per resource.
#[derive(Debug)]
pub(super) struct Choices {
    pub(super) open: usize,
    /// For each device its strands of choices, in the order in which it takes them.
    pub(super) offers: Vec<Vec<StrandId>>,
    /// For each device the index of its first offer that may still be open.
    pub(super) next: Vec<usize>,
    /// Number of unstarted mandatory strands, by the slot pool they need first.
    waiting_for_slot: Vec<u32>,
    /// Number of unstarted mandatory strands, by the queue they need first.
    waiting_for_lane: Vec<u32>,
}

impl Choices {
    pub(super) fn new(graph: &Graph, schedule: &TaskSchedule, devices: usize) -> Self {
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

    /// Number of unstarted mandatory strands that need `need` first.
    pub(super) fn waiting(&mut self, need: Need) -> &mut u32 {
        match need {
            Need::Slot(pool) => &mut self.waiting_for_slot[pool.index()],
            Need::Lane(queue) => &mut self.waiting_for_lane[queue],
        }
    }
}

/// The first resource that the strand starting with `entry` needs.
pub(super) fn need(graph: &Graph, entry: TaskId) -> Need {
    let task = &graph.tasks()[entry.index()];
    match task.takes {
        Some(pool) => Need::Slot(pool),
        None => Need::Lane(queue_of(task.device, lane_kind(task.kind))),
    }
}
