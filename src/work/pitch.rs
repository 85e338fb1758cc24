//! How far apart rows of X and Y lie in a device's memory.
//!
//! A device fetches memory in sectors of 32 bytes, so a row that is gathered should not begin in the middle of one, and
//! 16-byte loads must be aligned. Slots of pinned memory keep the same distance, so that a slice is one copy. What lies
//! between rows is zero in X and anything in Y.

use serde::{Deserialize, Serialize};

/// Bytes of a sector.
const SECTOR_BYTES: u64 = 32;

/// Bytes from one row of `row_bytes` bytes to the next: a power of two up to a sector, then whole sectors.
pub fn pitch_bytes(row_bytes: u64) -> u64 {
    match row_bytes {
        0 => 0,
        _ if row_bytes <= SECTOR_BYTES => row_bytes.next_power_of_two(),
        _ => row_bytes.checked_next_multiple_of(SECTOR_BYTES).unwrap_or(u64::MAX),
    }
}

/// How X lies in a device's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum XOrder {
    /// Row after row.
    Rows,
    /// Column after column: staging transposes it, for kernels that read it so.
    Columns,
}

impl XOrder {
    /// Bytes from one row, or column, of X to the next, where `rows` rows of it are held.
    pub fn pitch_bytes(self, rows: u64, k: u64, value_bytes: u64) -> u64 {
        let length = if self == Self::Rows { k } else { rows };
        pitch_bytes(length.saturating_mul(value_bytes))
    }

    /// Bytes of `rows` rows of X.
    pub fn bytes(self, rows: u64, k: u64, value_bytes: u64) -> u64 {
        let lines = if self == Self::Rows { rows } else { k };
        self.pitch_bytes(rows, k, value_bytes).saturating_mul(lines)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_begin_where_a_sector_or_a_power_of_two_of_it_does() {
        let pitches = [0, 4, 8, 12, 16, 20, 24, 32, 36, 40, 64, 72, 256].map(pitch_bytes);
        assert_eq!(pitches, [0, 4, 8, 16, 16, 32, 32, 32, 64, 64, 64, 96, 256]);
        assert_eq!(pitch_bytes(u64::MAX - 3), u64::MAX);
        assert_eq!(XOrder::Rows.bytes(10, 3, 8), 10 * 32);
        assert_eq!(XOrder::Columns.bytes(10, 3, 8), 3 * 96);
    }
}
