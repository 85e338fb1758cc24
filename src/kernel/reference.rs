//! Serial reference products, written for obvious correctness. Every other kernel is tested against them.
//!
//! They accumulate in canonical order, so kernels of canonical order must agree with them bit for bit.

use super::order::{SEGMENT, SPAN};
use super::scaling::{Scaling, scaling};
use crate::error::{Error, Result};
use crate::matrix::{CsrView, MultiVectorView, MultiVectorViewMut, Scalar};

/// `y(i, k)` as the canonical sum over the entries of a row.
pub(super) fn element<T: Scalar>(columns: &[u32], values: &[T], x: &MultiVectorView<'_, T>, k: usize) -> T {
    let chain = |columns: &[u32], values: &[T]| {
        let mut sum = T::ZERO;
        for (&column, &value) in columns.iter().zip(values) {
            sum = value.fused_multiply_add(x.row(column as usize)[k], sum);
        }
        sum
    };
    let span = |columns: &[u32], values: &[T]| {
        sum(columns
            .chunks(SEGMENT)
            .zip(values.chunks(SEGMENT))
            .map(|(columns, values)| chain(columns, values)))
    };
    sum(columns.chunks(SPAN).zip(values.chunks(SPAN)).map(|(columns, values)| span(columns, values)))
}

/// The sum of `parts`, first to last, starting from the first part and not from zero.
fn sum<T: Scalar>(parts: impl Iterator<Item = T>) -> T {
    parts.reduce(T::plus).unwrap_or(T::ZERO)
}

/// Sets every `y(row, k)` to the scaled `element(row, k)` after checking the shapes of X and Y.
pub(super) fn fill<T: Scalar>(
    rows: usize,
    cols: usize,
    scaling: Scaling<T>,
    x: MultiVectorView<'_, T>,
    y: &mut MultiVectorViewMut<'_, T>,
    element: impl Fn(usize, usize) -> T,
) -> Result<()> {
    if x.rows() != cols || y.rows() != rows || x.k() != y.k() {
        return Err(Error::usage("the shapes of X and Y do not fit the matrix"));
    }
    for row in 0..rows {
        for (k, y) in y.row_mut(row).iter_mut().enumerate() {
            *y = scaling.apply(element(row, k), *y);
        }
    }
    Ok(())
}

/// `y = A x` with A in CSR.
pub fn csr<T: Scalar>(
    a: CsrView<'_, T>,
    x: MultiVectorView<'_, T>,
    y: &mut MultiVectorViewMut<'_, T>,
) -> Result<()> {
    csr_scaled(a, scaling(1.0, 0.0), x, y)
}

/// `y = alpha A x + beta y` with A in CSR.
pub fn csr_scaled<T: Scalar>(
    a: CsrView<'_, T>,
    scaling: Scaling<T>,
    x: MultiVectorView<'_, T>,
    y: &mut MultiVectorViewMut<'_, T>,
) -> Result<()> {
    fill(a.rows(), a.cols(), scaling, x, y, |row, k| {
        let (columns, values) = a.row(row);
        element(columns, values, &x, k)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matrix::{Csr, MultiVector};

    fn product(a: &Csr<f64>, x: &MultiVector<f64>) -> Vec<f64> {
        let mut y = MultiVector::zeros(a.rows(), x.k()).unwrap();
        csr(a.view(), x.view(), &mut y.view_mut()).unwrap();
        y.data().to_vec()
    }

    #[test]
    fn a_small_product_equals_the_hand_computed_result() {
        let a = Csr::try_new(3, 2, vec![0, 2, 2, 3], vec![0, 1, 1], vec![2.0, 3.0, -1.0]).unwrap();
        let x = MultiVector::from_fn(2, 2, |row, k| (10 * row + k) as f64).unwrap();
        assert_eq!(product(&a, &x), [30.0, 2.0 + 33.0, 0.0, 0.0, -10.0, -11.0]);
    }

    #[test]
    fn a_long_row_is_the_sum_of_its_segments() {
        // 2^53 followed by ones: a single chain would round the ones away; a separate segment adds them up first.
        let n = 2 * SEGMENT;
        let values =
            (0..n).map(|i| if i == 0 { 2f64.powi(53) } else { f64::from(i >= SEGMENT) }).collect::<Vec<_>>();
        let a = Csr::try_new(1, n, vec![0, n as u64], (0..n as u32).collect::<Vec<_>>(), values).unwrap();
        let x = MultiVector::from_fn(n, 1, |_, _| 1.0).unwrap();
        assert_eq!(product(&a, &x), [2f64.powi(53) + SEGMENT as f64]);
    }

    #[test]
    fn a_very_long_row_is_the_sum_of_its_spans() {
        // 2^53, then a one in each later segment: added one by one they are rounded away; a separate span adds them up first.
        let n = 2 * SPAN;
        let value = |i: usize| f64::from(i > SPAN - SEGMENT && i.is_multiple_of(SEGMENT));
        let values = (0..n).map(|i| if i == 0 { 2f64.powi(53) } else { value(i) }).collect::<Vec<_>>();
        let a = Csr::try_new(1, n, vec![0, n as u64], (0..n as u32).collect::<Vec<_>>(), values).unwrap();
        let x = MultiVector::from_fn(n, 1, |_, _| 1.0).unwrap();
        assert_eq!(product(&a, &x), [2f64.powi(53) + (SPAN / SEGMENT) as f64]);
    }
}
