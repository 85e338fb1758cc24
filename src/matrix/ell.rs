//! ELLPACK in its two forms: every row padded to the longest, or each row at its own length.

use super::scalar::Scalar;
use crate::error::{Error, Result};

/// Column index that marks padding. Padding is never multiplied: 0 · ∞ would be NaN, and adding 0 to −0 would lose
/// its sign.
pub const PADDING: u32 = u32::MAX;

/// ELLPACK with every row padded to the longest one, row after row.
#[derive(Debug, Clone, PartialEq)]
pub struct EllPadded<T> {
    rows: usize,
    cols: usize,
    width: usize,
    columns: Vec<u32>,
    values: Vec<T>,
}

impl<T: Scalar> EllPadded<T> {
    /// A matrix from its arrays of `rows * width`, checked: a row's entries come first, then padding only.
    pub fn try_new(
        rows: usize,
        cols: usize,
        width: usize,
        columns: Vec<u32>,
        values: Vec<T>,
    ) -> Result<Self> {
        if columns.len() != rows * width || values.len() != rows * width {
            return Err(Error::Internal("padded ELL arrays of the wrong length".into()));
        }
        if width > 0 {
            for row in columns.chunks_exact(width) {
                let length = row.iter().take_while(|&&column| column != PADDING).count();
                let inside = row[..length].iter().all(|&column| (column as usize) < cols);
                if !inside || row[length..].iter().any(|&column| column != PADDING) {
                    return Err(Error::Internal("a padded ELL row is damaged".into()));
                }
            }
        }
        Ok(Self { rows, cols, width, columns, values })
    }

    /// Bytes that padding `rows` rows to `width` needs.
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

    /// Slots of each row.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Columns, [`PADDING`] behind each row's end.
    pub fn columns(&self) -> &[u32] {
        &self.columns
    }

    /// Values, zero behind each row's end.
    pub fn values(&self) -> &[T] {
        &self.values
    }

    /// Bytes of both arrays.
    pub fn bytes(&self) -> u64 {
        Self::bytes_for(self.rows, self.width)
    }
}

/// ELLPACK without padding: where each row starts and how long it is.
#[derive(Debug, Clone, PartialEq)]
pub struct EllUnpadded<T> {
    cols: usize,
    row_starts: Vec<u64>,
    row_lengths: Vec<u32>,
    columns: Vec<u32>,
    values: Vec<T>,
}

impl<T: Scalar> EllUnpadded<T> {
    /// A matrix from its arrays, checked.
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
            return Err(Error::Internal("the unpadded ELL arrays do not fit together".into()));
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

    /// Where each row starts.
    pub fn row_starts(&self) -> &[u64] {
        &self.row_starts
    }

    /// How long each row is.
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
