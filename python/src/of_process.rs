//! A value that only the process that made it can use.
//!
//! A forked child has none of the threads of its parent, and MPI forbids it to send messages. There, the value is neither used nor
//! dropped.

use std::mem::ManuallyDrop;
use std::process;

use rowloom::{Error, Result};

/// A value of one process.
pub struct OfProcess<V> {
    process: u32,
    value: ManuallyDrop<V>,
}

impl<V> OfProcess<V> {
    /// A value of this process.
    pub fn new(value: V) -> Self {
        Self { process: process::id(), value: ManuallyDrop::new(value) }
    }

    /// The value; an error in a forked child.
    pub fn get(&self) -> Result<&V> {
        if self.process == process::id() {
            return Ok(&self.value);
        }
        Err(Error::usage("the operator belongs to a rank of an MPI job; a forked child cannot use it"))
    }
}

impl<V> Drop for OfProcess<V> {
    fn drop(&mut self) {
        if self.process == process::id() {
            // Safety: the value is not used again.
            unsafe { ManuallyDrop::drop(&mut self.value) }
        }
    }
}
