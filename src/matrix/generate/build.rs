//! Builds a CSR matrix in parallel from two functions: the length and the columns of a row.
//!
//! Every size is checked against the limit before memory is allocated. The result depends on the functions and the seed only,
//! not on the number of threads.

use std::ops::Range;

use rayon::prelude::*;

use crate::error::{Error, Result};
use crate::matrix::array::AlignedBuffer;
use crate::matrix::csr::{Csr, MOST_COLUMNS};
use crate::matrix::random::{pair_bits, unit};
use crate::matrix::scalar::Scalar;

/// Maximal nonzeros of a parallel task: large enough to amortize its start, small enough to balance the load.
const BLOCK_NONZEROS: u64 = 1 << 16;
/// Maximal rows of a parallel task, which divides long runs of empty rows too.
const BLOCK_ROWS: usize = 1 << 16;

/// The values of generated entries. All are symmetric: A(i, j) = A(j, i) if both exist.
#[derive(Clone, Copy)]
pub enum Values {
    /// Random in [-1, 1].
    Random,
    /// Random in [-1, 1]; a diagonal entry is the length of its row, which exceeds the sum of the others' absolute values.
    DiagonallyDominant,
}

/// The lengths of consecutive rows.
pub type RowLengths<'a> = dyn Fn(Range<u64>) -> Result<Vec<u64>> + 'a;
/// Chooses consecutive rows, given the number of rows and the lengths of those that it asks for.
pub type Choose<'a> = dyn Fn(u64, &RowLengths<'_>) -> Result<Range<u64>> + 'a;

/// The rows that are built.
#[derive(Clone, Copy)]
pub enum Part<'a> {
    /// All rows.
    All,
    /// Those that the function chooses: one of about `parts` parts of equal size.
    Chosen {
        /// Number of parts.
        parts: u64,
        /// Chooses them.
        choose: &'a Choose<'a>,
    },
    /// These.
    Rows {
        /// The first row.
        first: u64,
        /// The row after the last one.
        end: u64,
    },
}

/// What every generator is asked for.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    /// The seed of the random values.
    pub seed: u64,
    /// Maximal bytes of the rows that are built.
    pub memory_limit_bytes: u64,
    /// The rows that are built.
    pub part: Part<'a>,
    /// Whether the matrix has values. If not, they are zeros whose memory is never touched and does not count.
    pub has_values: bool,
}

impl Request<'_> {
    /// Bytes of a CSR matrix; `None` on overflow of `u64`.
    pub fn csr_bytes<T: Scalar>(&self, rows: u64, nonzeros: u64) -> Option<u64> {
        let pointers = rows.checked_add(1)?.checked_mul(8)?;
        let value_bytes = if self.has_values { size_of::<T>() as u64 } else { 0 };
        nonzeros.checked_mul(4 + value_bytes)?.checked_add(pointers)
    }

    /// An error if the rows that are built, estimated from the size of all rows, exceed the limit.
    pub fn check_estimate<T: Scalar>(&self, rows: u64, nonzeros: u64) -> Result<()> {
        let bytes = self.csr_bytes::<T>(rows, nonzeros).map(|bytes| bytes / self.parts(rows));
        check_memory(bytes, self.memory_limit_bytes)
    }

    /// About how many parts as large as the rows that are built there are in `rows` rows.
    pub fn parts(&self, rows: u64) -> u64 {
        match self.part {
            Part::All => 1,
            Part::Chosen { parts, .. } => parts.max(1),
            Part::Rows { first, end } => rows.div_ceil(end.saturating_sub(first).max(1)).max(1),
        }
    }

    /// The rows to build of `rows` rows.
    pub fn rows(&self, rows: u64, lengths: &RowLengths<'_>) -> Result<Range<u64>> {
        let chosen = match self.part {
            Part::All => 0..rows,
            Part::Chosen { choose, .. } => choose(rows, lengths)?,
            Part::Rows { first, end } => first..end,
        };
        match chosen.start <= chosen.end && chosen.end <= rows {
            true => Ok(chosen),
            false => Err(Error::Internal(format!("rows {chosen:?} of {rows} were chosen"))),
        }
    }
}

/// The parameters of a generated matrix, other than the functions of its rows.
#[derive(Clone, Copy)]
pub struct Shape<'a> {
    /// Number of rows.
    pub rows: u64,
    /// Number of columns.
    pub cols: u64,
    /// Estimated number of nonzeros; the matrix is refused before it is built if these alone exceed the limit.
    pub nonzeros: u64,
    /// The kind of values.
    pub values: Values,
    /// Seed, limit and rows.
    pub request: Request<'a>,
}

/// An error if `needed_bytes` exceeds the limit; `None` means more than `u64::MAX`.
pub fn check_memory(needed_bytes: Option<u64>, limit_bytes: u64) -> Result<()> {
    let needed_bytes = needed_bytes.unwrap_or(u64::MAX);
    if needed_bytes <= limit_bytes {
        return Ok(());
    }
    Err(Error::DoesNotFit {
        what: "the generated matrix".into(),
        needed_bytes,
        limit_bytes,
        advice: "choose a smaller matrix".into(),
    })
}

/// The matrix whose row `i` has `length(i)` nonzeros, in the ascending columns that `fill(i, columns)` writes.
/// Only the rows that the request asks for are built; their columns are those of the whole matrix.
pub fn build<T: Scalar>(
    shape: Shape<'_>,
    length: impl Fn(usize) -> usize + Sync,
    fill: impl Fn(usize, &mut [u32]) + Sync,
) -> Result<Csr<T>> {
    if shape.cols > MOST_COLUMNS as u64 {
        return Err(Error::usage(format!(
            "a generated matrix has at most {MOST_COLUMNS} columns, not {}",
            shape.cols
        )));
    }
    let Request { seed, memory_limit_bytes, has_values, .. } = shape.request;
    shape.request.check_estimate::<T>(shape.rows, shape.nonzeros)?;
    let lengths =
        |rows: Range<u64>| Ok(rows.into_par_iter().map(|row| length(row as usize) as u64).collect());
    let chosen = shape.request.rows(shape.rows, &lengths)?;
    let too_many = |_| Error::usage(format!("{} rows exceed the address space of this machine", shape.rows));
    let first_row = usize::try_from(chosen.start).map_err(too_many)?;
    let rows = usize::try_from(chosen.end).map_err(too_many)? - first_row;

    let mut row_pointers = AlignedBuffer::<u64>::zeroed(rows + 1)?;
    row_pointers[1..].par_iter_mut().with_min_len(1 << 12).enumerate().for_each(|(row, pointer)| {
        *pointer = length(first_row + row) as u64;
    });
    let mut nonzeros = 0u64;
    for pointer in row_pointers.iter_mut() {
        nonzeros = nonzeros.saturating_add(*pointer);
        *pointer = nonzeros;
    }
    check_memory(shape.request.csr_bytes::<T>(rows as u64, nonzeros), memory_limit_bytes)?;

    let mut columns = AlignedBuffer::<u32>::zeroed(nonzeros as usize)?;
    let mut values = match has_values {
        true => AlignedBuffer::<T>::zeroed(nonzeros as usize)?,
        false => AlignedBuffer::<T>::untouched(nonzeros as usize)?,
    };
    blocks(&row_pointers, &mut columns, &mut values).into_par_iter().for_each(|block| {
        let (mut columns, mut values) = (block.columns, block.values);
        for row in block.rows {
            let row_length = (row_pointers[row + 1] - row_pointers[row]) as usize;
            let (row_columns, rest_columns) = columns.split_at_mut(row_length);
            let (row_values, rest_values) = values.split_at_mut(row_length);
            (columns, values) = (rest_columns, rest_values);
            let row = first_row + row;
            fill(row, row_columns);
            if !has_values {
                continue;
            }
            for (value, &column) in row_values.iter_mut().zip(row_columns.iter()) {
                *value = T::from_f64(entry(shape.values, seed, row, column, row_length));
            }
        }
    });
    Csr::try_new(rows, shape.cols as usize, row_pointers, columns, values)
}

#[inline]
fn entry(values: Values, seed: u64, row: usize, column: u32, row_length: usize) -> f64 {
    match values {
        Values::DiagonallyDominant if row as u64 == u64::from(column) => row_length as f64,
        _ => 2.0 * unit(pair_bits(seed, row as u64, u64::from(column))) - 1.0,
    }
}

/// Consecutive rows and the memory for their nonzeros.
struct Block<'a, T> {
    rows: Range<usize>,
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

    fn shape(rows: u64, cols: u64, memory_limit_bytes: u64) -> Shape<'static> {
        let request = Request { seed: 1, memory_limit_bytes, part: Part::All, has_values: true };
        Shape { rows, cols, nonzeros: 0, values: Values::Random, request }
    }

    #[test]
    fn rows_longer_than_a_block_and_long_runs_of_empty_rows_are_built() {
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
    fn too_many_nonzeros_are_refused_before_they_are_allocated() {
        let refused = build::<f64>(shape(10, 10, 1000), |_| usize::MAX / 4, |_, _| unreachable!());
        assert!(matches!(refused, Err(Error::DoesNotFit { .. })));
    }
}
