//! The matrix of a product: owned, shared with other products, or borrowed.

use std::path::Path;
use std::sync::Arc;

use crate::error::Result;
use crate::machine::memory_limit_bytes;
use crate::matrix::io::{self, ReadOptions};
use crate::matrix::{Csr, CsrView, Scalar, generate};

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

/// The short forms for programs, with the memory limit of this machine.
impl<T: Scalar> Csr<T> {
    /// Reads a matrix file: Matrix Market, SciPy `.npz`, SuiteSparse `.tar.gz` or Rowloom's `.rlm`.
    pub fn read(path: impl AsRef<Path>) -> Result<Self> {
        let options = ReadOptions { memory_limit_bytes: memory_limit_bytes(), finite: false, progress: None };
        Ok(io::read(path.as_ref(), &options)?.matrix)
    }

    /// A generated matrix, such as `stencil27,n=24`.
    pub fn generate(spec: &str) -> Result<Self> {
        Ok(generate(spec, 1, memory_limit_bytes())?.matrix)
    }
}
