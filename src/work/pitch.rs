//! How X lies in a device's memory.
//!
//! Slots of pinned memory keep the same distance between rows, so that a slice is one copy. What lies between rows is zero in
//! X and anything in Y.

use serde::{Deserialize, Serialize};

pub use crate::kernel::cuda::pitch_bytes;

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
    fn what_follows_itself_is_padded_rows_or_columns() {
        assert_eq!(XOrder::Rows.bytes(10, 3, 8), 10 * 32);
        assert_eq!(XOrder::Columns.bytes(10, 3, 8), 3 * 96);
    }
}
