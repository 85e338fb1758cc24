//! Rows given by start and length in two arrays of columns and values: the common view of CSR and both ELLPACK formats.

use std::borrow::Cow;

use rowloom_cpu::LONGEST_TOGETHER;

use crate::kernel::order::SEGMENT;
use crate::matrix::{CsrView, Scalar};

/// A borrowed matrix by rows.
///
/// The creator must take it from a checked format: every entry is inside the arrays, every column inside the matrix.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RowLayout<'a, T> {
    /// Columns of the matrix.
    pub(crate) cols: usize,
    /// Start of each row in the arrays; if `lengths` is none, followed by the end of the last row.
    pub(crate) starts: &'a [u64],
    /// Length of each row; if none, a row ends where the next one starts.
    pub(crate) lengths: Option<&'a [u32]>,
    /// Column of each entry.
    pub(crate) columns: &'a [u32],
    /// Value of each entry.
    pub(crate) values: &'a [T],
    /// Distance between consecutive entries of a row, in elements.
    pub(crate) stride: usize,
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

    /// The constant by which all columns of `other` exceed those of `row`, modulo 2^32; none if there is no such constant.
    ///
    /// Also none if a row is empty or longer than [`LONGEST_TOGETHER`], or if the rows are not stored contiguously, since
    /// blocks of rows need both.
    pub(super) fn shift(&self, row: usize, other: usize) -> Option<u32> {
        let length = self.length(row);
        if length == 0 || length > LONGEST_TOGETHER || self.length(other) != length {
            return None;
        }
        let (start, other_start) = (self.starts[row] as usize, self.starts[other] as usize);
        if other_start != start + (other - row) * length {
            return None;
        }
        let columns = &self.columns[start..start + length];
        let other_columns = &self.columns[other_start..other_start + length];
        let shift = other_columns[0].wrapping_sub(columns[0]);
        let is_constant =
            columns.iter().zip(other_columns).all(|(&column, &other)| other.wrapping_sub(column) == shift);
        // Bodies for shifted columns compute a single chain per row.
        (is_constant && (shift == 0 || length <= SEGMENT)).then_some(shift)
    }

    /// The prefix sums of the row lengths, as balancing needs them.
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
