//! The allocations of a device by number. A number is never used twice, and freed allocations take no room.

use std::collections::HashMap;

use super::Memory;

/// The allocations of a device.
#[derive(Debug)]
pub struct Memories<M> {
    next: u32,
    held: HashMap<u32, M>,
}

impl<M> Default for Memories<M> {
    fn default() -> Self {
        Self { next: 0, held: HashMap::new() }
    }
}

impl<M> Memories<M> {
    /// Adds an allocation under the next number.
    pub fn add(&mut self, memory: M) -> Memory {
        let number = self.next;
        self.next += 1;
        self.held.insert(number, memory);
        Memory(number)
    }

    /// An allocation that is not freed.
    pub fn get(&self, memory: Memory) -> Option<&M> {
        self.held.get(&memory.0)
    }

    /// Number of allocations that are not freed.
    #[cfg(feature = "emulator")]
    pub fn len(&self) -> usize {
        self.held.len()
    }

    /// Takes an allocation out.
    pub fn remove(&mut self, memory: Memory) -> Option<M> {
        self.held.remove(&memory.0)
    }
}
