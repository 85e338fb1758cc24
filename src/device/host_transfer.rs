//! Copies between host memory and device memory: their ranges and rows.

use super::{Memory, Pinned};

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
