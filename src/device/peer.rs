//! Copies from the memory of one device to that of another, which do not pass through host memory.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use super::MemoryRange;

/// An allocation of a device that other devices copy from; [`Device::peer_memory`](super::Device::peer_memory).
///
/// It keeps the allocation. Memory that its device frees meanwhile is released when the last clone is dropped, so a copy in flight
/// never reads memory of another owner.
#[derive(Clone)]
pub struct PeerMemory {
    device: String,
    memory: Arc<dyn Any + Send + Sync>,
}

impl PeerMemory {
    /// An allocation of the device named `device`, in the form of its back end.
    pub(super) fn new(device: impl Into<String>, memory: impl Any + Send + Sync) -> Self {
        Self { device: device.into(), memory: Arc::new(memory) }
    }

    /// The name of its device.
    pub fn device(&self) -> &str {
        &self.device
    }

    /// The allocation in the form of a back end; `None` if its device belongs to another back end.
    pub(super) fn of<M: Any>(&self) -> Option<&M> {
        self.memory.downcast_ref()
    }
}

impl fmt::Debug for PeerMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "memory of {}", self.device)
    }
}

/// A contiguous copy from the memory of another device.
#[derive(Debug, Clone)]
pub struct PeerCopy {
    /// The other device's allocation. The operation that wrote it must have completed.
    pub from: PeerMemory,
    /// First byte of the other device's allocation.
    pub begin: u64,
    /// The range in the memory of the device that runs the copy; it has as many bytes.
    pub to: MemoryRange,
}
