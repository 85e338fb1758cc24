//! Features of a chunk's rows, from which kernels are chosen; `inspect` prints them.
//!
//! They come from one pass over the row pointers, in parallel for many rows, and from samples of rows and columns of bounded
//! size. The sums are integers, so the features do not depend on the number of threads. The cache file of a matrix stores the
//! features of the whole matrix.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::column_marks::ColumnMarks;
use super::lengths::Lengths;
use super::locality::Locality;
use super::sorted_slices;
use super::{ChunkRows, Spmm};

/// Number of samples of a chunk.
const SAMPLES: usize = 4;
/// Consecutive columns of each sample.
const SAMPLE_COLUMNS: usize = 64;
/// Rows of each sample that are compared with the previous row.
const SAMPLE_ROWS: usize = 4;

/// Rows per parallel task.
const PIECE_ROWS: usize = 1 << 15;

/// Features of a chunk. In a chunk of segments, segments count as rows.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Features {
    /// Number of rows.
    pub rows: u64,
    /// Number of nonzeros.
    pub nnz: u64,
    /// Mean row length.
    pub mean: f64,
    /// Longest row's length.
    pub max: u64,
    /// Standard deviation of the row lengths divided by their mean.
    pub coefficient_of_variation: f64,
    /// Share of the nonzeros in rows longer than 512.
    pub long_row_nonzero_share: f64,
    /// Rows without nonzeros.
    pub empty_rows: u64,
    /// Share of padded ELLPACK's entries that are nonzeros.
    pub ell_fill: f64,
    /// Share of the sampled rows with the same columns as the previous row.
    pub repeated_row_share: f64,
    /// Smallest sampled column.
    pub first_column: u64,
    /// Largest sampled column plus 1.
    pub end_column: u64,
    /// Number of sampled columns.
    pub sampled_columns: u64,
    /// Number of distinct columns in each sample, summed over the samples.
    pub distinct_sampled_columns: u64,
    /// Share of sliced ELLPACK's entries that are nonzeros, for slices of 32 rows sorted by length; from a sample of rows.
    pub slice_fill: f64,
    /// Column reuse and distances among neighbouring rows.
    pub locality: Locality,
}

/// The features of the chunks of one matrix that were computed before. The candidates of a planner often have the same chunks.
#[derive(Debug, Default)]
pub struct KnownFeatures(Mutex<HashMap<ChunkRows, Features>>);

impl KnownFeatures {
    fn lock(&self) -> MutexGuard<'_, HashMap<ChunkRows, Features>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Features of all chunks, computed in the rayon pool of the caller.
pub fn features(work: &Spmm<'_>, chunks: &[ChunkRows]) -> Vec<Features> {
    // The lock is not held while features are computed: a thread that waits for others may run a task that needs the lock.
    let known: Vec<Option<Features>> = match &work.known_chunks {
        Some(known) => {
            let known = known.lock();
            chunks.iter().map(|chunk| known.get(chunk).copied()).collect()
        }
        None => vec![None; chunks.len()],
    };
    let of_chunk = |(chunk, known): (&ChunkRows, &Option<Features>)| match known {
        Some(known) => *known,
        None => Features::of(work, chunk),
    };
    let features: Vec<Features> = chunks.par_iter().zip(&known).map(of_chunk).collect();
    if let Some(known) = &work.known_chunks {
        known.lock().extend(chunks.iter().copied().zip(features.iter().copied()));
    }
    features
}

impl Features {
    /// The features that do not need all row lengths.
    fn sampled(work: &Spmm<'_>, chunk: &ChunkRows) -> Self {
        let columns = ColumnSample::of(work, chunk);
        Self {
            rows: chunk.slice_rows() as u64,
            nnz: work.piece_nnz(chunk),
            first_column: columns.first,
            end_column: columns.end,
            sampled_columns: columns.sampled,
            distinct_sampled_columns: columns.distinct,
            repeated_row_share: repeated_row_share(work, chunk),
            ..Self::default()
        }
    }

    /// Features of one chunk, computed in the rayon pool of the caller.
    pub fn of(work: &Spmm<'_>, chunk: &ChunkRows) -> Self {
        let all = ChunkRows::Rows { begin: 0, end: work.rows() };
        if let Some(known) = work.known.filter(|_| *chunk == all) {
            return known;
        }
        let rows = chunk.slice_rows();
        let pieces = rows.div_ceil(PIECE_ROWS);
        let of_piece = |piece: usize| {
            let range = piece * PIECE_ROWS..rows.min((piece + 1) * PIECE_ROWS);
            let piece = chunk.part(range);
            work.piece_pointers(&piece)
                .map_or_else(|| Lengths::of(work.lengths(&piece)), Lengths::of_pointers)
        };
        let lengths = || match pieces {
            0 | 1 => of_piece(0),
            _ => (0..pieces).into_par_iter().map(of_piece).reduce(Lengths::default, Lengths::plus),
        };
        let slices = || sorted_slices::fill(rows, |range, to| to.extend(work.lengths(&chunk.part(range))));
        let columns = || (Locality::of(work, chunk), Self::sampled(work, chunk));
        let ((lengths, slice_fill), (locality, sampled)) = match pieces {
            // Other threads would take longer to start.
            0 | 1 => ((lengths(), slices()), columns()),
            _ => rayon::join(|| rayon::join(lengths, slices), columns),
        };
        let Lengths { max, empty_rows, long, squares } = lengths;
        let share = |part: f64, of: f64, otherwise: f64| if of == 0.0 { otherwise } else { part / of };
        let (rows, nnz) = (rows as f64, sampled.nnz);
        let mean = share(nnz as f64, rows, 0.0);
        let variance = (share(squares as f64, rows, 0.0) - mean * mean).max(0.0);
        Self {
            mean,
            max,
            coefficient_of_variation: share(variance.sqrt(), mean, 0.0),
            long_row_nonzero_share: share(long as f64, nnz as f64, 0.0),
            empty_rows,
            ell_fill: share(nnz as f64, rows * max as f64, 1.0),
            slice_fill,
            locality,
            ..sampled
        }
    }
}

#[derive(Default)]
struct ColumnSample {
    first: u64,
    end: u64,
    sampled: u64,
    distinct: u64,
}

impl ColumnSample {
    fn of(work: &Spmm<'_>, chunk: &ChunkRows) -> Self {
        let Some(columns) = work.piece_columns(chunk).filter(|columns| !columns.is_empty()) else {
            return Self::default();
        };
        let mut sample = Self { first: u64::MAX, ..Self::default() };
        // The last sample in which each column occurred, counted from 1.
        let mut samples = ColumnMarks::with_capacity(SAMPLE_COLUMNS);
        for (number, begin) in (1..).zip(sample_starts(columns.len(), SAMPLE_COLUMNS)) {
            let sampled = &columns[begin..(begin + SAMPLE_COLUMNS).min(columns.len())];
            for &column in sampled {
                let last = samples.get_mut(column, number);
                sample.distinct += u64::from(*last != number);
                *last = number;
                sample.first = sample.first.min(u64::from(column));
                sample.end = sample.end.max(u64::from(column) + 1);
            }
            sample.sampled += sampled.len() as u64;
        }
        sample
    }
}

/// Starts of disjoint samples of `width` elements, evenly spaced from the beginning to the end of `count` elements.
fn sample_starts(count: usize, width: usize) -> impl Iterator<Item = usize> {
    let last = count.saturating_sub(width);
    let number = (count / width.max(1)).clamp(1, SAMPLES);
    (0..number).map(move |sample| if number == 1 { 0 } else { last * sample / (number - 1) })
}

/// The share of sampled rows with the same columns as the previous row.
fn repeated_row_share(work: &Spmm<'_>, chunk: &ChunkRows) -> f64 {
    let ChunkRows::Rows { begin, end } = *chunk else { return 0.0 };
    let row = |row: usize| work.piece_columns(&ChunkRows::Rows { begin: row, end: row + 1 }).unwrap_or(&[]);
    let (mut compared, mut repeated) = (0u32, 0u32);
    for start in sample_starts(end - begin, SAMPLE_ROWS + 1) {
        for next in begin + start + 1..(begin + start + 1 + SAMPLE_ROWS).min(end) {
            let (columns, before) = (row(next), row(next - 1));
            compared += 1;
            // Only the first columns of a row are compared, which bounds the cost of the sample.
            let is_repeated = !columns.is_empty()
                && columns.len() == before.len()
                && columns.iter().zip(before).take(SAMPLE_COLUMNS).all(|(a, b)| a == b);
            repeated += u32::from(is_repeated);
        }
    }
    f64::from(repeated) / f64::from(compared.max(1))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::kernel::order::SEGMENT;
    use crate::matrix::{RowStatistics, generate};

    #[test]
    fn a_chunk_of_all_rows_has_the_statistics_of_the_matrix() {
        for spec in ["rmat,scale=10,degree=8", "arrow,rows=3000", "fem3,n=6", "holes,rows=999,degree=3"] {
            let matrix = generate::<f64>(spec, 5, 1 << 30).unwrap().matrix;
            let work = Spmm::new(&matrix.view(), 4).unwrap();
            let found = Features::of(&work, &ChunkRows::Rows { begin: 0, end: matrix.rows() });
            let exact = RowStatistics::of(&matrix.view());
            assert_eq!((found.rows, found.nnz, found.max), (exact.rows, exact.nnz, exact.max), "{spec}");
            assert_eq!(found.empty_rows, exact.empty_rows, "{spec}");
            assert!((found.coefficient_of_variation - exact.coefficient_of_variation).abs() < 1e-9, "{spec}");
            assert!((found.long_row_nonzero_share - exact.long_row_nonzero_share).abs() < 1e-12, "{spec}");
            assert!((found.ell_fill - exact.ell_fill).abs() < 1e-12, "{spec}");
            assert!(found.end_column <= exact.cols && found.first_column < found.end_column, "{spec}");
            assert!(found.distinct_sampled_columns <= found.sampled_columns, "{spec}");
        }
    }

    #[test]
    fn sampled_rows_repeat_in_a_finite_element_matrix_and_not_in_a_diagonal_one() {
        let features = |spec: &str| {
            let matrix = generate::<f64>(spec, 1, 1 << 30).unwrap().matrix;
            let work = Spmm::new(&matrix.view(), 1).unwrap();
            Features::of(&work, &ChunkRows::Rows { begin: 0, end: matrix.rows() })
        };
        assert!(features("fem3,n=8").repeated_row_share > 0.4);
        assert_eq!(features("diagonal,rows=9000").repeated_row_share, 0.0);
        let diagonal = features("diagonal,rows=9000");
        assert_eq!((diagonal.first_column, diagonal.end_column), (0, 9000));
        assert_eq!(diagonal.sampled_columns, diagonal.distinct_sampled_columns);
    }

    #[test]
    fn features_do_not_depend_on_the_number_of_threads() {
        let matrix = generate::<f64>("rmat,scale=17,degree=3", 5, 1 << 30).unwrap().matrix;
        let work = Spmm::new(&matrix.view(), 4).unwrap();
        let all = ChunkRows::Rows { begin: 0, end: matrix.rows() };
        let with = |threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| Features::of(&work, &all))
        };
        let exact = RowStatistics::of(&matrix.view());
        let found = with(3);
        assert!(matrix.rows() > 2 * PIECE_ROWS && found == with(1));
        assert_eq!((found.max, found.empty_rows), (exact.max, exact.empty_rows));
        assert!((found.coefficient_of_variation - exact.coefficient_of_variation).abs() < 1e-9);
    }

    #[test]
    fn known_features_of_the_whole_matrix_are_used_again() {
        let matrix = generate::<f64>("road,n=4000", 5, 1 << 30).unwrap().matrix;
        let work = Spmm::new(&matrix.view(), 4).unwrap();
        let (rows, nnz) = (matrix.rows() as u64, matrix.nnz() as u64);
        let known = Features { rows, nnz, mean: 123.0, ..Features::default() };
        let all = ChunkRows::Rows { begin: 0, end: matrix.rows() };
        assert_eq!(Features::of(&work.clone().with_features(Some(known)), &all), known);
        let half = ChunkRows::Rows { begin: 0, end: matrix.rows() / 2 };
        assert_eq!(Features::of(&work.clone().with_features(Some(known)), &half), Features::of(&work, &half));
        let of_another = Features { rows: rows + 1, ..known };
        assert_ne!(Features::of(&work.clone().with_features(Some(of_another)), &all), of_another);
    }

    #[test]
    fn known_features_of_chunks_equal_computed_ones() {
        let matrix = generate::<f64>("rmat,scale=10,degree=8", 5, 1 << 30).unwrap().matrix;
        let work = Spmm::new(&matrix.view(), 4).unwrap();
        let known = Arc::new(KnownFeatures::default());
        let remembering = Spmm { known_chunks: Some(known.clone()), ..work.clone() };
        let rows = |begin, end| ChunkRows::Rows { begin, end };
        let chunks = [rows(0, 300), rows(300, 1024), ChunkRows::Segments { row: 0, begin: 0, end: 1 }];
        for some in [&chunks[..2], &chunks[1..], &chunks[..]] {
            assert_eq!(features(&remembering, some), features(&work, some));
        }
        assert_eq!(known.lock().len(), 3);
    }

    #[test]
    fn segments_count_as_rows() {
        let arrow = generate::<f64>("arrow,rows=1000", 1, 1 << 30).unwrap().matrix;
        let work = Spmm::new(&arrow.view(), 1).unwrap();
        let found = Features::of(&work, &ChunkRows::Segments { row: 0, begin: 5, end: 8 });
        assert_eq!((found.rows, found.nnz, found.max), (3, 1000 - 5 * SEGMENT as u64, SEGMENT as u64));
    }

    #[test]
    fn the_share_of_repeated_rows_is_a_part_of_the_compared_rows() {
        // Five rows are one sample: rows 1 and 3 of the four compared rows repeat the row before. Empty rows never repeat.
        let share = |pointers: &[u64], columns: &[u32]| {
            let work = Spmm::of_pattern(pointers, Some(columns), 9, 1, crate::matrix::Dtype::F64).unwrap();
            repeated_row_share(&work, &ChunkRows::Rows { begin: 0, end: pointers.len() - 1 })
        };
        assert_eq!(share(&[0, 2, 4, 6, 8, 10], &[1, 5, 1, 5, 2, 5, 2, 5, 1, 5]), 0.5);
        assert_eq!(share(&[0, 2, 4, 6, 8, 10], &[1, 5, 1, 5, 1, 5, 1, 5, 1, 5]), 1.0);
        assert_eq!(share(&[0, 1, 1, 1, 2, 3], &[3, 3, 3]), 0.25);
        assert_eq!(share(&[0, 1], &[3]), 0.0);
    }
}
