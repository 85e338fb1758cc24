//! Serial partial sums, written for obvious correctness, in the order of [`super::order`]. Every other kernel must agree with them bit for
//! bit.

use super::order::{GROUP_ROWS, STRANDS};
use crate::matrix::{MultiVectorView, Scalar};

/// The sum and the squared deviations of one column over some rows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Moments<T> {
    /// The sum.
    pub sum: T,
    /// The sum of squared deviations from the mean.
    pub deviations: T,
    /// Number of rows.
    pub rows: usize,
}

impl<T: Scalar> Moments<T> {
    /// No rows.
    pub const NONE: Self = Self { sum: T::ZERO, deviations: T::ZERO, rows: 0 };

    /// These rows and those of `more`, which follow.
    pub fn merge(self, more: Self) -> Self {
        let number = |rows: usize| T::from_f64(rows as f64);
        if more.rows == 0 {
            return self;
        }
        let rows = self.rows + more.rows;
        let sum = self.sum.plus(more.sum);
        if self.rows == 0 {
            return Self { sum, deviations: more.deviations, rows };
        }
        let mean = |part: Self| part.sum.times(T::ONE.over(number(part.rows)));
        let difference = mean(more).minus(mean(self));
        let weight = number(self.rows).over(number(rows)).times(number(more.rows));
        let both = self.deviations.plus(more.deviations);
        Self { sum, deviations: difference.times(difference).fused_multiply_add(weight, both), rows }
    }

    /// The same in double precision.
    pub fn widened(self) -> Moments<f64> {
        Moments { sum: self.sum.to_f64(), deviations: self.deviations.to_f64(), rows: self.rows }
    }

    /// At most [`GROUP_ROWS`] rows.
    fn of_group(values: &[T]) -> Self {
        let sum = tree(values);
        let mean = sum.times(T::ONE.over(T::from_f64(values.len() as f64)));
        let squares: Vec<T> = values.iter().map(|value| value.minus(mean).times(value.minus(mean))).collect();
        Self { sum, deviations: tree(&squares), rows: values.len() }
    }

    /// One block of `block_rows` rows, or the last one.
    pub fn of_block(values: &[T], block_rows: usize) -> Self {
        let strand = |number: usize| {
            let rows = block_rows / STRANDS;
            let begin = (number * rows).min(values.len());
            let groups = values[begin..(begin + rows).min(values.len())].chunks(GROUP_ROWS);
            groups.map(Self::of_group).fold(Self::NONE, Self::merge)
        };
        let pair = |first: usize| strand(first).merge(strand(first + 1));
        pair(0).merge(pair(2)).merge(pair(4).merge(pair(6)))
    }
}

fn tree<T: Scalar>(values: &[T]) -> T {
    let value = |at: usize| values.get(at).copied().unwrap_or(T::ZERO);
    let pair = |first: usize| value(first).plus(value(first + 1));
    pair(0).plus(pair(2)).plus(pair(4).plus(pair(6)))
}

/// The partial results of all blocks: for each block, one for each column.
pub fn partial_sums<T: Scalar>(x: MultiVectorView<'_, T>, block_rows: usize) -> Vec<Moments<T>> {
    let mut partials = Vec::new();
    for begin in (0..x.rows()).step_by(block_rows) {
        for column in 0..x.k() {
            let rows = begin..(begin + block_rows).min(x.rows());
            let values: Vec<T> = rows.map(|row| x.row(row)[column]).collect();
            partials.push(Moments::of_block(&values, block_rows));
        }
    }
    partials
}
