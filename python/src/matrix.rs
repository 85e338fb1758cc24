//! Matrices from the three arrays of CSR, and from files.

use std::path::Path;
use std::sync::Arc;

use bytemuck::Pod;
use numpy::{Element, PyArray1, PyArrayMethods, PyUntypedArrayMethods};
use pyo3::exceptions::{PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use rowloom::internal::matrix::array::{AlignedBuffer, Array, SharedBytes};
use rowloom::internal::matrix::csr::MOST_COLUMNS;
use rowloom::internal::matrix::{CopiedColumns, Scalar};
use rowloom::{Csr, Result, Runtime};

use crate::borrowed::{Pinned, Promised};
use crate::copies::copied;
use crate::interrupt::interruptible;
use crate::source::Source;

/// Reads, downloads or generates a matrix.
pub fn load<T: Scalar>(py: Python<'_>, runtime: &Runtime, source: &Path) -> PyResult<Csr<T>> {
    let (pool, source) = (runtime.pool().clone(), source.to_owned());
    interruptible(py, (), move |cancel| match Source::named(&source, cancel)? {
        Source::Generated(spec) => pool.install(|| Csr::generate(&spec)),
        Source::File(path) => pool.install(|| Csr::read(&path)),
    })
}

/// The arrays of CSR as a caller passes them: contiguous and aligned.
pub struct Parts<'a, 'py> {
    pub shape: (usize, usize),
    pub values: &'a Bound<'py, PyAny>,
    pub columns: Indices<'a, 'py>,
    pub row_pointers: Indices<'a, 'py>,
    pub copies: Copies,
}

/// Which arrays of CSR a matrix copies. Row pointers, indices of 64 bits and arrays with gaps are always copied.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Copies {
    /// All.
    All,
    /// All but values that stay in place and in order: NumPy has allocated them, and the columns of every row increase. SciPy sorts
    /// the entries of other rows in place, also in functions that only read a matrix, such as `max`.
    Safe,
    /// None. The caller promises that indices do not change.
    None,
}

impl Copies {
    /// As the argument `copy` of Python states them.
    pub fn named(copy: Option<bool>) -> Self {
        match copy {
            Some(true) => Self::All,
            Some(false) => Self::None,
            None => Self::Safe,
        }
    }
}

/// An array of indices, as SciPy stores them.
pub enum Indices<'a, 'py> {
    Narrow(&'a Bound<'py, PyArray1<i32>>),
    Wide(&'a Bound<'py, PyArray1<i64>>),
}

impl<'a, 'py> Indices<'a, 'py> {
    /// The array, if it is one of 32 or 64 bits.
    pub fn new(array: &'a Bound<'py, PyAny>) -> PyResult<Self> {
        if let Ok(array) = array.cast::<PyArray1<i32>>() {
            return Ok(Self::Narrow(array));
        }
        array.cast().map(Self::Wide).map_err(|_| PyTypeError::new_err("indices must be int32 or int64"))
    }

    fn pinned(&self, length: usize) -> PyResult<Option<PinnedIndices>> {
        Ok(match self {
            Self::Narrow(array) => Pinned::new(array, length)?.map(PinnedIndices::Narrow),
            Self::Wide(array) => Pinned::new(array, length)?.map(PinnedIndices::Wide),
        })
    }

    fn len(&self) -> usize {
        match self {
            Self::Narrow(array) => array.len(),
            Self::Wide(array) => array.len(),
        }
    }

    fn get(&self, position: usize) -> Option<i64> {
        match self {
            Self::Narrow(array) => slice(array).ok()?.get(position).map(|&index| i64::from(index)),
            Self::Wide(array) => slice(array).ok()?.get(position).copied(),
        }
    }

    fn position(&self, matches: impl Fn(i64) -> bool) -> PyResult<Option<usize>> {
        Ok(match self {
            Self::Narrow(array) => slice(array)?.iter().position(|&index| matches(i64::from(index))),
            Self::Wide(array) => slice(array)?.iter().position(|&index| matches(index)),
        })
    }
}

impl Parts<'_, '_> {
    /// The matrix. [`Copies`] says which arrays it uses in place.
    pub fn matrix<T: Scalar + Element>(&self, py: Python<'_>, runtime: &Runtime) -> PyResult<Csr<T>> {
        let values = self.values.cast::<PyArray1<T>>()?;
        let entries = self.check_lengths(values.len())?;
        let copies = self.copies;
        let gaps = || PyValueError::new_err("the arrays of the matrix must be contiguous");
        // All arrays stay in place until the matrix is made, also those that are copied.
        let values = Pinned::new(values, entries)?.ok_or_else(gaps)?;
        let columns = self.columns.pinned(entries)?.ok_or_else(gaps)?;
        let row_pointers = self.row_pointers.pinned(self.row_pointers.len())?.ok_or_else(gaps)?;
        let may_borrow_values = match copies {
            Copies::All => false,
            Copies::Safe => values.is_numpy_memory(),
            Copies::None => true,
        };
        // Where negative numbers would be valid columns, they are looked for in a copy.
        let is_narrow = matches!(columns, PinnedIndices::Narrow(_));
        let may_borrow_columns = copies == Copies::None && is_narrow && self.shape.1 <= i32::MAX as usize;
        let (rows, cols) = self.shape;
        let arrays = (values.clone(), columns.clone(), row_pointers.clone());
        let make = move || -> Result<Csr<T>> {
            // A negative number becomes a large one, which the check refuses.
            let row_pointers = row_pointers.converted(|pointer| pointer as u64)?;
            let bytes = values.bytes().len();
            let values = |stay_in_order: bool| -> Result<Array<T>> {
                let borrowed = Some(values.clone()).filter(|_| may_borrow_values && stay_in_order);
                match borrowed.and_then(|values| Array::window(values, 0..bytes)) {
                    Some(values) => Ok(values),
                    None => Ok(copied(values.elements::<T>()?, |value| value)?.into()),
                }
            };
            if let Some(columns) = columns.borrowed(may_borrow_columns) {
                return Csr::try_new(rows, cols, row_pointers, columns, values(true)?);
            }
            let columns = columns.copied(&row_pointers, cols)?;
            let values = values(copies == Copies::None || columns.are_increasing())?;
            Csr::with_copied_columns(rows, cols, row_pointers, columns, values)
        };
        let pool = runtime.pool().clone();
        // All indices are checked; the reason is looked for only if it refuses them.
        match interruptible(py, arrays, move |_| pool.install(make)) {
            Err(error) if error.is_instance_of::<PyRuntimeError>(py) => {
                Err(self.wrong_index(entries)?.unwrap_or(error))
            }
            made => made,
        }
    }

    /// The number of entries; an error if the lengths of the arrays do not fit.
    fn check_lengths(&self, values: usize) -> PyResult<usize> {
        let wrong = |reason: String| Err(PyValueError::new_err(reason));
        let (rows, cols) = self.shape;
        if cols > MOST_COLUMNS {
            return wrong(format!("the matrix has {cols} columns; at most {MOST_COLUMNS} are supported"));
        }
        let pointers = self.row_pointers.len();
        if rows.checked_add(1) != Some(pointers) {
            return wrong(format!("indptr has length {pointers}; a matrix of {rows} rows needs {rows} + 1"));
        }
        let end = self.row_pointers.get(rows).unwrap_or(0);
        let columns = self.columns.len();
        match usize::try_from(end) {
            Ok(entries) if entries <= columns && entries <= values => Ok(entries),
            _ => wrong(format!("indptr ends at {end}, but there are {columns} indices and {values} values")),
        }
    }

    /// The first index that is refused, in words.
    fn wrong_index(&self, entries: usize) -> PyResult<Option<PyErr>> {
        let (rows, cols) = self.shape;
        let pointer = |row| self.row_pointers.get(row).unwrap_or(0);
        let wrong = |reason: String| Ok(Some(PyValueError::new_err(reason)));
        if pointer(0) != 0 {
            return wrong(format!("indptr starts at {} instead of 0", pointer(0)));
        }
        if let Some(row) = (0..rows).find(|&row| pointer(row) > pointer(row + 1)) {
            return wrong(format!(
                "indptr decreases from {} to {} in row {row}",
                pointer(row),
                pointer(row + 1)
            ));
        }
        match self.columns.position(|column| column < 0 || column as u64 >= cols as u64)? {
            Some(position) if position < entries => {
                let column = self.columns.get(position).unwrap_or(0);
                wrong(format!("indices[{position}] is {column}; the matrix has {cols} columns"))
            }
            _ => Ok(None),
        }
    }
}

/// Pinned [`Indices`], which other threads may read.
#[derive(Clone)]
enum PinnedIndices {
    Narrow(Arc<Pinned>),
    Wide(Arc<Pinned>),
}

impl PinnedIndices {
    /// The indices in place, as the caller of `copy=False` has allowed it.
    fn borrowed(&self, is_allowed: bool) -> Option<Array<u32>> {
        match self {
            Self::Narrow(pinned) if is_allowed => Array::constant(Arc::new(Promised(pinned.clone()))),
            _ => None,
        }
    }

    /// A copy as columns of a matrix of `cols` columns.
    fn copied(&self, row_pointers: &[u64], cols: usize) -> Result<CopiedColumns> {
        // No matrix has as many columns as the largest number, so the check refuses it.
        let end = u32::try_from(cols).unwrap_or(u32::MAX);
        match self {
            Self::Narrow(from) => CopiedColumns::of(from.elements::<i32>()?, row_pointers, end, |column| {
                u32::try_from(column).unwrap_or(u32::MAX)
            }),
            Self::Wide(from) => CopiedColumns::of(from.elements::<i64>()?, row_pointers, end, |column| {
                u32::try_from(column).unwrap_or(u32::MAX)
            }),
        }
    }

    fn converted<T: Pod + Send + Sync>(&self, to: impl Fn(i64) -> T + Sync) -> Result<AlignedBuffer<T>> {
        match self {
            Self::Narrow(from) => copied(from.elements::<i32>()?, |index| to(i64::from(index))),
            Self::Wide(from) => copied(from.elements::<i64>()?, to),
        }
    }
}

/// The elements of a contiguous array.
fn slice<'a, T: Element>(array: &'a Bound<'_, PyArray1<T>>) -> PyResult<&'a [T]> {
    // Safety: the array is alive as long as the reference. Threads of the interpreter that write to it meanwhile change numbers
    // that are checked after they were copied.
    unsafe { array.as_slice() }
        .map_err(|_| PyValueError::new_err("the arrays of the matrix must be contiguous"))
}
