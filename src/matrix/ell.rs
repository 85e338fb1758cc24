//! ELLPACK in two forms: every row padded to the length of the longest, or without padding.

use super::scalar::Scalar;
use crate::error::{Error, Result};

/// The column index of padding. Kernels skip padding: 0 · ∞ would give NaN, and adding 0 to −0 would change its sign.
pub const PADDING: u32 = u32::MAX;

/// ELLPACK with every row padded to the length of the longest, stored by rows.
#[derive(Debug, Clone, PartialEq)]
pub struct EllPadded<T> {
    rows: usize,
    cols: usize,
    width: usize,
    columns: Vec<u32>,
    values: Vec<T>,
}

impl<T: Scalar> EllPadded<T> {
    /// A matrix from its arrays of `rows * width` elements; an error unless each row has entries inside the matrix followed by
    /// padding only.
    pub fn try_new(
        rows: usize,
        cols: usize,
        width: usize,
        columns: Vec<u32>,
        values: Vec<T>,
    ) -> Result<Self> {
        if columns.len() != rows * width || values.len() != rows * width {
            return Err(Error::Internal(
                "the padded ELLPACK arrays do not have rows * width elements".into(),
            ));
        }
        if width > 0 {
            for row in columns.chunks_exact(width) {
                let length = row.iter().take_while(|&&column| column != PADDING).count();
                let inside = row[..length].iter().all(|&column| (column as usize) < cols);
                if !inside || row[length..].iter().any(|&column| column != PADDING) {
                    return Err(Error::Internal(
                        "a row of padded ELLPACK has a column outside the matrix, or an entry after padding"
                            .into(),
                    ));
                }
            }
        }
        Ok(Self { rows, cols, width, columns, values })
    }

    /// Bytes of padded ELLPACK with `rows` rows of `width` entries.
    pub fn bytes_for(rows: usize, width: usize) -> u64 {
        (rows as u64).saturating_mul(width as u64).saturating_mul(4 + size_of::<T>() as u64)
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Number of columns.
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// Entries per row, padding included.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Columns, with [`PADDING`] after the end of each row.
    pub fn columns(&self) -> &[u32] {
        &self.columns
    }

    /// Values, with zeros after the end of each row.
    pub fn values(&self) -> &[T] {
        &self.values
    }

    /// Bytes of both arrays.
    pub fn bytes(&self) -> u64 {
        Self::bytes_for(self.rows, self.width)
    }
}

/// ELLPACK without padding: a start and a length for each row.
#[derive(Debug, Clone, PartialEq)]
pub struct EllUnpadded<T> {
    cols: usize,
    row_starts: Vec<u64>,
    row_lengths: Vec<u32>,
    columns: Vec<u32>,
    values: Vec<T>,
}

impl<T: Scalar> EllUnpadded<T> {
    /// A matrix from its arrays; an error if a row or a column is outside.
    pub fn try_new(
        cols: usize,
        row_starts: Vec<u64>,
        row_lengths: Vec<u32>,
        columns: Vec<u32>,
        values: Vec<T>,
    ) -> Result<Self> {
        let nnz = columns.len() as u64;
        let inside = row_starts.len() == row_lengths.len()
            && columns.len() == values.len()
            && row_starts
                .iter()
                .zip(&row_lengths)
                .all(|(&start, &length)| start.checked_add(u64::from(length)).is_some_and(|end| end <= nnz))
            && columns.iter().all(|&column| (column as usize) < cols);
        if !inside {
            return Err(Error::Internal("the arrays of ELLPACK without padding are inconsistent".into()));
        }
        Ok(Self { cols, row_starts, row_lengths, columns, values })
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.row_lengths.len()
    }

    /// Number of columns.
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// Start of each row in the arrays.
    pub fn row_starts(&self) -> &[u64] {
        &self.row_starts
    }

    /// Length of each row.
    pub fn row_lengths(&self) -> &[u32] {
        &self.row_lengths
    }

    /// Columns of all rows.
    pub fn columns(&self) -> &[u32] {
        &self.columns
    }

    /// Values of all rows.
    pub fn values(&self) -> &[T] {
        &self.values
    }

    /// Bytes of all arrays.
    pub fn bytes(&self) -> u64 {
        self.rows() as u64 * 12 + self.columns.len() as u64 * (4 + size_of::<T>() as u64)
    }
}
