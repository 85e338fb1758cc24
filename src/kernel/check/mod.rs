//! The check of a product by weighted sums, of columns or of rows.
//!
//! Many products with one A: `wᵀY = (wᵀA) X`, with a weight for each row. `wᵀA` is made once for A. A check then reads X and Y once, whatever
//! A is: for each column it compares two sums, in f64 and with their rounding errors. `checksums` makes `wᵀA`, `sums` finds the columns
//! that differ, `observed` does so while Y is computed, `compare` finds wrong rows.
//!
//! A single product: `Y r = A (X r)`, with a weight for each column, compared row by row by `rows`.
//!
//! What differs by more than rounding usually explains is compared element by element in twice the precision, so no right row is reported.

mod checksums;
mod compare;
mod observed;
mod rows;
mod sums;

pub use checksums::Checksums;
pub use observed::Observation;
pub use rows::RowCheck;
pub use sums::{ColumnSums, SumsOfX, Terms};

use crate::error::Result;
use crate::kernel::cpu::Kernels;
use crate::kernel::scaling::Scaling;
use crate::matrix::{CsrView, MultiVectorView, Scalar};

/// A, by rows.
#[derive(Clone, Copy)]
pub enum Operator<'a, T> {
    /// Sparse.
    Sparse(CsrView<'a, T>),
    /// Dense.
    Dense(MultiVectorView<'a, T>),
}

impl<T: Scalar> Operator<'_, T> {
    fn rows(&self) -> usize {
        match self {
            Self::Sparse(a) => a.rows(),
            Self::Dense(a) => a.rows(),
        }
    }

    fn columns(&self) -> usize {
        match self {
            Self::Sparse(a) => a.cols(),
            Self::Dense(a) => a.k(),
        }
    }
}

/// How products with an A are checked.
pub enum Method {
    /// By weighted sums of the columns of A: for many products.
    Columns(Checksums),
    /// Row by row, without anything made for A: for a single product.
    Rows,
}

/// A product that was computed.
#[derive(Clone, Copy)]
pub struct Applied<'a, T> {
    /// The factors.
    pub scaling: Scaling<T>,
    /// X.
    pub x: MultiVectorView<'a, T>,
    /// Y before the product; `None` if beta is zero.
    pub old: Option<MultiVectorView<'a, T>>,
    /// Y.
    pub y: MultiVectorView<'a, T>,
}

/// Wrong rows of Y, in ascending order, or none if Y is right; found by sums of columns in the rayon pool of the caller. There may be more
/// wrong rows than these: Y is checked again after they were computed again.
pub fn wrong_rows<T: Kernels>(a: Operator<'_, T>, product: Applied<'_, T>) -> Result<Vec<usize>> {
    Checksums::of(a)?.wrong_rows(a, product)
}

/// The same, found row by row.
pub fn wrong_rows_by_rows<T: Kernels>(a: CsrView<'_, T>, product: Applied<'_, T>) -> Result<Vec<usize>> {
    RowCheck::new(a, product.scaling, product.x)?.wrong_rows(product)
}

#[cfg(test)]
mod tests;
