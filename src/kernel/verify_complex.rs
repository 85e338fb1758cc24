//! Verifies a computed complex Y against plain loops over complex numbers in twice the precision.
//!
//! The matrix is that of [`crate::matrix::complex`], X and Y are as their users have them: real and imaginary parts in turn. Nothing here
//! knows how X is changed for the product, so a mistake in that is found. The criterion is that of `super::verify` for each part
//! of an element: it is the sum of two products of real numbers for every nonzero of the row.

use rayon::prelude::*;

use super::double_double::DoubleDouble;
use super::reference;
use super::verify::{Tally, Verification, agree_near_overflow, gamma};
use crate::error::{Error, Result};
use crate::matrix::complex::PARTS;
use crate::matrix::{CsrView, MultiVectorView, Scalar};

const ROWS_PER_TASK: usize = 64;

/// Compares `y` with the complex product of `a` and `x`. The worst element is that of the real array.
pub fn verify_complex<T: Scalar>(
    a: CsrView<'_, T>,
    x: MultiVectorView<'_, T>,
    y: MultiVectorView<'_, T>,
) -> Result<Verification> {
    let _span = tracing::info_span!("verify").entered();
    let (k, rows) = (x.k(), a.rows());
    if !k.is_multiple_of(PARTS) || x.rows() * PARTS != a.cols() || y.rows() != rows || y.k() != k {
        return Err(Error::usage("the shapes of X and Y do not fit the matrix"));
    }
    let tallies: Vec<Tally> = (0..rows.div_ceil(ROWS_PER_TASK))
        .into_par_iter()
        .map(|group| {
            let mut tally = Tally::default();
            for row in group * ROWS_PER_TASK..((group + 1) * ROWS_PER_TASK).min(rows) {
                for column in 0..k / PARTS {
                    check_element(a, x, y, (row, column), &mut tally)?;
                }
            }
            Ok(tally)
        })
        .collect::<Result<_>>()?;
    // Merged in order, so that the mean does not depend on the number of threads.
    Ok(tallies.into_iter().fold(Tally::default(), Tally::merge).verification::<T>(rows * k))
}

/// One part of a complex sum, and the sum of its terms' absolute values.
#[derive(Clone, Copy, Default)]
struct Part {
    sum: DoubleDouble,
    size: f64,
}

impl Part {
    fn add(&mut self, a: f64, b: f64) {
        self.sum = self.sum.add_product(a, b);
        self.size += (a * b).abs();
    }
}

/// Adds the errors of both parts of an element.
fn check_element<T: Scalar>(
    a: CsrView<'_, T>,
    x: MultiVectorView<'_, T>,
    y: MultiVectorView<'_, T>,
    (row, column): (usize, usize),
    tally: &mut Tally,
) -> Result<()> {
    let (columns, values) = a.row(row);
    let (mut real, mut imaginary) = (Part::default(), Part::default());
    // The factors of the parts, for sums in working precision.
    let factors = |at: u32| {
        let parts = &x.row(at as usize / PARTS)[PARTS * column..];
        (parts[0].to_f64(), parts[1].to_f64())
    };
    for (places, parts) in columns.chunks_exact(PARTS).zip(values.chunks_exact(PARTS)) {
        let (p, q) = (parts[0].to_f64(), parts[1].to_f64());
        let (b, c) = factors(places[0]);
        // (p + q i) (b + c i)
        real.add(p, b);
        real.add(q, -c);
        imaginary.add(p, c);
        imaginary.add(q, b);
    }
    let n = columns.len() as f64;
    let in_range = |size: f64| size.is_finite() && T::from_f64(size * 2.0).to_f64().is_finite();
    for (index, part) in [real, imaginary].into_iter().enumerate() {
        let element = (row, PARTS * column + index);
        let found = y.row(row)[element.1].to_f64();
        if in_range(part.size) && found.is_finite() {
            let smallest = if part.size > 0.0 { n * T::SMALLEST } else { 0.0 };
            tally.compare(element, part.sum, found, gamma::<T>(n) * part.size + smallest);
            continue;
        }
        // Working precision decides whether this element overflows.
        let factor = |(position, &at): (usize, &u32)| {
            let (b, c) = factors(at);
            T::from_f64(match (index, position % PARTS) {
                (0, 0) | (1, 1) => b,
                (0, _) => -c,
                _ => c,
            })
        };
        let own: Vec<T> = columns.iter().enumerate().map(factor).collect();
        let places: Vec<u32> = (0..own.len() as u32).collect();
        let own = MultiVectorView::try_new(&own, own.len(), 1, 1)?;
        let expected = reference::element(&places, values, &own, 0).to_f64();
        let error = if agree_near_overflow(expected, found) { 0.0 } else { f64::INFINITY };
        tally.add(element, error, error);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matrix::{Csr, MultiVector};

    /// `(3 + 4i) (1 + 2i) = -5 + 10i`, compared with a result.
    fn verdict(y: [f64; 2]) -> Verification {
        let a = Csr::try_new(1, 2, vec![0u64, 2], vec![0u32, 1], vec![3.0, 4.0]).unwrap();
        let x = MultiVector::from_vec(1, 2, vec![1.0, 2.0]).unwrap();
        let y = MultiVector::from_vec(1, 2, y.to_vec()).unwrap();
        verify_complex(a.view(), x.view(), y.view()).unwrap()
    }

    #[test]
    fn a_wrong_part_fails_and_is_named() {
        assert!(verdict([-5.0, 10.0]).passed);
        assert_eq!(verdict([-5.0, 10.0001]).worst, Some((0, 1)));
        assert_eq!(verdict([11.0, 10.0]).worst, Some((0, 0)));
        assert_eq!(verdict([f64::NAN, 10.0]).worst, Some((0, 0)));
    }

    #[test]
    fn infinities_are_those_of_the_four_real_products() {
        let inf = f64::INFINITY;
        let a = Csr::try_new(1, 2, vec![0u64, 2], vec![0u32, 1], vec![inf, 0.0]).unwrap();
        let x = MultiVector::from_vec(1, 4, vec![1.0, 2.0, 0.0, 1.0]).unwrap();
        let passed = |y: [f64; 4]| {
            let y = MultiVector::from_vec(1, 4, y.to_vec()).unwrap();
            verify_complex(a.view(), x.view(), y.view()).unwrap().passed
        };
        assert!(passed([inf, inf, f64::NAN, inf]));
        assert!(!passed([inf, inf, 0.0, inf]) && !passed([inf, -inf, f64::NAN, inf]));
    }

    #[test]
    fn shapes_that_do_not_fit_are_refused() {
        let a = Csr::try_new(1, 2, vec![0u64, 2], vec![0u32, 1], vec![3.0, 4.0]).unwrap();
        for (x, y) in [((1, 3), (1, 3)), ((2, 2), (1, 2)), ((1, 2), (1, 4)), ((1, 2), (2, 2))] {
            let [x, y] = [x, y].map(|(rows, k)| MultiVector::<f64>::zeros(rows, k).unwrap());
            assert!(verify_complex(a.view(), x.view(), y.view()).is_err());
        }
    }
}
