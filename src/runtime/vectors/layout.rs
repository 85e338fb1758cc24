//! Which processor owns which rows of a multivector.

use std::ops::Range;
use std::sync::Arc;

use crate::runtime::shared_device::SharedDevice;

/// One owner of rows.
#[derive(Clone)]
pub struct Part {
    /// The device; `None` for the host.
    pub device: Option<Arc<SharedDevice>>,
    /// Its index in the plan.
    pub index: usize,
    /// The rows that it owns.
    pub own: Range<u64>,
    /// The rows that its memory has room for: its own, and those of other owners that its columns refer to.
    pub held: Range<u64>,
    /// Device name.
    pub name: String,
    /// Bandwidth of its memory, for predicted times.
    pub stream_gb_per_s: f64,
    /// Time to start an operation.
    pub launch_s: f64,
}

impl Part {
    /// Predicted seconds of an operation that moves `bytes` bytes of its memory.
    pub fn predicted_s(&self, bytes: u64) -> f64 {
        self.launch_s + bytes as f64 * 1e-9 / self.stream_gb_per_s.max(1e-3)
    }
}

/// The owners of all rows, in the order of rows.
#[derive(Clone)]
pub struct Layout {
    /// Number of rows.
    pub rows: u64,
    /// The owners; together they own every row once.
    pub parts: Vec<Part>,
}

impl Layout {
    /// The owner of a row, as an index of `parts`.
    pub fn owner(&self, row: u64) -> usize {
        self.parts.partition_point(|part| part.own.end <= row).min(self.parts.len().saturating_sub(1))
    }

    /// The same owners, with the rows of X divided in the proportions of the rows of Y.
    pub fn scaled_to(&self, rows: u64) -> Self {
        let scale = |row: u64| (u128::from(row) * u128::from(rows) / u128::from(self.rows.max(1))) as u64;
        let part = |part: &Part| {
            let own = scale(part.own.start)..scale(part.own.end);
            Part { held: own.clone(), own, ..part.clone() }
        };
        Self { rows, parts: self.parts.iter().map(part).collect() }
    }
}
