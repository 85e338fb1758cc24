//! NumPy arrays as X and Y: used in place where their rows are contiguous, copied in parallel where they are not.

use std::ops::Range;
use std::slice;

use numpy::npyffi::NPY_ARRAY_WRITEABLE;
use numpy::{Element, PyArrayDyn, PyArrayMethods, PyUntypedArrayMethods};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use rayon::prelude::*;
use rowloom::internal::matrix::{MultiVector, MultiVectorView, MultiVectorViewMut, Scalar};
use rowloom::internal::runtime::Pool;
use rowloom::{Error, Result};

/// Rows that are copied at a time: short enough that the lines of cache of all columns stay in the cache.
const ROWS_PER_STEP: usize = 64;
/// Elements from which a copy is worth more than one thread.
const MIN_PARALLEL: usize = 1 << 14;

/// Where the elements of a dense array are. The array must be kept alive as long as this is used.
#[derive(Clone, Copy)]
pub struct Dense<T> {
    pointer: *mut T,
    rows: usize,
    columns: usize,
    /// Distances between rows and between columns, in elements.
    row_stride: isize,
    column_stride: isize,
}

// Safety: a pointer and numbers; `Dense::view` and the others say who may use the elements.
unsafe impl<T: Send> Send for Dense<T> {}
unsafe impl<T: Sync> Sync for Dense<T> {}

impl<T: Element + Scalar> Dense<T> {
    /// The elements of an array of one or two dimensions; `None` if they are misaligned. A vector is one column.
    pub fn of(array: &Bound<'_, PyArrayDyn<T>>) -> PyResult<Option<Self>> {
        let bytes = size_of::<T>() as isize;
        let (shape, strides) = (array.shape(), array.strides());
        let (rows, columns, row_bytes, column_bytes) = match (shape, strides) {
            (&[rows], &[stride]) => (rows, 1, stride, bytes),
            (&[rows, columns], &[row_stride, column_stride]) => (rows, columns, row_stride, column_stride),
            _ => {
                let dimensions = array.ndim();
                let reason = format!("the array has {dimensions} dimensions; X and Y have one or two");
                return Err(PyValueError::new_err(reason));
            }
        };
        let is_usable = array.is_aligned() && row_bytes % bytes == 0 && column_bytes % bytes == 0;
        let (row_stride, column_stride) = (row_bytes / bytes, column_bytes / bytes);
        let dense = Self { pointer: array.data(), rows, columns, row_stride, column_stride };
        Ok(is_usable.then_some(dense))
    }

    /// Whether NumPy allows writing to the array.
    pub fn is_writeable(array: &Bound<'_, PyArrayDyn<T>>) -> bool {
        // Safety: the pointer is that of a living array object.
        unsafe { (*array.as_array_ptr()).fields.flags & NPY_ARRAY_WRITEABLE != 0i32 }
    }

    pub fn rows(&self) -> usize {
        self.rows
    }

    pub fn columns(&self) -> usize {
        self.columns
    }

    /// The distance between rows, if they are contiguous and do not overlap.
    fn leading_dimension(&self) -> Option<usize> {
        if self.rows <= 1 {
            return (self.column_stride == 1 || self.columns <= 1).then_some(self.columns);
        }
        let is_contiguous = self.columns <= 1 || self.column_stride == 1;
        let distance = usize::try_from(self.row_stride).ok().filter(|&distance| distance >= self.columns);
        distance.filter(|_| is_contiguous)
    }

    /// The addresses of the first byte and behind the last one.
    fn addresses(&self) -> Range<usize> {
        if self.rows == 0 || self.columns == 0 {
            return 0..0;
        }
        let last = |length: usize, stride: isize| (length - 1) as isize * stride;
        let (down, across) = (last(self.rows, self.row_stride), last(self.columns, self.column_stride));
        let first = self.pointer as isize + (down.min(0) + across.min(0)) * size_of::<T>() as isize;
        let elements = down.unsigned_abs() + across.unsigned_abs() + 1;
        first as usize..first as usize + elements * size_of::<T>()
    }

    /// Whether some element of both may be the same.
    pub fn may_overlap(&self, other: &Self) -> bool {
        let (a, b) = (self.addresses(), other.addresses());
        a.start < b.end && b.start < a.end
    }

    /// The elements in place; `None` if rows are not contiguous.
    ///
    /// # Safety
    ///
    /// The array is alive for `'a`. Other threads of the interpreter may write to it, as they may during any function of NumPy:
    /// then Y has old or new numbers.
    pub unsafe fn view<'a>(&self) -> Option<Result<MultiVectorView<'a, T>>> {
        let leading_dimension = self.leading_dimension()?;
        let length = self.length(leading_dimension);
        // Safety: NumPy's shape and strides describe this memory.
        let data = if length == 0 { &[] } else { unsafe { slice::from_raw_parts(self.pointer, length) } };
        Some(MultiVectorView::try_new(data, self.rows, self.columns, leading_dimension))
    }

    /// The same, to be written.
    ///
    /// # Safety
    ///
    /// As for [`Self::view`]; also, nothing else of this product reads or writes between the first and the last element.
    pub unsafe fn view_mut<'a>(&self) -> Option<Result<MultiVectorViewMut<'a, T>>> {
        let leading_dimension = self.leading_dimension()?;
        let length = self.length(leading_dimension);
        let data =
            if length == 0 { &mut [] } else { unsafe { slice::from_raw_parts_mut(self.pointer, length) } };
        Some(MultiVectorViewMut::try_new(data, self.rows, self.columns, leading_dimension))
    }

    fn length(&self, leading_dimension: usize) -> usize {
        if self.rows == 0 || self.columns == 0 {
            return 0;
        }
        (self.rows - 1) * leading_dimension + self.columns
    }

    /// Copies the elements to packed rows.
    ///
    /// # Safety
    ///
    /// The array is alive.
    pub unsafe fn copy_to(&self, to: &mut MultiVector<T>, pool: &Pool) -> Result<()> {
        self.check_shape(to)?;
        let Self { columns, row_stride, column_stride, .. } = *self;
        let from = *self;
        let step = move |(index, to): (usize, &mut [T])| {
            for column in 0..columns {
                let first = (index * ROWS_PER_STEP) as isize * row_stride + column as isize * column_stride;
                for (row, to) in to.chunks_exact_mut(columns).enumerate() {
                    // Safety: the row and the column are inside the shape that NumPy has stated for this memory.
                    to[column] = unsafe { from.pointer().offset(first + row as isize * row_stride).read() };
                }
            }
        };
        let length = (ROWS_PER_STEP * columns).max(1);
        match to.data().len() < MIN_PARALLEL {
            true => to.data_mut().chunks_mut(length).enumerate().for_each(step),
            false => pool.install(|| to.data_mut().par_chunks_mut(length).enumerate().for_each(step)),
        }
        Ok(())
    }

    /// Copies packed rows to the elements.
    ///
    /// # Safety
    ///
    /// The array is alive, may be written, and no two of its elements are at the same address.
    pub unsafe fn copy_from(&self, from: &MultiVector<T>, pool: &Pool) -> Result<()> {
        self.check_shape(from)?;
        let Self { columns, row_stride, column_stride, .. } = *self;
        let to = *self;
        let step = move |(index, from): (usize, &[T])| {
            for column in 0..columns {
                let first = (index * ROWS_PER_STEP) as isize * row_stride + column as isize * column_stride;
                for (row, from) in from.chunks_exact(columns).enumerate() {
                    // Safety: as in `copy_to`; steps have different rows.
                    unsafe { to.pointer().offset(first + row as isize * row_stride).write(from[column]) };
                }
            }
        };
        let length = (ROWS_PER_STEP * columns).max(1);
        match from.data().len() < MIN_PARALLEL {
            true => from.data().chunks(length).enumerate().for_each(step),
            false => pool.install(|| from.data().par_chunks(length).enumerate().for_each(step)),
        }
        Ok(())
    }

    /// A method, so that closures capture the whole object, which other threads may use.
    fn pointer(self) -> *mut T {
        self.pointer
    }

    fn check_shape(&self, packed: &MultiVector<T>) -> Result<()> {
        let fits = (packed.rows(), packed.k(), packed.leading_dimension())
            == (self.rows, self.columns, self.columns);
        fits.then_some(()).ok_or_else(|| Error::Internal("a packed copy has another shape".into()))
    }
}
