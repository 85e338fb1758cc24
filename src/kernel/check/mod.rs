//! The check of a product by weighted sums of rows: `wᵀY = (wᵀA) X`, with a weight for each row.
//!
//! `wᵀA` is made once for A. A check then reads X and Y once, whatever A is: for each column it compares two sums, in f64 and with their
//! rounding errors. A column that differs by more than rounding usually explains is compared element by element in twice the
//! precision, so no right row is reported.
//!
//! `checksums` makes `wᵀA`, `sums` finds the columns that differ, `observed` does so while Y is computed, `compare` finds wrong rows.

mod checksums;
mod compare;
mod observed;
mod sums;

pub use checksums::{Checksums, weight};
pub use observed::Observation;
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

/// Wrong rows of Y, in ascending order, or none if Y is right; computed in the rayon pool of the caller. There may be more wrong rows
/// than these: Y is checked again after they were computed again.
pub fn wrong_rows<T: Kernels>(a: Operator<'_, T>, product: Applied<'_, T>) -> Result<Vec<usize>> {
    Checksums::of(a)?.wrong_rows(a, product)
}

#[cfg(test)]
mod tests;
