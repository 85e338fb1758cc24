//! Slots: who holds which, who waits for one, and who used each last.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::device::Fence;
use crate::graph::{DeviceId, Graph, PoolId, StrandId, TaskId};

/// The slots that a strand holds.
#[derive(Debug, Clone, Default)]
pub struct HeldSlots {
    held: Vec<(PoolId, u32)>,
    /// Slots that a task under way will give back: what the strand submits after it no longer uses them.
    leaving: Vec<(TaskId, PoolId, u32)>,
}

impl HeldSlots {
    /// The number of the slot of `pool`, below the pool's number of slots.
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
    /// Ranks of tasks that are ready but for a slot.
    waiting: BinaryHeap<Reverse<u32>>,
}

/// The slots of all pools. No slot is ever held twice.
#[derive(Debug)]
pub(super) struct Slots {
    pools: Vec<PoolState>,
    strands: Vec<HeldSlots>,
    /// Lists of strands that hold nothing any more, to be used again.
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

    /// Gives a free slot to `strand` and adds to `waits` the operations on `device` that used it before.
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

    /// Notes that an operation of `strand` uses the slots it holds.
    pub(super) fn used(&mut self, strand: StrandId, device: DeviceId, fence: Fence) {
        for &(pool, slot) in &self.strands[strand.index()].held {
            self.pools[pool.index()].users[slot as usize].push((device, fence));
        }
    }

    /// Notes that `giver`, the last user of the strand's slot of `pool`, is on its way.
    pub(super) fn leave(&mut self, pool: PoolId, strand: StrandId, giver: TaskId) {
        let slots = &mut self.strands[strand.index()];
        if let Some(at) = slots.held.iter().position(|(of, _)| *of == pool) {
            let (_, slot) = slots.held.swap_remove(at);
            slots.leaving.push((giver, pool, slot));
        }
    }

    /// Takes back the slot that `giver` was the last to use; `false` where there is none.
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

    /// Takes back one of the slots of a strand that stopped, whoever was to give it.
    pub(super) fn give_any(&mut self, strand: StrandId) -> Option<PoolId> {
        let slots = &mut self.strands[strand.index()];
        let (pool, slot) =
            slots.held.pop().or_else(|| slots.leaving.pop().map(|(_, pool, slot)| (pool, slot)))?;
        self.pools[pool.index()].free.push(slot);
        Some(pool)
    }

    /// Whether the strand keeps any slot from the others.
    pub(super) fn holds_any(&self, strand: StrandId) -> bool {
        let slots = &self.strands[strand.index()];
        !slots.held.is_empty() || !slots.leaving.is_empty()
    }

    /// Lets the task of that rank wait for a slot.
    pub(super) fn park(&mut self, pool: PoolId, rank: u32) {
        self.pools[pool.index()].waiting.push(Reverse(rank));
    }

    /// The best of those that wait, which then no longer waits.
    pub(super) fn unpark(&mut self, pool: PoolId) -> Option<u32> {
        self.pools[pool.index()].waiting.pop().map(|Reverse(rank)| rank)
    }
}
