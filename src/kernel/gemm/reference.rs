//! The serial reference product, written for obvious correctness. Every other kernel is tested against it.

use super::check_shapes;
use crate::error::Result;
use crate::kernel::scaling::Scaling;
use crate::matrix::{MultiVectorView, MultiVectorViewMut, Scalar};

/// The sum of one element of A B, in canonical order.
pub fn element<T: Scalar>(
    a: &MultiVectorView<'_, T>,
    b: &MultiVectorView<'_, T>,
    row: usize,
    column: usize,
) -> T {
    let terms = a.row(row).iter().enumerate();
    terms.fold(T::ZERO, |sum, (k, value)| value.fused_multiply_add(b.row(k)[column], sum))
}

/// `C = alpha A B + beta C`, one element after the other.
pub fn multiply<T: Scalar>(
    scaling: Scaling<T>,
    a: MultiVectorView<'_, T>,
    b: MultiVectorView<'_, T>,
    mut c: MultiVectorViewMut<'_, T>,
) -> Result<()> {
    check_shapes(a, b, &c)?;
    for row in 0..c.rows() {
        for (column, c) in c.row_mut(row).iter_mut().enumerate() {
            *c = scaling.apply(element(&a, &b, row, column), *c);
        }
    }
    Ok(())
}
