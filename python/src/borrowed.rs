//! Arrays of NumPy whose memory stays in place while a matrix reads it.
//!
//! A pinned array is alive, whatever its flags, and its memory is neither freed nor moved: `resize` fails, also with
//! `refcheck=False`, and so does closing or enlarging an object of another library that has the memory. The array stays as
//! writeable as it was, so its elements may change.

use std::slice;
use std::sync::Arc;

use bytemuck::Pod;
use numpy::npyffi::NPY_ARRAY_OWNDATA;
use numpy::{Element, PyArray1, PyArrayMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::prelude::*;
use pyo3::types::{PyMemoryView, PyWeakrefReference};
use rowloom::internal::matrix::array::{ConstantBytes, SharedBytes};
use rowloom::{Error, Result};

use crate::results::base;

/// The bytes of a NumPy array that is kept alive and in place.
pub struct Pinned {
    pointer: *const u8,
    bytes: usize,
    is_numpy_memory: bool,
    /// Keeps the array, and by it every object below it, alive.
    _array: Py<PyAny>,
    /// Keeps the memory in place.
    _pin: Option<Py<PyAny>>,
}

impl Pinned {
    /// The first `length` elements of a contiguous, aligned array; `None` if it is shorter or has gaps.
    pub fn new<T: Element>(array: &Bound<'_, PyArray1<T>>, length: usize) -> PyResult<Option<Arc<Self>>> {
        if !array.is_c_contiguous() || !array.is_aligned() || length > array.len() {
            return Ok(None);
        }
        let (pin, is_numpy_memory) = pin(array.as_untyped())?;
        Ok(Some(Arc::new(Self {
            pointer: array.data().cast(),
            bytes: length * size_of::<T>(),
            is_numpy_memory,
            _array: array.clone().into_any().unbind(),
            _pin: pin,
        })))
    }

    /// The elements of the array, whose type the caller knows.
    pub fn elements<T: Pod>(&self) -> Result<&[T]> {
        if self.bytes == 0 {
            return Ok(&[]); // Of any alignment.
        }
        bytemuck::try_cast_slice(self.bytes())
            .map_err(|error| Error::Internal(format!("an array of NumPy: {error}")))
    }

    /// Whether NumPy has allocated the memory. Other memory may be a file that another process cuts, or may be freed by the
    /// library that has it.
    pub fn is_numpy_memory(&self) -> bool {
        self.is_numpy_memory
    }
}

/// The object that keeps the memory of an array in place, and whether NumPy has allocated this memory.
fn pin(array: &Bound<'_, PyUntypedArray>) -> PyResult<(Option<Py<PyAny>>, bool)> {
    let mut owner = array.clone();
    let foreign = loop {
        let Some(below) = base(&owner) else { break None };
        match below.cast_into::<PyUntypedArray>() {
            Ok(array) => owner = array,
            Err(error) => break Some(error.into_inner()),
        }
    };
    match foreign {
        // NumPy refuses to resize an array that has a weak reference, also with `refcheck=False`. References and exported buffers
        // do not stop it.
        None => {
            // Safety: the pointer is that of a living array object.
            let owns = unsafe { (*owner.as_array_ptr()).fields.flags & NPY_ARRAY_OWNDATA != 0 };
            Ok((Some(PyWeakrefReference::new(owner.as_any())?.into_any().unbind()), owns))
        }
        // An exported buffer: `mmap` is not closed and a `bytearray` not resized while there is one. Objects without buffers have
        // rules of their own.
        Some(object) => Ok((PyMemoryView::from(&object).ok().map(|view| view.into_any().unbind()), false)),
    }
}

impl SharedBytes for Pinned {
    fn bytes(&self) -> &[u8] {
        if self.bytes == 0 {
            return &[];
        }
        // Safety: the array is alive, and the pin keeps its memory in place. Threads of the interpreter that write to it change
        // numbers, as they may during any function of NumPy.
        unsafe { slice::from_raw_parts(self.pointer, self.bytes) }
    }
}

/// Pinned indices of which the caller has promised, by `copy=False`, that they do not change.
pub struct Promised(pub Arc<Pinned>);

impl SharedBytes for Promised {
    fn bytes(&self) -> &[u8] {
        self.0.bytes()
    }
}

// Safety: the pointer stays the same. That nothing writes is the promise of `copy=False`, which `docs/python.md` explains.
unsafe impl ConstantBytes for Promised {}

// Safety: the bytes are only read, and references are released with the interpreter's lock.
unsafe impl Send for Pinned {}
unsafe impl Sync for Pinned {}
