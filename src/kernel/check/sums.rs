//! The columns whose weighted sums differ from those of `alpha A X + beta Y`.

use std::ops::Range;

use rayon::prelude::*;
use rowloom_cpu::{Totals, WeightedRows, WeightedSumBodies};

use super::checksums::{Block, Checksums, OLD_ROUNDINGS, zeros};
use super::{Applied, Operator};
use crate::error::Result;
use crate::kernel::cpu::Kernels;
use crate::kernel::double_double::two_sum;
use crate::kernel::scaling::Scaling;
use crate::machine::Isa;
use crate::matrix::MultiVectorView;

/// Bytes of rows that a thread adds up at a time.
const TASK_BYTES: usize = 1 << 18;
/// Fewest rows of a task.
const FEWEST_TASK_ROWS: usize = 64;
/// Sizes are estimated from at least so many rows, which are at most `MOST_STRIDE` rows apart.
const SAMPLED_ROWS: usize = 128;
const MOST_STRIDE: usize = 32;
/// An estimated size over the expected one: to find the size of a right product costs more than a product.
const ESTIMATE: f64 = 1.5;

/// Columns of a block that differ.
pub(super) struct Suspicious {
    pub block: usize,
    /// Number and excess of each column, the largest excess first: the difference over what rounding usually explains.
    pub columns: Vec<(usize, f64)>,
}

/// The weighted sums of the columns of some rows.
pub struct ColumnSums {
    sums: Vec<f64>,
    /// What the sums lost by rounding.
    errors: Vec<f64>,
    /// Sums of squares.
    sizes: Vec<f64>,
}

impl ColumnSums {
    /// Sums of no rows.
    pub fn zeros(k: usize) -> Result<Self> {
        Ok(Self { sums: zeros(k, 0.0)?, errors: zeros(k, 0.0)?, sizes: zeros(k, 0.0)? })
    }

    /// Adds the sums of other rows.
    pub fn add(&mut self, other: &Self) {
        self.add_numbers(&other.sums, &other.sizes);
        self.errors.iter_mut().zip(&other.errors).for_each(|(error, other)| *error += other);
    }

    /// Adds sums of columns and sums of squares that a device has computed.
    pub fn add_numbers(&mut self, sums: &[f64], sizes: &[f64]) {
        for ((sum, error), &other) in self.sums.iter_mut().zip(&mut self.errors).zip(sums) {
            let (total, lost) = two_sum(*sum, other);
            (*sum, *error) = (total, *error + lost);
        }
        self.sizes.iter_mut().zip(sizes).for_each(|(size, other)| *size += other);
    }

    /// The sums of rows with these weights, added up by the threads of the caller's pool. `factor` times a weight is that of squares.
    pub fn of_rows<T: Kernels>(x: MultiVectorView<'_, T>, weights: &[f64], factor: f64) -> Result<Self> {
        let rows_of_task = task_rows::<T>(x.k());
        let tasks = (0..x.rows().div_ceil(rows_of_task)).into_par_iter().map(|task| {
            let rows = task * rows_of_task..x.rows().min((task + 1) * rows_of_task);
            let mut sums = Self::zeros(x.k())?;
            sums.add_rows(x.rows_in(rows.clone()), &weights[rows], factor);
            Ok(sums)
        });
        let mut all = Self::zeros(x.k())?;
        tasks.collect::<Result<Vec<_>>>()?.iter().for_each(|sums| all.add(sums));
        Ok(all)
    }

    /// Adds rows with their weights.
    pub fn add_weighted<T: Kernels>(&mut self, x: MultiVectorView<'_, T>, weights: &[f64]) {
        add_rows(x, weights, self);
    }

    fn clear(&mut self) {
        [&mut self.sums, &mut self.errors, &mut self.sizes].into_iter().for_each(|numbers| numbers.fill(0.0));
    }

    /// Adds rows with their weights, and their squares with `factor` times the weights.
    pub fn add_rows<T: Kernels>(&mut self, x: MultiVectorView<'_, T>, weights: &[f64], factor: f64) {
        add_rows(x, weights, self);
        add_squares(x, weights, 1, factor, &mut self.sizes);
    }
}

/// The weighted sums of X, of the old Y if it has an effect, and of Y.
pub struct Terms {
    /// Of X, with the sums of the columns of A as weights.
    pub x: ColumnSums,
    /// Of Y before the product.
    pub old: Option<ColumnSums>,
    /// Of Y.
    pub y: ColumnSums,
}

/// Rows that a thread adds up at a time.
fn task_rows<T>(k: usize) -> usize {
    (TASK_BYTES / (k * size_of::<T>()).max(1)).max(FEWEST_TASK_ROWS)
}

fn bodies<T: Kernels>() -> WeightedSumBodies<T> {
    T::weighted_sum_bodies(Isa::detect())
}

#[allow(unsafe_code)] // calls compiled loops
fn add_rows<T: Kernels>(x: MultiVectorView<'_, T>, weights: &[f64], to: &mut ColumnSums) {
    let rows = WeightedRows { x: x.data(), leading_dimension: x.leading_dimension(), k: x.k(), weights };
    let mut totals = Totals { sums: &mut to.sums, errors: &mut to.errors };
    // SAFETY: the body is for the instruction set of this processor.
    unsafe { (bodies::<T>().add)(rows, &mut totals) };
}

#[allow(unsafe_code)] // calls compiled loops
fn add_squares<T: Kernels>(
    x: MultiVectorView<'_, T>,
    weights: &[f64],
    stride: usize,
    factor: f64,
    to: &mut [f64],
) {
    let rows = WeightedRows { x: x.data(), leading_dimension: x.leading_dimension(), k: x.k(), weights };
    // SAFETY: the body is for the instruction set of this processor.
    unsafe { (bodies::<T>().add_squares)(rows, stride, factor, to) };
}

impl Block {
    /// Adds the rows of X for some of the block's columns; their sizes are estimated from every [`Self::stride`]-th row.
    pub fn add_columns<T: Kernels>(
        &self,
        x: MultiVectorView<'_, T>,
        places: Range<usize>,
        to: &mut ColumnSums,
    ) {
        let rows = x.rows_in(self.first_column + places.start..self.first_column + places.end);
        add_rows(rows, &self.sums[places.clone()], to);
        let (stride, factor) = (self.stride(), self.usual_roundings());
        let first = places.start.next_multiple_of(stride).min(places.end);
        let sampled = rows.rows_in(first - places.start..places.len());
        let factor = factor * (stride as f64).sqrt();
        add_squares(sampled, &self.sums[first..places.end], stride, factor, &mut to.sizes);
    }

    /// The factor that makes sums of columns weights of squares, of an estimate that right products seldom exceed.
    pub fn usual_roundings(&self) -> f64 {
        ESTIMATE * self.mean_roundings
    }

    fn columns(&self) -> Range<usize> {
        self.first_column..self.first_column + self.sums.len()
    }

    /// The distance of the rows of X that sizes are estimated from.
    fn stride(&self) -> usize {
        (self.sums.len() / SAMPLED_ROWS).clamp(1, MOST_STRIDE)
    }
}

/// The sums of X for each block.
pub struct SumsOfX(Vec<ColumnSums>);

impl Checksums {
    /// The sums of X, added up in the rayon pool of the caller.
    pub fn sums_of_x<T: Kernels>(&self, x: MultiVectorView<'_, T>) -> Result<SumsOfX> {
        self.summed::<T>(Block::columns, x.k(), |block, rows, sums| {
            let first = self.blocks[block].first_column;
            self.blocks[block].add_columns(x, rows.start - first..rows.end - first, sums);
        })
        .map(SumsOfX)
    }

    /// The blocks and columns in which Y differs from `alpha A X + beta Y` by more than rounding usually explains, or whose sums are not
    /// finite.
    pub(super) fn suspicious<T: Kernels>(
        &self,
        a: Operator<'_, T>,
        product: Applied<'_, T>,
        SumsOfX(x): SumsOfX,
    ) -> Result<Vec<Suspicious>> {
        let (k, rows_of) = (product.y.k(), |block: &Block| block.rows.clone());
        let y = self.summed::<T>(rows_of, k, |_, rows, sums| {
            sums.add_weighted(product.y.rows_in(rows.clone()), &self.weights[rows]);
        })?;
        let old = product.old.map(|old| {
            self.summed::<T>(rows_of, k, |_, rows, sums| {
                let weights = &self.weights[rows.clone()];
                sums.add_rows(old.rows_in(rows), weights, 1.0);
            })
        });
        let mut old = old.transpose()?.unwrap_or_default().into_iter();
        let terms = x.into_iter().zip(y).map(|(x, y)| Terms { x, y, old: old.next() }).collect();
        self.differing(a, terms, product)
    }

    /// The sums of each block of rows of a multivector of `k` columns: `rows_of` a block are divided among threads.
    fn summed<T: Kernels>(
        &self,
        rows_of: impl Fn(&Block) -> Range<usize>,
        k: usize,
        add: impl Fn(usize, Range<usize>, &mut ColumnSums) + Sync,
    ) -> Result<Vec<ColumnSums>> {
        let rows_of_task = task_rows::<T>(k);
        let mut tasks = Vec::new();
        for (block, rows) in self.blocks.iter().map(rows_of).enumerate() {
            let task = |begin: usize| (block, begin..rows.end.min(begin + rows_of_task));
            tasks.extend(rows.clone().step_by(rows_of_task).map(task));
        }
        let of_task = |(block, rows): &(usize, Range<usize>)| {
            let mut sums = ColumnSums::zeros(k)?;
            add(*block, rows.clone(), &mut sums);
            Ok((*block, sums))
        };
        let parts = tasks.par_iter().map(of_task).collect::<Result<Vec<_>>>()?;
        let mut all = self.blocks.iter().map(|_| ColumnSums::zeros(k)).collect::<Result<Vec<_>>>()?;
        parts.iter().for_each(|(block, sums)| all[*block].add(sums));
        Ok(all)
    }

    /// The blocks whose sums differ, and their columns.
    pub(super) fn differing<T: Kernels>(
        &self,
        a: Operator<'_, T>,
        terms: Vec<Terms>,
        product: Applied<'_, T>,
    ) -> Result<Vec<Suspicious>> {
        let mut found = Vec::new();
        for (block, (of, mut terms)) in self.blocks.iter().zip(terms).enumerate() {
            if !terms.differ(product.scaling) {
                continue;
            }
            // The sizes were estimated.
            terms.x.sizes.fill(0.0);
            let roundings = of.roundings(a, &self.weights)?;
            add_squares(product.x.rows_in(of.columns()), &roundings, 1, 1.0, &mut terms.x.sizes);
            let columns = terms.differing(product.scaling);
            if !columns.is_empty() {
                found.push(Suspicious { block, columns });
            }
        }
        Ok(found)
    }
}

impl Terms {
    /// Sums of no rows.
    pub(super) fn zeros(k: usize) -> Result<Self> {
        Ok(Self { x: ColumnSums::zeros(k)?, old: None, y: ColumnSums::zeros(k)? })
    }

    /// Adds the sums of other rows, without an old Y.
    pub(super) fn add(&mut self, other: &Self) {
        self.x.add(&other.x);
        self.y.add(&other.y);
    }

    pub(super) fn clear(&mut self) {
        self.x.clear();
        self.y.clear();
    }

    /// Whether a column of Y differs from `alpha A X + beta Y` by more than rounding usually explains, or its sums are not finite.
    pub fn differ<T: Kernels>(&self, scaling: Scaling<T>) -> bool {
        !self.differing(scaling).is_empty()
    }

    /// These columns, and their excess: the largest first, those without a number last.
    fn differing<T: Kernels>(&self, scaling: Scaling<T>) -> Vec<(usize, f64)> {
        let (alpha, beta) = (scaling.alpha.to_f64(), scaling.beta.to_f64());
        let excess = |column: usize| {
            let of = |sums: &ColumnSums| (sums.sums[column], sums.errors[column], sums.sizes[column]);
            let ((x, x_error, x_size), (y, y_error, _)) = (of(&self.x), of(&self.y));
            let (mut rest, mut error) = (y, y_error - alpha * x_error);
            let mut square = alpha * alpha * x_size;
            if let Some(old) = &self.old {
                let (old, old_error, old_size) = of(old);
                (rest, error) = (rest - beta * old, error - beta * old_error);
                square += (OLD_ROUNDINGS * beta).powi(2) * old_size;
            }
            let difference = ((rest - alpha * x) + error).abs();
            match (difference.is_finite() && square.is_finite(), difference == 0.0) {
                (false, _) => f64::NAN,
                (true, true) => 0.0,
                (true, false) => difference / (T::UNIT_ROUNDOFF * square.sqrt()),
            }
        };
        let all = (0..self.y.sums.len()).map(|column| (column, excess(column)));
        let mut found: Vec<(usize, f64)> =
            all.filter(|&(_, excess)| excess.is_nan() || excess > 1.0).collect();
        found.sort_by(|left, right| {
            let last = left.1.is_nan().cmp(&right.1.is_nan());
            last.then(right.1.total_cmp(&left.1))
        });
        found
    }
}
