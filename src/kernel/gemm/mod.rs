//! Dense products `C = alpha A B + beta C`, all matrices stored by rows with any leading dimension.
//!
//! **Canonical order.** `s` is one chain of fused multiply-adds over the columns of A in order, which starts at +0. The element of C
//! becomes `fma(beta, c, alpha * s)`, or `alpha * s` if beta is zero; the old C is then not read. This is the scaling of
//! [`super::scaling`]. Every element has its own chain, so that the split of rows, the tiles and the device do not matter: kernels of
//! canonical order agree bit for bit. Kernels of free order ([`multiply_packed`], vendors' libraries) are within the rounding bound.

mod packed;
pub mod reference;
mod rows;
mod table;
#[cfg(test)]
pub(crate) mod tests;
mod verify;

pub use packed::{PackedProduct, multiply_packed, multiply_packed_on};
pub use rows::multiply_rows;
pub use table::{GEMM_KERNELS, entry_point, launch_shape};
pub use verify::verify;

use crate::error::{Error, Result};
use crate::matrix::{MultiVectorView, MultiVectorViewMut, Scalar};

/// A usage error if A B has not the shape of C.
fn check_shapes<T: Scalar>(
    a: MultiVectorView<'_, T>,
    b: MultiVectorView<'_, T>,
    c: &MultiVectorViewMut<'_, T>,
) -> Result<()> {
    if a.k() == b.rows() && a.rows() == c.rows() && b.k() == c.k() {
        return Ok(());
    }
    Err(Error::usage(format!(
        "the product of {} × {} and {} × {} is not a matrix of {} × {}",
        a.rows(),
        a.k(),
        b.rows(),
        b.k(),
        c.rows(),
        c.k()
    )))
}
