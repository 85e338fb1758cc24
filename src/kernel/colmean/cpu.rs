//! Partial sums of columns on all cores: each task reads a block of rows of some columns once.

use rayon::prelude::*;
use rowloom_cpu::{ColumnBodies, Isa, Merge, MergeWeights, Strand};

use super::order::{GROUP_ROWS, STRANDS};
use crate::error::{Error, Result};
use crate::kernel::cpu::Kernels;
use crate::matrix::{MultiVectorView, Scalar};

/// Bytes of a row that a task reads: long enough for the memory's prefetchers, short enough that the sums stay in the cache.
const TILE_BYTES: usize = 8192;

/// The partial results of the blocks of X, whose first row is the first row of a block: for each block a row of `sums`, and one of
/// `deviations` if it is wanted. Runs on the threads of the current pool.
pub fn partial_sums<T: Kernels>(
    x: MultiVectorView<'_, T>,
    block_rows: usize,
    sums: &mut [T],
    deviations: Option<&mut [T]>,
) -> Result<()> {
    let columns = x.k();
    if block_rows == 0 || !block_rows.is_multiple_of(GROUP_ROWS * STRANDS) {
        return Err(Error::Internal(format!("{block_rows} rows are no block of sums of columns")));
    }
    let wanted = x.rows().div_ceil(block_rows) * columns;
    let given = deviations.as_ref().map_or(wanted, |deviations| deviations.len());
    if sums.len() != wanted || given != wanted {
        return Err(Error::Internal(format!("{} numbers cannot hold {wanted} partial sums", sums.len())));
    }
    if wanted == 0 {
        return Ok(());
    }
    let tile = TILE_BYTES / size_of::<T>();
    let bodies = T::column_bodies(Isa::detect());
    let mut tasks = Vec::new();
    let mut rows_of_deviations = deviations.map(|deviations| deviations.chunks_mut(columns));
    for (block, sums) in sums.chunks_mut(columns).enumerate() {
        let row = rows_of_deviations.as_mut().and_then(Iterator::next);
        let mut deviations = row.map(|row| row.chunks_mut(tile));
        for (number, sums) in sums.chunks_mut(tile).enumerate() {
            let deviations = deviations.as_mut().and_then(Iterator::next);
            tasks.push(Task { first_row: block * block_rows, first_column: number * tile, sums, deviations });
        }
    }
    tasks.into_par_iter().for_each_init(
        || Buffers::new(tile.min(columns)),
        |buffers, task| task.run(&bodies, x, block_rows, buffers),
    );
    Ok(())
}

/// The sums of one block of rows and some columns.
struct Task<'a, T> {
    first_row: usize,
    first_column: usize,
    sums: &'a mut [T],
    deviations: Option<&'a mut [T]>,
}

/// The sums of all strands of a task.
struct Buffers<T> {
    zeros: Vec<T>,
    sums: Vec<Vec<T>>,
    deviations: Vec<Vec<T>>,
    weights: Vec<MergeWeights<T>>,
}

impl<T: Scalar> Buffers<T> {
    fn new(columns: usize) -> Self {
        let row = vec![T::ZERO; columns];
        let rows = || vec![row.clone(); STRANDS];
        Self { zeros: row.clone(), sums: rows(), deviations: rows(), weights: Vec::new() }
    }
}

/// The weights of a merge of `first` and `second` rows.
fn merge_weights<T: Scalar>(first: usize, second: usize) -> MergeWeights<T> {
    let number = |rows: usize| T::from_f64(rows as f64);
    MergeWeights {
        first_inverse: T::ONE.over(number(first)),
        second_inverse: T::ONE.over(number(second)),
        weight: number(first).over(number(first + second)).times(number(second)),
    }
}

impl<T: Kernels> Task<'_, T> {
    #[allow(unsafe_code)] // calls functions for an instruction set
    fn run(
        self,
        bodies: &ColumnBodies<T>,
        x: MultiVectorView<'_, T>,
        block_rows: usize,
        buffers: &mut Buffers<T>,
    ) {
        let Self { first_row, first_column, sums, deviations } = self;
        let (columns, ldx) = (sums.len(), x.leading_dimension());
        let count = block_rows.min(x.rows() - first_row);
        let strand_rows = block_rows / STRANDS;
        let rows_of = |strand: usize| strand_rows.min(count - count.min(strand * strand_rows));
        for strand in (0..STRANDS).take_while(|&strand| rows_of(strand) > 0) {
            let rows = rows_of(strand);
            let groups = (0..rows).step_by(GROUP_ROWS);
            buffers.weights.clear();
            buffers.weights.extend(groups.map(|begin| merge_weights(begin, GROUP_ROWS.min(rows - begin))));
            let mut job = Strand {
                x: &x.data()[(first_row + strand * strand_rows) * ldx + first_column..],
                ldx,
                rows,
                zeros: &buffers.zeros,
                weights: &buffers.weights,
                sums: &mut buffers.sums[strand][..columns],
                deviations: &mut buffers.deviations[strand][..columns],
            };
            let body = if deviations.is_some() { bodies.add_deviations } else { bodies.add };
            // SAFETY: the bodies are for this processor.
            unsafe { body(&mut job) };
        }
        let mut half = 1;
        while half < STRANDS {
            for first in (0..STRANDS).step_by(2 * half) {
                // Rows of the `half` strands from this one on.
                let rows = |strand: usize| (strand..strand + half).map(rows_of).sum::<usize>();
                if rows(first + half) == 0 {
                    break;
                }
                let (sums, more_sums) = pair(&mut buffers.sums, first, first + half);
                if deviations.is_none() {
                    sums[..columns].iter_mut().zip(more_sums).for_each(|(sum, more)| *sum = sum.plus(*more));
                    continue;
                }
                let (own, more_deviations) = pair(&mut buffers.deviations, first, first + half);
                let weights = merge_weights(rows(first), rows(first + half));
                let sums = &mut sums[..columns];
                let mut job = Merge { weights, sums, deviations: own, more_sums, more_deviations };
                // SAFETY: the bodies are for this processor.
                unsafe { (bodies.merge_deviations)(&mut job) };
            }
            half *= 2;
        }
        sums.copy_from_slice(&buffers.sums[0][..columns]);
        if let Some(deviations) = deviations {
            deviations.copy_from_slice(&buffers.deviations[0][..columns]);
        }
    }
}

/// Row `first`, and row `second`, which is after it.
fn pair<T>(rows: &mut [Vec<T>], first: usize, second: usize) -> (&mut [T], &[T]) {
    let (low, high) = rows.split_at_mut(second);
    (&mut low[first], &high[0])
}
