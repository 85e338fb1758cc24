//! The matrix of a product: owned, shared with other products, or borrowed.

use std::sync::Arc;

use crate::matrix::{Csr, CsrView, Scalar};

/// The matrix of a product.
#[derive(Debug)]
#[non_exhaustive]
pub enum Matrix<'a, T: Scalar> {
    /// Owned, alone or together with other products.
    #[doc(hidden)]
    Shared(Arc<Csr<T>>),
    /// Borrowed for the life of the product.
    #[doc(hidden)]
    Borrowed(CsrView<'a, T>),
}

impl<T: Scalar> Matrix<'_, T> {
    /// A view of it.
    #[doc(hidden)]
    pub fn view(&self) -> CsrView<'_, T> {
        match self {
            Self::Shared(matrix) => matrix.view(),
            Self::Borrowed(view) => *view,
        }
    }
}

impl<T: Scalar> Clone for Matrix<'_, T> {
    fn clone(&self) -> Self {
        match self {
            Self::Shared(matrix) => Self::Shared(matrix.clone()),
            Self::Borrowed(view) => Self::Borrowed(*view),
        }
    }
}

impl<T: Scalar> From<Csr<T>> for Matrix<'static, T> {
    fn from(matrix: Csr<T>) -> Self {
        Self::Shared(Arc::new(matrix))
    }
}

impl<T: Scalar> From<Arc<Csr<T>>> for Matrix<'static, T> {
    fn from(matrix: Arc<Csr<T>>) -> Self {
        Self::Shared(matrix)
    }
}

impl<'a, T: Scalar> From<&'a Csr<T>> for Matrix<'a, T> {
    fn from(matrix: &'a Csr<T>) -> Self {
        Self::Borrowed(matrix.view())
    }
}

impl<'a, T: Scalar> From<CsrView<'a, T>> for Matrix<'a, T> {
    fn from(view: CsrView<'a, T>) -> Self {
        Self::Borrowed(view)
    }
}
