//! Operands and output: how a range of rows needs X, and how Y is written and combined.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::kind::Kind;
use super::pitch::XOrder;
use super::rows::ChunkRows;
use crate::matrix::Dtype;

/// A part of X is sent only if it is smaller than this share of X.
pub const MAX_PART: f64 = 0.8;

/// The part of X that a device receives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum XPlan {
    /// Nothing; the device computes nothing, or its kind of work has no X.
    Nothing,
    /// All rows.
    Whole,
    /// The rows `first..end`; the columns of its chunks count from `first`.
    Columns {
        /// First row of X.
        first: u64,
        /// One past the last row.
        end: u64,
    },
    /// Only the rows that its chunks use, packed in ascending order; the columns of its chunks are renumbered.
    Gather {
        /// The number of rows.
        columns: u64,
    },
}

/// The rows `first..end` of X.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct XRows {
    /// First row.
    pub first: u64,
    /// One past the last row.
    pub end: u64,
}

impl XRows {
    /// Whether both ranges have a row in common.
    pub fn overlaps(&self, other: Self) -> bool {
        self.first.max(other.first) < self.end.min(other.end)
    }
}

/// A part of X, its bytes on the device, and the reason.
#[derive(Debug, Clone, PartialEq)]
pub struct XChoice {
    /// The part.
    pub x: XPlan,
    /// Its bytes.
    pub bytes: u64,
    /// The reason, in words.
    pub reason: String,
}

impl XChoice {
    /// All of X.
    pub fn whole(work: &(impl Kind + ?Sized), order: XOrder, reason: impl Into<String>) -> Self {
        let bytes = work.x_rows_bytes(work.x_rows() as u64, order);
        Self { x: XPlan::Whole, bytes, reason: reason.into() }
    }

    /// Nothing of X.
    pub fn nothing() -> Self {
        Self { x: XPlan::Nothing, bytes: 0, reason: "nothing of X: it computes nothing".into() }
    }
}

/// Bytes of X that a device receives.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SharedBytes {
    /// Whatever its share.
    pub fixed: u64,
    /// In proportion to its share: bytes for all of the work.
    pub shared: u64,
}

/// The rows of X that the owner of `rows` of Y has: the same rows where X has as many as Y, else a range in proportion.
pub fn owned_rows_of_x(rows: Range<u64>, all_rows: u64, x_rows: u64) -> Range<u64> {
    let scale = |row: u64| (u128::from(row) * u128::from(x_rows) / u128::from(all_rows.max(1))) as u64;
    scale(rows.start)..scale(rows.end)
}

/// How Y comes about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Output {
    /// Whether the old Y is read: each row of Y is updated by one task, which therefore may not be run again.
    pub updated: bool,
    /// How the results of chunks become Y.
    pub combine: Combine,
}

impl Output {
    /// Whether the host combines the results of devices with the old Y or with each other, so that devices cannot copy them to Y.
    pub fn is_staged(&self) -> bool {
        self.updated || self.combine == Combine::Add
    }

    /// Whether a chunk adds up its own segments: those of a sum over all rows, from the first segment on. The order of all additions
    /// stays the same, since later segments are added after them.
    pub fn adds_up(&self, rows: &ChunkRows) -> bool {
        self.combine == Combine::Add && matches!(rows, ChunkRows::Segments { begin: 0, end, .. } if *end > 1)
    }

    /// Rows of a chunk's slice that hold its result and are copied to the host. A sum of segments is in double precision: one row of f64,
    /// or two rows of f32.
    pub fn result_rows(&self, rows: &ChunkRows, dtype: Dtype) -> usize {
        if self.adds_up(rows) { size_of::<f64>() / dtype.bytes() } else { rows.slice_rows() }
    }

    /// Whether rows are written and concatenated.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// How the results of chunks become Y.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Combine {
    /// Every chunk computes its own rows of Y. Only a row that is divided into segments is the sum of its segments' carries.
    #[default]
    Concatenate,
    /// Every chunk computes partial sums of the same row of Y: segments, which a merge task adds first to last. The chunk with the first
    /// segment adds up its own.
    Add,
}
