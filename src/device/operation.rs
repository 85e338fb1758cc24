//! What a device can be asked to do, in bytes, kernels and jobs.

use super::{Memory, Pinned};
use crate::error::Result;
use crate::kernel::KernelId;
use crate::kernel::cuda::{Items, Variant};
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

/// Rows of `bytes` bytes, some distance apart on either side. What lies between them need not have been written, and is
/// copied along where the distances are the same and left alone where they differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowBytes {
    /// Bytes of a row.
    pub bytes: u64,
    /// Bytes from one row to the next in the device's memory.
    pub pitch_bytes: u64,
    /// The same in the host's.
    pub host_pitch_bytes: u64,
}

impl RowBytes {
    /// All bytes matter.
    pub const ALL: Self = Self { bytes: u64::MAX, pitch_bytes: u64::MAX, host_pitch_bytes: u64::MAX };
}

/// A copy between the host's memory and the device's, in one direction or the other.
#[derive(Debug, Clone)]
pub struct Transfer {
    /// The bytes of the host.
    pub host: PinnedRange,
    /// The bytes of the device.
    pub device: MemoryRange,
    /// Which of them matter.
    pub rows: RowBytes,
}

impl Transfer {
    /// A copy of all bytes from one range to the other, which have the same length.
    pub fn whole(host: PinnedRange, device: MemoryRange) -> Self {
        Self { host, device, rows: RowBytes::ALL }
    }

    /// Whether rows are as far apart on one side as on the other, so that this is one copy from end to end.
    pub fn is_plain(&self) -> bool {
        self.rows.pitch_bytes == self.rows.host_pitch_bytes
    }

    /// Number of rows.
    pub fn rows(&self) -> u64 {
        self.device.bytes().div_ceil(self.rows.pitch_bytes.max(1))
    }

    /// Where each row lies in the device's range and where in the host's, in bytes from their beginnings, and how long it
    /// is; one row where the copy is plain.
    pub fn pieces(&self) -> impl Iterator<Item = (u64, u64, u64)> + '_ {
        let RowBytes { bytes, pitch_bytes, host_pitch_bytes } = self.rows;
        let plain = self.is_plain().then_some((0, 0, self.device.bytes()));
        let rows = if plain.is_some() { 0 } else { self.rows() };
        let row = move |row| (row * pitch_bytes, row * host_pitch_bytes, bytes);
        plain.into_iter().chain((0..rows).map(row))
    }

    /// Whether the host's range lies inside its memory and every row inside both ranges.
    pub fn is_sound(&self) -> bool {
        let RowBytes { bytes, pitch_bytes, host_pitch_bytes } = self.rows;
        let inside = self.host.begin <= self.host.end && self.host.end <= self.host.pinned.bytes() as u64;
        if self.is_plain() {
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
    pub items: Items,
    /// Whether all values of the matrix are equal, so that a form may read one of them only.
    pub uniform: bool,
    /// Whether there are heavy items only, so that a form may have no code for others. Of kernels that have blocks of
    /// their own for them.
    pub only_heavy: bool,
    /// Columns of X and Y.
    pub k: u64,
    /// What it is called with.
    pub arguments: Vec<Argument>,
    /// Where it is measured, how often it is launched, each right behind the one before; else it is launched once. Its time
    /// begins behind one more launch that is not counted: while that one runs the others are submitted, so that the time a
    /// launch takes on the host is not in it. Y is the same as of one launch; devices without such a gap may do just that.
    pub batch: Option<u32>,
}

/// Something to be done on a lane.
pub enum Operation<'run> {
    /// A job on the host: on the pool, free to use all of it, never to block in it.
    Job(Box<dyn FnOnce() -> Result<()> + Send + 'run>),
    /// Pinned host memory to the device, one copy after the other.
    Upload(Vec<Transfer>),
    /// The device's memory to pinned host memory.
    Download(Transfer),
    /// A kernel.
    Launch(Launch),
    /// Nothing but time: what a simulated device is given.
    Pass,
}

impl Operation<'_> {
    /// The copy of one range to the device.
    pub fn upload(from: PinnedRange, to: MemoryRange) -> Self {
        Self::Upload(vec![Transfer::whole(from, to)])
    }

    /// The copy of one range to the host.
    pub fn download(from: MemoryRange, to: PinnedRange) -> Self {
        Self::Download(Transfer::whole(to, from))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_other_distances_are_copied_one_by_one_and_stay_inside() {
        let pinned = Pinned::pageable(100).unwrap();
        let transfer = |begin, end, rows| Transfer {
            host: PinnedRange { pinned: pinned.clone(), begin, end },
            device: MemoryRange { memory: Memory(0), begin: 8, end: 32 },
            rows,
        };
        let apart = RowBytes { bytes: 8, pitch_bytes: 8, host_pitch_bytes: 24 };
        let rows = transfer(10, 66, apart);
        assert!(rows.is_sound());
        assert_eq!(rows.pieces().collect::<Vec<_>>(), [(0, 0, 8), (8, 24, 8), (16, 48, 8)]);
        assert!(!transfer(10, 65, apart).is_sound(), "the last row ends beyond the host's range");
        assert!(!transfer(50, 106, apart).is_sound(), "the host's range ends beyond its memory");
        assert!(!transfer(10, 66, RowBytes { bytes: 9, ..apart }).is_sound(), "rows overlap");
        let plain = transfer(0, 24, RowBytes::ALL);
        assert!(plain.is_sound());
        assert_eq!(plain.pieces().collect::<Vec<_>>(), [(0, 0, 24)]);
        assert!(!transfer(0, 23, RowBytes::ALL).is_sound());
    }
}
