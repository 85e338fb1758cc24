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

/// A converted copy of columns, and whether they increase in every row. The row pointers need not be valid: the answer for those that
/// decrease or are outside has no meaning.
pub fn copied_columns<F: Copy + Sync>(
    from: &[F],
    row_pointers: &[u64],
    convert: impl Fn(F) -> u32 + Sync,
) -> Result<(AlignedBuffer<u32>, bool)> {
    let mut to = AlignedBuffer::<u32>::zeroed(from.len())?;
    let steps = to.par_chunks_mut(STEP).zip(from.par_chunks(STEP)).enumerate();
    let inside_steps = steps.map(|(step, (to, from))| {
        to.iter_mut().zip(from).for_each(|(to, &from)| *to = convert(from));
        are_increasing(to, step * STEP, row_pointers)
    });
    let inside_steps = inside_steps.reduce(|| true, |one, other| one & other);
    let between_steps = (STEP..to.len())
        .step_by(STEP)
        .all(|start| to[start - 1] < to[start] || row_pointers.binary_search(&(start as u64)).is_ok());
    Ok((to, inside_steps && between_steps))
}

/// Whether the columns from position `start` on increase, other than from one row to the next.
fn are_increasing(columns: &[u32], start: usize, row_pointers: &[u64]) -> bool {
    // Counted without a branch, for vector instructions.
    let decreases = |pair: (&u32, &u32)| u32::from(pair.0 >= pair.1);
    let all = columns.iter().zip(columns.iter().skip(1)).map(decreases).sum::<u32>();
    let (start, end) = (start as u64, (start + columns.len()) as u64);
    let first_row = row_pointers.partition_point(|&pointer| pointer <= start);
    let starts = row_pointers[first_row..].iter().take_while(|&&pointer| pointer < end);
    let mut last = start;
    let mut between_rows = 0;
    for &pointer in starts {
        // Empty rows start where the next row does.
        if pointer > last {
            let position = (pointer - start) as usize;
            between_rows += decreases((&columns[position - 1], &columns[position]));
            last = pointer;
        }
    }
    all == between_rows
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
