//! Memory of a device that another library has allocated, such as the array of a Python library.

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
    /// device must use too; for an emulated device, host memory. They stay allocated until [`Device::free`](super::Device::free),
    /// and until then no other work accesses them, except in the order of the device's compute stream.
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
