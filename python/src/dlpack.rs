//! Memory of this package as a capsule of DLPack, <https://dmlc.github.io/dlpack/latest/c_api.html>.

use std::ffi::{CStr, c_void};
use std::ptr;

use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;

/// The kinds of memory: of the host, and of a CUDA card.
pub const HOST: i32 = 1;
pub const CUDA: i32 = 2;
/// Floating-point numbers.
const FLOAT: u8 = 2;
/// The name of a capsule that no library has taken the tensor from.
const UNUSED: &CStr = c"dltensor";

#[repr(C)]
struct Device {
    kind: i32,
    number: i32,
}

#[repr(C)]
struct DataType {
    code: u8,
    bits: u8,
    lanes: u16,
}

/// `DLTensor`.
#[repr(C)]
struct Tensor {
    data: *mut c_void,
    device: Device,
    dimensions: i32,
    data_type: DataType,
    shape: *mut i64,
    strides: *mut i64,
    byte_offset: u64,
}

/// `DLManagedTensor`, at the address of the [`Owner`] that it is the first field of.
#[repr(C)]
struct ManagedTensor {
    tensor: Tensor,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut ManagedTensor)>,
}

/// What the consumer of a capsule keeps alive.
#[repr(C)]
struct Owner {
    managed: ManagedTensor,
    shape: [i64; 2],
    strides: [i64; 2],
    /// The object that has the memory.
    kept: Option<Py<PyAny>>,
}

/// Rows in memory of the host or of a card.
pub struct Rows {
    pub address: u64,
    /// [`HOST`] or [`CUDA`], and the number of the card.
    pub device: (i32, i32),
    pub bytes_per_value: usize,
    pub shape: (usize, usize),
    /// Elements from one row to the next.
    pub leading_dimension: usize,
}

/// A capsule of `rows`, which are in memory that `owner` keeps. `owner` lives until the consumer deletes the tensor.
pub fn capsule(owner: &Bound<'_, PyAny>, rows: &Rows) -> PyResult<Py<PyAny>> {
    let py = owner.py();
    let too_large = |_| PyBufferError::new_err("the shape has no place in DLPack");
    let number = |count: usize| i64::try_from(count).map_err(too_large);
    let Rows { address, device, bytes_per_value, shape, leading_dimension } = *rows;
    let tensor = Tensor {
        data: ptr::with_exposed_provenance_mut(address as usize),
        device: Device { kind: device.0, number: device.1 },
        dimensions: 2,
        data_type: DataType { code: FLOAT, bits: 8 * bytes_per_value as u8, lanes: 1 },
        shape: ptr::null_mut(),
        strides: ptr::null_mut(),
        byte_offset: 0,
    };
    let owner = Box::into_raw(Box::new(Owner {
        managed: ManagedTensor { tensor, context: ptr::null_mut(), deleter: Some(delete) },
        shape: [number(shape.0)?, number(shape.1)?],
        strides: [number(leading_dimension)?, 1],
        kept: Some(owner.clone().unbind()),
    }));
    // Safety: the owner was just allocated and is freed by `delete` only. Its fields stay where they are.
    unsafe {
        (*owner).managed.tensor.shape = (&raw mut (*owner).shape).cast();
        (*owner).managed.tensor.strides = (&raw mut (*owner).strides).cast();
        let capsule = ffi::PyCapsule_New(owner.cast(), UNUSED.as_ptr(), Some(delete_unused));
        if capsule.is_null() {
            delete(owner.cast());
        }
        Bound::from_owned_ptr_or_err(py, capsule).map(Bound::unbind)
    }
}

/// The tensor's deleter, which its consumer calls once, on any thread.
///
/// # Safety
///
/// `managed` is that of an [`Owner`] which was not deleted before.
unsafe extern "C" fn delete(managed: *mut ManagedTensor) {
    // Safety: as promised.
    let mut owner = unsafe { Box::from_raw(managed.cast::<Owner>()) };
    let mut kept = owner.kept.take();
    // After the interpreter has ended nothing is freed.
    if Python::try_attach(|_| drop(kept.take())).is_none() {
        std::mem::forget(kept);
    }
}

/// The destructor of a capsule: deletes the tensor if no library has taken it.
///
/// # Safety
///
/// `capsule` was made by [`capsule`].
unsafe extern "C" fn delete_unused(capsule: *mut ffi::PyObject) {
    // Safety: as promised; the name is changed by the library that takes the tensor.
    unsafe {
        if ffi::PyCapsule_IsValid(capsule, UNUSED.as_ptr()) == 1 {
            delete(ffi::PyCapsule_GetPointer(capsule, UNUSED.as_ptr()).cast());
        }
    }
}
