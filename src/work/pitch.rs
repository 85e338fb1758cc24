//! The storage order and pitch of X in device memory.
//!
//! Slots of page-locked memory have the same pitch, so that a slice of rows is one copy. The padding between rows is zero in X
//! and undefined in Y.

use serde::{Deserialize, Serialize};

pub use crate::kernel::cuda::pitch_bytes;

/// The storage order of X in device memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum XOrder {
    /// By rows.
    Rows,
    /// By columns: staging transposes X, for kernels that read it by columns.
    Columns,
}

impl XOrder {
    /// Bytes from one row, or column, of X to the next if the device holds `rows` rows.
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
    fn rows_or_columns_are_padded_to_the_pitch() {
        assert_eq!(XOrder::Rows.bytes(10, 3, 8), 10 * 32);
        assert_eq!(XOrder::Columns.bytes(10, 3, 8), 3 * 96);
    }
}
