//! Random patterns: uniform, with hub rows, with every other row empty, and power-law graphs.

use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};

use rayon::prelude::*;

use super::build::{Part, Request, Shape, build, check_memory};
use crate::error::{Error, Result};
use crate::matrix::csr::Csr;
use crate::matrix::random::{Sequence, mix};
use crate::matrix::scalar::Scalar;

/// Graph500's probabilities of the upper left, upper right and lower left quadrant, times 65536; the rest is lower right.
const RMAT_QUADRANTS: [u64; 3] = [37_355, 12_452, 12_452];

/// Draws `columns.len()` distinct ascending columns below `cols`, every set with equal probability.
pub fn draw_uniform(sequence: &mut Sequence, cols: u64, columns: &mut [u32]) {
    let wanted = columns.len() as u64;
    if wanted.saturating_mul(4) > cols {
        // Dense rows: selection sampling, which takes each column with the probability that gives the wanted count.
        let mut missing = wanted;
        let mut slots = columns.iter_mut();
        for column in 0..cols {
            if sequence.below(cols - column) < missing {
                missing -= 1;
                if let Some(slot) = slots.next() {
                    *slot = column as u32;
                }
            }
        }
        return;
    }
    // Sparse rows: rejection sampling, which draws duplicates again. The distinct columns stay in front, sorted.
    let mut kept = 0;
    while kept < columns.len() {
        columns[kept..].iter_mut().for_each(|column| *column = sequence.below(cols) as u32);
        columns.sort_unstable();
        kept = move_distinct_to_front(columns);
    }
    columns.sort_unstable();
}

/// Moves one of each value to the front of a sorted slice; returns the number of distinct values.
fn move_distinct_to_front(sorted: &mut [u32]) -> usize {
    let mut kept = 0;
    for at in 0..sorted.len() {
        if kept == 0 || sorted[at] != sorted[kept - 1] {
            sorted.swap(kept, at);
            kept += 1;
        }
    }
    kept
}

/// Draws distinct ascending columns of `first..first + width` by stratified sampling: one column from each of
/// `columns.len()` equal parts.
pub fn draw_stratified(sequence: &mut Sequence, first: u64, width: u64, columns: &mut [u32]) {
    let parts = columns.len() as u64;
    let edge = |part: u64| (u128::from(width) * u128::from(part) / u128::from(parts)) as u64;
    for (part, column) in (0..).zip(columns.iter_mut()) {
        let (start, end) = (edge(part), edge(part + 1));
        *column = (first + start + sequence.below((end - start).max(1))) as u32;
    }
}

/// `degree` random columns in every row.
pub fn uniform<T: Scalar>(degree: u64, shape: Shape<'_>) -> Result<Csr<T>> {
    build(
        Shape { nonzeros: shape.rows.saturating_mul(degree), ..shape },
        |_| degree as usize,
        |row, columns| draw_uniform(&mut Sequence::new(!shape.request.seed, row as u64), shape.cols, columns),
    )
}

/// `degree` random columns in every second row, none in the others.
pub fn holes<T: Scalar>(degree: u64, shape: Shape<'_>) -> Result<Csr<T>> {
    build(
        Shape { nonzeros: (shape.rows / 2).saturating_mul(degree), ..shape },
        |row| if row % 2 == 1 { degree as usize } else { 0 },
        |row, columns| draw_uniform(&mut Sequence::new(!shape.request.seed, row as u64), shape.cols, columns),
    )
}

/// `hubs` rows, evenly spaced, with half of all columns each; `degree` random columns in the others.
pub fn hub<T: Scalar>(degree: u64, hubs: u64, shape: Shape<'_>) -> Result<Csr<T>> {
    let hub_length = (shape.cols / 2).max(degree);
    let is_hub = |row: usize| {
        let hubs_up_to = |row: u64| u128::from(row) * u128::from(hubs) / u128::from(shape.rows.max(1));
        hubs_up_to(row as u64) != hubs_up_to(row as u64 + 1)
    };
    let light = (shape.rows - hubs).saturating_mul(degree);
    build(
        Shape { nonzeros: hubs.saturating_mul(hub_length).saturating_add(light), ..shape },
        |row| if is_hub(row) { hub_length as usize } else { degree as usize },
        |row, columns| {
            let mut sequence = Sequence::new(!shape.request.seed, row as u64);
            match is_hub(row) {
                true => draw_stratified(&mut sequence, 0, shape.cols, columns),
                false => draw_uniform(&mut sequence, shape.cols, columns),
            }
        },
    )
}

/// The power-law graph of Graph500: `degree` random edges per vertex, duplicates merged, vertices not permuted.
///
/// All edges are drawn, and those of other rows than the request asks for are left out, so a part of the rows needs the memory of its own edges.
pub fn rmat<T: Scalar>(scale: u64, degree: u64, shape: Shape<'_>) -> Result<Csr<T>> {
    let (request, edges) = (shape.request, shape.rows.saturating_mul(degree));
    let estimated =
        DrawnRows::bytes::<T>(request, shape.rows, edges).map(|bytes| bytes / request.parts(shape.rows));
    check_memory(estimated, request.memory_limit_bytes)?;
    let draw = |rows: Range<u64>| DrawnRows::new::<T>(scale, edges, rows, request);
    let rows = request.rows(shape.rows, &|rows| Ok(draw(rows)?.lengths))?;
    let DrawnRows { starts, lengths, columns } = draw(rows.clone())?;
    let (first, request) =
        (rows.start as usize, Request { part: Part::Rows { first: rows.start, end: rows.end }, ..request });
    build(
        Shape { request, ..shape },
        |row| lengths[row - first] as usize,
        |row, to| {
            let drawn = &columns[starts[row - first] as usize..];
            to.iter_mut().zip(drawn).for_each(|(to, &column)| *to = column);
        },
    )
}

/// The edges of some rows of a power-law graph.
struct DrawnRows {
    /// For each row the place of its first column, and the number of all columns.
    starts: Vec<u64>,
    /// For each row the number of its distinct columns, which come first and ascend.
    lengths: Vec<u64>,
    columns: Vec<u32>,
}

impl DrawnRows {
    /// Bytes of drawn rows and of the matrix that is built of them; `None` on overflow of `u64`.
    fn bytes<T: Scalar>(request: Request<'_>, rows: u64, edges: u64) -> Option<u64> {
        let (per_row, per_edge) = (rows.checked_mul(4 + 8 + 8)?, edges.checked_mul(4)?);
        request.csr_bytes::<T>(rows, edges)?.checked_add(per_row)?.checked_add(per_edge)
    }

    /// Draws all edges twice: to count those of each row, and to store their columns. A sorted list of all edges would need twice
    /// the memory.
    fn new<T: Scalar>(scale: u64, edges: u64, rows: Range<u64>, request: Request<'_>) -> Result<Self> {
        let count = rows.end - rows.start;
        let stream = mix(!request.seed);
        let each_edge = |visit: &(dyn Fn(usize, u32) + Sync)| {
            (0..edges as usize).into_par_iter().with_min_len(1 << 12).for_each(|edge| {
                let key = draw_edge(&mut Sequence::new(stream, edge as u64), scale);
                if rows.contains(&(key >> 32)) {
                    visit(((key >> 32) - rows.start) as usize, key as u32);
                }
            });
        };
        // Relaxed: numbers are read after all threads have joined.
        let left = zeros(count, request)?;
        each_edge(&|row, _| {
            left[row].fetch_add(1, Ordering::Relaxed);
        });
        let mut starts: Vec<u64> = Vec::new();
        starts.try_reserve_exact(left.len() + 1).map_err(|_| refused(count.saturating_mul(8), request))?;
        let mut next = 0;
        for drawn in &left {
            starts.push(next);
            next += u64::from(drawn.load(Ordering::Relaxed));
        }
        starts.push(next);
        check_memory(Self::bytes::<T>(request, count, next), request.memory_limit_bytes)?;
        let columns = zeros(next, request)?;
        each_edge(&|row, column| {
            let left = left[row].fetch_sub(1, Ordering::Relaxed);
            columns[starts[row] as usize + left as usize - 1].store(column, Ordering::Relaxed);
        });
        let mut columns: Vec<u32> = columns.into_iter().map(AtomicU32::into_inner).collect();
        let mut lengths = vec![0; count as usize];
        let mut blocks = Vec::new();
        let mut rest = &mut columns[..];
        for (block, lengths) in lengths.chunks_mut(SORTED_ROWS).enumerate() {
            let first = block * SORTED_ROWS;
            let (columns, after) =
                rest.split_at_mut((starts[first + lengths.len()] - starts[first]) as usize);
            blocks.push((first, lengths, columns));
            rest = after;
        }
        blocks.into_par_iter().for_each(|(first, lengths, mut block)| {
            for (row, length) in (first..).zip(lengths) {
                let (columns, after) = block.split_at_mut((starts[row + 1] - starts[row]) as usize);
                columns.sort_unstable();
                *length = move_distinct_to_front(columns) as u64;
                block = after;
            }
        });
        Ok(Self { starts, lengths, columns })
    }
}

/// Rows that one parallel task sorts.
const SORTED_ROWS: usize = 1 << 12;

fn zeros(count: u64, request: Request<'_>) -> Result<Vec<AtomicU32>> {
    let mut zeros = Vec::new();
    zeros.try_reserve_exact(count as usize).map_err(|_| refused(count.saturating_mul(4), request))?;
    zeros.par_extend((0..count as usize).into_par_iter().map(|_| AtomicU32::new(0)));
    Ok(zeros)
}

fn refused(needed_bytes: u64, request: Request<'_>) -> Error {
    Error::DoesNotFit {
        what: "the random edges".into(),
        needed_bytes,
        limit_bytes: request.memory_limit_bytes,
        advice: "the system refused the memory; choose a smaller scale or degree".into(),
    }
}

/// A random edge as `row << 32 | column`, by choosing one of the four quadrants at each level.
pub(super) fn draw_edge(sequence: &mut Sequence, scale: u64) -> u64 {
    let [upper_left, upper_right, lower_left] = RMAT_QUADRANTS;
    let (mut row, mut column, mut bits) = (0u64, 0u64, 0u64);
    for level in 0..scale {
        bits = if level % 4 == 0 { sequence.next_bits() } else { bits >> 16 };
        let drawn = bits & 0xffff;
        let lower = drawn >= upper_left + upper_right;
        let right = match lower {
            true => drawn >= upper_left + upper_right + lower_left,
            false => drawn >= upper_left,
        };
        row = row << 1 | u64::from(lower);
        column = column << 1 | u64::from(right);
    }
    row << 32 | column
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drawn_columns_are_distinct_ascending_and_in_range() {
        for cols in [1u64, 2, 3, 10, 100] {
            for length in 0..=cols as usize {
                for counter in 0..20 {
                    let mut columns = vec![0; length];
                    draw_uniform(&mut Sequence::new(3, counter), cols, &mut columns);
                    assert!(columns.is_sorted_by(|a, b| a < b), "{columns:?}");
                    assert!(columns.iter().all(|&column| u64::from(column) < cols));
                    draw_stratified(&mut Sequence::new(3, counter), 5, cols, &mut columns);
                    assert!(columns.is_sorted_by(|a, b| a < b), "{columns:?}");
                    assert!(columns.iter().all(|&column| (5..5 + cols).contains(&u64::from(column))));
                }
            }
        }
    }

    #[test]
    fn uniform_draws_of_sparse_and_dense_rows_are_uniform() {
        for length in [2, 12] {
            let mut counts = [0u32; 20];
            for counter in 0..20_000 {
                let mut columns = vec![0; length];
                draw_uniform(&mut Sequence::new(8, counter), 20, &mut columns);
                columns.iter().for_each(|&column| counts[column as usize] += 1);
            }
            let expected = length as f64 * 1000.0;
            assert!(
                counts.iter().all(|&count| (f64::from(count) / expected - 1.0).abs() < 0.1),
                "{counts:?}"
            );
        }
    }

    #[test]
    fn edges_are_in_the_quadrants_with_the_probabilities_of_graph500() {
        let mut counts = [0u32; 4];
        for edge in 0..100_000 {
            let key = draw_edge(&mut Sequence::new(1, edge), 1);
            counts[((key >> 32) * 2 + (key & 1)) as usize] += 1;
        }
        let shares = counts.map(|count| f64::from(count) / 100_000.0);
        for (share, expected) in shares.iter().zip([0.57, 0.19, 0.19, 0.05]) {
            assert!((share - expected).abs() < 0.006, "{shares:?}");
        }
    }
}
