//! The transpose of a sparse matrix, built in parallel. Entries of a row keep the order of their rows in the original.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use rayon::prelude::*;

use super::csr::{Csr, CsrView, MOST_COLUMNS};
use super::scalar::Scalar;
use crate::error::{Error, Result};

/// Pieces of rows per thread; each piece has its own counts of columns.
const PIECES_PER_THREAD: usize = 1;

/// Aᵀ, built in the rayon pool of the caller.
pub fn transpose<T: Scalar>(matrix: &CsrView<'_, T>) -> Result<Csr<T>> {
    if matrix.rows() > MOST_COLUMNS {
        return Err(Error::usage(format!(
            "a matrix of {} rows cannot be transposed: a matrix has at most {MOST_COLUMNS} columns",
            matrix.rows()
        )));
    }
    let (pointers, columns, cols) = (matrix.row_pointers(), matrix.columns(), matrix.cols());
    // A view of some rows keeps the numbering of the whole matrix.
    let entries = pointers.last().copied().unwrap_or(0) - pointers.first().copied().unwrap_or(0);
    let pieces = pieces(pointers, rayon::current_num_threads() * PIECES_PER_THREAD);
    // For each piece the number of entries of each column.
    let mut counts: Vec<Vec<u64>> = pieces
        .par_iter()
        .map(|rows| {
            let mut counts = vec![0u64; cols];
            let entries = pointers[rows.start] as usize..pointers[rows.end] as usize;
            columns[entries].iter().for_each(|&column| counts[column as usize] += 1);
            counts
        })
        .collect();
    // The first place of each column, then of each piece within it.
    let mut starts = Vec::with_capacity(cols + 1);
    let mut next = 0;
    for column in 0..cols {
        starts.push(next);
        for counts in &mut counts {
            let count = counts[column];
            counts[column] = next;
            next += count;
        }
    }
    starts.push(next);
    // Every place is written once, by one thread; atomics make that safe without a proof.
    let rows_of: Vec<AtomicU32> = (0..entries).into_par_iter().map(|_| AtomicU32::new(0)).collect();
    let sources: Vec<AtomicU64> = (0..entries).into_par_iter().map(|_| AtomicU64::new(0)).collect();
    pieces.par_iter().zip(&mut counts).for_each(|(rows, places)| {
        for row in rows.clone() {
            for entry in pointers[row]..pointers[row + 1] {
                let place = &mut places[columns[entry as usize] as usize];
                rows_of[*place as usize].store(row as u32, Ordering::Relaxed);
                sources[*place as usize].store(entry, Ordering::Relaxed);
                *place += 1;
            }
        }
    });
    let values = matrix.values();
    let values: Vec<T> = sources.into_par_iter().map(|source| values[source.into_inner() as usize]).collect();
    let rows_of: Vec<u32> = rows_of.into_par_iter().map(AtomicU32::into_inner).collect();
    Csr::try_new(cols, matrix.rows(), starts, rows_of, values)
}

/// Ranges of rows with about equally many entries.
fn pieces(pointers: &[u64], count: usize) -> Vec<std::ops::Range<usize>> {
    let rows = pointers.len().saturating_sub(1);
    let (first, last) = (pointers.first().copied().unwrap_or(0), pointers.last().copied().unwrap_or(0));
    let mut ranges = Vec::new();
    let mut begin = 0;
    for piece in 1..=count as u64 {
        let target = first + ((u128::from(last - first) * u128::from(piece)) / count as u128) as u64;
        let end =
            if piece == count as u64 { rows } else { pointers.partition_point(|&at| at < target).min(rows) };
        if end > begin {
            ranges.push(begin..end);
            begin = end;
        }
    }
    ranges
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::matrix::generate;

    fn entries(matrix: &CsrView<'_, f64>, swapped: bool) -> Vec<(usize, usize, u64)> {
        let mut all = Vec::new();
        for row in 0..matrix.rows() {
            let (columns, values) = matrix.row(row);
            for (&column, value) in columns.iter().zip(values) {
                let place = if swapped { (column as usize, row) } else { (row, column as usize) };
                all.push((place.0, place.1, value.to_bits()));
            }
        }
        all.sort();
        all
    }

    proptest! {
        #[test]
        fn the_transpose_has_the_same_entries_at_swapped_places(seed in 0u64..1000, kind in 0usize..6) {
            let spec = ["rmat,scale=6,degree=5", "uniform,rows=40,degree=3,cols=77", "holes,rows=50,degree=3",
                "arrow,rows=60", "hub,rows=90,degree=2,hubs=1", "diagonal,rows=1"][kind];
            let matrix = generate::<f64>(spec, seed, u64::MAX).unwrap().matrix;
            let transposed = transpose(&matrix.view()).unwrap();
            prop_assert_eq!((transposed.rows(), transposed.cols()), (matrix.cols(), matrix.rows()));
            prop_assert_eq!(entries(&transposed.view(), false), entries(&matrix.view(), true));
            let again = transpose(&transposed.view()).unwrap();
            prop_assert_eq!(entries(&again.view(), false), entries(&matrix.view(), false));
        }
    }

    #[test]
    fn part_of_a_matrix_is_transposed_alone() {
        let matrix = generate::<f64>("stencil5,n=9", 1, u64::MAX).unwrap().matrix;
        let part = matrix.view().slice_rows(10..20);
        let transposed = transpose(&part).unwrap();
        assert_eq!(entries(&transposed.view(), false), entries(&part, true));
    }
}
