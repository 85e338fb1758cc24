//! Checks a computed Y against the product in twice the precision.
//!
//! What decides is the componentwise bound: any way of adding a row's n products, rounding once or twice each, stays
//! within `γ_n (|A||x|)`, with `γ_n = n u / (1 - n u)` and u the unit round-off; below the smallest normal number a
//! rounding may cost a fixed amount instead, which the bound includes. A row whose terms are all zero must give
//! exactly zero. Where the sum is not finite, Y must be the same infinity, or NaN where it is NaN.

use rayon::prelude::*;

use super::doubled::Doubled;
use super::reference;
use crate::error::{Error, Result};
use crate::matrix::{CsrView, MultiVectorView, Scalar};

/// How far a Y is from the product.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct Verification {
    /// Every element is within its bound.
    pub passed: bool,
    /// Largest relative error of an element.
    pub max_rel_err: f64,
    /// Mean relative error of the elements.
    pub mean_rel_err: f64,
    /// Largest share of its rounding bound that an element's error takes; infinite where no error is allowed.
    pub max_bound_ratio: f64,
    /// Distance from one to the next number of the type, for comparison.
    pub unit_roundoff: f64,
    /// Row and column of the element furthest beyond its bound, where one is.
    pub worst: Option<(usize, usize)>,
}

#[derive(Clone, Copy, Default)]
struct Tally {
    max_relative: f64,
    sum_relative: f64,
    max_ratio: f64,
    worst: (usize, usize),
}

impl Tally {
    fn add(&mut self, place: (usize, usize), relative: f64, ratio: f64) {
        self.max_relative = self.max_relative.max(relative);
        self.sum_relative += relative;
        if ratio > self.max_ratio {
            (self.max_ratio, self.worst) = (ratio, place);
        }
    }

    fn merge(self, other: Self) -> Self {
        let larger = if other.max_ratio > self.max_ratio { other } else { self };
        Self {
            max_relative: self.max_relative.max(other.max_relative),
            sum_relative: self.sum_relative + other.sum_relative,
            ..larger
        }
    }
}

/// Compares `y` with `a x`. Rows are checked in parallel; the sum of each is serial.
pub fn verify<T: Scalar>(
    a: CsrView<'_, T>,
    x: MultiVectorView<'_, T>,
    y: MultiVectorView<'_, T>,
) -> Result<Verification> {
    let _span = tracing::info_span!("verify").entered();
    let k = x.k();
    if x.rows() != a.cols() || y.rows() != a.rows() || y.k() != k {
        return Err(Error::Usage("X and Y do not have the matrix's shape".into()));
    }
    const ROWS_AT_A_TIME: usize = 64;
    let tallies: Vec<Tally> = (0..a.rows().div_ceil(ROWS_AT_A_TIME))
        .into_par_iter()
        .map(|group| {
            let mut tally = Tally::default();
            let mut terms = vec![Term::default(); k];
            for row in group * ROWS_AT_A_TIME..((group + 1) * ROWS_AT_A_TIME).min(a.rows()) {
                check_row(a, x, row, y.row(row), &mut terms, &mut tally);
            }
            tally
        })
        .collect();
    // Folded in order, so that the mean does not depend on the number of threads.
    let total = tallies.into_iter().fold(Tally::default(), Tally::merge);
    let elements = (a.rows() * k) as f64;
    let passed = total.max_ratio <= 1.0;
    Ok(Verification {
        passed,
        max_rel_err: total.max_relative,
        mean_rel_err: if elements > 0.0 { total.sum_relative / elements } else { 0.0 },
        max_bound_ratio: total.max_ratio,
        unit_roundoff: 2.0 * T::UNIT_ROUNDOFF,
        worst: (!passed).then_some(total.worst),
    })
}

/// What is known of one element of a row: its value, and the sum of its terms' sizes.
#[derive(Clone, Copy, Default)]
struct Term {
    sum: Doubled,
    size: f64,
}

fn check_row<T: Scalar>(
    a: CsrView<'_, T>,
    x: MultiVectorView<'_, T>,
    row: usize,
    y: &[T],
    terms: &mut [Term],
    tally: &mut Tally,
) {
    let (columns, values) = a.row(row);
    terms.fill(Term::default());
    for (&column, &value) in columns.iter().zip(values) {
        let value = value.to_f64();
        for (term, x) in terms.iter_mut().zip(x.row(column as usize)) {
            let x = x.to_f64();
            term.sum = term.sum.add_product(value, x);
            term.size += (value * x).abs();
        }
    }
    let n = columns.len() as f64;
    let gamma = n * T::UNIT_ROUNDOFF / (1.0 - n * T::UNIT_ROUNDOFF);
    for (k, (term, &y)) in terms.iter().zip(y).enumerate() {
        let y = y.to_f64();
        let exact = term.sum.value();
        // Beyond half the range an ordinary sum may overflow on the way where this one does not.
        let may_overflow = !term.size.is_finite() || T::from_f64(term.size * 2.0).to_f64().is_infinite();
        if may_overflow || !y.is_finite() {
            // The element as working precision gives it, to see where it overflows.
            let same = same_special(reference::element(columns, values, &x, k).to_f64(), y);
            tally.add(
                (row, k),
                if same { 0.0 } else { f64::INFINITY },
                if same { 0.0 } else { f64::INFINITY },
            );
            continue;
        }
        let error = term.sum.distance(y);
        if error == 0.0 {
            tally.add((row, k), 0.0, 0.0);
            continue;
        }
        let bound = gamma * term.size + if term.size > 0.0 { n * T::SMALLEST } else { 0.0 };
        let relative = if exact == 0.0 { f64::INFINITY } else { error / exact.abs() };
        tally.add((row, k), relative, if bound > 0.0 { error / bound } else { f64::INFINITY });
    }
}

/// Whether two numbers of which one is not finite are the same infinity or both NaN; near the end of the range two
/// finite sums may differ by their rounding.
fn same_special(expected: f64, y: f64) -> bool {
    if expected.is_nan() || y.is_nan() {
        return expected.is_nan() && y.is_nan();
    }
    if expected.is_infinite() || y.is_infinite() {
        return expected == y;
    }
    (expected - y).abs() <= 1e-3 * expected.abs()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matrix::{Csr, MultiVector};

    fn matrix(values: Vec<f64>) -> Csr<f64> {
        let n = values.len();
        Csr::try_new(1, n, vec![0, n as u64], (0..n as u32).collect::<Vec<_>>(), values).unwrap()
    }

    fn ones(n: usize) -> MultiVector<f64> {
        MultiVector::from_fn(n, 1, |_, _| 1.0).unwrap()
    }

    fn check(values: Vec<f64>, x: &MultiVector<f64>, y: f64) -> Verification {
        let y = MultiVector::from_fn(1, 1, |_, _| y).unwrap();
        verify(matrix(values).view(), x.view(), y.view()).unwrap()
    }

    #[test]
    fn the_reference_passes_and_one_wrong_bit_too_many_fails() {
        let values: Vec<f64> = (0..50).map(|i| 1.0 / f64::from(i + 1)).collect();
        let a = matrix(values.clone());
        let x = ones(50);
        let mut y = MultiVector::zeros(1, 1).unwrap();
        reference::csr(a.view(), x.view(), &mut y.view_mut()).unwrap();
        let y = y.data()[0];
        let good = check(values.clone(), &x, y);
        assert!(good.passed && good.max_rel_err < 1e-15, "{good:?}");
        let bad = check(values, &x, y * (1.0 + 1e-13));
        assert!(!bad.passed && bad.worst == Some((0, 0)), "{bad:?}");
    }

    #[test]
    fn a_row_of_zeros_must_be_exactly_zero() {
        assert!(check(vec![0.0, 0.0], &ones(2), 0.0).passed);
        let bad = check(vec![0.0, 0.0], &ones(2), 1e-300);
        assert!(!bad.passed && bad.max_bound_ratio.is_infinite());
    }

    #[test]
    fn nan_and_infinity_are_compared_as_such() {
        let inf = f64::INFINITY;
        assert!(check(vec![inf, 1.0], &ones(2), inf).passed);
        assert!(!check(vec![inf, 1.0], &ones(2), -inf).passed);
        assert!(!check(vec![inf, 1.0], &ones(2), f64::NAN).passed);
        assert!(check(vec![inf, -inf], &ones(2), f64::NAN).passed);
        assert!(!check(vec![1.0, 1.0], &ones(2), f64::NAN).passed);
        let x = MultiVector::from_fn(2, 1, |row, _| if row == 0 { inf } else { 1.0 }).unwrap();
        assert!(check(vec![0.0, 1.0], &x, f64::NAN).passed, "0 times infinity is NaN");
        assert!(!check(vec![0.0, 1.0], &x, 1.0).passed, "an explicit zero may not be skipped");
    }

    #[test]
    fn cancellation_is_judged_by_the_terms_not_by_the_sum() {
        let result = check(vec![1e16, 1.0, -1e16], &ones(3), 0.0);
        assert!(result.passed && result.max_rel_err == 1.0, "{result:?}");
    }

    #[test]
    fn sums_below_the_normal_range_are_allowed_their_rounding() {
        let x = MultiVector::from_fn(2, 1, |_, _| 0.5).unwrap();
        assert!(check(vec![5e-324, 5e-324], &x, 0.0).passed);
    }
}
