//! What the row kernels may do one way or the other without changing a bit of the result, and the rules that choose.
//!
//! The thresholds come from measurements beside MKL on the matrices that `benches/cpu_against_mkl.rs` names; each
//! rule says what it rests on.

use super::grouping::SegmentOrder;
use super::layout::RowLayout;
use crate::kernel::order::SEGMENT;

/// Preferences of a product on the CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tuning {
    /// Most registers a slab of columns may fill.
    pub most_units: usize,
    /// Rows are grouped within windows of this many.
    pub window: usize,
    /// Rows outside blocks are taken longest first.
    pub sort: bool,
    /// Rows with the same columns are taken in blocks.
    pub identical: bool,
    /// Rows whose columns move along are taken four at a time.
    pub shifted: bool,
    /// Y is written past the caches.
    pub stream: bool,
    /// Rows are computed segment by segment.
    pub segments: Option<SegmentOrder>,
    /// How many nonzeros ahead rows of X are fetched; zero for not at all.
    pub prefetch: usize,
    /// Pieces made for each thread.
    pub pieces_per_thread: usize,
}

/// A row of X or Y up to this size is little work, so that the cost of walking through A decides.
const NARROW_BYTES: usize = 64;
/// Rows shorter than this on average suffer more from unpredictable lengths than from being taken out of order.
const SHORT_ROW: usize = 32;
/// Y from this size on would push X out of the caches.
const STREAMED_BYTES: usize = 1 << 20;
/// Fetching ahead pays for wide rows of an X that no cache near the core holds.
const FETCHED_ROW_BYTES: usize = 512;
const FETCHED_X_BYTES: usize = 32 << 20;
/// Rows of at least this many segments, in an X that the second cache does not hold, are better taken in the order of
/// columns.
const WAVE_SEGMENTS: usize = 8;
const WAVE_X_BYTES: usize = 1 << 20;
/// Rows that are this long on average, and narrow slabs, leave a chain waiting for itself if a row is taken alone.
const LONG_ROW: usize = SEGMENT;
/// Share of rows with the columns of the one before from which blocks of them pay for taking rows out of order.
const ALIKE_SHARE: f64 = 0.3;
/// The same where all values are equal, so that such rows are computed once.
const EQUAL_SHARE: f64 = 0.1;

impl Tuning {
    /// The preferences for `layout` times `k` columns, and the reasons in words.
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
        because(uniform, "all values are equal, so none is read");
        let (alike_share, shifted_share) = pattern_shares(layout);
        let alike = alike_share >= if uniform { EQUAL_SHARE } else { ALIKE_SHARE };
        because(alike, "many rows have the columns of the row before and share its reads of X");
        let shifted = because(
            narrow && shifted_share >= ALIKE_SHARE,
            "many rows have the columns of the row before, moved along, and share its reads of them",
        );
        let wave = because(
            mean_length >= WAVE_SEGMENTS * SEGMENT && x_bytes >= WAVE_X_BYTES,
            "rows are long, so their segments are taken in the order of columns",
        );
        let side_by_side = because(
            !wave && row_bytes <= 2 * NARROW_BYTES && mean_length >= LONG_ROW,
            "rows are long and X is narrow, so segments run side by side",
        );
        let sort = because(
            narrow && mean_length < SHORT_ROW,
            "rows are short and X is narrow, so rows of like length are taken together",
        );
        let stream = because(
            rows.saturating_mul(row_bytes) >= STREAMED_BYTES && row_bytes.is_multiple_of(64),
            "Y is large and goes past the caches",
        );
        let fetch = because(
            row_bytes >= FETCHED_ROW_BYTES && x_bytes >= FETCHED_X_BYTES,
            "X is large and wide, so its rows are fetched ahead",
        );
        let tuning = Self {
            most_units: if alike && !uniform { 8 } else { 16 },
            window: if narrow { 1024 } else { 256 },
            sort,
            identical: alike,
            shifted,
            stream,
            segments: if wave {
                Some(SegmentOrder::Columns)
            } else {
                side_by_side.then_some(SegmentOrder::Rows)
            },
            prefetch: if fetch { 8 } else { 0 },
            pieces_per_thread: if wave { 1 } else { 8 },
        };
        (tuning, reasons)
    }
}

/// Shares of rows with the columns of the row before, and with those columns moved along, from runs of rows spread
/// over the matrix.
fn pattern_shares<T: Copy>(layout: RowLayout<'_, T>) -> (f64, f64) {
    const RUNS: usize = 64;
    const RUN_ROWS: usize = 24;
    let rows = layout.rows();
    let step = (rows / RUNS).max(RUN_ROWS);
    let (mut alike, mut moved, mut seen) = (0u32, 0u32, 0u32);
    for begin in (0..rows).step_by(step) {
        for row in begin + 1..(begin + RUN_ROWS).min(rows) {
            seen += 1;
            match layout.shift(row - 1, row) {
                Some(0) => alike += 1,
                Some(_) => moved += 1,
                None => {}
            }
        }
    }
    let share = |count: u32| f64::from(count) / f64::from(seen.max(1));
    (share(alike), share(moved))
}
