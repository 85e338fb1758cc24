//! X and Y as a caller has them: slices, multivectors or views.

use crate::error::Result;
use crate::matrix::{MultiVector, MultiVectorView, MultiVectorViewMut, Scalar};

/// Something that can be X: a packed row-major slice, a multivector or a view.
pub trait Input<T: Scalar> {
    /// A view of `rows` rows and `k` columns.
    fn input(&self, rows: usize, k: usize) -> Result<MultiVectorView<'_, T>>;
}

/// Something that can be Y.
pub trait Output<T: Scalar> {
    /// A view of `rows` rows and `k` columns.
    fn output(&mut self, rows: usize, k: usize) -> Result<MultiVectorViewMut<'_, T>>;
}

impl<T: Scalar> Input<T> for [T] {
    fn input(&self, rows: usize, k: usize) -> Result<MultiVectorView<'_, T>> {
        MultiVectorView::try_new(self, rows, k, k)
    }
}

impl<T: Scalar> Output<T> for [T] {
    fn output(&mut self, rows: usize, k: usize) -> Result<MultiVectorViewMut<'_, T>> {
        MultiVectorViewMut::try_new(self, rows, k, k)
    }
}

impl<T: Scalar> Input<T> for Vec<T> {
    fn input(&self, rows: usize, k: usize) -> Result<MultiVectorView<'_, T>> {
        self[..].input(rows, k)
    }
}

impl<T: Scalar> Output<T> for Vec<T> {
    fn output(&mut self, rows: usize, k: usize) -> Result<MultiVectorViewMut<'_, T>> {
        self[..].output(rows, k)
    }
}

impl<T: Scalar> Input<T> for MultiVector<T> {
    fn input(&self, _rows: usize, _k: usize) -> Result<MultiVectorView<'_, T>> {
        Ok(self.view())
    }
}

impl<T: Scalar> Output<T> for MultiVector<T> {
    fn output(&mut self, _rows: usize, _k: usize) -> Result<MultiVectorViewMut<'_, T>> {
        Ok(self.view_mut())
    }
}

impl<T: Scalar> Input<T> for MultiVectorView<'_, T> {
    fn input(&self, _rows: usize, _k: usize) -> Result<MultiVectorView<'_, T>> {
        Ok(*self)
    }
}

impl<T: Scalar> Output<T> for MultiVectorViewMut<'_, T> {
    fn output(&mut self, _rows: usize, _k: usize) -> Result<MultiVectorViewMut<'_, T>> {
        Ok(self.reborrow())
    }
}
