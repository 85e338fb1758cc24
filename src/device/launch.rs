//! Launches of kernels, with their arguments.

use super::host_transfer::MemoryRange;
use crate::kernel::KernelId;
use crate::kernel::cuda::{EntryPoint, Items, LaunchShape, Variant};
use crate::matrix::Dtype;

/// A kernel argument.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Argument {
    /// A 64-bit number.
    Number(u64),
    /// A pointer to memory that the kernel only reads.
    Read(MemoryRange),
    /// A pointer to the first byte of `whole`, of which the kernel reads only `part`. Other operations may write the rest.
    ReadPart {
        /// The memory whose address the kernel gets.
        whole: MemoryRange,
        /// The bytes that it reads.
        part: MemoryRange,
    },
    /// A pointer to memory that the kernel writes. It reads only bytes that it has written itself.
    Write(MemoryRange),
    /// A pointer to memory that the kernel reads and then overwrites, such as the Y of a product if `beta` is not zero.
    Modify(MemoryRange),
    /// A pointer to memory that the kernel reads, changes and restores before it ends, such as a counter.
    Update(MemoryRange),
}

/// One launch of one kernel.
#[derive(Debug, Clone, PartialEq)]
pub struct Launch {
    /// The kernel.
    pub kernel: KernelId,
    /// The precision.
    pub dtype: Dtype,
    /// The kernel's variant.
    pub variant: Variant,
    /// The work items (rows, segments or groups) of the launch; with `k` they determine the grid.
    pub items: Items,
    /// Whether all values of the matrix are equal, so that a specialised kernel may read only one of them.
    pub uniform: bool,
    /// Whether all items are heavy, so that a specialised kernel needs no code for light ones. Used by kernels that
    /// assign separate blocks to heavy items.
    pub only_heavy: bool,
    /// Columns of X and Y.
    pub k: u64,
    /// The arguments, in the order of the kernel's parameters.
    pub arguments: Vec<Argument>,
    /// The number of back-to-back launches of a measurement; `None` launches once. A measured interval begins after one
    /// additional launch. The others are submitted while that one runs, so the time excludes the host's launch overhead.
    /// Y is the same as after one launch, hence `beta` must be zero.
    pub batch: Option<u32>,
}

/// One launch of a kernel that has a single form.
#[derive(Debug, Clone)]
pub struct EntryLaunch {
    /// The kernel.
    pub kernel: EntryPoint,
    /// The precision.
    pub dtype: Dtype,
    /// The grid.
    pub shape: LaunchShape,
    /// The arguments, in the order of the kernel's parameters.
    pub arguments: Vec<Argument>,
}
