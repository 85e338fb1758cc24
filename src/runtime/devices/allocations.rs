//! The memory that one vector or product has on a device alone.

use std::sync::Arc;

use super::open_device::OpenDevice;
use crate::device::{Fault, Memory, Pinned};

/// The memory of one product or vector on a device. It is freed when this is dropped.
pub struct Allocations {
    device: Arc<OpenDevice>,
    /// Each with its size in bytes.
    memories: Vec<(Memory, u64)>,
}

impl Allocations {
    /// No memory yet.
    pub fn on(device: &Arc<OpenDevice>) -> Self {
        Self { device: device.clone(), memories: Vec::new() }
    }

    /// Allocates device memory. Memory of products that do not run is evicted if there is too little.
    pub fn allocate(&mut self, bytes: u64) -> std::result::Result<Memory, Fault> {
        let memory = self.device.memory().allocate_private(&mut self.device.lock(), bytes)?;
        self.memories.push((memory, bytes));
        Ok(memory)
    }

    /// The device.
    pub fn device(&self) -> &Arc<OpenDevice> {
        &self.device
    }

    /// Allocates page-locked host memory.
    pub fn allocate_pinned(&mut self, bytes: u64) -> std::result::Result<Pinned, Fault> {
        self.device.lock().device().allocate_pinned(bytes)
    }
}

impl Drop for Allocations {
    fn drop(&mut self) {
        let mut device = self.device.lock();
        // A closed device has freed its memory, or keeps it for an operation that hangs.
        if !device.is_open() {
            return;
        }
        let freed_bytes = device.free_after_use(std::mem::take(&mut self.memories));
        self.device.memory().freed_private(freed_bytes);
    }
}
