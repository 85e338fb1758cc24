//! The checksums of A: a weight for each row, and the weighted sums of the rows, column by column.
//!
//! Rows form blocks, each with sums for the columns that its rows have. Many blocks make the check more sensitive, and few make it
//! cheaper: a matrix whose rows near each other have columns near each other gets many, others get one.

use std::ops::Range;

use rayon::prelude::*;

use super::Operator;
use crate::error::{Advice, Error, Result};
use crate::matrix::Scalar;
use crate::matrix::random::mix;

/// Most blocks of rows.
const MOST_BLOCKS: usize = 64;
/// Fewest rows of a block, if there are several.
const FEWEST_BLOCK_ROWS: usize = 1024;
/// Blocks have at most this many columns for each column of A.
const MOST_COLUMNS: f64 = 1.25;
/// Most parts of a block that are summed in parallel, and the nonzeros of a part for each column.
const MOST_PARTS: usize = 16;
const PART_NONZEROS_PER_COLUMN: usize = 4;

/// The number of roundings that count for a row of so many values: those of its multiply-adds, and those of the sums that are compared, which
/// have the size of the element.
pub(super) fn roundings(values: usize) -> f64 {
    let values = values as f64;
    values + ROOT_ROUNDINGS * values.sqrt() + OLD_ROUNDINGS
}

/// The roundings that count for the root of the number of values.
pub(super) const ROOT_ROUNDINGS: f64 = 4.0;

/// The number of roundings that count for an element of the old Y.
pub(super) const OLD_ROUNDINGS: f64 = 4.0;

/// The unit of sums of columns is the inverse of this: sums of whole units have no rounding errors, in whatever order they are added. The
/// largest sum is 256, and 10 million values of a column seldom reach it.
const UNITS: f64 = (1u64 << 55) as f64;

/// Magnitudes below this count as this, so that weights are finite.
const SMALLEST_MAGNITUDE: f64 = 1e-290;

/// The weights of the rows of A and the weighted sums of its columns.
pub struct Checksums {
    /// The weight of each row.
    pub(super) weights: Vec<f64>,
    pub(super) blocks: Vec<Block>,
    /// The rows without values, whose elements are exactly zero.
    pub(super) empty: Vec<usize>,
}

/// The sums of consecutive rows.
pub(super) struct Block {
    pub rows: Range<usize>,
    /// The column of the first sum.
    pub first_column: usize,
    /// `Σ w_i a_ij` for each column.
    pub sums: Vec<f64>,
    /// The mean number of roundings of a row, see [`Block::roundings`].
    pub mean_roundings: f64,
}

/// The sums of some rows.
struct Sums {
    /// For each column, in units.
    columns: Vec<i64>,
    /// About `Σ (w_i a_ij)²` of all values, and `Σ (n_i w_i a_ij)²`.
    squares: f64,
    rounded_squares: f64,
    /// Whether a value was outside of the columns.
    is_outside: bool,
}

/// A number of size 1 to 1.5 with a sign: a hash of the number of a row or a column.
///
/// The numbers differ, so that exchanged rows are found, and are of similar size, so that no row hides behind another.
pub(super) fn weight(row: usize) -> f64 {
    let bits = mix(row as u64);
    let size = 1.0 + (bits >> 44) as f64 / f64::from(1 << 21);
    if bits & 1 == 0 { size } else { -size }
}

impl Checksums {
    /// The checksums of `a`, made in the rayon pool of the caller.
    pub fn of<T: Scalar>(a: Operator<'_, T>) -> Result<Self> {
        Self::of_blocks(a, block_ranges(a))
    }

    /// The same with one block, which has sums for all columns.
    pub fn of_whole<T: Scalar>(a: Operator<'_, T>) -> Result<Self> {
        Self::of_blocks(a, std::iter::once((0..a.rows(), 0..a.columns())).collect())
    }

    /// The weight of each row.
    pub fn weights(&self) -> &[f64] {
        &self.weights
    }

    /// The sums of all columns of checksums of one block, and the factor that makes them weights of squares.
    pub fn columns(&self) -> (&[f64], f64) {
        self.blocks.first().map_or((&[], 0.0), |block| (&block.sums, block.usual_roundings()))
    }

    /// Those of `rows` without values, in ascending order.
    pub(super) fn empty_rows(&self, rows: Range<usize>) -> &[usize] {
        let before = |end: usize| self.empty.partition_point(|&row| row < end);
        &self.empty[before(rows.start)..before(rows.end)]
    }

    fn of_blocks<T: Scalar>(a: Operator<'_, T>, ranges: Vec<(Range<usize>, Range<usize>)>) -> Result<Self> {
        let _span = tracing::info_span!("checksums").entered();
        let mut weights = zeros(a.rows(), 0.0)?;
        let mut rest = &mut weights[..];
        let parts: Vec<(usize, Vec<Part<'_>>)> = ranges
            .iter()
            .map(|(rows, columns)| {
                let (own, others) = std::mem::take(&mut rest).split_at_mut(rows.len());
                rest = others;
                (columns.start, parts_of(a, rows.clone(), columns.len(), own))
            })
            .collect();
        let blocks = parts.into_par_iter().zip(&ranges).map(|((first_column, parts), (rows, columns))| {
            let (mut parts, mut first_column) = (parts, first_column);
            let mut sum = |columns: Range<usize>| {
                let sums = parts.par_iter_mut().map(|part| part.sums(a, columns.clone()));
                sums.try_reduce_with(merged).unwrap_or_else(|| Sums::zeros(0))
            };
            let mut total = sum(columns.clone())?;
            if total.is_outside {
                first_column = 0;
                total = sum(0..a.columns())?;
            }
            Ok(Block {
                rows: rows.clone(),
                first_column,
                sums: total.columns.par_iter().map(|&units| units as f64 / UNITS).collect(),
                mean_roundings: (total.rounded_squares / total.squares.max(f64::MIN_POSITIVE)).sqrt(),
            })
        });
        let blocks = blocks.collect::<Result<Vec<_>>>()?;
        // The rows without values have the mean weight of the others.
        let of = |weight: &f64| (weight.abs(), usize::from(*weight != 0.0));
        let (sum, count) = weights.par_iter().map(of).reduce(|| (0.0, 0), |a, b| (a.0 + b.0, a.1 + b.1));
        let mean = if count > 0 { sum / count as f64 } else { 1.0 };
        let set_empty = |(row, own): (usize, &mut f64)| {
            if *own == 0.0 {
                *own = weight(row) * mean;
            }
        };
        weights.par_iter_mut().enumerate().for_each(set_empty);
        let is_empty = |row: &usize| match a {
            Operator::Sparse(a) => a.row_length(*row) == 0,
            Operator::Dense(a) => a.k() == 0,
        };
        let empty = (0..a.rows()).into_par_iter().filter(is_empty).collect();
        Ok(Self { weights, blocks, empty })
    }
}

/// The blocks of rows, and the columns that they have.
fn block_ranges<T: Scalar>(a: Operator<'_, T>) -> Vec<(Range<usize>, Range<usize>)> {
    let (rows, columns) = (a.rows(), a.columns());
    let Operator::Sparse(sparse) = a else {
        return std::iter::once((0..rows, 0..columns)).collect();
    };
    let mut count = (rows / FEWEST_BLOCK_ROWS).clamp(1, MOST_BLOCKS);
    let columns_of = |rows: Range<usize>| {
        // The columns of a row usually ascend. If a column is outside of the range, the block has all columns.
        let ends = rows.filter_map(|row| {
            let (columns, _) = sparse.row(row);
            columns.first().zip(columns.last())
        });
        let (first, last) =
            ends.fold((u32::MAX, 0), |(first, last), (&begin, &end)| (begin.min(first), end.max(last)));
        if first > last { 0..0 } else { first as usize..last as usize + 1 }
    };
    if count == 1 {
        return std::iter::once((0..rows, columns_of(0..rows))).collect();
    }
    let border = |count: usize, block: usize| (rows as u128 * block as u128 / count as u128) as usize;
    let candidates = (0..count).into_par_iter().map(|block| border(count, block)..border(count, block + 1));
    let mut blocks: Vec<_> = candidates.map(|rows| (rows.clone(), columns_of(rows))).collect();
    let most = (MOST_COLUMNS * columns as f64) as usize;
    while count > 1 && blocks.iter().map(|(_, columns)| columns.len()).sum::<usize>() > most {
        blocks = blocks.chunks(2).map(|pair| joined(&pair[0], &pair[pair.len() - 1])).collect();
        count = blocks.len();
    }
    blocks
}

fn joined(
    left: &(Range<usize>, Range<usize>),
    right: &(Range<usize>, Range<usize>),
) -> (Range<usize>, Range<usize>) {
    let columns = match (left.1.is_empty(), right.1.is_empty()) {
        (true, _) => right.1.clone(),
        (_, true) => left.1.clone(),
        _ => left.1.start.min(right.1.start)..left.1.end.max(right.1.end),
    };
    (left.0.start..right.0.end, columns)
}

/// Rows of a block that one thread adds up.
struct Part<'w> {
    rows: Range<usize>,
    weights: &'w mut [f64],
}

fn parts_of<'w, T: Scalar>(
    a: Operator<'_, T>,
    rows: Range<usize>,
    columns: usize,
    mut weights: &'w mut [f64],
) -> Vec<Part<'w>> {
    let nonzeros = match a {
        Operator::Sparse(a) => (a.row_pointers()[rows.end] - a.row_pointers()[rows.start]) as usize,
        Operator::Dense(_) => rows.len().saturating_mul(columns),
    };
    let threads = rayon::current_num_threads();
    let most = nonzeros / (PART_NONZEROS_PER_COLUMN * columns.max(1)).max(1);
    let count = most.min(threads).clamp(1, MOST_PARTS);
    let border = |part: usize| match a {
        Operator::Sparse(a) => {
            let pointers = &a.row_pointers()[rows.start..=rows.end];
            let target = pointers[0] + (nonzeros as u64 / count as u64) * part as u64;
            pointers.partition_point(|&pointer| pointer < target).min(rows.len())
        }
        Operator::Dense(_) => rows.len() * part / count,
    };
    let mut begin = 0;
    (1..=count)
        .map(|part| {
            let end = if part == count { rows.len() } else { border(part).max(begin) };
            let (own, others) = std::mem::take(&mut weights).split_at_mut(end - begin);
            weights = others;
            let rows = rows.start + begin..rows.start + end;
            begin = end;
            Part { rows, weights: own }
        })
        .collect()
}

impl Part<'_> {
    /// Sets the weights of the rows, 0 for a row without values, and adds up their columns.
    fn sums<T: Scalar>(&mut self, a: Operator<'_, T>, columns: Range<usize>) -> Result<Sums> {
        let mut sums = Sums::zeros(columns.len())?;
        for (row, own) in self.rows.clone().zip(self.weights.iter_mut()) {
            let (places, values) = match a {
                Operator::Sparse(a) => {
                    let (places, values) = a.row(row);
                    (Some(places), values)
                }
                Operator::Dense(a) => (None, a.row(row)),
            };
            *own = sums.weight(row, values);
            let factor = *own * UNITS;
            // Saturates, and is 0 for a value that is not a number: then the sums of Y differ.
            let units = |value: &T| (factor * value.to_f64()) as i64;
            match places {
                Some(places) => {
                    for (&column, value) in places.iter().zip(values) {
                        match sums.columns.get_mut((column as usize).wrapping_sub(columns.start)) {
                            Some(sum) => *sum = sum.wrapping_add(units(value)),
                            None => sums.is_outside = true,
                        }
                    }
                }
                None => {
                    for (sum, value) in sums.columns.iter_mut().zip(values) {
                        *sum = sum.wrapping_add(units(value));
                    }
                }
            }
        }
        Ok(sums)
    }
}

impl Sums {
    fn zeros(columns: usize) -> Result<Self> {
        Ok(Self { columns: zeros(columns, 0)?, squares: 0.0, rounded_squares: 0.0, is_outside: false })
    }

    /// The weight of a row: its random number over the mean size of its values and over its number of roundings. 0 if the row has no value,
    /// or zeros only.
    fn weight<T: Scalar>(&mut self, row: usize, values: &[T]) -> f64 {
        let sum = size(values);
        if sum == 0.0 {
            return 0.0;
        }
        let length = values.len() as f64;
        let roundings = roundings(values.len());
        let weight = weight(row) / (sum / length).max(SMALLEST_MAGNITUDE) / roundings;
        // As if all values had the mean size.
        let squares = (sum * weight).powi(2) / length;
        // Extreme values overflow or vanish: their rows do not count.
        if squares.is_finite() {
            self.squares += squares;
            self.rounded_squares += squares * roundings * roundings;
        }
        weight
    }
}

/// The sum of the sizes of numbers, in four chains.
fn size<T: Scalar>(values: &[T]) -> f64 {
    const CHAINS: usize = 4;
    let mut sums = [0.0; CHAINS];
    let (wide, tail) = values.as_chunks::<CHAINS>();
    for four in wide {
        for chain in 0..CHAINS {
            sums[chain] += four[chain].to_f64().abs();
        }
    }
    tail.iter().zip(&mut sums).for_each(|(value, sum)| *sum += value.to_f64().abs());
    (sums[0] + sums[1]) + (sums[2] + sums[3])
}

impl Block {
    /// `√Σ (n_i w_i a_ij)²` for each column, with `n_i` the number of roundings of row i. The root of the sum of the squares of these
    /// times x, in units of the unit round-off, is an error of the block's sum that right products seldom reach.
    ///
    /// [`Self::mean_roundings`] times [`Self::sums`] is an estimate: the weights have random signs.
    pub fn roundings<T: Scalar>(&self, a: Operator<'_, T>, weights: &[f64]) -> Result<Vec<f64>> {
        let mut squares = zeros(self.sums.len(), 0.0)?;
        for row in self.rows.clone() {
            let factor = |length: usize| weights[row] * roundings(length);
            match a {
                Operator::Sparse(a) => {
                    let (places, values) = a.row(row);
                    let factor = factor(values.len());
                    for (&column, value) in places.iter().zip(values) {
                        if let Some(square) =
                            squares.get_mut((column as usize).wrapping_sub(self.first_column))
                        {
                            *square += (factor * value.to_f64()).powi(2);
                        }
                    }
                }
                Operator::Dense(a) => {
                    let factor = factor(a.k());
                    for (square, value) in squares.iter_mut().zip(a.row(row)) {
                        *square += (factor * value.to_f64()).powi(2);
                    }
                }
            }
        }
        squares.iter_mut().for_each(|square: &mut f64| *square = square.sqrt());
        Ok(squares)
    }
}

fn merged(mut left: Sums, right: Sums) -> Result<Sums> {
    let columns = left.columns.par_iter_mut().with_min_len(4096).zip(&right.columns);
    columns.for_each(|(left, right)| *left = left.wrapping_add(*right));
    left.squares += right.squares;
    left.rounded_squares += right.rounded_squares;
    left.is_outside |= right.is_outside;
    Ok(left)
}

/// `length` times `value`, or an error if there is no memory.
pub(super) fn zeros<V: Clone>(length: usize, value: V) -> Result<Vec<V>> {
    let mut values = Vec::new();
    values.try_reserve_exact(length).map_err(|_| no_memory(length * size_of::<V>()))?;
    values.resize(length, value);
    Ok(values)
}

pub(super) fn no_memory(bytes: usize) -> Error {
    Error::DoesNotFit {
        what: "the check of a product".into(),
        needed_bytes: bytes as u64,
        limit_bytes: 0,
        advice: Advice::NoChecks.into(),
    }
}
