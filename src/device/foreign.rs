//! Memory and streams of a device that belong to another library, such as a Python library.

#![allow(unsafe_code)] // A constructor with a promise of the caller; there is no unsafe block.

/// A range of a device's memory whose owner keeps it allocated.
#[derive(Debug)]
pub struct ForeignMemory {
    address: u64,
    bytes: u64,
}

impl ForeignMemory {
    /// The `bytes` bytes from `address`.
    ///
    /// # Safety
    ///
    /// They are memory that kernels of the adopting device can access: for a CUDA device, of the card's primary context, which the
    /// device must use too; for an emulated device, host memory. They stay allocated until [`Device::free`](super::Device::free)
    /// and until the operations on them have ended; for operations on a stream of the owner it is enough to free them in the order
    /// of this stream. Until then no other work accesses them, except in the order of the stream that the operations are on.
    pub unsafe fn new(address: u64, bytes: u64) -> Self {
        Self { address, bytes }
    }

    /// Address of the first byte.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// Number of bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// The driver's handle of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamHandle(u64);

impl StreamHandle {
    /// The stream with this handle.
    ///
    /// # Safety
    ///
    /// It is a stream of the context that the device uses, which stays alive as long as the handle is used. The handles of CUDA's
    /// default streams, 0 to 2, are of every context.
    pub unsafe fn new(handle: u64) -> Self {
        Self(handle)
    }

    /// The handle.
    pub fn handle(self) -> u64 {
        self.0
    }
}

/// Where the memory of a device is, for other libraries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemoryPlace {
    /// In host memory, as that of an emulated device.
    Host,
    /// In the memory of the card with this number, in its primary context.
    Card(u32),
}
