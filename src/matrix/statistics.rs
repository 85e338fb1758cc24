//! Statistics of a matrix's rows: lengths, variance, bandwidth, repeated patterns, padding, and bytes in each format.
//!
//! They come from one parallel pass over the columns. The sums are integers, so they do not depend on the number of threads.

use std::collections::BTreeMap;

use rayon::prelude::*;
use serde::Serialize;

use super::csr::CsrView;
use super::scalar::{Dtype, Scalar};

/// A row with more nonzeros than this counts as long.
pub const LONG_ROW: u64 = 512;
/// Rows of a slice for the statistics of sliced ELLPACK.
pub const SLICE_ROWS: usize = 8;
/// Rows of a window within which rows are sorted by length; also the rows of one parallel task.
pub const SORT_WINDOW: usize = 4096;
/// Consecutive rows of a sample for counting distinct columns.
const SAMPLE_ROWS: usize = 256;
/// Maximal number of samples, evenly spaced.
const SAMPLES: usize = 64;
/// Maximal nonzeros of a sample, which bounds its cost for long rows.
const SAMPLE_NONZEROS: usize = 1 << 16;

/// Statistics of a matrix's rows.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RowStatistics {
    /// Number of rows.
    pub rows: u64,
    /// Number of columns.
    pub cols: u64,
    /// Number of stored entries.
    pub nnz: u64,
    /// Mean row length.
    pub mean: f64,
    /// Shortest row's length.
    pub min: u64,
    /// First quartile of the row lengths (all quantiles are interpolated linearly).
    pub q1: f64,
    /// Median row length.
    pub median: f64,
    /// Third quartile of the row lengths.
    pub q3: f64,
    /// 90th percentile of the row lengths.
    pub p90: f64,
    /// 99th percentile of the row lengths.
    pub p99: f64,
    /// Longest row's length.
    pub max: u64,
    /// First row of the largest length; `None` without rows.
    pub longest_row: Option<u64>,
    /// Population variance of the row lengths.
    pub variance: f64,
    /// Standard deviation of the row lengths.
    pub standard_deviation: f64,
    /// Standard deviation divided by the mean; 0 without nonzeros.
    pub coefficient_of_variation: f64,
    /// Rows without nonzeros.
    pub empty_rows: u64,
    /// Share of the nonzeros in rows longer than [`LONG_ROW`].
    pub long_row_nonzero_share: f64,
    /// Largest distance of a nonzero below the diagonal.
    pub lower_bandwidth: u64,
    /// Largest distance of a nonzero above the diagonal.
    pub upper_bandwidth: u64,
    /// Share of the rows that are not empty and have the same columns as the previous row.
    pub repeated_row_share: f64,
    /// Distinct columns per nonzero in samples of 256 consecutive rows; a low share means that rows of X are reused while they
    /// are cached.
    pub distinct_column_share: f64,
    /// Share of padded ELLPACK's slots that are nonzeros.
    pub ell_fill: f64,
    /// The same share for sliced ELLPACK with slices of 8 rows in matrix order.
    pub sell_fill: f64,
    /// The same share for slices of 8 rows sorted by length within windows of 4096 rows.
    pub sell_sorted_fill: f64,
    /// Bytes in each format, f64.
    pub bytes_f64: Footprints,
    /// Bytes in each format, f32.
    pub bytes_f32: Footprints,
}

/// Bytes of a matrix in each format, and of its multivectors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Footprints {
    /// Compressed sparse rows.
    pub csr: u64,
    /// ELLPACK with all rows padded to the length of the longest.
    pub ell_padded: u64,
    /// ELLPACK without padding.
    pub ell_unpadded: u64,
    /// Sliced ELLPACK with slices of 8 rows sorted within windows of 4096, slice starts and row order included.
    pub sell: u64,
    /// One column of X.
    pub x_per_column: u64,
    /// One column of Y.
    pub y_per_column: u64,
}

impl RowStatistics {
    /// The statistics of `matrix`, computed in the rayon pool of the caller.
    pub fn of<T: Scalar>(matrix: &CsrView<'_, T>) -> Self {
        let windows = matrix.rows().div_ceil(SORT_WINDOW);
        let tally = (0..windows)
            .into_par_iter()
            .map(|window| Tally::of_window(matrix, window))
            .reduce(Tally::default, Tally::merge);

        let (rows, cols, nnz) = (matrix.rows() as u64, matrix.cols() as u64, matrix.nnz() as u64);
        let share =
            |part: u64, of: u64, otherwise: f64| if of == 0 { otherwise } else { part as f64 / of as f64 };
        let mean = share(nnz, rows, 0.0);
        // Exact in integers: (n Σx² − (Σx)²) / n²; in floating point only if the integers overflow.
        let variance = match u128::from(rows).checked_mul(tally.squares) {
            Some(scaled) => {
                let spread = scaled.saturating_sub(u128::from(nnz) * u128::from(nnz));
                if rows == 0 { 0.0 } else { spread as f64 / rows as f64 / rows as f64 }
            }
            None => (tally.squares as f64 / rows as f64 - mean * mean).max(0.0),
        };
        let standard_deviation = variance.sqrt();
        let lengths = &tally.lengths;
        let quantile = |share: f64| interpolated_quantile(lengths, rows, share);
        let max = lengths.keys().next_back().copied().unwrap_or(0);
        let footprints = |dtype: Dtype| {
            let slot = 4 + dtype.bytes() as u64;
            let slices = rows.div_ceil(SLICE_ROWS as u64);
            Footprints {
                csr: (rows + 1) * 8 + nnz * slot,
                ell_padded: rows.saturating_mul(max).saturating_mul(slot),
                ell_unpadded: rows * 12 + nnz * slot,
                sell: tally.sorted_slots.saturating_mul(slot).saturating_add((slices + 1) * 8 + rows * 4),
                x_per_column: cols * dtype.bytes() as u64,
                y_per_column: rows * dtype.bytes() as u64,
            }
        };
        Self {
            rows,
            cols,
            nnz,
            mean,
            min: lengths.keys().next().copied().unwrap_or(0),
            q1: quantile(0.25),
            median: quantile(0.5),
            q3: quantile(0.75),
            p90: quantile(0.9),
            p99: quantile(0.99),
            max,
            longest_row: tally.longest.map(|(_, row)| row),
            variance,
            standard_deviation,
            coefficient_of_variation: if nnz == 0 { 0.0 } else { standard_deviation / mean },
            empty_rows: lengths.get(&0).copied().unwrap_or(0),
            long_row_nonzero_share: share(tally.long_row_nonzeros, nnz, 0.0),
            lower_bandwidth: tally.lower_bandwidth,
            upper_bandwidth: tally.upper_bandwidth,
            repeated_row_share: share(tally.repeated_rows, rows, 0.0),
            distinct_column_share: distinct_column_share(matrix),
            ell_fill: share(nnz, rows.saturating_mul(max), 1.0),
            sell_fill: share(nnz, tally.unsorted_slots, 1.0),
            sell_sorted_fill: share(nnz, tally.sorted_slots, 1.0),
            bytes_f64: footprints(Dtype::F64),
            bytes_f32: footprints(Dtype::F32),
        }
    }
}

/// Sums over windows of rows.
#[derive(Default)]
struct Tally {
    /// Number of rows of each length.
    lengths: BTreeMap<u64, u64>,
    squares: u128,
    /// Length and index of the first longest row.
    longest: Option<(u64, u64)>,
    long_row_nonzeros: u64,
    lower_bandwidth: u64,
    upper_bandwidth: u64,
    repeated_rows: u64,
    unsorted_slots: u64,
    sorted_slots: u64,
}

impl Tally {
    fn of_window<T: Scalar>(matrix: &CsrView<'_, T>, window: usize) -> Self {
        let rows = window * SORT_WINDOW..((window + 1) * SORT_WINDOW).min(matrix.rows());
        let mut tally = Self::default();
        let mut lengths = Vec::with_capacity(rows.len());
        for row in rows {
            let columns = &matrix.columns()[matrix.row_range(row)];
            let length = columns.len() as u64;
            lengths.push(length);
            if tally.longest.is_none_or(|(longest, _)| length > longest) {
                tally.longest = Some((length, row as u64));
            }
            if length > LONG_ROW {
                tally.long_row_nonzeros += length;
            }
            tally.squares += u128::from(length) * u128::from(length);
            if let (Some(&first), Some(&last)) = (columns.iter().min(), columns.iter().max()) {
                let row = row as u64;
                tally.lower_bandwidth = tally.lower_bandwidth.max(row.saturating_sub(u64::from(first)));
                tally.upper_bandwidth = tally.upper_bandwidth.max(u64::from(last).saturating_sub(row));
            }
            if row > 0 && length > 0 && *columns == matrix.columns()[matrix.row_range(row - 1)] {
                tally.repeated_rows += 1;
            }
        }
        tally.unsorted_slots = slots(&lengths);
        lengths.sort_unstable_by(|a, b| b.cmp(a));
        tally.sorted_slots = slots(&lengths);
        for equal in lengths.chunk_by(|a, b| a == b) {
            tally.lengths.insert(equal[0], equal.len() as u64);
        }
        tally
    }

    fn merge(mut self, other: Self) -> Self {
        for (length, count) in other.lengths {
            *self.lengths.entry(length).or_default() += count;
        }
        // Of two rows of equal length, the first is kept.
        self.longest = match (self.longest, other.longest) {
            (Some(a), Some(b)) if b.0 > a.0 || (b.0 == a.0 && b.1 < a.1) => Some(b),
            (a, b) => a.or(b),
        };
        self.squares += other.squares;
        self.long_row_nonzeros += other.long_row_nonzeros;
        self.lower_bandwidth = self.lower_bandwidth.max(other.lower_bandwidth);
        self.upper_bandwidth = self.upper_bandwidth.max(other.upper_bandwidth);
        self.repeated_rows += other.repeated_rows;
        self.unsorted_slots += other.unsorted_slots;
        self.sorted_slots += other.sorted_slots;
        self
    }
}

/// Number of slots of slices for rows of these lengths; the last slice has as many lanes as the others.
fn slots(lengths: &[u64]) -> u64 {
    let widest = |slice: &[u64]| slice.iter().copied().max().unwrap_or(0);
    lengths.chunks(SLICE_ROWS).map(|slice| widest(slice) * SLICE_ROWS as u64).sum()
}

/// The length at position `share * (rows - 1)` of the sorted lengths, interpolated linearly.
fn interpolated_quantile(lengths: &BTreeMap<u64, u64>, rows: u64, share: f64) -> f64 {
    let position = rows.saturating_sub(1) as f64 * share;
    let at = |position: f64| {
        let mut rows_so_far = 0u64;
        lengths
            .iter()
            .find(|(_, count)| {
                rows_so_far += **count;
                rows_so_far as f64 > position
            })
            .map_or(0.0, |(&length, _)| length as f64)
    };
    let (below, above) = (at(position.floor()), at(position.ceil()));
    below + (above - below) * position.fract()
}

/// Distinct columns per nonzero in samples of consecutive rows; 1 without nonzeros.
fn distinct_column_share<T: Scalar>(matrix: &CsrView<'_, T>) -> f64 {
    let blocks = matrix.rows().div_ceil(SAMPLE_ROWS);
    let step = blocks.div_ceil(SAMPLES).max(1);
    let (nonzeros, distinct) = (0..blocks)
        .into_par_iter()
        .step_by(step)
        .map(|block| {
            let first = block * SAMPLE_ROWS;
            let last = (first + SAMPLE_ROWS).min(matrix.rows());
            let part = matrix.slice_rows(first..last);
            let start = matrix.row_range(first).start;
            let mut columns = matrix.columns()[start..start + part.nnz().min(SAMPLE_NONZEROS)].to_vec();
            let nonzeros = columns.len();
            columns.sort_unstable();
            columns.dedup();
            (nonzeros, columns.len())
        })
        .reduce(|| (0, 0), |a, b| (a.0 + b.0, a.1 + b.1));
    if nonzeros == 0 { 1.0 } else { distinct as f64 / nonzeros as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matrix::csr::Csr;
    use crate::matrix::generate;
    use proptest::prelude::*;

    fn statistics(spec: &str) -> RowStatistics {
        RowStatistics::of(&generate::<f64>(spec, 1, 1 << 30).unwrap().matrix.view())
    }

    #[test]
    fn a_matrix_without_rows_or_nonzeros_has_statistics() {
        let nothing = RowStatistics::of(&Csr::<f64>::empty().view());
        assert_eq!((nothing.rows, nothing.nnz, nothing.longest_row), (0, 0, None));
        assert_eq!((nothing.mean, nothing.variance, nothing.ell_fill, nothing.p99), (0.0, 0.0, 1.0, 0.0));
        let empty = statistics("empty,rows=5000,cols=3");
        assert_eq!((empty.empty_rows, empty.longest_row, empty.sell_fill), (5000, Some(0), 1.0));
        assert_eq!(empty.coefficient_of_variation, 0.0);
    }

    #[test]
    fn the_statistics_of_an_arrow_matrix_are_those_of_its_definition() {
        let arrow = statistics("arrow,rows=1000");
        assert_eq!((arrow.min, arrow.max, arrow.longest_row, arrow.median), (2, 1000, Some(0), 2.0));
        assert_eq!((arrow.lower_bandwidth, arrow.upper_bandwidth), (999, 999));
        assert_eq!(arrow.long_row_nonzero_share, 1000.0 / 2998.0);
        assert_eq!(arrow.ell_fill, 2998.0 / 1_000_000.0);
        // 125 slices: the first as wide as the first row, the others two wide.
        assert_eq!(arrow.sell_fill, 2998.0 / (8.0 * 1000.0 + 124.0 * 8.0 * 2.0));
        assert_eq!(arrow.bytes_f64.csr, 1001 * 8 + 2998 * 12);
        assert_eq!(arrow.bytes_f32.ell_padded, 1_000_000 * 8);
        assert_eq!(arrow.bytes_f64.ell_unpadded, 1000 * 12 + 2998 * 12);
    }

    #[test]
    fn two_of_three_finite_element_rows_repeat_the_previous_row() {
        let fem = statistics("fem3,n=8");
        assert!((fem.repeated_row_share - 2.0 / 3.0).abs() < 1e-12);
        assert!(fem.distinct_column_share < 0.1);
        assert_eq!(statistics("diagonal,rows=9000").repeated_row_share, 0.0);
        assert_eq!(statistics("diagonal,rows=9000").distinct_column_share, 1.0);
        assert_eq!(statistics("holes,rows=9000,degree=1").empty_rows, 4500);
    }

    #[test]
    fn sorting_reduces_the_padding_of_slices() {
        let holes = statistics("holes,rows=8192,degree=4");
        assert_eq!((holes.sell_fill, holes.sell_sorted_fill), (0.5, 1.0));
    }

    #[test]
    fn stand_ins_have_the_published_quartiles() {
        let mhd = statistics("like,name=mhda416");
        assert_eq!((mhd.min, mhd.q1, mhd.median, mhd.q3, mhd.max), (1, 16.0, 22.0, 23.0, 33));
    }

    proptest! {
        #[test]
        fn statistics_agree_with_their_definitions(lengths in prop::collection::vec(0usize..40, 1..600)) {
            let mut pointers = vec![0u64];
            let mut columns = Vec::new();
            for (row, &length) in lengths.iter().enumerate() {
                columns.extend((0..length).map(|at| ((row * 7) % 60 + at) as u32));
                pointers.push(columns.len() as u64);
            }
            let values = vec![1.0f32; columns.len()];
            let matrix = Csr::try_new(lengths.len(), 100, pointers, columns, values).unwrap();
            let found = RowStatistics::of(&matrix.view());

            let mut sorted = lengths.clone();
            sorted.sort();
            let n = lengths.len() as f64;
            let mean = lengths.iter().sum::<usize>() as f64 / n;
            let variance = lengths.iter().map(|&length| (length as f64 - mean).powi(2)).sum::<f64>() / n;
            prop_assert!((found.mean - mean).abs() < 1e-9 && (found.variance - variance).abs() < 1e-6);
            prop_assert_eq!(found.min as usize, sorted[0]);
            prop_assert_eq!(found.max as usize, sorted[sorted.len() - 1]);
            let position = (n - 1.0) * 0.9;
            let (below, above) = (sorted[position.floor() as usize] as f64, sorted[position.ceil() as usize] as f64);
            prop_assert!((found.p90 - (below + (above - below) * position.fract())).abs() < 1e-9);
            let longest = lengths.iter().position(|&length| length == sorted[sorted.len() - 1]);
            prop_assert_eq!(found.longest_row.map(|row| row as usize), longest);
        }
    }
}
