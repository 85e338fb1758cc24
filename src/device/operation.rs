//! What a device can be asked to do, in bytes, kernels and jobs.

use super::{Memory, Pinned};
use crate::error::Result;
use crate::kernel::KernelId;
use crate::kernel::cuda::Variant;
use crate::matrix::Dtype;

/// Bytes `begin..end` of a device's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryRange {
    /// Which allocation.
    pub memory: Memory,
    /// First byte.
    pub begin: u64,
    /// Byte behind the last.
    pub end: u64,
}

impl MemoryRange {
    /// Number of bytes.
    pub fn bytes(&self) -> u64 {
        self.end.saturating_sub(self.begin)
    }
}

/// Bytes `begin..end` of pinned host memory.
#[derive(Debug, Clone)]
pub struct PinnedRange {
    /// Which memory.
    pub pinned: Pinned,
    /// First byte.
    pub begin: u64,
    /// Byte behind the last.
    pub end: u64,
}

impl PinnedRange {
    /// Number of bytes.
    pub fn bytes(&self) -> u64 {
        self.end.saturating_sub(self.begin)
    }
}

/// Rows of `bytes` bytes, one every `pitch_bytes`. What lies between them need not have been written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowBytes {
    /// Bytes of a row.
    pub bytes: u64,
    /// Bytes from one row to the next.
    pub pitch_bytes: u64,
}

impl RowBytes {
    /// All bytes matter.
    pub const ALL: Self = Self { bytes: u64::MAX, pitch_bytes: u64::MAX };
}

/// An argument of a kernel, in the order of its parameters.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Argument {
    /// A 64-bit number.
    Number(u64),
    /// A pointer to memory that the kernel reads and nothing else.
    Read(MemoryRange),
    /// A pointer to memory that the kernel writes, and reads only what it wrote.
    Write(MemoryRange),
    /// A pointer to memory that the kernel finds as it was left, changes, and leaves as it found it.
    Update(MemoryRange),
}

/// One launch of one kernel.
#[derive(Debug, Clone, PartialEq)]
pub struct Launch {
    /// The kernel.
    pub kernel: KernelId,
    /// Its precision.
    pub dtype: Dtype,
    /// Which of its forms.
    pub variant: Variant,
    /// Rows, pieces or groups it is launched for; with `k` this gives the shape of the grid.
    pub items: u64,
    /// Columns of X and Y.
    pub k: u64,
    /// What it is called with.
    pub arguments: Vec<Argument>,
}

/// Something to be done on a lane.
pub enum Operation<'run> {
    /// A job on the host: on the pool, free to use all of it, never to block in it.
    Job(Box<dyn FnOnce() -> Result<()> + Send + 'run>),
    /// Pinned host memory to the device; both ranges have the same length.
    Upload {
        /// From here.
        from: PinnedRange,
        /// To here.
        to: MemoryRange,
    },
    /// The device's memory to pinned host memory; both ranges have the same length.
    Download {
        /// From here.
        from: MemoryRange,
        /// To here.
        to: PinnedRange,
        /// Which of these bytes matter.
        rows: RowBytes,
    },
    /// A kernel.
    Launch(Launch),
    /// Nothing but time: what a simulated device is given.
    Pass,
}
