//! Slots: who holds which, who waits for one, and who used each last.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::device::Fence;
use crate::graph::{DeviceId, Graph, PoolId, StrandId};

/// The slots that a strand holds.
#[derive(Debug, Clone, Default)]
pub struct HeldSlots {
    held: Vec<(PoolId, u32)>,
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
    spare: Vec<Vec<(PoolId, u32)>>,
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
        let held = &mut self.strands[strand.index()].held;
        if held.capacity() == 0 {
            *held = self.spare.pop().unwrap_or_default();
        }
        held.push((pool, slot));
    }

    /// Notes that an operation of `strand` uses the slots it holds.
    pub(super) fn used(&mut self, strand: StrandId, device: DeviceId, fence: Fence) {
        for &(pool, slot) in &self.strands[strand.index()].held {
            self.pools[pool.index()].users[slot as usize].push((device, fence));
        }
    }

    /// Takes the strand's slot of `pool` back; `false` where it held none.
    pub(super) fn give(&mut self, pool: PoolId, strand: StrandId) -> bool {
        let held = &mut self.strands[strand.index()].held;
        let Some(at) = held.iter().position(|(of, _)| *of == pool) else { return false };
        let (_, slot) = held.swap_remove(at);
        self.pools[pool.index()].free.push(slot);
        if held.is_empty() {
            self.spare.push(std::mem::take(held));
        }
        true
    }

    /// A pool of which `strand` holds a slot.
    pub(super) fn any_held(&self, strand: StrandId) -> Option<PoolId> {
        self.strands[strand.index()].held.first().map(|(pool, _)| *pool)
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
