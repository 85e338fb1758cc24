//! Slot pools: which strand holds which slot, which tasks wait for one, and which operations used each slot last.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::device::Fence;
use crate::graph::{DeviceId, Graph, PoolId, StrandId, TaskId};

/// The slots that a strand holds.
#[derive(Debug, Clone, Default)]
pub struct HeldSlots {
    held: Vec<(PoolId, u32)>,
    /// Slots that a task in flight will release. Later tasks of the strand do not use them.
    leaving: Vec<(TaskId, PoolId, u32)>,
}

impl HeldSlots {
    /// The slot of `pool` that is held, by its number in the pool.
    pub fn of(&self, pool: PoolId) -> Option<u32> {
        self.held.iter().find(|(of, _)| *of == pool).map(|(_, slot)| *slot)
    }
}

#[derive(Debug)]
struct PoolState {
    slots: u32,
    free: Vec<u32>,
    /// For each slot the operations of its last holder.
    users: Vec<Vec<(DeviceId, Fence)>>,
    /// Ranks of ready tasks that wait for a slot.
    waiting: BinaryHeap<Reverse<u32>>,
}

/// The slots of all pools. Each slot has at most one holder.
#[derive(Debug)]
pub(super) struct Slots {
    pools: Vec<PoolState>,
    strands: Vec<HeldSlots>,
    /// Empty lists for reuse.
    spare: Vec<HeldSlots>,
}

impl Slots {
    pub(super) fn new(graph: &Graph) -> Self {
        let pools = graph.pools().iter().map(|pool| PoolState {
            slots: pool.slots,
            free: (0..pool.slots).rev().collect(),
            users: vec![Vec::new(); pool.slots as usize],
            waiting: BinaryHeap::new(),
        });
        Self {
            pools: pools.collect(),
            strands: vec![HeldSlots::default(); graph.strands().len()],
            spare: Vec::new(),
        }
    }

    pub(super) fn has_free(&self, pool: PoolId) -> bool {
        !self.pools[pool.index()].free.is_empty()
    }

    pub(super) fn in_use(&self, pool: PoolId) -> u64 {
        let state = &self.pools[pool.index()];
        u64::from(state.slots) - state.free.len() as u64
    }

    pub(super) fn held(&self, strand: StrandId) -> &HeldSlots {
        &self.strands[strand.index()]
    }

    /// Assigns a free slot to `strand` and adds to `waits` the operations on `device` that used the slot before.
    pub(super) fn take(&mut self, pool: PoolId, strand: StrandId, device: DeviceId, waits: &mut Vec<Fence>) {
        let state = &mut self.pools[pool.index()];
        let Some(slot) = state.free.pop() else { return };
        let users = &mut state.users[slot as usize];
        waits.extend(users.iter().filter(|(at, _)| *at == device).map(|(_, fence)| *fence));
        users.clear();
        let slots = &mut self.strands[strand.index()];
        if slots.held.capacity() == 0 {
            *slots = self.spare.pop().unwrap_or_default();
        }
        slots.held.push((pool, slot));
    }

    /// Records that an operation of `strand` uses the slots that the strand holds.
    pub(super) fn used(&mut self, strand: StrandId, device: DeviceId, fence: Fence) {
        for &(pool, slot) in &self.strands[strand.index()].held {
            self.pools[pool.index()].users[slot as usize].push((device, fence));
        }
    }

    /// Records that `giver`, the last user of the strand's slot of `pool`, was submitted.
    pub(super) fn leave(&mut self, pool: PoolId, strand: StrandId, giver: TaskId) {
        let slots = &mut self.strands[strand.index()];
        if let Some(at) = slots.held.iter().position(|(of, _)| *of == pool) {
            let (_, slot) = slots.held.swap_remove(at);
            slots.leaving.push((giver, pool, slot));
        }
    }

    /// Frees the slot whose last user is `giver`. Returns `false` if there is none.
    pub(super) fn give(&mut self, strand: StrandId, giver: TaskId) -> bool {
        let slots = &mut self.strands[strand.index()];
        let Some(at) = slots.leaving.iter().position(|(by, ..)| *by == giver) else { return false };
        let (_, pool, slot) = slots.leaving.swap_remove(at);
        self.pools[pool.index()].free.push(slot);
        if slots.leaving.is_empty() && slots.held.is_empty() {
            self.spare.push(std::mem::take(slots));
        }
        true
    }

    /// Frees one of the slots of a stopped strand.
    pub(super) fn give_any(&mut self, strand: StrandId) -> Option<PoolId> {
        let slots = &mut self.strands[strand.index()];
        let (pool, slot) =
            slots.held.pop().or_else(|| slots.leaving.pop().map(|(_, pool, slot)| (pool, slot)))?;
        self.pools[pool.index()].free.push(slot);
        Some(pool)
    }

    /// Whether the strand holds any slot.
    pub(super) fn holds_any(&self, strand: StrandId) -> bool {
        let slots = &self.strands[strand.index()];
        !slots.held.is_empty() || !slots.leaving.is_empty()
    }

    /// Adds the task with that rank to the waiting list.
    pub(super) fn park(&mut self, pool: PoolId, rank: u32) {
        self.pools[pool.index()].waiting.push(Reverse(rank));
    }

    /// For each pool the rank of the first task that waits for a slot.
    pub(super) fn first_waiting(&self) -> impl Iterator<Item = u32> + '_ {
        self.pools.iter().filter_map(|pool| pool.waiting.peek().map(|Reverse(rank)| *rank))
    }

    /// Removes and returns the highest-ranked waiting task.
    pub(super) fn unpark(&mut self, pool: PoolId) -> Option<u32> {
        self.pools[pool.index()].waiting.pop().map(|Reverse(rank)| rank)
    }
}
