//! Coordinate format (COO): one (row, column, value) per entry, in input order.

use super::convert::coo_to_csr;
use super::csr::Csr;
use super::scalar::Scalar;
use crate::error::{Error, Result};

/// A sparse matrix as a list of entries; duplicate entries are added in list order.
#[derive(Debug, Clone, PartialEq)]
pub struct Coo<T> {
    rows: usize,
    cols: usize,
    row_indices: Vec<u32>,
    col_indices: Vec<u32>,
    values: Vec<T>,
}

impl<T: Scalar> Coo<T> {
    /// A matrix from its arrays; an error if their lengths differ or an index is outside the matrix.
    pub fn try_new(
        rows: usize,
        cols: usize,
        row_indices: Vec<u32>,
        col_indices: Vec<u32>,
        values: Vec<T>,
    ) -> Result<Self> {
        if row_indices.len() != values.len() || col_indices.len() != values.len() {
            return Err(Error::Internal("the COO arrays have different lengths".into()));
        }
        let outside = |indices: &[u32], bound: usize| indices.iter().any(|&index| index as usize >= bound);
        if outside(&row_indices, rows) || outside(&col_indices, cols) {
            return Err(Error::Internal("a COO entry is outside the matrix".into()));
        }
        Ok(Self { rows, cols, row_indices, col_indices, values })
    }

    /// The matrix by rows. Entries of one place are added in the order of the list.
    ///
    /// ```
    /// use rowloom::matrix::Coo;
    ///
    /// let a = Coo::try_new(2, 3, vec![1, 0, 1], vec![0, 2, 0], vec![5.0, 4.0, 1.0])?.to_csr()?;
    /// assert_eq!((a.view().row(0), a.view().row(1)), ((&[2][..], &[4.0][..]), (&[0][..], &[6.0][..])));
    /// # Ok::<(), rowloom::Error>(())
    /// ```
    pub fn to_csr(&self) -> Result<Csr<T>> {
        coo_to_csr(self).map(|(matrix, _)| matrix)
    }

    /// Number of rows.
    #[doc(hidden)]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Number of columns.
    #[doc(hidden)]
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// Number of entries; duplicates count separately.
    #[doc(hidden)]
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Whether there are no entries.
    #[doc(hidden)]
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// The row of each entry.
    #[doc(hidden)]
    pub fn row_indices(&self) -> &[u32] {
        &self.row_indices
    }

    /// The column of each entry.
    #[doc(hidden)]
    pub fn col_indices(&self) -> &[u32] {
        &self.col_indices
    }

    /// The value of each entry.
    #[doc(hidden)]
    pub fn values(&self) -> &[T] {
        &self.values
    }
}
