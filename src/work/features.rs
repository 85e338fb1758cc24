//! What the rows of a chunk look like, for choosing kernels and for people.
//!
//! One pass over the row pointers, shared out among threads where there are many, and bounded samples of rows and columns,
//! whatever the number of nonzeros. Integers are summed, so the numbers do not depend on the number of threads. Of a whole
//! matrix they may be known already: its cache keeps them.

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::lengths::Lengths;
use super::locality::Locality;
use super::sorted_slices;
use super::{ChunkRows, Work};

/// Places of a chunk where columns are looked at.
const SAMPLE_PLACES: usize = 4;
/// Neighbouring columns looked at in each.
const SAMPLE_COLUMNS: usize = 64;
/// Rows compared with the one before, in each place.
const SAMPLE_ROWS: usize = 4;

/// Rows that a thread takes at a time.
const PIECE_ROWS: usize = 1 << 15;

/// Features of a chunk. Of a cut row, segments count as rows.
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
    /// Standard deviation of the lengths over their mean.
    pub coefficient_of_variation: f64,
    /// Share of the nonzeros in rows longer than 512.
    pub long_row_nonzero_share: f64,
    /// Rows without nonzeros.
    pub empty_rows: u64,
    /// Share of padded ELL's places that hold a nonzero.
    pub ell_fill: f64,
    /// Of the rows looked at, the share with the columns of the row before.
    pub repeated_row_share: f64,
    /// Smallest column looked at.
    pub first_column: u64,
    /// Column behind the largest looked at.
    pub end_column: u64,
    /// Columns looked at.
    pub sampled_columns: u64,
    /// How many different ones there were among neighbours.
    pub distinct_sampled_columns: u64,
    /// Share of the places that hold a nonzero where slices of 32 rows are sorted by length, from a few windows of rows.
    pub slice_fill: f64,
    /// How the columns of neighbouring rows lie.
    pub locality: Locality,
}

/// Features of all chunks, in the rayon pool this is called in.
pub fn features(work: &Work<'_>, chunks: &[ChunkRows]) -> Vec<Features> {
    chunks.par_iter().map(|chunk| Features::of(work, chunk)).collect()
}

impl Features {
    /// What is known without a look at every row.
    fn outline(work: &Work<'_>, chunk: &ChunkRows) -> Self {
        let columns = ColumnSample::of(work, chunk);
        Self {
            rows: work.slice_rows(chunk) as u64,
            nnz: work.piece_nnz(chunk),
            first_column: columns.first,
            end_column: columns.end,
            sampled_columns: columns.seen,
            distinct_sampled_columns: columns.distinct,
            repeated_row_share: repeated_row_share(work, chunk),
            ..Self::default()
        }
    }

    /// Features of one chunk, in the rayon pool this is called in.
    pub fn of(work: &Work<'_>, chunk: &ChunkRows) -> Self {
        let all = ChunkRows::Rows { begin: 0, end: work.rows() };
        if let Some(known) = work.known.filter(|_| *chunk == all) {
            return known;
        }
        let rows = work.slice_rows(chunk);
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
        let columns = || (Locality::of(work, chunk), Self::outline(work, chunk));
        let ((lengths, slice_fill), (locality, outline)) =
            rayon::join(|| rayon::join(lengths, slices), columns);
        let Lengths { max, empty_rows, long, squares } = lengths;
        let share = |part: f64, of: f64, otherwise: f64| if of == 0.0 { otherwise } else { part / of };
        let (rows, nnz) = (rows as f64, outline.nnz);
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
            ..outline
        }
    }
}

#[derive(Default)]
struct ColumnSample {
    first: u64,
    end: u64,
    seen: u64,
    distinct: u64,
}

impl ColumnSample {
    fn of(work: &Work<'_>, chunk: &ChunkRows) -> Self {
        let Some(columns) = work.piece_columns(chunk).filter(|columns| !columns.is_empty()) else {
            return Self::default();
        };
        let mut sample = Self { first: u64::MAX, ..Self::default() };
        let mut place = [0u32; SAMPLE_COLUMNS];
        for begin in places(columns.len(), SAMPLE_COLUMNS) {
            let looked_at = &columns[begin..(begin + SAMPLE_COLUMNS).min(columns.len())];
            let place = &mut place[..looked_at.len()];
            place.copy_from_slice(looked_at);
            place.sort_unstable();
            sample.first = sample.first.min(u64::from(place[0]));
            sample.end = sample.end.max(u64::from(place[place.len() - 1]) + 1);
            sample.seen += place.len() as u64;
            sample.distinct += 1 + place.windows(2).filter(|pair| pair[0] != pair[1]).count() as u64;
        }
        sample
    }
}

/// Starts of the places to look at: the first, the last and some between, `width` long and apart.
fn places(count: usize, width: usize) -> impl Iterator<Item = usize> {
    let last = count.saturating_sub(width);
    let number = (count / width.max(1)).clamp(1, SAMPLE_PLACES);
    (0..number).map(move |place| if number == 1 { 0 } else { last * place / (number - 1) })
}

fn repeated_row_share(work: &Work<'_>, chunk: &ChunkRows) -> f64 {
    let ChunkRows::Rows { begin, end } = *chunk else { return 0.0 };
    let row = |row: usize| work.piece_columns(&ChunkRows::Rows { begin: row, end: row + 1 }).unwrap_or(&[]);
    let (mut seen, mut repeated) = (0u32, 0u32);
    for place in places(end - begin, SAMPLE_ROWS + 1) {
        for next in begin + place + 1..(begin + place + 1 + SAMPLE_ROWS).min(end) {
            let (columns, before) = (row(next), row(next - 1));
            seen += 1;
            // Rows beyond a sample's length would make it unbounded; none of those repeats is worth a kernel's while.
            let is_repeated = !columns.is_empty()
                && columns.len() == before.len()
                && columns.iter().zip(before).take(SAMPLE_COLUMNS).all(|(a, b)| a == b);
            repeated += u32::from(is_repeated);
        }
    }
    f64::from(repeated) / f64::from(seen.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::order::SEGMENT;
    use crate::matrix::{RowStatistics, generate};

    #[test]
    fn a_chunk_of_all_rows_has_the_matrix_statistics() {
        for spec in ["rmat,scale=10,degree=8", "arrow,rows=3000", "fem3,n=6", "holes,rows=999,degree=3"] {
            let matrix = generate::<f64>(spec, 5, 1 << 30).unwrap().matrix;
            let work = Work::spmm(&matrix.view(), 4).unwrap();
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
    fn finite_element_rows_repeat_in_the_sample_and_diagonals_do_not() {
        let features = |spec: &str| {
            let matrix = generate::<f64>(spec, 1, 1 << 30).unwrap().matrix;
            let work = Work::spmm(&matrix.view(), 1).unwrap();
            Features::of(&work, &ChunkRows::Rows { begin: 0, end: matrix.rows() })
        };
        assert!(features("fem3,n=8").repeated_row_share > 0.4);
        assert_eq!(features("diagonal,rows=9000").repeated_row_share, 0.0);
        let diagonal = features("diagonal,rows=9000");
        assert_eq!((diagonal.first_column, diagonal.end_column), (0, 9000));
        assert_eq!(diagonal.sampled_columns, diagonal.distinct_sampled_columns);
    }

    #[test]
    fn many_rows_are_looked_at_by_threads_and_nothing_changes() {
        let matrix = generate::<f64>("rmat,scale=17,degree=3", 5, 1 << 30).unwrap().matrix;
        let work = Work::spmm(&matrix.view(), 4).unwrap();
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
    fn what_is_known_of_a_matrix_is_not_looked_for_again() {
        let matrix = generate::<f64>("road,n=4000", 5, 1 << 30).unwrap().matrix;
        let work = Work::spmm(&matrix.view(), 4).unwrap();
        let (rows, nnz) = (matrix.rows() as u64, matrix.nnz() as u64);
        let known = Features { rows, nnz, mean: 123.0, ..Features::default() };
        let all = ChunkRows::Rows { begin: 0, end: matrix.rows() };
        assert_eq!(Features::of(&work.knowing(Some(known)), &all), known);
        let half = ChunkRows::Rows { begin: 0, end: matrix.rows() / 2 };
        assert_eq!(Features::of(&work.knowing(Some(known)), &half), Features::of(&work, &half));
        let of_another = Features { rows: rows + 1, ..known };
        assert_ne!(Features::of(&work.knowing(Some(of_another)), &all), of_another);
    }

    #[test]
    fn segments_count_as_rows() {
        let arrow = generate::<f64>("arrow,rows=1000", 1, 1 << 30).unwrap().matrix;
        let work = Work::spmm(&arrow.view(), 1).unwrap();
        let found = Features::of(&work, &ChunkRows::Segments { row: 0, begin: 5, end: 8 });
        assert_eq!((found.rows, found.nnz, found.max), (3, 1000 - 5 * SEGMENT as u64, SEGMENT as u64));
    }
}
