//! Arrays of NumPy that a matrix uses in place.

use std::slice;
use std::sync::Arc;

use numpy::{Element, PyArray1, PyArrayMethods, PyUntypedArrayMethods};
use pyo3::prelude::*;
use rowloom::matrix::array::{ConstantBytes, SharedBytes};

/// The bytes of a NumPy array that is kept alive and locked against writing.
pub struct Borrowed {
    pointer: *const u8,
    bytes: usize,
    /// Keeps the array alive, and unlocks it when it is dropped.
    _lease: Arc<Py<PyAny>>,
}

impl Borrowed {
    /// The first `length` elements of a contiguous, aligned array; `None` if it is shorter or has gaps. `lease` is the Python
    /// object that holds the array and has made it read-only.
    pub fn new<T: Element>(
        array: &Bound<'_, PyArray1<T>>,
        length: usize,
        lease: Arc<Py<PyAny>>,
    ) -> Option<Self> {
        let fits = array.is_c_contiguous() && array.is_aligned() && length <= array.len();
        fits.then(|| Self { pointer: array.data().cast(), bytes: length * size_of::<T>(), _lease: lease })
    }
}

impl SharedBytes for Borrowed {
    fn bytes(&self) -> &[u8] {
        if self.bytes == 0 {
            return &[];
        }
        // Safety: the lease keeps the array alive, and NumPy never resizes or frees the memory of an array that is referred to.
        unsafe { slice::from_raw_parts(self.pointer, self.bytes) }
    }
}

// Safety: the pointer stays the same. The lease has made the array and the arrays that it is a view of read-only, so NumPy and
// SciPy refuse to write. Only a writeable view that was made before could still write; `docs/python.md` forbids it, as SciPy does.
unsafe impl ConstantBytes for Borrowed {}

// Safety: the bytes are only read, and the lease is released with the interpreter's lock.
unsafe impl Send for Borrowed {}
unsafe impl Sync for Borrowed {}
