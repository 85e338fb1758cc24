//! Compressed sparse rows (CSR), from which all other formats are converted.
//!
//! Invariant of every `Csr`: row pointers start at zero, do not decrease and end at the number of nonzeros; every column is
//! inside the matrix. Kernels rely on it without further checks, so row pointers and columns are in memory that does not change;
//! values may be in a mapped file.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use rayon::prelude::*;

use super::array::Array;
use super::columns::{CHECK_STEP, CopiedColumns, are_below};
use super::content::ContentId;
use super::packing::{ColumnBlocks, Packable};
use super::scalar::Scalar;
use super::value_bits::{KnownValues, ValueBits};
use super::value_codes::ValueCodes;
use crate::error::{Error, Result};

/// Maximal number of columns of a matrix: indices are `u32`, and the largest `u32` marks padding.
pub const MOST_COLUMNS: usize = u32::MAX as usize;

/// A sparse matrix in CSR: in owned memory, in a mapped file, or in the arrays of another library. It never changes, and clones share its
/// memory.
#[derive(Debug, Clone)]
pub struct Csr<T: Scalar> {
    rows: usize,
    cols: usize,
    row_pointers: Array<u64>,
    columns: Array<u32>,
    values: Array<T>,
    content: ContentId,
    known_values: KnownValues,
    /// How its columns are packed; set by the first who asks.
    column_blocks: OnceLock<Arc<ColumnBlocks>>,
}

/// Compares the arrays.
impl<T: Scalar> PartialEq for Csr<T> {
    fn eq(&self, other: &Self) -> bool {
        (self.rows, self.cols) == (other.rows, other.cols)
            && self.row_pointers == other.row_pointers
            && self.columns == other.columns
            && self.values == other.values
    }
}

impl<T: Scalar> Csr<T> {
    /// A matrix from its arrays; an error if they violate the invariant.
    pub fn try_new(
        rows: usize,
        cols: usize,
        row_pointers: impl Into<Array<u64>>,
        columns: impl Into<Array<u32>>,
        values: impl Into<Array<T>>,
    ) -> Result<Self> {
        let fit = |columns: &[u32]| are_below(columns, cols as u32);
        Self::checked((rows, cols), row_pointers.into(), columns.into(), values.into(), fit)
    }

    /// The same of columns that were checked while they were copied.
    #[doc(hidden)]
    pub fn with_copied_columns(
        rows: usize,
        cols: usize,
        row_pointers: impl Into<Array<u64>>,
        columns: CopiedColumns,
        values: impl Into<Array<T>>,
    ) -> Result<Self> {
        let (columns, fit) = columns.checked(u32::try_from(cols).unwrap_or(0));
        Self::checked((rows, cols), row_pointers.into(), columns.into(), values.into(), |_| fit)
    }

    fn checked(
        (rows, cols): (usize, usize),
        row_pointers: Array<u64>,
        columns: Array<u32>,
        values: Array<T>,
        columns_fit: impl FnOnce(&[u32]) -> bool,
    ) -> Result<Self> {
        if row_pointers.may_change() || columns.may_change() {
            return Err(Error::Internal("row pointers and columns must not be in a mapped file".into()));
        }
        let (content, known_values, column_blocks) =
            (ContentId::unique(), KnownValues::default(), OnceLock::new());
        let matrix = Self { rows, cols, row_pointers, columns, values, content, known_values, column_blocks };
        matrix.view().check(columns_fit)?;
        Ok(matrix)
    }

    /// A matrix without rows, columns or nonzeros.
    #[doc(hidden)]
    pub fn empty() -> Self {
        Self {
            rows: 0,
            cols: 0,
            row_pointers: vec![0].into(),
            columns: Vec::new().into(),
            values: Vec::new().into(),
            content: ContentId::unique(),
            known_values: KnownValues::default(),
            column_blocks: OnceLock::new(),
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
    #[doc(hidden)]
    pub fn bytes(&self) -> u64 {
        self.view().bytes()
    }

    /// Bytes of the arrays that this object has allocated: without values in a mapped file, whose pages the system can drop.
    #[doc(hidden)]
    pub fn memory_bytes(&self) -> u64 {
        let mapped = if self.values.may_change() { size_of_val::<[T]>(&self.values) } else { 0 };
        self.bytes() - mapped as u64
    }

    /// Whether the values are unchanged since they were read. If another program changes the mapped file of a matrix, access
    /// stays safe, but results computed since then are invalid.
    #[doc(hidden)]
    pub fn is_intact(&self) -> bool {
        self.values.is_intact()
    }

    /// A view of the whole matrix.
    pub fn view(&self) -> CsrView<'_, T> {
        CsrView {
            rows: self.rows,
            cols: self.cols,
            row_pointers: &self.row_pointers,
            columns: &self.columns,
            values: &self.values,
            mapped: self.values.may_change().then_some(Mapped(&self.values)),
            content: Some(self.content),
            // Not of values that may become others.
            known_values: (!self.values.may_change()).then_some(&self.known_values),
            column_blocks: Some(&self.column_blocks),
        }
    }

    /// The same matrix with other column numbers, one for each entry, in a matrix of `cols` columns.
    #[doc(hidden)]
    pub fn with_columns(self, cols: usize, columns: impl Into<Array<u32>>) -> Result<Self> {
        Self::try_new(self.rows, cols, self.row_pointers, columns, self.values)
    }

    /// The same matrix, for one without values of its own: they are not read to find out whether all are equal.
    pub(super) fn with_unread_values(self) -> Self {
        let codes = OnceLock::from(Arc::new(ValueCodes::plain()));
        Self { known_values: KnownValues { are_equal: OnceLock::from(false), codes }, ..self }
    }

    /// The same matrix in precision `U`; values are rounded to nearest.
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
            content: ContentId::unique(),
            known_values: KnownValues::default(),
            column_blocks: OnceLock::new(),
        })
    }
}

/// Whether row pointers decrease anywhere. The last one must be below 2^63, as every length is. Sums of bits instead of comparisons, so that
/// the loop has vector instructions on every processor.
fn decreases(row_pointers: &[u64]) -> bool {
    let ends = row_pointers.get(1..).unwrap_or_default();
    let parts = row_pointers.par_chunks(CHECK_STEP).zip(ends.par_chunks(CHECK_STEP));
    let bits = parts.map(|(begins, ends)| {
        // The sign bit is that of a negative length, or of a pointer beyond every length.
        begins.iter().zip(ends).fold(0, |bits, (&begin, &end)| bits | end | end.wrapping_sub(begin))
    });
    bits.reduce(|| 0, |a, b| a | b) >> 63 != 0
}

/// A borrowed sparse matrix, or consecutive rows of one.
///
/// The row pointers of a part index the arrays of the whole matrix; `columns` and `values` are always those of the whole.
#[derive(Debug, Clone, Copy)]
pub struct CsrView<'a, T> {
    rows: usize,
    cols: usize,
    row_pointers: &'a [u64],
    columns: &'a [u32],
    values: &'a [T],
    /// The array that has the values, if a mapped file may change them.
    mapped: Option<Mapped<'a, T>>,
    content: Option<ContentId>,
    /// What the matrix remembers about its values, and how its columns are packed; the latter for views of the whole matrix.
    known_values: Option<&'a KnownValues>,
    column_blocks: Option<&'a OnceLock<Arc<ColumnBlocks>>>,
}

/// Values of a mapped file.
#[derive(Clone, Copy)]
struct Mapped<'a, T>(&'a Array<T>);

impl<T> std::fmt::Debug for Mapped<'_, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Mapped")
    }
}

impl<'a, T: Scalar> CsrView<'a, T> {
    /// A view of borrowed arrays; an error if they violate the invariant of [`Csr`].
    pub fn try_new(
        rows: usize,
        cols: usize,
        row_pointers: &'a [u64],
        columns: &'a [u32],
        values: &'a [T],
    ) -> Result<Self> {
        let content = Some(ContentId::unique());
        let (mapped, known_values, column_blocks) = (None, None, None);
        let view =
            Self { rows, cols, row_pointers, columns, values, mapped, content, known_values, column_blocks };
        view.check(|columns| are_below(columns, cols as u32))?;
        Ok(view)
    }

    fn check(&self, columns_fit: impl FnOnce(&[u32]) -> bool) -> Result<()> {
        let invalid = |what: String| Err(Error::Internal(format!("the CSR arrays are inconsistent: {what}")));
        if self.cols > MOST_COLUMNS {
            return invalid(format!("{} columns, but at most {MOST_COLUMNS} are supported", self.cols));
        }
        if self.row_pointers.len() != self.rows + 1 {
            return invalid(format!("{} row pointers for {} rows", self.row_pointers.len(), self.rows));
        }
        if self.columns.len() != self.values.len() {
            return invalid(format!("{} columns and {} values", self.columns.len(), self.values.len()));
        }
        if self.row_pointers[0] != 0 || self.row_pointers[self.rows] != self.columns.len() as u64 {
            return invalid("the row pointers do not start at zero and end at the number of nonzeros".into());
        }
        if decreases(self.row_pointers) {
            return invalid("the row pointers decrease".into());
        }
        if !columns_fit(self.columns) {
            let largest = self.columns.par_iter().copied().max().unwrap_or(0);
            return invalid(format!("column {largest} in a matrix of {} columns", self.cols));
        }
        Ok(())
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
    #[doc(hidden)]
    pub fn bytes(&self) -> u64 {
        (self.rows as u64 + 1) * 8 + self.nnz() as u64 * (4 + size_of::<T>() as u64)
    }

    /// Start of each row in the arrays, followed by the end of the last row.
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

    /// Whether the whole matrix has at least one value and all values are equal bit for bit. Runs in the rayon pool of the
    /// caller.
    #[doc(hidden)]
    pub fn has_equal_values(&self) -> bool {
        self.value_bits().are_equal()
    }

    /// The bits of the values of the whole matrix.
    #[doc(hidden)]
    pub fn value_bits(&self) -> ValueBits<'a> {
        let may_change = self.mapped.is_some_and(|Mapped(values)| values.may_change_unseen());
        ValueBits::new(self.values, self.known_values, may_change)
    }

    /// The arrays of these rows, to be packed.
    #[doc(hidden)]
    pub fn packable(&self) -> Packable<'a> {
        let (row_pointers, columns, values) = (self.row_pointers, self.columns, self.value_bits());
        Packable { row_pointers, columns, values, known_blocks: self.column_blocks }
    }

    /// The range of row `row` in `columns` and `values`.
    #[inline]
    #[doc(hidden)]
    pub fn row_range(&self, row: usize) -> Range<usize> {
        self.row_pointers[row] as usize..self.row_pointers[row + 1] as usize
    }

    /// Number of nonzeros of row `row`.
    #[inline]
    #[doc(hidden)]
    pub fn row_length(&self, row: usize) -> usize {
        (self.row_pointers[row + 1] - self.row_pointers[row]) as usize
    }

    /// Columns and values of row `row`.
    pub fn row(&self, row: usize) -> (&'a [u32], &'a [T]) {
        let range = self.row_range(row);
        (&self.columns[range.clone()], &self.values[range])
    }

    /// A view of the same entries divided into other rows, such as the segments of one long row: row `i` has the entries from
    /// `row_pointers[i]` up to `row_pointers[i + 1]`.
    #[doc(hidden)]
    pub fn with_row_pointers(&self, row_pointers: &'a [u64]) -> Result<CsrView<'a, T>> {
        let rows = row_pointers.len().saturating_sub(1);
        let is_valid = row_pointers.last().is_some_and(|&end| end <= self.columns.len() as u64)
            && row_pointers.is_sorted();
        if !is_valid {
            return Err(Error::Internal("row pointers decrease or end outside the entries".into()));
        }
        Ok(CsrView { rows, row_pointers, content: None, column_blocks: None, ..*self })
    }

    /// A view of the rows `range`.
    #[doc(hidden)]
    pub fn slice_rows(&self, range: Range<usize>) -> CsrView<'a, T> {
        CsrView {
            rows: range.len(),
            cols: self.cols,
            row_pointers: &self.row_pointers[range.start..=range.end],
            columns: self.columns,
            values: self.values,
            mapped: self.mapped,
            content: None,
            known_values: self.known_values,
            column_blocks: None,
        }
    }

    /// The identity of the matrix that this is a view of; `None` for a view of some of its rows.
    #[doc(hidden)]
    pub fn content(&self) -> Option<ContentId> {
        self.content
    }

    /// An error if the values are those of a mapped file that has changed since it was opened: results computed from them are invalid.
    #[doc(hidden)]
    pub fn check_intact(&self) -> Result<()> {
        self.mapped.map_or(Ok(()), |Mapped(values)| values.check_intact())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use proptest::prelude::*;

    use super::*;
    use crate::matrix::array::SharedBytes;

    #[test]
    fn clones_share_the_arrays_and_outlive_the_original() {
        let matrix = Csr::try_new(1, 3, vec![0u64, 2], vec![0u32, 2], vec![1.0f64, 2.0]).unwrap();
        let clone = matrix.clone();
        assert_eq!(clone.view().values().as_ptr(), matrix.view().values().as_ptr());
        assert_eq!(clone.view().columns().as_ptr(), matrix.view().columns().as_ptr());
        drop(matrix);
        assert_eq!(clone.view().row(0), (&[0, 2][..], &[1.0, 2.0][..]));
    }

    #[test]
    fn has_equal_values_compares_bits_and_needs_a_value() {
        let equal = |values: Vec<f64>| {
            let nnz = values.len();
            let columns: Vec<u32> = (0..nnz as u32).collect();
            Csr::try_new(1, 3, vec![0, nnz as u64], columns, values).unwrap().view().has_equal_values()
        };
        assert!(equal(vec![2.5, 2.5, 2.5]) && equal(vec![-0.0]));
        assert!(!equal(vec![2.5, 2.5, 3.0]) && !equal(vec![0.0, -0.0]) && !equal(vec![]));
    }

    /// Values that become others.
    struct Changing([[f64; 2]; 2], AtomicUsize);

    impl SharedBytes for Changing {
        fn bytes(&self) -> &[u8] {
            bytemuck::cast_slice(&self.0[self.1.load(Ordering::Relaxed)])
        }
    }

    #[test]
    fn that_values_are_equal_is_not_remembered_where_they_may_change() {
        let shared = Arc::new(Changing([[2.5, 2.5], [7.0, 2.5]], AtomicUsize::new(0)));
        let values = Array::<f64>::window(shared.clone(), 0..16).unwrap();
        let matrix = Csr::try_new(1, 2, vec![0u64, 2], vec![0u32, 1], values).unwrap();
        assert!(matrix.view().has_equal_values());
        shared.1.store(1, Ordering::Relaxed);
        assert!(!matrix.view().has_equal_values());
    }

    #[test]
    fn inconsistent_arrays_are_refused() {
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

    proptest! {
        #[test]
        fn checks_of_indices_equal_comparisons(
            pointers in prop::collection::vec(prop_oneof![0u64..4, Just(u64::MAX), Just(1 << 63), Just((1 << 63) - 1)], 0..6),
            last in 0u64..4,
        ) {
            let pointers: Vec<u64> = [0].into_iter().chain(pointers).chain([last]).collect();
            prop_assert_eq!(decreases(&pointers), !pointers.is_sorted());
        }
    }

    #[test]
    fn indices_in_every_part_of_large_arrays_are_checked() {
        let length = 2 * CHECK_STEP + 5;
        for at in [0, 1, CHECK_STEP - 1, CHECK_STEP, 2 * CHECK_STEP, length - 1] {
            let mut columns = vec![7; length];
            assert!(are_below(&columns, 8));
            columns[at] = 8;
            assert!(!are_below(&columns, 8), "column {at}");
            let mut pointers: Vec<u64> = (0..length as u64 + 1).map(|row| 2 * row).collect();
            assert!(!decreases(&pointers));
            pointers[at] += 3;
            assert!(decreases(&pointers), "row {at}");
        }
    }

    #[test]
    fn a_slice_has_the_rows_of_its_range() {
        let matrix = Csr::try_new(3, 3, vec![0, 1, 1, 3], vec![2, 0, 1], vec![1.0, 2.0, 3.0]).unwrap();
        let part = matrix.view().slice_rows(1..3);
        assert_eq!((part.rows(), part.nnz()), (2, 2));
        assert_eq!(part.row(1), (&[0, 1][..], &[2.0, 3.0][..]));
    }

    #[test]
    fn a_row_can_be_viewed_as_several_rows() {
        let matrix = Csr::try_new(1, 3, vec![0, 3], vec![0, 1, 2], vec![1.0, 2.0, 3.0]).unwrap();
        let parts = matrix.view().with_row_pointers(&[0, 2, 3]).unwrap();
        assert_eq!((parts.rows(), parts.row(0).0, parts.row(1).0), (2, &[0, 1][..], &[2][..]));
        assert!(matrix.view().with_row_pointers(&[0, 4]).is_err());
        assert!(matrix.view().with_row_pointers(&[2, 1]).is_err());
        assert!(matrix.view().with_row_pointers(&[]).is_err());
    }
}
