//! What a job is: how its rows weigh, what a piece of it reads and writes, and how slices become Y.
//!
//! [`Work`] holds the few facts a planner asks for and no values. Each kind of job has a file that makes one
//! ([`spmm`]); nothing above this floor knows which kind it was.

mod column_marks;
pub mod columns;
pub mod features;
mod held;
mod hybrid;
mod items;
mod layouts;
mod lengths;
mod locality;
mod partition;
mod pitch;
pub mod row_blocks;
pub mod row_groups;
mod slices;
mod sorted_slices;
pub mod spmm;
mod storage;

use std::ops::Range;

use rayon::prelude::*;
use xxhash_rust::xxh3::xxh3_64;

pub use features::Features;
pub use held::HeldColumns;
pub use locality::Locality;
pub use partition::{ChunkRows, Position, Span, position_at, split};
pub use pitch::{XOrder, pitch_bytes};
pub use storage::{Array, Footprint, Storage};

use crate::kernel::order::{SEGMENT, segments};
use crate::kernel::partition::Weights;
use crate::matrix::Dtype;

/// Row pointers that are hashed in one go.
const HASHED_BLOCK: usize = 1 << 16;

/// A job: rows of A, each with some entries, times X.
#[derive(Debug, Clone, Copy)]
pub struct Work<'a> {
    /// Entries before each row, and after the last.
    row_pointers: &'a [u64],
    /// The column of every entry; without them X is taken to be needed whole.
    columns: Option<&'a [u32]>,
    cols: usize,
    k: usize,
    dtype: Dtype,
    weights: Weights,
    /// Features of all rows, where they are known already.
    known: Option<Features>,
}

/// What tells one matrix from another without its values.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Fingerprint {
    /// Number of rows.
    pub rows: u64,
    /// Number of columns.
    pub cols: u64,
    /// Number of stored entries.
    pub nnz: u64,
    /// xxh3 of the xxh3 of each block of the row pointers, in hexadecimal.
    pub row_pointers: String,
}

impl<'a> Work<'a> {
    /// The same job where features of all rows are known; those of another matrix are not believed.
    #[must_use]
    pub fn knowing(self, features: Option<Features>) -> Self {
        let own = |features: &Features| (features.rows, features.nnz) == (self.rows() as u64, self.nnz());
        Self { known: features.filter(own), ..self }
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.row_pointers.len().saturating_sub(1)
    }

    /// Number of rows of X.
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// Number of columns of X and Y.
    pub fn k(&self) -> usize {
        self.k
    }

    /// Value type.
    pub fn dtype(&self) -> Dtype {
        self.dtype
    }

    /// Number of entries of A.
    pub fn nnz(&self) -> u64 {
        self.entries_before(self.rows())
    }

    /// Entries of A before row `row`.
    pub fn entries_before(&self, row: usize) -> u64 {
        self.row_pointers.get(row).copied().unwrap_or(0)
    }

    /// Number of entries of row `row`.
    pub fn row_length(&self, row: usize) -> u64 {
        self.entries_before(row + 1).saturating_sub(self.entries_before(row))
    }

    /// The row that entry number `entry` of A lies in; the last one where there is no such entry.
    pub fn row_of(&self, entry: u64) -> usize {
        let after = self.row_pointers.partition_point(|&pointer| pointer <= entry);
        after.saturating_sub(1).min(self.rows().saturating_sub(1))
    }

    /// Places where row `row` may be cut: it has so many segments, each a sum of its own.
    pub fn row_segments(&self, row: usize) -> usize {
        segments(self.row_length(row) as usize)
    }

    /// Cost of all rows before `row`, in bytes touched.
    pub fn cost_before(&self, row: usize) -> u128 {
        u128::from(self.entries_before(row)) * u128::from(self.weights.per_nonzero)
            + row as u128 * u128::from(self.weights.per_row)
    }

    /// Cost of a piece, in bytes touched.
    pub fn cost(&self, piece: &ChunkRows) -> u128 {
        u128::from(self.entries(piece).end - self.entries(piece).start) * u128::from(self.weights.per_nonzero)
            + self.slice_rows(piece) as u128 * u128::from(self.weights.per_row)
    }

    /// Where the entries of a piece lie.
    pub fn entries(&self, piece: &ChunkRows) -> Range<u64> {
        match piece {
            ChunkRows::Rows { begin, end } => self.entries_before(*begin)..self.entries_before(*end),
            ChunkRows::Segments { row, begin, end } => {
                let (first, last) = (self.entries_before(*row), self.entries_before(*row + 1));
                let at = |segment: usize| first.saturating_add((segment * SEGMENT) as u64).min(last);
                at(*begin)..at(*end)
            }
        }
    }

    /// Number of entries of a piece.
    pub fn piece_nnz(&self, piece: &ChunkRows) -> u64 {
        let entries = self.entries(piece);
        entries.end - entries.start
    }

    /// Rows that a piece computes: rows of Y, or one row of carries for each segment.
    pub fn slice_rows(&self, piece: &ChunkRows) -> usize {
        match piece {
            ChunkRows::Rows { begin, end } => end - begin,
            ChunkRows::Segments { begin, end, .. } => end - begin,
        }
    }

    /// Bytes that a piece computes on a device.
    pub fn slice_bytes(&self, piece: &ChunkRows) -> u64 {
        self.slice_rows(piece) as u64 * self.pitch_bytes()
    }

    /// Bytes of a row of X or Y.
    pub fn row_bytes(&self) -> u64 {
        (self.k * self.dtype.bytes()) as u64
    }

    /// Bytes from one row of X or Y to the next on a device.
    pub fn pitch_bytes(&self) -> u64 {
        pitch_bytes(self.row_bytes())
    }

    /// Bytes of all of X on a device, row after row.
    pub fn x_bytes(&self) -> u64 {
        self.x_rows_bytes(self.cols as u64, XOrder::Rows)
    }

    /// Bytes of some rows of X on a device.
    pub fn x_rows_bytes(&self, rows: u64, order: XOrder) -> u64 {
        order.bytes(rows, self.k as u64, self.dtype.bytes() as u64)
    }

    /// Bytes of Y on a device.
    pub fn y_bytes(&self) -> u64 {
        self.rows() as u64 * self.pitch_bytes()
    }

    /// Bytes of A in compressed rows.
    pub fn a_bytes(&self) -> u64 {
        (self.rows() as u64 + 1) * 8 + self.nnz() * self.entry_bytes()
    }

    /// Bytes of A that a piece reads, in compressed rows.
    pub fn piece_bytes(&self, piece: &ChunkRows) -> u64 {
        (self.slice_rows(piece) as u64 + 1) * 8 + self.piece_nnz(piece) * self.entry_bytes()
    }

    /// Bytes of an entry: its column and its value.
    pub fn entry_bytes(&self) -> u64 {
        4 + self.dtype.bytes() as u64
    }

    /// Lengths of the rows that a piece computes, or of its segments.
    pub fn lengths(&self, piece: &ChunkRows) -> impl Iterator<Item = u64> + 'a {
        // One of the two is empty: rows take their lengths from the row pointers, segments from where they lie.
        let (rows, segments) = match *piece {
            ChunkRows::Rows { begin, end } => (self.row_pointers.get(begin..=end).unwrap_or(&[]), 0..0),
            ChunkRows::Segments { .. } => (&[][..], self.entries(piece)),
        };
        let of_rows = rows.windows(2).map(|pair| pair[1] - pair[0]);
        let end = segments.end;
        let of_segments = segments.step_by(SEGMENT).map(move |at| (end - at).min(SEGMENT as u64));
        of_rows.chain(of_segments)
    }

    /// Row pointers of a piece of whole rows, from its first to the one behind its last.
    fn piece_pointers(&self, piece: &ChunkRows) -> Option<&'a [u64]> {
        match *piece {
            ChunkRows::Rows { begin, end } => self.row_pointers.get(begin..=end),
            ChunkRows::Segments { .. } => None,
        }
    }

    /// Columns of the entries of a piece, where they are known.
    pub fn piece_columns(&self, piece: &ChunkRows) -> Option<&'a [u32]> {
        let entries = self.entries(piece);
        self.columns.map(|columns| columns.get(entries.start as usize..entries.end as usize).unwrap_or(&[]))
    }

    /// What tells this matrix from another, in the rayon pool this is called in.
    pub fn fingerprint(&self) -> Fingerprint {
        let blocks = self.row_pointers.par_chunks(HASHED_BLOCK);
        let hashes: Vec<u64> = blocks.map(|block| xxh3_64(bytemuck::cast_slice(block))).collect();
        let hash = xxh3_64(bytemuck::cast_slice(&hashes));
        Fingerprint {
            rows: self.rows() as u64,
            cols: self.cols as u64,
            nnz: self.nnz(),
            row_pointers: format!("{hash:016x}"),
        }
    }
}
