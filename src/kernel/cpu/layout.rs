//! Rows that lie anywhere in two arrays of columns and values: what CSR and both ELLPACKs have in common.

use std::borrow::Cow;

use rowloom_cpu::LONGEST_TOGETHER;

use crate::kernel::order::SEGMENT;
use crate::matrix::{CsrView, Scalar};

/// A borrowed matrix by rows. Whoever makes one takes it from a sound format: entries lie inside the arrays and
/// columns inside the matrix.
#[derive(Debug, Clone, Copy)]
pub(super) struct RowLayout<'a, T> {
    /// Columns of the matrix.
    pub(super) cols: usize,
    /// Where each row starts, and without `lengths` behind the last one the end.
    pub(super) starts: &'a [u64],
    /// How long each row is; without it a row ends where the next one starts.
    pub(super) lengths: Option<&'a [u32]>,
    /// Column of each entry.
    pub(super) columns: &'a [u32],
    /// Value of each entry.
    pub(super) values: &'a [T],
    /// Distance of a row's entries.
    pub(super) stride: usize,
}

impl<'a, T> RowLayout<'a, T> {
    /// Number of rows.
    pub fn rows(&self) -> usize {
        match self.lengths {
            Some(lengths) => lengths.len(),
            None => self.starts.len() - 1,
        }
    }

    /// Nonzeros of a row.
    pub(super) fn length(&self, row: usize) -> usize {
        match self.lengths {
            Some(lengths) => lengths[row] as usize,
            None => (self.starts[row + 1] - self.starts[row]) as usize,
        }
    }

    /// Entries of these rows, padding included.
    pub(super) fn entries(&self) -> usize {
        match (self.lengths, self.starts) {
            (None, [first, .., last]) => (last - first) as usize,
            (None, _) => 0,
            (Some(_), _) => self.columns.len(),
        }
    }

    /// By how much the columns of `other` lie behind those of `row`, if by the same for all of them; both rows must
    /// be short, not empty, and `other` must follow so many rows later in the arrays.
    pub(super) fn shift(&self, row: usize, other: usize) -> Option<u32> {
        let length = self.length(row);
        if length == 0 || length > LONGEST_TOGETHER || self.length(other) != length {
            return None;
        }
        let (here, there) = (self.starts[row] as usize, self.starts[other] as usize);
        if there != here + (other - row) * length {
            return None;
        }
        let (columns, others) = (&self.columns[here..here + length], &self.columns[there..there + length]);
        let shift = others[0].wrapping_sub(columns[0]);
        let holds = columns.iter().zip(others).all(|(&column, &other)| other.wrapping_sub(column) == shift);
        // Bodies for columns that move along have one chain a row.
        (holds && (shift == 0 || length <= SEGMENT)).then_some(shift)
    }

    /// Row pointers of the lengths, for balancing.
    pub(super) fn row_pointers(&self) -> Cow<'a, [u64]> {
        match self.lengths {
            None => self.starts.into(),
            Some(lengths) => {
                let mut sum = 0;
                let ends = lengths.iter().map(|&length| {
                    sum += u64::from(length);
                    sum
                });
                std::iter::once(0).chain(ends).collect::<Vec<u64>>().into()
            }
        }
    }
}

impl<'a, T: Scalar> From<CsrView<'a, T>> for RowLayout<'a, T> {
    fn from(view: CsrView<'a, T>) -> Self {
        Self {
            cols: view.cols(),
            starts: view.row_pointers(),
            lengths: None,
            columns: view.columns(),
            values: view.values(),
            stride: 1,
        }
    }
}
