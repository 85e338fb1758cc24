//! Verifies sums of columns against sums in twice the precision.
//!
//! **Sums** must be within `γ_n Σ|x|`, the bound of any order of additions. **Squared deviations** D: rounding of the terms gives
//! `γ_(n+16) D`. The means that enter have the error `e = γ_(n+8) max|x|`; as the weights of all merges add up to at most 4n, they change
//! D by at most `2 e √(4 n D) + 4 n e²`. Where a sum may leave the range of the precision, the serial reference decides.

use rayon::prelude::*;

use super::order::block_rows;
use super::reference::Moments;
use super::totals::Totals;
use crate::error::{Error, Result};
use crate::kernel::double_double::DoubleDouble;
use crate::kernel::verify::{Tally, Verification, agree_near_overflow, gamma};
use crate::matrix::{MultiVectorView, Scalar};

/// Compares the sums of the columns of X, and the squared deviations if they were computed, with those in twice the precision. The
/// element of an error is the column, with row 0 for the sum and row 1 for the squared deviations.
pub fn verify<T: Scalar>(
    x: MultiVectorView<'_, T>,
    totals: &Totals,
    deviations: bool,
) -> Result<Verification> {
    if totals.columns().len() != x.k() {
        let given = totals.columns().len();
        return Err(Error::usage(format!("there are sums of {given} columns, but the table has {}", x.k())));
    }
    let block_rows = block_rows(x.rows() as u64, x.k() as u64) as usize;
    let check = |(column, found): (usize, &Moments<f64>)| {
        let values: Vec<T> = (0..x.rows()).map(|row| x.row(row)[column]).collect();
        check_column(column, &values, block_rows, *found, deviations)
    };
    let tallies: Vec<Tally> = totals.columns().par_iter().enumerate().map(check).collect();
    let elements = x.k() * if deviations { 2 } else { 1 };
    Ok(tallies.into_iter().fold(Tally::default(), Tally::merge).verification::<T>(elements))
}

fn check_column<T: Scalar>(
    column: usize,
    values: &[T],
    block_rows: usize,
    found: Moments<f64>,
    deviations: bool,
) -> Tally {
    let mut tally = Tally::default();
    let n = values.len() as f64;
    let each = || values.iter().map(|value| value.to_f64());
    let sum = each().fold(DoubleDouble::default(), |sum, value| sum.add_product(value, 1.0));
    let size: f64 = each().map(f64::abs).sum();
    let mean = sum.divided(n.max(1.0));
    let squared = each().fold(DoubleDouble::default(), |sum, value| {
        let (high, low) = mean.subtracted_from(value);
        sum.add_product(high, high).add_product(2.0 * high, low)
    });
    let in_range = |value: f64| T::from_f64(4.0 * value).to_f64().is_finite();
    if !in_range(size) || (deviations && !in_range(squared.value())) {
        let blocks = values.chunks(block_rows).map(|block| Moments::of_block(block, block_rows).widened());
        let expected = blocks.fold(Moments::NONE, Moments::merge);
        let same = agree_near_overflow(expected.sum, found.sum)
            && (!deviations || agree_near_overflow(expected.deviations, found.deviations));
        let error = if same { 0.0 } else { f64::INFINITY };
        tally.add((0, column), error, error);
        return tally;
    }
    tally.compare((0, column), sum, found.sum, gamma::<T>(n) * size);
    if deviations {
        let largest = each().fold(0.0, |largest, value: f64| value.abs().max(largest));
        let (d, error) = (squared.value(), gamma::<T>(n + 8.0) * largest);
        let from_means = 2.0 * error * (4.0 * n * d).sqrt() + 4.0 * n * error * error;
        let bound = gamma::<T>(n + 16.0) * d + from_means + n * T::SMALLEST;
        tally.compare((1, column), squared, found.deviations, bound);
    }
    tally
}
