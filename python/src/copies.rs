//! Copies of arrays: from NumPy in parallel, with one pass over memory, and to new arrays of NumPy.

use bytemuck::Pod;
use numpy::{Element, PyArray1, PyArrayMethods};
use pyo3::prelude::*;
use rayon::prelude::*;
use rowloom::Result;
use rowloom::internal::matrix::array::AlignedBuffer;

/// Elements of a parallel task; their copy stays in the cache of a core.
const STEP: usize = 1 << 15;

/// A converted copy.
pub fn copied<F: Copy + Sync, T: Pod + Send + Sync>(
    from: &[F],
    convert: impl Fn(F) -> T + Sync,
) -> Result<AlignedBuffer<T>> {
    let mut to = AlignedBuffer::<T>::zeroed(from.len())?;
    to.par_chunks_mut(STEP).zip(from.par_chunks(STEP)).for_each(|(to, from)| {
        to.iter_mut().zip(from).for_each(|(to, &from)| *to = convert(from));
    });
    Ok(to)
}

/// A new array of NumPy that no other code refers to yet, so that any thread may write to it.
pub struct NewArray<T> {
    array: Py<PyArray1<T>>,
    pointer: *mut T,
    length: usize,
}

// Safety: the memory belongs to the array, which only this object refers to.
unsafe impl<T: Send> Send for NewArray<T> {}

impl<T: Element + Copy> NewArray<T> {
    /// An array of zeros.
    pub fn new(py: Python<'_>, length: usize) -> Self {
        let array = PyArray1::<T>::zeros(py, [length], false);
        Self { pointer: array.data(), array: array.unbind(), length }
    }

    /// The array with converted elements. The interpreter's lock is not needed.
    pub fn filled<F>(self, from: &[F], convert: impl Fn(&F) -> T) -> Py<PyArray1<T>> {
        for (position, from) in from.iter().enumerate().take(self.length) {
            // Safety: the position is inside the array, which this object keeps and nothing else uses.
            unsafe { self.pointer.add(position).write(convert(from)) };
        }
        self.array
    }
}
