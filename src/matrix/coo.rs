//! Coordinate format (COO): one (row, column, value) per entry, in input order.

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
