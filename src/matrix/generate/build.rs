//! Builds a CSR matrix in parallel from two rules: how long a row is, and which columns it has.
//!
//! Nothing is allocated before its size was checked against the limit. The result depends on the rules and the seed
//! alone, not on the number of threads.

use rayon::prelude::*;

use super::random::{of_pair, unit};
use crate::error::{Error, Result};
use crate::matrix::array::AlignedBuffer;
use crate::matrix::csr::{Csr, MOST_COLUMNS};
use crate::matrix::scalar::Scalar;

/// Nonzeros of one parallel task: enough to hide its start, few enough to balance.
const BLOCK_NONZEROS: u64 = 1 << 16;
/// Rows of one parallel task at most, so that empty rows are shared out too.
const BLOCK_ROWS: usize = 1 << 16;

/// What values the generated entries get. All are symmetric: A(i, j) = A(j, i) where both exist.
#[derive(Clone, Copy)]
pub enum Values {
    /// Random in [-1, 1].
    Random,
    /// Random in [-1, 1], and the diagonal holds its row's length, which dominates the others' sum.
    DiagonallyDominant,
}

/// Everything about a matrix to be generated but its rules.
#[derive(Clone, Copy)]
pub struct Shape {
    /// Number of rows.
    pub rows: u64,
    /// Number of columns.
    pub cols: u64,
    /// About how many nonzeros it will have; refused early when these alone do not fit.
    pub nonzeros: u64,
    /// Its values.
    pub values: Values,
    /// What the values depend on, beside their place.
    pub seed: u64,
    /// Bytes the matrix may take.
    pub memory_limit_bytes: u64,
}

/// Refuses `needed_bytes` beyond the limit.
pub fn check_memory(needed_bytes: Option<u64>, limit_bytes: u64) -> Result<()> {
    let needed_bytes = needed_bytes.unwrap_or(u64::MAX);
    if needed_bytes <= limit_bytes {
        return Ok(());
    }
    Err(Error::DoesNotFit {
        what: "the generated matrix".into(),
        needed_bytes,
        limit_bytes,
        advice: "ask for a smaller one".into(),
    })
}

/// Bytes of a CSR matrix, `None` beyond `u64`.
pub fn csr_bytes<T: Scalar>(rows: u64, nonzeros: u64) -> Option<u64> {
    let pointers = rows.checked_add(1)?.checked_mul(8)?;
    nonzeros.checked_mul(4 + size_of::<T>() as u64)?.checked_add(pointers)
}

/// The matrix whose row `i` has `length(i)` nonzeros in the ascending columns that `fill(i, columns)` writes.
pub fn build<T: Scalar>(
    shape: Shape,
    length: impl Fn(usize) -> usize + Sync,
    fill: impl Fn(usize, &mut [u32]) + Sync,
) -> Result<Csr<T>> {
    if shape.cols > MOST_COLUMNS as u64 {
        return Err(Error::Usage(format!(
            "a generated matrix of {} columns is too large; there may be {MOST_COLUMNS}",
            shape.cols
        )));
    }
    check_memory(csr_bytes::<T>(shape.rows, shape.nonzeros), shape.memory_limit_bytes)?;
    let rows = usize::try_from(shape.rows)
        .map_err(|_| Error::Usage(format!("{} rows are too many for this machine", shape.rows)))?;

    let mut row_pointers = AlignedBuffer::<u64>::zeroed(rows + 1)?;
    row_pointers[1..].par_iter_mut().with_min_len(1 << 12).enumerate().for_each(|(row, pointer)| {
        *pointer = length(row) as u64;
    });
    let mut nonzeros = 0u64;
    for pointer in row_pointers.iter_mut() {
        nonzeros = nonzeros.saturating_add(*pointer);
        *pointer = nonzeros;
    }
    check_memory(csr_bytes::<T>(shape.rows, nonzeros), shape.memory_limit_bytes)?;

    let mut columns = AlignedBuffer::<u32>::zeroed(nonzeros as usize)?;
    let mut values = AlignedBuffer::<T>::zeroed(nonzeros as usize)?;
    blocks(&row_pointers, &mut columns, &mut values).into_par_iter().for_each(|block| {
        let (mut columns, mut values) = (block.columns, block.values);
        for row in block.rows {
            let row_length = (row_pointers[row + 1] - row_pointers[row]) as usize;
            let (row_columns, rest_columns) = columns.split_at_mut(row_length);
            let (row_values, rest_values) = values.split_at_mut(row_length);
            (columns, values) = (rest_columns, rest_values);
            fill(row, row_columns);
            for (value, &column) in row_values.iter_mut().zip(row_columns.iter()) {
                *value = T::from_f64(entry(shape.values, shape.seed, row, column, row_length));
            }
        }
    });
    Csr::try_new(rows, shape.cols as usize, row_pointers, columns, values)
}

#[inline]
fn entry(values: Values, seed: u64, row: usize, column: u32, row_length: usize) -> f64 {
    match values {
        Values::DiagonallyDominant if row as u64 == u64::from(column) => row_length as f64,
        _ => 2.0 * unit(of_pair(seed, row as u64, u64::from(column))) - 1.0,
    }
}

/// Consecutive rows and the memory for their nonzeros.
struct Block<'a, T> {
    rows: std::ops::Range<usize>,
    columns: &'a mut [u32],
    values: &'a mut [T],
}

fn blocks<'a, T>(
    row_pointers: &[u64],
    mut columns: &'a mut [u32],
    mut values: &'a mut [T],
) -> Vec<Block<'a, T>> {
    let rows = row_pointers.len() - 1;
    let mut blocks = Vec::new();
    let mut start = 0;
    while start < rows {
        let last = (start + BLOCK_ROWS).min(rows);
        let budget = row_pointers[start] + BLOCK_NONZEROS;
        let whole_rows = row_pointers[start + 1..=last].partition_point(|&pointer| pointer <= budget);
        let end = start + whole_rows.max(1);
        let nonzeros = (row_pointers[end] - row_pointers[start]) as usize;
        let (block_columns, rest_columns) = columns.split_at_mut(nonzeros);
        let (block_values, rest_values) = values.split_at_mut(nonzeros);
        (columns, values) = (rest_columns, rest_values);
        blocks.push(Block { rows: start..end, columns: block_columns, values: block_values });
        start = end;
    }
    blocks
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(rows: u64, cols: u64, memory_limit_bytes: u64) -> Shape {
        Shape { rows, cols, nonzeros: 0, values: Values::Random, seed: 1, memory_limit_bytes }
    }

    #[test]
    fn rows_longer_than_a_block_and_runs_of_empty_rows_are_filled() {
        let hub = 3 * BLOCK_NONZEROS as usize;
        let rows = 2 * BLOCK_ROWS + 3;
        let length = |row: usize| if row == 1 { hub } else { usize::from(row == rows - 1) };
        let fill = |_: usize, columns: &mut [u32]| {
            columns.iter_mut().enumerate().for_each(|(at, column)| *column = at as u32)
        };
        let matrix = build::<f32>(shape(rows as u64, hub as u64, 1 << 30), length, fill).unwrap();
        assert_eq!(matrix.nnz(), hub + 1);
        assert!(matrix.view().row(1).0.iter().enumerate().all(|(at, &column)| at == column as usize));
        assert_eq!(matrix.view().row(rows - 1).0, &[0]);
    }

    #[test]
    fn nonzeros_found_to_be_too_many_are_refused_before_they_are_allocated() {
        let refused = build::<f64>(shape(10, 10, 1000), |_| usize::MAX / 4, |_, _| unreachable!());
        assert!(matches!(refused, Err(Error::DoesNotFit { .. })));
    }
}
