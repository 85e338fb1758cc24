//! Tuning parameters of the row kernels, and the rules that choose them. No parameter changes a bit of the result.
//!
//! The thresholds come from measurements against MKL on the matrices of `benches/cpu_against_mkl.rs`; the comment on each
//! threshold states the effect behind it.

use super::grouping::SegmentOrder;
use super::row_layout::RowLayout;
use super::store_choice::StoreRule;
use crate::kernel::order::SEGMENT;
use crate::machine::largest_cache_bytes;

/// The tuning parameters of a product on the CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tuning {
    /// Maximal number of vector registers that a slab of columns fills.
    pub most_units: usize,
    /// Rows per window; rows are grouped within a window only.
    pub window: usize,
    /// Whether rows outside blocks are sorted by length, longest first.
    pub sort: bool,
    /// Whether rows with identical columns are computed in blocks.
    pub identical: bool,
    /// Whether rows whose columns differ by a constant shift are computed in blocks of four.
    pub shifted: bool,
    /// How Y is written.
    pub stores: StoreRule,
    /// The order of segments, if rows are computed segment by segment.
    pub segments: Option<SegmentOrder>,
    /// Distance in nonzeros at which rows of X are prefetched; 0 disables prefetching.
    pub prefetch: usize,
    /// Number of pieces per thread.
    pub pieces_per_thread: usize,
}

/// Rows of X up to this size are narrow: reading A dominates the time.
const NARROW_BYTES: usize = 64;
/// Below this mean row length, mispredicted loop ends cost more than computing rows out of storage order, which reads A and writes Y in
/// jumps. With rows of X of a whole cache line a product takes longer for each nonzero, and fewer rows are short enough.
const SHORT_ROW_NONZEROS: usize = 32;
const SHORT_ROW_NONZEROS_OF_A_LINE: usize = 4;
/// Rows per window: large enough for rows of one length, small enough that their part of A stays in the L1 cache.
const NARROW_WINDOW: usize = 512;
const WIDE_WINDOW: usize = 256;
/// A Y of at least this size may evict X from the caches.
const NON_TEMPORAL_MIN_Y_BYTES: usize = 1 << 20;
/// Software prefetching pays if rows of X are at least this wide and X exceeds the private caches of a core.
const PREFETCH_MIN_ROW_BYTES: usize = 512;
const PREFETCH_MIN_X_BYTES: usize = 32 << 20;
/// Column order pays if rows have at least this many segments on average and X exceeds the L2 cache.
const COLUMN_ORDER_MIN_SEGMENTS: usize = 8;
const COLUMN_ORDER_MIN_X_BYTES: usize = 1 << 20;
/// From this mean row length on, with a narrow X, the latency of dependent multiply-adds dominates unless several chains run
/// concurrently.
const LONG_ROW_NONZEROS: usize = SEGMENT;
/// Share of rows with the column pattern of the previous row from which blocks of such rows pay.
const PATTERN_MIN_SHARE: f64 = 0.3;
/// The same share if all values are equal, so that a block is computed once and copied.
const UNIFORM_PATTERN_MIN_SHARE: f64 = 0.1;

impl Tuning {
    /// The parameters for `layout` times `k` columns, and a sentence for each one that differs from the default.
    ///
    /// The sentences are printed in plans and reports.
    pub fn choose<T: Copy>(layout: RowLayout<'_, T>, k: usize, uniform: bool) -> (Self, Vec<&'static str>) {
        let rows = layout.rows();
        let nnz = layout.entries();
        let row_bytes = k * size_of::<T>();
        let narrow = row_bytes <= NARROW_BYTES;
        let mean_length = nnz / rows.max(1);
        let x_bytes = layout.cols.saturating_mul(row_bytes);
        let mut reasons = Vec::new();
        let mut because = |holds: bool, reason: &'static str| {
            if holds {
                reasons.push(reason);
            }
            holds
        };
        because(uniform, "all values of A are equal: the value array is not read");
        let (identical_share, shifted_share) = pattern_shares(layout);
        let identical =
            identical_share >= if uniform { UNIFORM_PATTERN_MIN_SHARE } else { PATTERN_MIN_SHARE };
        because(
            identical,
            "many consecutive rows have identical columns: they are computed in blocks that load each row of X once",
        );
        let shifted = because(
            narrow && shifted_share >= PATTERN_MIN_SHARE,
            "many rows have the previous row's columns plus a constant: they are computed in blocks that load the columns once",
        );
        let by_columns = because(
            mean_length >= COLUMN_ORDER_MIN_SEGMENTS * SEGMENT && x_bytes >= COLUMN_ORDER_MIN_X_BYTES,
            "rows are long and X is 1 MiB or larger: segments are computed in column order, so that X is read once",
        );
        let by_segments = because(
            !by_columns && row_bytes <= 2 * NARROW_BYTES && mean_length >= LONG_ROW_NONZEROS,
            "rows are long and X is narrow: several segments are computed concurrently to hide multiply-add latency",
        );
        let short = if row_bytes < NARROW_BYTES { SHORT_ROW_NONZEROS } else { SHORT_ROW_NONZEROS_OF_A_LINE };
        let sort = because(
            narrow && mean_length < short,
            "rows are short and X is narrow: rows are sorted by length within windows",
        );
        let y_bytes = rows.saturating_mul(row_bytes);
        let may_bypass = y_bytes >= NON_TEMPORAL_MIN_Y_BYTES && row_bytes.is_multiple_of(64);
        let fits_cache = x_bytes.saturating_add(y_bytes) as u64 <= largest_cache_bytes();
        let timed = because(
            may_bypass && fits_cache,
            "Y is 1 MiB or larger: the first products time non-temporal stores, which bypass the caches, against ordinary ones",
        );
        let bypass = because(
            may_bypass && !fits_cache,
            "X and Y exceed the caches: Y is written with non-temporal stores, which bypass them",
        );
        let prefetch = because(
            row_bytes >= PREFETCH_MIN_ROW_BYTES && x_bytes >= PREFETCH_MIN_X_BYTES,
            "X is 32 MiB or larger and its rows are wide: rows of X are prefetched",
        );
        let tuning = Self {
            most_units: if identical && !uniform { 8 } else { 16 },
            window: if narrow { NARROW_WINDOW } else { WIDE_WINDOW },
            sort,
            identical,
            shifted,
            stores: match (timed, bypass) {
                (true, _) => StoreRule::Timed,
                (_, true) => StoreRule::NonTemporal,
                _ => StoreRule::Ordinary,
            },
            segments: if by_columns {
                Some(SegmentOrder::Columns)
            } else {
                by_segments.then_some(SegmentOrder::Rows)
            },
            prefetch: if prefetch { 8 } else { 0 },
            pieces_per_thread: if by_columns { 1 } else { 8 },
        };
        (tuning, reasons)
    }
}

/// The share of rows with the columns of the previous row, and the share with those columns plus a constant; estimated from
/// samples of consecutive rows spread over the matrix.
fn pattern_shares<T: Copy>(layout: RowLayout<'_, T>) -> (f64, f64) {
    const SAMPLES: usize = 64;
    const SAMPLE_ROWS: usize = 24;
    let rows = layout.rows();
    let step = (rows / SAMPLES).max(SAMPLE_ROWS);
    let (mut identical, mut shifted, mut compared) = (0u32, 0u32, 0u32);
    for begin in (0..rows).step_by(step) {
        for row in begin + 1..(begin + SAMPLE_ROWS).min(rows) {
            compared += 1;
            match layout.shift(row - 1, row) {
                Some(0) => identical += 1,
                Some(_) => shifted += 1,
                None => {}
            }
        }
    }
    let share = |count: u32| f64::from(count) / f64::from(compared.max(1));
    (share(identical), share(shifted))
}
