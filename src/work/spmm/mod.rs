//! Y = A X with a sparse A: the cost of its rows, the bytes that a piece reads and writes, the storage formats of its chunks, and what
//! its kernels cost.
//!
//! [`Spmm`] holds the sparsity pattern; of the values a planner asks only whether all are equal, and how few bytes they can be packed in.

mod choice;
mod column_marks;
pub mod columns;
pub mod cost;
pub mod cuts;
pub mod features;
mod forms;
mod hybrid;
mod interior;
mod items;
mod kind;
mod layouts;
mod lengths;
mod locality;
mod new;
mod packed;
mod partition;
pub mod row_blocks;
pub mod row_groups;
mod slices;
mod sorted_slices;
mod storage;
mod x_part;

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use rayon::prelude::*;
use xxhash_rust::xxh3::xxh3_64;

pub use features::Features;
pub(crate) use forms::{packed_differently, values_differ};
pub use locality::Locality;
pub use storage::{Array, Storage};

use self::columns::ColumnRanges;
use self::features::KnownFeatures;
use super::{ChunkRows, Facts, pitch_bytes};
use crate::error::{Error, Result};
use crate::kernel::order::{SEGMENT, segments};
use crate::kernel::partition::Weights;
use crate::matrix::{Dtype, Packable, Packing, ValueBits};

/// Number of row pointers per hashed block.
const HASH_BLOCK_POINTERS: usize = 1 << 16;

/// The name of this kind of work in saved plans.
pub const NAME: &str = "spmm";

/// The product Y = A X as a planner sees it: the pattern of A, the number of columns of X, and the precision.
#[derive(Debug, Clone)]
pub struct Spmm<'a> {
    /// Row pointers of A, counted from its first entry.
    row_pointers: &'a [u64],
    /// Column of each entry; if none, every piece is assumed to need all of X.
    columns: Option<&'a [u32]>,
    /// The values; if none, they are taken as not all equal.
    values: Option<ValueBits<'a>>,
    /// Whether all values are equal; set by the first comparison.
    equal_values: OnceLock<bool>,
    /// The arrays to pack; `None` where there are no columns or values.
    packable: Option<Packable<'a>>,
    /// How they are packed; set by the first who asks.
    packing: OnceLock<Packing>,
    /// The bytes of A packed, estimated from samples; set by the first who asks.
    sampled_packed_bytes: OnceLock<u64>,
    cols: usize,
    /// The columns that refer to rows of X of this rank; all of them without it.
    own_columns: Option<Range<u64>>,
    k: usize,
    dtype: Dtype,
    weights: Weights,
    /// Features of the whole matrix, if they have been computed before.
    known: Option<Features>,
    /// Column ranges of blocks of rows, which are computed at their first use.
    ranges: Option<Arc<ColumnRanges>>,
    /// Features of chunks that were computed before.
    known_chunks: Option<Arc<KnownFeatures>>,
}

/// The features that are the facts about rows of a sparse matrix; an error for facts about another kind of work.
fn features_of(facts: &Facts) -> Result<&Features> {
    match facts {
        Facts::Spmm(features) => Ok(features),
        Facts::Uniform(_) => Err(Error::Internal("the facts do not describe a sparse matrix".into())),
    }
}

impl<'a> Spmm<'a> {
    /// The same product with the features of the whole matrix, which are then not computed again.
    ///
    /// Features whose number of rows or nonzeros differs from this matrix are ignored.
    #[must_use]
    pub fn with_features(self, features: Option<Features>) -> Self {
        let own = |features: &Features| (features.rows, features.nnz) == (self.rows() as u64, self.nnz());
        let known = features.filter(own);
        Self { known, ..self }
    }

    /// The same product on one of several ranks: the columns outside `own` refer to rows of X of other ranks.
    #[must_use]
    pub fn with_own_columns(self, own: Option<Range<u64>>) -> Self {
        Self { own_columns: own, ..self }
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
            + piece.slice_rows() as u128 * u128::from(self.weights.per_row)
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

    /// Whether there are values and all are equal. Computed in the rayon pool of the caller.
    pub fn has_equal_values(&self) -> bool {
        if let Some(&known) = self.equal_values.get() {
            return known;
        }
        let equal = self.values.is_some_and(|values| values.are_equal());
        *self.equal_values.get_or_init(|| equal)
    }

    /// Number of entries of a piece.
    pub fn piece_nnz(&self, piece: &ChunkRows) -> u64 {
        let entries = self.entries(piece);
        entries.end - entries.start
    }

    /// Pitch of Y on a device.
    fn pitch_bytes(&self) -> u64 {
        pitch_bytes((self.k * self.dtype.bytes()) as u64)
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

    /// A hash of the row pointers in hexadecimal: xxh3 of the xxh3 of each block. Computed in the rayon pool of the caller.
    fn hash(&self) -> String {
        let blocks = self.row_pointers.par_chunks(HASH_BLOCK_POINTERS);
        let hashes: Vec<u64> = blocks.map(|block| xxh3_64(bytemuck::cast_slice(block))).collect();
        format!("{:016x}", xxh3_64(bytemuck::cast_slice(&hashes)))
    }
}
