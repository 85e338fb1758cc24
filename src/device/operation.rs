//! The operations of a device: copies, kernel launches and host jobs.

use super::{DeviceRows, Memory, MessageBytes, PeerCopy, Pinned, VectorLaunch};
use crate::error::Result;
use crate::kernel::KernelId;
use crate::kernel::cuda::{EntryPoint, Items, LaunchShape, Variant};
use crate::matrix::Dtype;

/// Bytes `begin..end` of an allocation in a device's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryRange {
    /// The allocation.
    pub memory: Memory,
    /// First byte.
    pub begin: u64,
    /// One past the last byte.
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
    /// The memory.
    pub pinned: Pinned,
    /// First byte.
    pub begin: u64,
    /// One past the last byte.
    pub end: u64,
}

impl PinnedRange {
    /// Number of bytes.
    pub fn bytes(&self) -> u64 {
        self.end.saturating_sub(self.begin)
    }
}

/// A strided copy: rows of `bytes` bytes with a pitch on each side. The padding between rows may be unwritten. It is
/// copied too if both pitches are equal, and left unchanged if they differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowBytes {
    /// Bytes per row.
    pub bytes: u64,
    /// Row pitch in device memory, in bytes.
    pub pitch_bytes: u64,
    /// Row pitch in host memory, in bytes.
    pub host_pitch_bytes: u64,
}

impl RowBytes {
    /// One contiguous copy of all bytes.
    pub const ALL: Self = Self { bytes: u64::MAX, pitch_bytes: u64::MAX, host_pitch_bytes: u64::MAX };
}

/// A copy between host memory and device memory, in either direction.
#[derive(Debug, Clone)]
pub struct HostTransfer {
    /// The range in host memory.
    pub host: PinnedRange,
    /// The range in device memory.
    pub device: MemoryRange,
    /// The rows of the two ranges.
    pub rows: RowBytes,
}

impl HostTransfer {
    /// A contiguous copy between two ranges of the same length.
    pub fn whole(host: PinnedRange, device: MemoryRange) -> Self {
        Self { host, device, rows: RowBytes::ALL }
    }

    /// Whether both pitches are equal, so that the copy is contiguous.
    pub fn is_contiguous(&self) -> bool {
        self.rows.pitch_bytes == self.rows.host_pitch_bytes
    }

    /// Number of rows.
    pub fn rows(&self) -> u64 {
        self.device.bytes().div_ceil(self.rows.pitch_bytes.max(1))
    }

    /// For each row: its offset in the device range, its offset in the host range and its length, in bytes. A contiguous
    /// copy is one row.
    pub fn pieces(&self) -> impl Iterator<Item = (u64, u64, u64)> + '_ {
        let RowBytes { bytes, pitch_bytes, host_pitch_bytes } = self.rows;
        let contiguous = self.is_contiguous().then_some((0, 0, self.device.bytes()));
        let rows = if contiguous.is_some() { 0 } else { self.rows() };
        let row = move |row| (row * pitch_bytes, row * host_pitch_bytes, bytes);
        contiguous.into_iter().chain((0..rows).map(row))
    }

    /// Whether the host range is within its memory and every row is within both ranges.
    pub fn is_sound(&self) -> bool {
        let RowBytes { bytes, pitch_bytes, host_pitch_bytes } = self.rows;
        let inside = self.host.begin <= self.host.end && self.host.end <= self.host.pinned.bytes() as u64;
        if self.is_contiguous() {
            return inside
                && self.device.begin <= self.device.end
                && self.host.bytes() == self.device.bytes();
        }
        let needed = |pitch: u64| {
            self.rows().saturating_sub(1).checked_mul(pitch).and_then(|begin| begin.checked_add(bytes))
        };
        let fits = |range_bytes: u64, pitch: u64| {
            bytes <= pitch && needed(pitch).is_some_and(|needed| needed <= range_bytes)
        };
        inside
            && self.device.begin < self.device.end
            && fits(self.device.bytes(), pitch_bytes)
            && fits(self.host.bytes(), host_pitch_bytes)
    }
}

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

/// A launch of a kernel on multivectors with small copies before and after it, or a small copy alone, on the lane of launches.
///
/// The lane's order alone keeps the memory of the copies from being used by two operations at once, so no caller waits between
/// operations.
#[derive(Debug, Clone)]
pub struct LaunchWithCopies {
    /// Bytes that are written to the device's memory before the launch.
    pub numbers: Option<(Vec<u8>, MemoryRange)>,
    /// The launch.
    pub launch: Option<VectorLaunch>,
    /// A copy to the host after the launch.
    pub download: Option<HostTransfer>,
}

/// `C = alpha A B + beta C` by the vendor's library, cuBLAS. C is not read if beta is zero.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LibraryGemm {
    /// Alpha and beta, which are rounded to the precision of the matrices.
    pub factors: (f64, f64),
    /// A.
    pub a: DeviceRows,
    /// B.
    pub b: DeviceRows,
    /// C.
    pub c: DeviceRows,
}

/// A message to or from another rank.
#[derive(Debug, Clone)]
pub struct RankMessage {
    /// The other rank.
    pub rank: usize,
    /// The number of the message among those of the same call, sender and receiver.
    pub tag: u32,
    /// The bytes.
    pub bytes: MessageBytes,
}

/// One operation on a lane.
pub enum Operation<'run> {
    /// A job on the host's thread pool. It may use all threads and must not block.
    Job(Box<dyn FnOnce() -> Result<()> + Send + 'run>),
    /// A job on the host that uses one thread and ends before another thread would be awake. The thread that submits it runs it.
    ShortJob(Box<dyn FnOnce() -> Result<()> + Send + 'run>),
    /// Copies from pinned host memory to the device, one after the other.
    Upload(Vec<HostTransfer>),
    /// A copy from device memory to pinned host memory.
    Download(HostTransfer),
    /// A copy from the memory of another device, on an upload lane. The caller submits it after the operation that wrote the bytes
    /// has completed, and changes them after the copy has completed.
    PeerCopy(PeerCopy),
    /// A launch of a kernel for products.
    Launch(Launch),
    /// A launch of a kernel on multivectors.
    VectorLaunch(VectorLaunch),
    /// A launch of a kernel on multivectors with small copies before and after it.
    LaunchWithCopies(Box<LaunchWithCopies>),
    /// Launches of kernels that have a single form, one after the other.
    EntryLaunches(Vec<EntryLaunch>),
    /// A dense product by the vendor's library, on devices that have it ([`super::Device::has_cublas`]).
    LibraryGemm(LibraryGemm),
    /// Sends a message; on a network.
    Send(RankMessage),
    /// Receives a message; on a network.
    Receive(RankMessage),
    /// No work; simulated devices let the operation's predicted time pass.
    Pass,
}

impl Operation<'_> {
    /// A launch of a kernel that has a single form.
    pub fn launch(launch: EntryLaunch) -> Self {
        Self::EntryLaunches(vec![launch])
    }

    /// The operation on another thread than the one that submits it.
    #[must_use]
    pub fn on_another_thread(self) -> Self {
        match self {
            Self::ShortJob(job) => Self::Job(job),
            other => other,
        }
    }

    /// A contiguous copy to the device.
    pub fn upload(from: PinnedRange, to: MemoryRange) -> Self {
        Self::Upload(vec![HostTransfer::whole(from, to)])
    }

    /// A contiguous copy to the host.
    pub fn download(from: MemoryRange, to: PinnedRange) -> Self {
        Self::Download(HostTransfer::whole(to, from))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_with_different_pitches_are_copied_one_by_one_and_bounds_are_checked() {
        let pinned = Pinned::pageable(100).unwrap();
        let transfer = |begin, end, rows| HostTransfer {
            host: PinnedRange { pinned: pinned.clone(), begin, end },
            device: MemoryRange { memory: Memory(0), begin: 8, end: 32 },
            rows,
        };
        let strided = RowBytes { bytes: 8, pitch_bytes: 8, host_pitch_bytes: 24 };
        let rows = transfer(10, 66, strided);
        assert!(rows.is_sound());
        assert_eq!(rows.pieces().collect::<Vec<_>>(), [(0, 0, 8), (8, 24, 8), (16, 48, 8)]);
        assert!(!transfer(10, 65, strided).is_sound(), "the last row ends beyond the host range");
        assert!(!transfer(50, 106, strided).is_sound(), "the host range ends beyond its memory");
        assert!(!transfer(10, 66, RowBytes { bytes: 9, ..strided }).is_sound(), "rows overlap");
        let contiguous = transfer(0, 24, RowBytes::ALL);
        assert!(contiguous.is_sound());
        assert_eq!(contiguous.pieces().collect::<Vec<_>>(), [(0, 0, 24)]);
        assert!(!transfer(0, 23, RowBytes::ALL).is_sound());
    }
}
