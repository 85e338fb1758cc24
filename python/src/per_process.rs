//! A value of each process: a forked child starts with a new one.
//!
//! A child has none of its parent's threads, and a lock that one of them held stays locked. The parent's value therefore is neither
//! used nor dropped in the child.

use std::process;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};

/// A value that is made when a process first uses it.
pub struct PerProcess<V> {
    slot: AtomicPtr<Slot<V>>,
}

struct Slot<V> {
    process: u32,
    value: V,
}

impl<V: Default> PerProcess<V> {
    /// No value yet.
    pub const fn new() -> Self {
        Self { slot: AtomicPtr::new(null_mut()) }
    }

    /// The value of this process.
    pub fn get(&self) -> &V {
        let process = process::id();
        let mut present = self.slot.load(Ordering::Acquire);
        loop {
            // Safety: a slot is freed only in `drop`, which has the object for itself.
            if let Some(slot) = unsafe { present.as_ref() }
                && slot.process == process
            {
                return &slot.value;
            }
            let new = Box::into_raw(Box::new(Slot { process, value: V::default() }));
            // The slot of the parent, if there is one, is leaked.
            match self.slot.compare_exchange(present, new, Ordering::AcqRel, Ordering::Acquire) {
                // Safety: as above.
                Ok(_) => return unsafe { &(*new).value },
                Err(other) => {
                    // Safety: another thread was first, so nothing refers to the new slot.
                    drop(unsafe { Box::from_raw(new) });
                    present = other;
                }
            }
        }
    }
}

impl<V> Drop for PerProcess<V> {
    fn drop(&mut self) {
        let slot = *self.slot.get_mut();
        // Safety: the slot was made by `Box::into_raw`, and nothing refers to it any more.
        if !slot.is_null() && unsafe { (*slot).process } == process::id() {
            drop(unsafe { Box::from_raw(slot) });
        }
    }
}

// Safety: the value is reached by shared references from all threads, and dropped by one.
unsafe impl<V: Send + Sync> Sync for PerProcess<V> {}
unsafe impl<V: Send + Sync> Send for PerProcess<V> {}
