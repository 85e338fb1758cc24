//! Verifies a computed Y against the product in twice the precision.
//!
//! The criterion is the componentwise rounding bound: any order of adding a row's n products, with one or two roundings each,
//! stays within `γ_n (|A||x|)`, with `γ_n = n u / (1 - n u)` and u the unit round-off. Below the smallest normal number the
//! rounding error is an absolute amount, which the bound includes. A row whose terms are all zero must give exactly zero.
//! If the exact sum is infinite or NaN, Y must be the same infinity or NaN.

use rayon::prelude::*;

use super::double_double::DoubleDouble;
use super::reference;
use super::scaling::{Scaling, is_plain, scaling};
use crate::error::{Error, Result};
use crate::matrix::{CsrView, MultiVectorView, Scalar};

/// The errors of a computed Y relative to the reference product.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct Verification {
    /// Whether every element is within its rounding bound.
    pub passed: bool,
    /// Largest relative error of an element.
    pub max_rel_err: f64,
    /// Mean relative error of the elements.
    pub mean_rel_err: f64,
    /// Largest ratio of an element's error to its rounding bound; infinite if an element with bound zero has an error.
    pub max_bound_ratio: f64,
    /// Distance from 1 to the next larger number of the precision, for comparison.
    pub unit_roundoff: f64,
    /// Row and column of the element that exceeds its bound by the largest ratio, if any exceeds it.
    pub worst: Option<(usize, usize)>,
}

/// The errors of the elements so far.
#[derive(Clone, Copy, Default)]
pub(super) struct Tally {
    max_relative: f64,
    sum_relative: f64,
    max_ratio: f64,
    worst: (usize, usize),
}

impl Tally {
    pub fn add(&mut self, element: (usize, usize), relative: f64, ratio: f64) {
        self.max_relative = self.max_relative.max(relative);
        self.sum_relative += relative;
        if ratio > self.max_ratio {
            (self.max_ratio, self.worst) = (ratio, element);
        }
    }

    /// Adds an element whose exact value is known and whose error may be `bound`. Not for values near the end of the range.
    pub fn compare(&mut self, element: (usize, usize), exact: DoubleDouble, found: f64, bound: f64) {
        let error = exact.distance(found);
        if error == 0.0 {
            return self.add(element, 0.0, 0.0);
        }
        let exact = exact.value();
        // An error that is NaN exceeds any bound.
        let ratio = if error.is_nan() || bound == 0.0 { f64::INFINITY } else { error / bound };
        self.add(element, if exact == 0.0 { f64::INFINITY } else { error / exact.abs() }, ratio);
    }

    pub fn merge(self, other: Self) -> Self {
        let larger = if other.max_ratio > self.max_ratio { other } else { self };
        Self {
            max_relative: self.max_relative.max(other.max_relative),
            sum_relative: self.sum_relative + other.sum_relative,
            ..larger
        }
    }

    /// The result for `elements` elements of the precision `T`.
    pub fn verification<T: Scalar>(self, elements: usize) -> Verification {
        let passed = self.max_ratio <= 1.0;
        Verification {
            passed,
            max_rel_err: self.max_relative,
            mean_rel_err: if elements > 0 { self.sum_relative / elements as f64 } else { 0.0 },
            max_bound_ratio: self.max_ratio,
            unit_roundoff: 2.0 * T::UNIT_ROUNDOFF,
            worst: (!passed).then_some(self.worst),
        }
    }
}

/// Compares `y` with `a x`. Rows are checked in parallel; each row is summed serially.
pub fn verify<T: Scalar>(
    a: CsrView<'_, T>,
    x: MultiVectorView<'_, T>,
    y: MultiVectorView<'_, T>,
) -> Result<Verification> {
    let _span = tracing::info_span!("verify").entered();
    let k = x.k();
    if x.rows() != a.cols() || y.rows() != a.rows() || y.k() != k {
        return Err(Error::usage("the shapes of X and Y do not fit the matrix"));
    }
    const ROWS_PER_TASK: usize = 64;
    let product = Product { a, scaling: scaling(1.0, 0.0), x };
    let tallies: Vec<Tally> = (0..a.rows().div_ceil(ROWS_PER_TASK))
        .into_par_iter()
        .map(|group| {
            let mut tally = Tally::default();
            let mut terms = vec![Term::default(); k];
            for row in group * ROWS_PER_TASK..((group + 1) * ROWS_PER_TASK).min(a.rows()) {
                product.check_row(row, None, y.row(row), &mut terms, &mut tally);
            }
            tally
        })
        .collect();
    // Merged in order, so that the mean does not depend on the number of threads.
    let total = tallies.into_iter().fold(Tally::default(), Tally::merge);
    Ok(total.verification::<T>(a.rows() * k))
}

/// Those of `rows` in which an element of `y` differs from `alpha A x + beta old` by more than the rounding bound. `old` is needed if
/// beta is not zero.
pub fn wrong_rows<T: Scalar>(
    a: CsrView<'_, T>,
    scaling: Scaling<T>,
    x: MultiVectorView<'_, T>,
    old: Option<MultiVectorView<'_, T>>,
    y: MultiVectorView<'_, T>,
    rows: &[usize],
) -> Vec<usize> {
    let product = Product { a, scaling, x };
    let is_wrong = |&row: &usize| {
        let (mut tally, mut terms) = (Tally::default(), vec![Term::default(); x.k()]);
        let old = old.map(|old| old.row(row));
        product.check_row(row, old, y.row(row), &mut terms, &mut tally);
        tally.max_ratio > 1.0
    };
    rows.par_iter().copied().filter(is_wrong).collect()
}

/// Accumulators of one element of Y: its sum, and the sum of its terms' absolute values.
#[derive(Clone, Copy, Default)]
struct Term {
    sum: DoubleDouble,
    size: f64,
}

/// A product whose rows are checked.
struct Product<'a, T> {
    a: CsrView<'a, T>,
    scaling: Scaling<T>,
    x: MultiVectorView<'a, T>,
}

impl<T: Scalar> Product<'_, T> {
    /// Adds the errors of the row `y` of the result to `tally`; `terms` is memory for one row.
    fn check_row(&self, row: usize, old: Option<&[T]>, y: &[T], terms: &mut [Term], tally: &mut Tally) {
        let Self { a, scaling, x } = *self;
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
        let is_plain = is_plain(scaling);
        let (alpha, beta) = (scaling.alpha.to_f64(), scaling.beta.to_f64());
        // A scaled element has three roundings more.
        let n = columns.len() as f64 + if is_plain { 0.0 } else { 3.0 };
        let gamma = gamma::<T>(n);
        let in_range = |size: f64| size.is_finite() && T::from_f64(size * 2.0).to_f64().is_finite();
        for (k, (term, &y)) in terms.iter().zip(y).enumerate() {
            let y = y.to_f64();
            let old = old.map_or(T::ZERO, |old| old[k]);
            let (exact, size) = match is_plain {
                true => (term.sum, term.size),
                false => {
                    let old = old.to_f64();
                    (
                        term.sum.times(alpha).add_product(beta, old),
                        alpha.abs() * term.size + (beta * old).abs(),
                    )
                }
            };
            // Above half the range, a partial sum in working precision may overflow although the exact sum does not.
            if !in_range(term.size) || !in_range(size) || !y.is_finite() {
                // Working precision decides whether this element overflows.
                let expected = reference::element(columns, values, &x, k);
                let expected = if is_plain { expected } else { scaling.apply(expected, old) };
                let error = if agree_near_overflow(expected.to_f64(), y) { 0.0 } else { f64::INFINITY };
                tally.add((row, k), error, error);
                continue;
            }
            let error = exact.distance(y);
            if error == 0.0 {
                tally.add((row, k), 0.0, 0.0);
                continue;
            }
            let smallest = n * T::SMALLEST * if is_plain { 1.0 } else { 1.0 + alpha.abs() };
            let bound = gamma * size + if size > 0.0 { smallest } else { 0.0 };
            let exact = exact.value();
            let relative = if exact == 0.0 { f64::INFINITY } else { error / exact.abs() };
            tally.add((row, k), relative, if bound > 0.0 { error / bound } else { f64::INFINITY });
        }
    }
}

/// `γ_n = n u / (1 - n u)`, with u the unit round-off.
pub(super) fn gamma<T: Scalar>(n: f64) -> f64 {
    n * T::UNIT_ROUNDOFF / (1.0 - n * T::UNIT_ROUNDOFF)
}

/// Whether two elements near or beyond the end of the range agree: both NaN, the same infinity, or finite and equal up to
/// rounding.
pub(super) fn agree_near_overflow(expected: f64, y: f64) -> bool {
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
    fn the_reference_passes_and_an_error_above_the_bound_fails() {
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
    fn nan_and_infinity_must_match_exactly() {
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
    fn under_cancellation_the_bound_follows_the_terms_not_the_sum() {
        let result = check(vec![1e16, 1.0, -1e16], &ones(3), 0.0);
        assert!(result.passed && result.max_rel_err == 1.0, "{result:?}");
    }

    #[test]
    fn subnormal_sums_may_have_an_absolute_rounding_error() {
        let x = MultiVector::from_fn(2, 1, |_, _| 0.5).unwrap();
        assert!(check(vec![5e-324, 5e-324], &x, 0.0).passed);
    }
}
