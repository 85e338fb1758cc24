//! Rows and segments of rows: what chunks consist of, and where they may begin.

use std::ops::Range;

/// The rows, or segments of a row, of a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChunkRows {
    /// Whole rows of Y.
    Rows {
        /// First row.
        begin: usize,
        /// Last row plus 1.
        end: usize,
    },
    /// Consecutive canonical segments of one row of Y; the chunk computes the sum of each, a carry.
    Segments {
        /// The row.
        row: usize,
        /// First segment.
        begin: usize,
        /// Last segment plus 1.
        end: usize,
    },
}

impl ChunkRows {
    /// A range of its rows or segments, counted from its first.
    #[must_use]
    pub fn part(&self, range: Range<usize>) -> Self {
        match *self {
            Self::Rows { begin, .. } => Self::Rows { begin: begin + range.start, end: begin + range.end },
            Self::Segments { row, begin, .. } => {
                Self::Segments { row, begin: begin + range.start, end: begin + range.end }
            }
        }
    }

    /// Number of result rows: rows of Y, or one partial sum (carry) per segment.
    pub fn slice_rows(&self) -> usize {
        match *self {
            Self::Rows { begin, end } | Self::Segments { begin, end, .. } => end.saturating_sub(begin),
        }
    }
}

/// A boundary before a segment of a row, where a chunk may begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// The row.
    pub row: usize,
    /// The segment; 0 is the start of the row.
    pub segment: usize,
}

impl Position {
    /// The start of a row.
    pub fn of_row(row: usize) -> Self {
        Self { row, segment: 0 }
    }
}

/// The rows and segments between two positions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PositionRange {
    /// The start.
    pub begin: Position,
    /// The end, exclusive.
    pub end: Position,
}

impl PositionRange {
    /// Whether it contains no segment.
    pub fn is_empty(&self) -> bool {
        self.begin >= self.end
    }
}
