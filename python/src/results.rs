//! Large results of products on GPUs: page-locked memory, which GPUs write without a copy by the host. The memory of a result that is
//! gone is used for the next one.

use std::any::Any;
use std::process;
use std::sync::{Arc, Mutex, OnceLock};

use numpy::ndarray::ArrayView;
use numpy::{PyArrayDyn, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::prelude::*;
use rowloom::Result;
use rowloom::internal::machine::memory_limit_bytes;
use rowloom::internal::runtime::PageLockedMultiVector;

use crate::cache::{Typed, Value, lock};

/// Results below this size are copied by the host: page-locking takes longer.
const MIN_BYTES: usize = 1 << 20;
/// Buffers of a product: for the new result, for the result before it, which a loop still holds then, and one more.
const MAX_BUFFERS: usize = 3;
/// Largest share of the machine's memory that one buffer may take.
const MAX_MEMORY_SHARE: u64 = 16;

/// The page-locked buffers of a product.
pub struct Buffers<T: Value> {
    free: Mutex<Vec<PageLockedMultiVector<T>>>,
    /// Number of buffers in use or free.
    made: Mutex<usize>,
}

impl<T: Value> Default for Buffers<T> {
    fn default() -> Self {
        Self { free: Mutex::default(), made: Mutex::default() }
    }
}

/// A buffer that is the memory of a result.
pub struct Lent<T: Value> {
    /// `None` only while it is dropped.
    memory: Option<PageLockedMultiVector<T>>,
    buffers: Arc<Buffers<T>>,
    process: u32,
}

impl<T: Value> Drop for Lent<T> {
    fn drop(&mut self) {
        match self.memory.take() {
            Some(memory) if self.process == process::id() => lock(&self.buffers.free).push(memory),
            // A forked child cannot reach the devices of its parent.
            memory => std::mem::forget(memory),
        }
    }
}

/// Whether results with this many columns are of a size that is page-locked, and some device may be a GPU.
pub fn may_lend<T: Value>(typed: &Typed<T>, columns: usize) -> bool {
    static MAX_BYTES: OnceLock<u64> = OnceLock::new();
    let bytes = typed.matrix.rows().saturating_mul(columns).saturating_mul(size_of::<T>());
    bytes >= MIN_BYTES
        && typed.options.devices != "cpu"
        && bytes as u64 <= *MAX_BYTES.get_or_init(|| memory_limit_bytes() / MAX_MEMORY_SHARE)
}

/// A buffer for the next result of a product on GPUs; `None` if it would not be copied in place, or all buffers are in use.
pub fn lend<T: Value>(typed: &Typed<T>, columns: usize) -> Result<Option<Lent<T>>> {
    let cached = typed.product(columns)?;
    let lent = |memory| {
        let (memory, buffers) = (Some(memory), cached.buffers.clone());
        Some(Lent { memory, buffers, process: process::id() })
    };
    if let Some(memory) = lock(&cached.buffers.free).pop() {
        return Ok(lent(memory));
    }
    let mut made = lock(&cached.buffers.made);
    if *made >= MAX_BUFFERS {
        return Ok(None);
    }
    let product = &mut lock(&cached.entry).product;
    // The plan of the CPU needs no further look.
    if product.plan().devices.len() < 2 {
        return Ok(None);
    }
    let memory = product.page_locked_y()?;
    *made += usize::from(memory.is_some());
    Ok(memory.and_then(lent))
}

/// The owner of the memory of a result.
#[pyclass(frozen, module = "rowloom._rowloom")]
pub struct PageLockedMemory {
    _lent: Box<dyn Any + Send + Sync>,
}

/// The array of a result in the memory of a buffer. A vector has one dimension.
pub fn array<'py, T: Value>(
    py: Python<'py>,
    mut lent: Lent<T>,
    is_vector: bool,
) -> PyResult<Option<Bound<'py, PyArrayDyn<T>>>> {
    let Some(memory) = &mut lent.memory else { return Ok(None) };
    let (rows, columns) = (memory.view().rows(), memory.view().k());
    let pointer = memory.view_mut().into_data().as_mut_ptr();
    let shape = if is_vector { vec![rows] } else { vec![rows, columns] };
    let owner = Bound::new(py, PageLockedMemory { _lent: Box::new(lent) })?;
    // Safety: the owner keeps the memory, which has this many elements in C order, in place, and nothing else uses it.
    let array = unsafe {
        let view = ArrayView::from_shape_ptr(shape, pointer.cast_const());
        PyArrayDyn::borrow_from_array(&view, owner.into_any())
    };
    Ok(Some(array))
}

/// Whether the memory of an array is that of a result in page-locked memory.
pub fn is_page_locked(array: &Bound<'_, PyUntypedArray>) -> bool {
    let mut owner = base(array);
    while let Some(one) = owner {
        match one.cast::<PyUntypedArray>() {
            Ok(array) => owner = base(array),
            Err(_) => return one.cast::<PageLockedMemory>().is_ok(),
        }
    }
    false
}

/// The object that owns the memory of an array, or the array that it is a view of.
pub fn base<'py>(array: &Bound<'py, PyUntypedArray>) -> Option<Bound<'py, PyAny>> {
    // Safety: the pointer is that of a living array object, whose base is null or a living object.
    unsafe { Bound::from_borrowed_ptr_or_opt(array.py(), (*array.as_array_ptr()).fields.base) }
}
