//! The rows of X that a device holds, and the index of each in device memory.

use std::ops::Range;

use rayon::prelude::*;

use crate::error::{Error, Result};
use crate::matrix::{CsrView, MultiVectorView, Scalar};

/// Bytes that a thread copies at a time between the caller's memory and page-locked memory.
pub const COPY_BYTES_PER_TASK: usize = 256 << 10;

/// The rows of X that a device holds, given by columns of a sparse A. A row's index in device memory is its local row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HeldRows {
    /// All rows.
    Whole {
        /// Columns of A.
        cols: usize,
    },
    /// A range of rows.
    Range {
        /// First column of A.
        first: u32,
        /// Last column of A plus 1.
        end: u32,
    },
    /// A subset of the rows, stored contiguously.
    Gather {
        /// The columns of A, ascending.
        columns: Vec<u32>,
        /// Local row of each column of A; `u32::MAX` for columns that are not held.
        local_rows: Vec<u32>,
    },
}

impl HeldRows {
    /// Exactly the rows of X that the columns of `parts` refer to.
    pub fn gather<T: Scalar>(cols: usize, parts: &[CsrView<'_, T>]) -> Self {
        let mut local_rows = vec![u32::MAX; cols];
        for part in parts {
            let pointers = part.row_pointers();
            let range = pointers[0] as usize..pointers[part.rows()] as usize;
            for &column in &part.columns()[range] {
                local_rows[column as usize] = 0;
            }
        }
        let columns: Vec<u32> = (0..cols as u32).filter(|&column| local_rows[column as usize] == 0).collect();
        for (local_row, &column) in columns.iter().enumerate() {
            local_rows[column as usize] = local_row as u32;
        }
        Self::Gather { columns, local_rows }
    }

    /// Number of rows of X that are held.
    pub fn rows(&self) -> usize {
        match self {
            Self::Whole { cols } => *cols,
            Self::Range { first, end } => (end - first) as usize,
            Self::Gather { columns, .. } => columns.len(),
        }
    }

    /// The local row of X for `column`; an internal error if the device does not hold it.
    pub fn local_row(&self, column: u32) -> Result<u32> {
        let held = match self {
            Self::Whole { .. } => Some(column),
            Self::Range { first, end } => column.checked_sub(*first).filter(|_| column < *end),
            Self::Gather { local_rows, .. } => {
                local_rows.get(column as usize).copied().filter(|&local_row| local_row != u32::MAX)
            }
        };
        held.ok_or_else(|| Error::Internal(format!("row {column} of X is not on the device that needs it")))
    }

    /// Writes the local row of X for each of `columns` to `to`.
    pub fn local_rows(&self, columns: &[u32], to: &mut [u32]) -> Result<()> {
        if matches!(self, Self::Whole { .. }) {
            to.copy_from_slice(columns);
            return Ok(());
        }
        for (to, &column) in to.iter_mut().zip(columns) {
            *to = self.local_row(column)?;
        }
        Ok(())
    }

    /// The column of A for a local row of X.
    fn column_at(&self, local_row: usize) -> usize {
        match self {
            Self::Whole { .. } => local_row,
            Self::Range { first, .. } => *first as usize + local_row,
            Self::Gather { columns, .. } => columns[local_row] as usize,
        }
    }

    /// Copies the held rows of `x` to `to` by columns, that is transposed, with `pitch` elements per column padded with zeros.
    pub fn copy_columns<T: Scalar>(&self, x: MultiVectorView<'_, T>, pitch: usize, to: &mut [T]) {
        let rows = self.rows();
        if rows == 0 || pitch < rows {
            return;
        }
        to.par_chunks_exact_mut(pitch).take(x.k()).enumerate().for_each(|(k, to)| {
            for (local_row, to) in to[..rows].iter_mut().enumerate() {
                *to = x.row(self.column_at(local_row))[k];
            }
            to[rows..].fill(T::ZERO);
        });
    }

    /// Copies the held rows of `x` with the local rows `rows` to `to`, with `pitch` elements per row padded with zeros.
    pub fn copy_rows<T: Scalar>(
        &self,
        x: MultiVectorView<'_, T>,
        rows: Range<usize>,
        pitch: usize,
        to: &mut [T],
    ) {
        let k = x.k();
        if k == 0 || pitch < k {
            return;
        }
        let end = (rows.len() * pitch).min(to.len());
        let rows_per_task = (COPY_BYTES_PER_TASK / (pitch * size_of::<T>())).max(1);
        to[..end].par_chunks_mut(pitch * rows_per_task).enumerate().for_each(|(piece, to)| {
            let first = rows.start + piece * rows_per_task;
            if let Some(packed) = self.packed_rows(x, pitch, first, to.len()) {
                to.copy_from_slice(packed);
                return;
            }
            for (row, to) in to.chunks_exact_mut(pitch).enumerate() {
                to[..k].copy_from_slice(x.row(self.column_at(first + row)));
                to[k..].fill(T::ZERO);
            }
        });
    }

    /// The `length` elements of `x` from the local row `first` on, if their rows are consecutive and `pitch` elements apart without
    /// padding: one long copy is faster than one per row.
    fn packed_rows<'x, T: Scalar>(
        &self,
        x: MultiVectorView<'x, T>,
        pitch: usize,
        first: usize,
        length: usize,
    ) -> Option<&'x [T]> {
        let is_packed = x.k() == pitch && x.leading_dimension() == pitch;
        if !is_packed || matches!(self, Self::Gather { .. }) {
            return None;
        }
        let begin = self.column_at(first) * pitch;
        x.data().get(begin..begin + length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matrix::{Csr, MultiVector};

    #[test]
    fn the_local_row_of_a_column_is_where_its_row_of_x_was_copied() {
        let matrix = Csr::try_new(3, 9, vec![0, 2, 3, 5], vec![2, 7, 4, 2, 4], vec![1.0; 5]).unwrap();
        let x = MultiVector::from_fn(9, 2, |row, k| (10 * row + k) as f64).unwrap();
        let gather = HeldRows::gather(9, &[matrix.view().slice_rows(0..1), matrix.view().slice_rows(2..3)]);
        for held in [HeldRows::Whole { cols: 9 }, HeldRows::Range { first: 2, end: 8 }, gather] {
            let mut copied = vec![9.0; held.rows() * 4];
            let half = held.rows() / 2;
            let (first, second) = copied.split_at_mut(4 * half);
            held.copy_rows(x.view(), 0..half, 4, first);
            held.copy_rows(x.view(), half..held.rows(), 4, second);
            let mut transposed = vec![9.0; 2 * 12];
            held.copy_columns(x.view(), 12, &mut transposed);
            assert!(transposed[held.rows()..12].iter().all(|&value| value == 0.0));
            for column in [2u32, 4, 7] {
                let local_row = held.local_row(column).unwrap() as usize;
                let row = x.row(column as usize);
                assert_eq!(copied[4 * local_row..4 * local_row + 4], [row[0], row[1], 0.0, 0.0], "{held:?}");
                assert_eq!([transposed[local_row], transposed[12 + local_row]], *row, "{held:?}");
            }
        }
    }

    #[test]
    fn rows_of_several_tasks_arrive_unchanged_packed_and_padded() {
        let (cols, k) = (COPY_BYTES_PER_TASK / 8 / 40, 100);
        let x = MultiVector::from_fn(cols, k, |row, k| (1000 * row + k) as f64).unwrap();
        for held in [HeldRows::Whole { cols }, HeldRows::Range { first: 3, end: cols as u32 - 5 }] {
            for pitch in [k, k + 4] {
                let mut copied = vec![9.0; held.rows() * pitch];
                held.copy_rows(x.view(), 0..held.rows(), pitch, &mut copied);
                for local_row in 0..held.rows() {
                    let (row, padding) = copied[local_row * pitch..(local_row + 1) * pitch].split_at(k);
                    assert_eq!(row, x.row(held.column_at(local_row)), "{held:?}, pitch {pitch}");
                    assert!(padding.iter().all(|&value| value == 0.0));
                }
            }
        }
    }

    #[test]
    fn a_column_that_is_not_held_is_an_error() {
        let matrix = Csr::try_new(1, 9, vec![0, 2], vec![2, 7], vec![1.0; 2]).unwrap();
        let gather = HeldRows::gather(9, &[matrix.view()]);
        assert_eq!(gather.rows(), 2);
        assert!(gather.local_row(3).is_err() && gather.local_row(9).is_err() && gather.local_row(7).is_ok());
        let range = HeldRows::Range { first: 2, end: 8 };
        assert!(range.local_row(1).is_err() && range.local_row(8).is_err() && range.local_row(2).is_ok());
    }

    #[test]
    fn elements_between_the_rows_of_x_are_not_copied() {
        let elements: Vec<f64> = (1..=12).map(f64::from).collect();
        let x = MultiVectorView::try_new(&elements, 3, 2, 4).unwrap();
        let mut copied = [9.0; 12];
        HeldRows::Whole { cols: 3 }.copy_rows(x, 0..3, 4, &mut copied);
        assert_eq!(copied, [1.0, 2.0, 0.0, 0.0, 5.0, 6.0, 0.0, 0.0, 9.0, 10.0, 0.0, 0.0]);
    }
}
