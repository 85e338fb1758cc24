//! The columns whose weighted sums differ from those of `alpha A X + beta Y`.

use std::ops::Range;

use rayon::prelude::*;
use rowloom_cpu::{Totals, WeightedRows, WeightedSumBodies};

use super::Applied;
use super::checksums::{Block, Checksums, OTHER_ROUNDINGS, zeros};
use crate::error::Result;
use crate::kernel::cpu::Kernels;
use crate::kernel::scaling::Scaling;
use crate::machine::Isa;
use crate::matrix::MultiVectorView;

/// Bytes of rows that a thread adds up at a time.
const TASK_BYTES: usize = 1 << 18;
/// Fewest rows of a task.
const FEWEST_TASK_ROWS: usize = 64;
/// From this many rows on, sizes are estimated from every `STRIDE`-th row.
const SAMPLED_ROWS: usize = 8192;
const STRIDE: usize = 32;

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
        for ((sum, error), other) in self.sums.iter_mut().zip(&mut self.errors).zip(sums) {
            let total = *sum + other;
            let added = total - *sum;
            *error += (*sum - (total - added)) + (other - added);
            *sum = total;
        }
        self.sizes.iter_mut().zip(sizes).for_each(|(size, other)| *size += other);
    }

    /// The sums of rows with these weights and weights of squares, added up by the threads of the caller's pool.
    pub fn of_rows<T: Kernels>(
        x: MultiVectorView<'_, T>,
        weights: &[f64],
        roundings: &[f64],
    ) -> Result<Self> {
        let rows_of_task = task_rows::<T>(x.k());
        let tasks = (0..x.rows().div_ceil(rows_of_task)).into_par_iter().map(|task| {
            let rows = task * rows_of_task..x.rows().min((task + 1) * rows_of_task);
            let mut sums = Self::zeros(x.k())?;
            sums.add_rows(x.rows_in(rows.clone()), &weights[rows.clone()], &roundings[rows], 1);
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

    /// Adds rows with their weights, and with their weights of squares, of which every `stride`-th is used.
    pub fn add_rows<T: Kernels>(
        &mut self,
        x: MultiVectorView<'_, T>,
        weights: &[f64],
        roundings: &[f64],
        stride: usize,
    ) {
        add_rows(x, weights, self);
        add_squares(x, roundings, stride, &mut self.sizes);
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

/// What is summed.
#[derive(Clone, Copy)]
enum Term {
    X,
    Old,
    Y,
}

/// Rows of a term of a block.
struct Task {
    block: usize,
    term: Term,
    rows: Range<usize>,
}

/// Rows that a thread adds up at a time.
fn task_rows<T>(k: usize) -> usize {
    (TASK_BYTES / (k * size_of::<T>()).max(1)).max(FEWEST_TASK_ROWS).next_multiple_of(STRIDE)
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
fn add_squares<T: Kernels>(x: MultiVectorView<'_, T>, weights: &[f64], stride: usize, to: &mut [f64]) {
    let rows = WeightedRows { x: x.data(), leading_dimension: x.leading_dimension(), k: x.k(), weights };
    // SAFETY: the body is for the instruction set of this processor.
    unsafe { (bodies::<T>().add_squares)(rows, stride, to) };
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
        let first = places.start.next_multiple_of(self.stride()).min(places.end);
        let sampled = rows.rows_in(first - places.start..places.len());
        add_squares(sampled, &self.roundings[first..places.end], self.stride(), &mut to.sizes);
    }

    fn columns(&self) -> Range<usize> {
        self.first_column..self.first_column + self.sums.len()
    }

    /// The distance of the rows of X that the sizes are estimated from.
    fn stride(&self) -> usize {
        if self.sums.len() >= SAMPLED_ROWS { STRIDE } else { 1 }
    }
}

impl Checksums {
    /// The blocks and columns in which Y differs from `alpha A X + beta Y` by more than rounding usually explains, or whose sums are not
    /// finite.
    pub(super) fn suspicious<T: Kernels>(&self, product: Applied<'_, T>) -> Result<Vec<Suspicious>> {
        let k = product.y.k();
        if k == 0 {
            return Ok(Vec::new());
        }
        let tasks = self.tasks(product);
        let summed = tasks.par_iter().map(|task| self.sums_of(task, product)).collect::<Result<Vec<_>>>()?;
        let mut terms =
            self.blocks.iter().map(|_| Terms::zeros(k, product.old.is_some())).collect::<Result<Vec<_>>>()?;
        for (task, sums) in tasks.iter().zip(&summed) {
            let of = &mut terms[task.block];
            match task.term {
                Term::X => of.x.add(sums),
                Term::Y => of.y.add(sums),
                Term::Old => of.old.iter_mut().for_each(|old| old.add(sums)),
            }
        }
        Ok(self.differing(terms, product))
    }

    /// The blocks whose sums differ, and their columns.
    pub(super) fn differing<T: Kernels>(
        &self,
        terms: Vec<Terms>,
        product: Applied<'_, T>,
    ) -> Vec<Suspicious> {
        let mut found = Vec::new();
        for (block, (of, mut terms)) in self.blocks.iter().zip(terms).enumerate() {
            let mut columns = terms.differing(product.scaling, of.stride());
            if !columns.is_empty() && of.stride() > 1 {
                terms.x.sizes.fill(0.0);
                add_squares(product.x.rows_in(of.columns()), &of.roundings, 1, &mut terms.x.sizes);
                columns = terms.differing(product.scaling, 1);
            }
            if !columns.is_empty() {
                found.push(Suspicious { block, columns });
            }
        }
        found
    }

    /// The tasks of a product, by block.
    fn tasks<T: Kernels>(&self, product: Applied<'_, T>) -> Vec<Task> {
        let rows_of_task = task_rows::<T>(product.y.k());
        let mut tasks = Vec::new();
        for (block, of) in self.blocks.iter().enumerate() {
            let mut add = |term: Term, rows: Range<usize>| {
                let starts = rows.clone().step_by(rows_of_task);
                let task = |begin: usize| begin..rows.end.min(begin + rows_of_task);
                tasks.extend(starts.map(|begin| Task { block, term, rows: task(begin) }));
            };
            add(Term::X, of.columns());
            add(Term::Y, of.rows.clone());
            if product.old.is_some() {
                add(Term::Old, of.rows.clone());
            }
        }
        tasks
    }

    fn sums_of<T: Kernels>(&self, task: &Task, product: Applied<'_, T>) -> Result<ColumnSums> {
        let mut sums = ColumnSums::zeros(product.y.k())?;
        let rows = task.rows.clone();
        let block = &self.blocks[task.block];
        match task.term {
            Term::X => {
                let places = rows.start - block.first_column..rows.end - block.first_column;
                block.add_columns(product.x, places, &mut sums);
            }
            Term::Y => add_rows(product.y.rows_in(rows.clone()), &self.weights[rows], &mut sums),
            Term::Old => {
                if let Some(old) = product.old {
                    let weights = &self.weights[rows.clone()];
                    sums.add_rows(old.rows_in(rows), weights, weights, 1);
                }
            }
        }
        Ok(sums)
    }
}

impl Terms {
    /// Sums of no rows.
    pub(super) fn zeros(k: usize, reads_old: bool) -> Result<Self> {
        let old = reads_old.then(|| ColumnSums::zeros(k)).transpose()?;
        Ok(Self { x: ColumnSums::zeros(k)?, old, y: ColumnSums::zeros(k)? })
    }

    /// Adds the sums of other rows.
    pub(super) fn add(&mut self, other: &Self) {
        self.x.add(&other.x);
        self.y.add(&other.y);
        self.old.iter_mut().zip(&other.old).for_each(|(old, other)| old.add(other));
    }

    pub(super) fn clear(&mut self) {
        self.x.clear();
        self.y.clear();
        self.old.iter_mut().for_each(ColumnSums::clear);
    }

    /// Whether a column of Y differs from `alpha A X + beta Y` by more than rounding usually explains, or its sums are not finite.
    pub fn differ<T: Kernels>(&self, scaling: Scaling<T>) -> bool {
        !self.differing(scaling, 1).is_empty()
    }

    /// These columns, and their excess: the largest first, those without a number last.
    fn differing<T: Kernels>(&self, scaling: Scaling<T>, stride: usize) -> Vec<(usize, f64)> {
        let (alpha, beta) = (scaling.alpha.to_f64(), scaling.beta.to_f64());
        let excess = |column: usize| {
            let of = |sums: &ColumnSums| (sums.sums[column], sums.errors[column], sums.sizes[column]);
            let ((x, x_error, x_size), (y, y_error, _)) = (of(&self.x), of(&self.y));
            let (mut rest, mut error) = (y, y_error - alpha * x_error);
            let mut square = alpha * alpha * x_size * stride as f64;
            if let Some(old) = &self.old {
                let (old, old_error, old_size) = of(old);
                (rest, error) = (rest - beta * old, error - beta * old_error);
                square += (OTHER_ROUNDINGS * beta).powi(2) * old_size;
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
