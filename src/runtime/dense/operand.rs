//! A dense matrix of a job: owned, shared with other jobs, or borrowed.

use std::sync::Arc;

use crate::matrix::{MultiVector, MultiVectorView, Scalar};

/// A dense matrix of a job.
#[derive(Debug)]
pub enum DenseOperand<'a, T: Scalar> {
    /// Owned, alone or together with other jobs.
    #[doc(hidden)]
    Shared(Arc<MultiVector<T>>),
    /// Borrowed for the life of the job.
    #[doc(hidden)]
    Borrowed(MultiVectorView<'a, T>),
}

impl<T: Scalar> DenseOperand<'_, T> {
    /// A view of it.
    #[doc(hidden)]
    pub fn view(&self) -> MultiVectorView<'_, T> {
        match self {
            Self::Shared(matrix) => matrix.view(),
            Self::Borrowed(view) => *view,
        }
    }
}

impl<T: Scalar> Clone for DenseOperand<'_, T> {
    fn clone(&self) -> Self {
        match self {
            Self::Shared(matrix) => Self::Shared(matrix.clone()),
            Self::Borrowed(view) => Self::Borrowed(*view),
        }
    }
}

impl<T: Scalar> From<MultiVector<T>> for DenseOperand<'static, T> {
    fn from(matrix: MultiVector<T>) -> Self {
        Self::Shared(Arc::new(matrix))
    }
}

impl<T: Scalar> From<Arc<MultiVector<T>>> for DenseOperand<'static, T> {
    fn from(matrix: Arc<MultiVector<T>>) -> Self {
        Self::Shared(matrix)
    }
}

impl<'a, T: Scalar> From<&'a MultiVector<T>> for DenseOperand<'a, T> {
    fn from(matrix: &'a MultiVector<T>) -> Self {
        Self::Borrowed(matrix.view())
    }
}

impl<'a, T: Scalar> From<MultiVectorView<'a, T>> for DenseOperand<'a, T> {
    fn from(view: MultiVectorView<'a, T>) -> Self {
        Self::Borrowed(view)
    }
}
