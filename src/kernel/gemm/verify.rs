//! Verifies a computed C against the product in twice the precision.
//!
//! An element has K products, a multiplication with alpha and an addition of `beta c`. Any order of these operations stays within
//! `γ_(K+3) (|alpha| |A||B| + |beta| |c|)`. Below the smallest normal number the rounding error is an absolute amount, which the bound
//! includes.

use rayon::prelude::*;

use super::reference;
use crate::error::{Error, Result};
use crate::kernel::double_double::DoubleDouble;
use crate::kernel::scaling::Scaling;
use crate::kernel::verify::{Tally, Verification, agree_near_overflow, gamma};
use crate::matrix::{MultiVectorView, Scalar};

/// Compares the listed rows of `c` with those of `alpha A B + beta old`. A list is needed because a product of large matrices in twice the
/// precision takes too long. `old` is not read if beta is zero.
pub fn verify<T: Scalar>(
    scaling: Scaling<T>,
    a: MultiVectorView<'_, T>,
    b: MultiVectorView<'_, T>,
    old: Option<MultiVectorView<'_, T>>,
    c: MultiVectorView<'_, T>,
    rows: &[usize],
) -> Result<Verification> {
    let same_shape = |old: MultiVectorView<'_, T>| (old.rows(), old.k()) == (c.rows(), c.k());
    let fits = a.k() == b.rows() && a.rows() == c.rows() && b.k() == c.k();
    let old = old.filter(|_| scaling.reads_old());
    if !fits || !old.is_none_or(same_shape) || old.is_some() != scaling.reads_old() {
        return Err(Error::usage("the shapes of A, B and C do not fit each other"));
    }
    if let Some(row) = rows.iter().find(|&&row| row >= c.rows()) {
        return Err(Error::usage(format!("C has no row {row}; it has {} rows", c.rows())));
    }
    let tallies: Vec<Tally> = rows
        .par_iter()
        .map(|&row| {
            let mut tally = Tally::default();
            for column in 0..c.k() {
                let old = old.map(|old| old.row(row)[column]);
                check_element(scaling, (&a, &b), old, (row, column), c.row(row)[column], &mut tally);
            }
            tally
        })
        .collect();
    let total = tallies.into_iter().fold(Tally::default(), Tally::merge);
    Ok(total.verification::<T>(rows.len() * c.k()))
}

fn check_element<T: Scalar>(
    scaling: Scaling<T>,
    (a, b): (&MultiVectorView<'_, T>, &MultiVectorView<'_, T>),
    old: Option<T>,
    (row, column): (usize, usize),
    found: T,
    tally: &mut Tally,
) {
    let (alpha, beta) = (scaling.alpha.to_f64(), scaling.beta.to_f64());
    let (mut sum, mut size) = (DoubleDouble::default(), 0.0);
    for (k, value) in a.row(row).iter().enumerate() {
        let (value, other) = (value.to_f64(), b.row(k)[column].to_f64());
        sum = sum.add_product(value, other);
        size += (value * other).abs();
    }
    let added = beta * old.map_or(0.0, T::to_f64);
    let all = alpha.abs() * size + added.abs();
    let in_range = |value: f64| T::from_f64(2.0 * value).to_f64().is_finite();
    let found_value = found.to_f64();
    if !in_range(size) || !in_range(all) || !found_value.is_finite() {
        let expected = scaling.apply(reference::element(a, b, row, column), old.unwrap_or(T::ZERO));
        let same = agree_near_overflow(expected.to_f64(), found_value);
        let error = if same { 0.0 } else { f64::INFINITY };
        return tally.add((row, column), error, error);
    }
    let exact = sum.times(alpha).add_product(beta, old.map_or(0.0, T::to_f64));
    let n = a.k() as f64 + 3.0;
    let smallest = if all > 0.0 { n * T::SMALLEST * (1.0 + alpha.abs()) } else { 0.0 };
    tally.compare((row, column), exact, found_value, gamma::<T>(n) * all + smallest);
}
