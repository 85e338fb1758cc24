//! Y = A X with a sparse A: the cost of its rows, the bytes that a piece reads and writes, the storage formats of its chunks, and what
//! its kernels cost.
//!
//! [`Work`] holds the sparsity pattern and no values.

mod column_marks;
pub mod columns;
pub mod cost;
pub mod features;
mod held;
mod hybrid;
mod items;
mod layouts;
mod lengths;
mod locality;
mod new;
mod partition;
pub mod row_blocks;
pub mod row_groups;
mod slices;
mod sorted_slices;
mod storage;

use std::ops::Range;

use rayon::prelude::*;
use xxhash_rust::xxh3::xxh3_64;

pub use features::Features;
pub use held::HeldColumns;
pub use locality::Locality;
pub use partition::{ChunkRows, Position, PositionRange, position_at, split};
pub use storage::{Array, Footprint, Storage};

use self::columns::ColumnRanges;
use self::features::KnownFeatures;
use super::pitch::{XOrder, pitch_bytes};
use crate::kernel::order::{SEGMENT, segments};
use crate::kernel::partition::Weights;
use crate::matrix::Dtype;

/// Number of row pointers per hashed block.
const HASH_BLOCK_POINTERS: usize = 1 << 16;

/// The product Y = A X as a planner sees it: the pattern of A, the number of columns of X, and the precision.
#[derive(Debug, Clone, Copy)]
pub struct Work<'a> {
    /// Row pointers of A, counted from its first entry.
    row_pointers: &'a [u64],
    /// Column of each entry; if none, every piece is assumed to need all of X.
    columns: Option<&'a [u32]>,
    cols: usize,
    k: usize,
    dtype: Dtype,
    weights: Weights,
    /// Features of the whole matrix, if they have been computed before.
    known: Option<Features>,
    /// Column ranges of blocks of rows, which are computed at their first use.
    ranges: Option<&'a ColumnRanges>,
    /// Features of chunks that were computed before.
    known_chunks: Option<&'a KnownFeatures>,
}

/// Identifies the pattern of a matrix, without its columns and values.
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
    /// The same product with the features of the whole matrix, which are then not computed again.
    ///
    /// Features whose number of rows or nonzeros differs from this matrix are ignored.
    #[must_use]
    pub fn with_features(self, features: Option<Features>) -> Self {
        let own = |features: &Features| (features.rows, features.nnz) == (self.rows() as u64, self.nnz());
        Self { known: features.filter(own), ..self }
    }

    /// The same product with a table of column ranges, so that the columns of A are read once however often ranges are asked for.
    /// The table must be new, or have been used with this matrix only.
    #[must_use]
    pub fn with_column_ranges(self, ranges: &'a ColumnRanges) -> Self {
        Self { ranges: Some(ranges), ..self }
    }

    /// The same product with a store of the features of chunks, so that those of a chunk are computed once. The store must be new,
    /// or have been used with this matrix only.
    #[must_use]
    pub fn with_known_features(self, known: &'a KnownFeatures) -> Self {
        Self { known_chunks: Some(known), ..self }
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

    /// The row of `rows` that has entry number `entry` of A; the last row if none has it. `rows` must not be empty.
    pub fn row_of(&self, rows: Range<usize>, entry: u64) -> usize {
        let pointers = self.row_pointers.get(rows.start..rows.end).unwrap_or(&[]);
        let after = pointers.partition_point(|&pointer| pointer <= entry);
        rows.start + after.saturating_sub(1)
    }

    /// Number of canonical segments of row `row`. A row may be cut between segments only.
    pub fn row_segments(&self, row: usize) -> usize {
        segments(self.row_length(row) as usize)
    }

    /// Cost of all rows before `row`, in bytes accessed.
    pub fn cost_before(&self, row: usize) -> u128 {
        u128::from(self.entries_before(row)) * u128::from(self.weights.per_nonzero)
            + row as u128 * u128::from(self.weights.per_row)
    }

    /// Cost of a piece, in bytes accessed.
    pub fn cost(&self, piece: &ChunkRows) -> u128 {
        u128::from(self.entries(piece).end - self.entries(piece).start) * u128::from(self.weights.per_nonzero)
            + self.slice_rows(piece) as u128 * u128::from(self.weights.per_row)
    }

    /// The range of a piece's entries in A.
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

    /// Number of result rows of a piece: rows of Y, or one partial sum (carry) per segment.
    pub fn slice_rows(&self, piece: &ChunkRows) -> usize {
        match piece {
            ChunkRows::Rows { begin, end } => end - begin,
            ChunkRows::Segments { begin, end, .. } => end - begin,
        }
    }

    /// Bytes of a piece's result on a device.
    pub fn slice_bytes(&self, piece: &ChunkRows) -> u64 {
        self.slice_rows(piece) as u64 * self.pitch_bytes()
    }

    /// Bytes of a row of X or Y.
    pub fn row_bytes(&self) -> u64 {
        (self.k * self.dtype.bytes()) as u64
    }

    /// Pitch of X and Y on a device: bytes from one row to the next.
    pub fn pitch_bytes(&self) -> u64 {
        pitch_bytes(self.row_bytes())
    }

    /// Bytes of all of X on a device, stored by rows.
    pub fn x_bytes(&self) -> u64 {
        self.x_rows_bytes(self.cols as u64, XOrder::Rows)
    }

    /// Bytes of `rows` rows of X on a device.
    pub fn x_rows_bytes(&self, rows: u64, order: XOrder) -> u64 {
        order.bytes(rows, self.k as u64, self.dtype.bytes() as u64)
    }

    /// Bytes of Y on a device.
    pub fn y_bytes(&self) -> u64 {
        self.rows() as u64 * self.pitch_bytes()
    }

    /// Bytes of A in CSR.
    pub fn a_bytes(&self) -> u64 {
        (self.rows() as u64 + 1) * 8 + self.nnz() * self.entry_bytes()
    }

    /// Bytes of a piece of A in CSR.
    pub fn piece_bytes(&self, piece: &ChunkRows) -> u64 {
        (self.slice_rows(piece) as u64 + 1) * 8 + self.piece_nnz(piece) * self.entry_bytes()
    }

    /// Bytes of an entry: its column and its value.
    pub fn entry_bytes(&self) -> u64 {
        4 + self.dtype.bytes() as u64
    }

    /// Lengths of the rows, or segments, of a piece.
    pub fn lengths(&self, piece: &ChunkRows) -> impl Iterator<Item = u64> + 'a {
        // One of the two is empty: rows get their lengths from the row pointers, segments from the range of entries.
        let (rows, segments) = match *piece {
            ChunkRows::Rows { begin, end } => (self.row_pointers.get(begin..=end).unwrap_or(&[]), 0..0),
            ChunkRows::Segments { .. } => (&[][..], self.entries(piece)),
        };
        let of_rows = rows.windows(2).map(|pair| pair[1] - pair[0]);
        let end = segments.end;
        let of_segments = segments.step_by(SEGMENT).map(move |at| (end - at).min(SEGMENT as u64));
        of_rows.chain(of_segments)
    }

    /// Row pointers of a piece of whole rows, the end of its last row included; none for segments.
    fn piece_pointers(&self, piece: &ChunkRows) -> Option<&'a [u64]> {
        match *piece {
            ChunkRows::Rows { begin, end } => self.row_pointers.get(begin..=end),
            ChunkRows::Segments { .. } => None,
        }
    }

    /// Columns of the entries of a piece; none if they are not known.
    pub fn piece_columns(&self, piece: &ChunkRows) -> Option<&'a [u32]> {
        let entries = self.entries(piece);
        self.columns.map(|columns| columns.get(entries.start as usize..entries.end as usize).unwrap_or(&[]))
    }

    /// The fingerprint of the matrix, computed in the rayon pool of the caller.
    pub fn fingerprint(&self) -> Fingerprint {
        let blocks = self.row_pointers.par_chunks(HASH_BLOCK_POINTERS);
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
