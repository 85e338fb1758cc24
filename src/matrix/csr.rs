//! Compressed sparse rows: the format every other one is made from.
//!
//! A `Csr` that exists is sound: row pointers start at zero, never fall and end at the number of nonzeros; every
//! column lies inside the matrix. Kernels rely on that and check nothing again.

use std::ops::Range;

use rayon::prelude::*;

use super::array::Array;
use super::scalar::Scalar;
use crate::error::{Error, Result};

/// Most columns a matrix may have: indices are `u32`, and the largest `u32` marks padding.
pub const MOST_COLUMNS: usize = u32::MAX as usize;

/// A sparse matrix by rows, owned or mapped.
#[derive(Debug, PartialEq)]
pub struct Csr<T: Scalar> {
    rows: usize,
    cols: usize,
    row_pointers: Array<u64>,
    columns: Array<u32>,
    values: Array<T>,
}

impl<T: Scalar> Csr<T> {
    /// A matrix from its arrays, checked.
    pub fn try_new(
        rows: usize,
        cols: usize,
        row_pointers: impl Into<Array<u64>>,
        columns: impl Into<Array<u32>>,
        values: impl Into<Array<T>>,
    ) -> Result<Self> {
        let matrix = Self {
            rows,
            cols,
            row_pointers: row_pointers.into(),
            columns: columns.into(),
            values: values.into(),
        };
        matrix.view().check()?;
        Ok(matrix)
    }

    /// A matrix without rows, columns or nonzeros.
    pub fn empty() -> Self {
        Self {
            rows: 0,
            cols: 0,
            row_pointers: vec![0].into(),
            columns: Vec::new().into(),
            values: Vec::new().into(),
        }
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Number of columns.
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// Number of stored entries, explicit zeros included.
    pub fn nnz(&self) -> usize {
        self.columns.len()
    }

    /// Bytes of the three arrays.
    pub fn bytes(&self) -> u64 {
        self.view().bytes()
    }

    /// Whether the entries are still those that were read. A matrix in a mapped file loses them when the file is cut
    /// short: it stays sound, but what was computed from it since is worth nothing.
    pub fn is_intact(&self) -> bool {
        self.row_pointers.is_intact() && self.columns.is_intact() && self.values.is_intact()
    }

    /// Everything, borrowed.
    pub fn view(&self) -> CsrView<'_, T> {
        CsrView {
            rows: self.rows,
            cols: self.cols,
            row_pointers: &self.row_pointers,
            columns: &self.columns,
            values: &self.values,
        }
    }

    /// The same matrix in another precision; values are rounded to the nearest.
    pub fn cast<U: Scalar>(&self) -> Result<Csr<U>> {
        use super::array::AlignedBuffer;
        use rayon::prelude::*;
        let mut values = AlignedBuffer::<U>::zeroed(self.nnz())?;
        values
            .par_chunks_mut(1 << 16)
            .zip(self.values.par_chunks(1 << 16))
            .for_each(|(to, from)| to.iter_mut().zip(from).for_each(|(t, f)| *t = U::from_f64(f.to_f64())));
        Ok(Csr {
            rows: self.rows,
            cols: self.cols,
            row_pointers: AlignedBuffer::copied_from(&self.row_pointers)?.into(),
            columns: AlignedBuffer::copied_from(&self.columns)?.into(),
            values: values.into(),
        })
    }
}

/// A borrowed sparse matrix, or some consecutive rows of one.
///
/// Row pointers of a part keep counting from the whole matrix's start; `columns` and `values` are always whole.
#[derive(Debug, Clone, Copy)]
pub struct CsrView<'a, T> {
    rows: usize,
    cols: usize,
    row_pointers: &'a [u64],
    columns: &'a [u32],
    values: &'a [T],
}

impl<'a, T: Scalar> CsrView<'a, T> {
    /// A view of arrays that belong to someone else, checked.
    pub fn try_new(
        rows: usize,
        cols: usize,
        row_pointers: &'a [u64],
        columns: &'a [u32],
        values: &'a [T],
    ) -> Result<Self> {
        let view = Self { rows, cols, row_pointers, columns, values };
        view.check()?;
        Ok(view)
    }

    fn check(&self) -> Result<()> {
        use rayon::prelude::*;
        let broken =
            |what: String| Err(Error::Internal(format!("the CSR arrays do not fit together: {what}")));
        if self.cols > MOST_COLUMNS {
            return broken(format!("{} columns, at most {MOST_COLUMNS}", self.cols));
        }
        if self.row_pointers.len() != self.rows + 1 {
            return broken(format!("{} row pointers for {} rows", self.row_pointers.len(), self.rows));
        }
        if self.columns.len() != self.values.len() {
            return broken(format!("{} columns and {} values", self.columns.len(), self.values.len()));
        }
        if self.row_pointers[0] != 0 || self.row_pointers[self.rows] != self.columns.len() as u64 {
            return broken("row pointers do not run from zero to the number of nonzeros".into());
        }
        if !self.row_pointers.par_windows(2).with_min_len(1 << 16).all(|pair| pair[0] <= pair[1]) {
            return broken("row pointers fall".into());
        }
        let largest = self.columns.par_chunks(1 << 18).map(|part| part.iter().copied().max()).max().flatten();
        match largest {
            Some(column) if column as usize >= self.cols => {
                broken(format!("column {column} of a matrix with {} columns", self.cols))
            }
            _ => Ok(()),
        }
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Number of columns.
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// Number of stored entries in these rows.
    pub fn nnz(&self) -> usize {
        (self.row_pointers[self.rows] - self.row_pointers[0]) as usize
    }

    /// Bytes of row pointers, columns and values of these rows.
    pub fn bytes(&self) -> u64 {
        (self.rows as u64 + 1) * 8 + self.nnz() as u64 * (4 + size_of::<T>() as u64)
    }

    /// Where each row starts, and the end of the last.
    pub fn row_pointers(&self) -> &'a [u64] {
        self.row_pointers
    }

    /// The column of every nonzero of the whole matrix.
    pub fn columns(&self) -> &'a [u32] {
        self.columns
    }

    /// The value of every nonzero of the whole matrix.
    pub fn values(&self) -> &'a [T] {
        self.values
    }

    /// Whether the whole matrix has values and all are the same, bit for bit. Runs in the rayon pool it is called in.
    pub fn has_equal_values(&self) -> bool {
        self.values.first().is_some_and(|first| {
            let bits = bytemuck::bytes_of(first);
            self.values.par_iter().all(|value| bytemuck::bytes_of(value) == bits)
        })
    }

    /// Where row `row` lies in `columns` and `values`.
    #[inline]
    pub fn row_range(&self, row: usize) -> Range<usize> {
        self.row_pointers[row] as usize..self.row_pointers[row + 1] as usize
    }

    /// Number of nonzeros of row `row`.
    #[inline]
    pub fn row_length(&self, row: usize) -> usize {
        (self.row_pointers[row + 1] - self.row_pointers[row]) as usize
    }

    /// Columns and values of row `row`.
    pub fn row(&self, row: usize) -> (&'a [u32], &'a [T]) {
        let range = self.row_range(row);
        (&self.columns[range.clone()], &self.values[range])
    }

    /// Other rows made of the same entries: row `i` is what lies between `row_pointers[i]` and `row_pointers[i + 1]`, such
    /// as the segments of one long row.
    pub fn with_row_pointers(&self, row_pointers: &'a [u64]) -> Result<CsrView<'a, T>> {
        let rows = row_pointers.len().saturating_sub(1);
        let sound = row_pointers.last().is_some_and(|&end| end <= self.columns.len() as u64)
            && row_pointers.is_sorted();
        if !sound {
            return Err(Error::Internal("row pointers fall or end outside the entries".into()));
        }
        Ok(CsrView { rows, row_pointers, ..*self })
    }

    /// Some consecutive rows.
    pub fn slice_rows(&self, range: Range<usize>) -> CsrView<'a, T> {
        CsrView {
            rows: range.len(),
            cols: self.cols,
            row_pointers: &self.row_pointers[range.start..=range.end],
            columns: self.columns,
            values: self.values,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_are_equal_bit_for_bit_and_there() {
        let equal = |values: Vec<f64>| {
            let nnz = values.len();
            let columns: Vec<u32> = (0..nnz as u32).collect();
            Csr::try_new(1, 3, vec![0, nnz as u64], columns, values).unwrap().view().has_equal_values()
        };
        assert!(equal(vec![2.5, 2.5, 2.5]) && equal(vec![-0.0]));
        assert!(!equal(vec![2.5, 2.5, 3.0]) && !equal(vec![0.0, -0.0]) && !equal(vec![]));
    }

    #[test]
    fn broken_arrays_are_refused() {
        let make = |rows, cols, pointers: Vec<u64>, columns: Vec<u32>| {
            let values = vec![1.0f64; columns.len()];
            Csr::try_new(rows, cols, pointers, columns, values)
        };
        assert!(make(2, 3, vec![0, 1, 2], vec![0, 2]).is_ok());
        assert!(make(2, 3, vec![0, 1, 2], vec![0, 3]).is_err());
        assert!(make(2, 3, vec![0, 2, 1], vec![0]).is_err());
        assert!(make(2, 3, vec![0, 1], vec![0]).is_err());
        assert!(make(1, 3, vec![1, 2], vec![0, 1]).is_err());
        assert!(make(0, 0, vec![0], vec![]).is_ok());
    }

    #[test]
    fn slices_keep_their_rows() {
        let matrix = Csr::try_new(3, 3, vec![0, 1, 1, 3], vec![2, 0, 1], vec![1.0, 2.0, 3.0]).unwrap();
        let part = matrix.view().slice_rows(1..3);
        assert_eq!((part.rows(), part.nnz()), (2, 2));
        assert_eq!(part.row(1), (&[0, 1][..], &[2.0, 3.0][..]));
    }

    #[test]
    fn a_row_can_be_seen_as_several() {
        let matrix = Csr::try_new(1, 3, vec![0, 3], vec![0, 1, 2], vec![1.0, 2.0, 3.0]).unwrap();
        let parts = matrix.view().with_row_pointers(&[0, 2, 3]).unwrap();
        assert_eq!((parts.rows(), parts.row(0).0, parts.row(1).0), (2, &[0, 1][..], &[2][..]));
        assert!(matrix.view().with_row_pointers(&[0, 4]).is_err());
        assert!(matrix.view().with_row_pointers(&[2, 1]).is_err());
        assert!(matrix.view().with_row_pointers(&[]).is_err());
    }
}
