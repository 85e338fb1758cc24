//! Which rows of X a device holds, and where in its memory each of them lies.

use rayon::prelude::*;

use crate::error::{Error, Result};
use crate::matrix::{CsrView, MultiVectorView, Scalar};

/// The rows of X that a device holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HeldColumns {
    /// All of them.
    Whole {
        /// Columns of A.
        cols: usize,
    },
    /// Those from one column of A to another.
    Range {
        /// The first.
        first: u32,
        /// The one behind the last.
        end: u32,
    },
    /// Some, packed.
    Gather {
        /// The columns of A, rising.
        columns: Vec<u32>,
        /// Place of each column of A among them; for those that are not, something beyond.
        places: Vec<u32>,
    },
}

impl HeldColumns {
    /// Just those columns that `parts` of a matrix touch.
    pub fn gather<T: Scalar>(cols: usize, parts: &[CsrView<'_, T>]) -> Self {
        let mut places = vec![u32::MAX; cols];
        for part in parts {
            let pointers = part.row_pointers();
            let range = pointers[0] as usize..pointers[part.rows()] as usize;
            for &column in &part.columns()[range] {
                places[column as usize] = 0;
            }
        }
        let columns: Vec<u32> = (0..cols as u32).filter(|&column| places[column as usize] == 0).collect();
        for (place, &column) in columns.iter().enumerate() {
            places[column as usize] = place as u32;
        }
        Self::Gather { columns, places }
    }

    /// Number of rows of X that are held.
    pub fn rows(&self) -> usize {
        match self {
            Self::Whole { cols } => *cols,
            Self::Range { first, end } => (end - first) as usize,
            Self::Gather { columns, .. } => columns.len(),
        }
    }

    /// Where the row of X for `column` lies.
    pub fn place(&self, column: u32) -> Result<u32> {
        let held = match self {
            Self::Whole { .. } => Some(column),
            Self::Range { first, end } => column.checked_sub(*first).filter(|_| column < *end),
            Self::Gather { places, .. } => {
                places.get(column as usize).copied().filter(|&place| place != u32::MAX)
            }
        };
        held.ok_or_else(|| Error::Internal(format!("row {column} of X is not on the device that needs it")))
    }

    /// Where the rows of X for the columns `from` lie.
    pub fn place_all(&self, from: &[u32], to: &mut [u32]) -> Result<()> {
        if matches!(self, Self::Whole { .. }) {
            to.copy_from_slice(from);
            return Ok(());
        }
        for (to, &column) in to.iter_mut().zip(from) {
            *to = self.place(column)?;
        }
        Ok(())
    }

    /// The column of A whose row of X lies at `place`.
    fn column_at(&self, place: usize) -> usize {
        match self {
            Self::Whole { .. } => place,
            Self::Range { first, .. } => *first as usize + place,
            Self::Gather { columns, .. } => columns[place] as usize,
        }
    }

    /// Copies the rows of `x` that are held to `to`, transposed: column after column, `pitch` elements apart, with zeros
    /// behind each.
    pub fn copy_columns<T: Scalar>(&self, x: MultiVectorView<'_, T>, pitch: usize, to: &mut [T]) {
        let rows = self.rows();
        if rows == 0 || pitch < rows {
            return;
        }
        to.par_chunks_exact_mut(pitch).take(x.k()).enumerate().for_each(|(k, to)| {
            for (place, to) in to[..rows].iter_mut().enumerate() {
                *to = x.row(self.column_at(place))[k];
            }
            to[rows..].fill(T::ZERO);
        });
    }

    /// Copies the rows of `x` that are held to `to`, `pitch` elements apart, with zeros between them.
    pub fn copy_rows<T: Scalar>(&self, x: MultiVectorView<'_, T>, pitch: usize, to: &mut [T]) {
        /// Rows that one piece of work copies, so that few rows are not shared out.
        const ROWS_TOGETHER: usize = 4096;
        let k = x.k();
        if k == 0 || pitch < k {
            return;
        }
        to.par_chunks_mut(pitch * ROWS_TOGETHER).enumerate().for_each(|(piece, to)| {
            for (row, to) in to.chunks_exact_mut(pitch).enumerate() {
                let place = piece * ROWS_TOGETHER + row;
                to[..k].copy_from_slice(x.row(self.column_at(place)));
                to[k..].fill(T::ZERO);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matrix::{Csr, MultiVector};

    #[test]
    fn every_held_column_is_found_where_its_row_of_x_was_copied() {
        let matrix = Csr::try_new(3, 9, vec![0, 2, 3, 5], vec![2, 7, 4, 2, 4], vec![1.0; 5]).unwrap();
        let x = MultiVector::from_fn(9, 2, |row, k| (10 * row + k) as f64).unwrap();
        let gather =
            HeldColumns::gather(9, &[matrix.view().slice_rows(0..1), matrix.view().slice_rows(2..3)]);
        for held in [HeldColumns::Whole { cols: 9 }, HeldColumns::Range { first: 2, end: 8 }, gather] {
            let mut copied = vec![9.0; held.rows() * 4];
            held.copy_rows(x.view(), 4, &mut copied);
            let mut transposed = vec![9.0; 2 * 12];
            held.copy_columns(x.view(), 12, &mut transposed);
            assert!(transposed[held.rows()..12].iter().all(|&value| value == 0.0));
            for column in [2u32, 4, 7] {
                let place = held.place(column).unwrap() as usize;
                let row = x.row(column as usize);
                assert_eq!(copied[4 * place..4 * place + 4], [row[0], row[1], 0.0, 0.0], "{held:?}");
                assert_eq!([transposed[place], transposed[12 + place]], *row, "{held:?}");
            }
        }
    }

    #[test]
    fn a_column_that_is_not_held_is_an_error() {
        let matrix = Csr::try_new(1, 9, vec![0, 2], vec![2, 7], vec![1.0; 2]).unwrap();
        let gather = HeldColumns::gather(9, &[matrix.view()]);
        assert_eq!(gather.rows(), 2);
        assert!(gather.place(3).is_err() && gather.place(9).is_err() && gather.place(7).is_ok());
        let range = HeldColumns::Range { first: 2, end: 8 };
        assert!(range.place(1).is_err() && range.place(8).is_err() && range.place(2).is_ok());
    }
}
