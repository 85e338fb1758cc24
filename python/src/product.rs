//! One product Y = alpha A X + beta Y with NumPy's arrays.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use numpy::{PyArrayDyn, PyArrayMethods, PyUntypedArrayMethods};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use rowloom::Result;
use rowloom::internal::matrix::MultiVector;
use rowloom::internal::runtime::{Input, PageLocked};

use crate::arrays::Dense;
use crate::cache::{Entry, Typed, Value, lock, try_lock};
use crate::error::detached;
use crate::interrupt::{self, interruptible};
use crate::results::{self, Lent, is_page_locked, lend, may_lend};

/// Computes `alpha A x + beta out` into `out`, or into a new array of the same order as X. `None` if X is no array of this type, or
/// not aligned: the Python layer then converts it.
pub fn multiply<'py, T: Value>(
    typed: &Arc<Typed<T>>,
    x: &Bound<'py, PyAny>,
    alpha: f64,
    beta: f64,
    out: Option<&Bound<'py, PyAny>>,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    let py = x.py();
    let Ok(x) = x.cast::<PyArrayDyn<T>>() else { return Ok(None) };
    let Some(from) = Dense::of(x)? else { return Ok(None) };
    let (rows, cols) = (typed.matrix.rows(), typed.matrix.cols());
    if from.rows() != cols {
        let given = from.rows();
        return Err(PyValueError::new_err(format!("X has {given} rows; A has {cols} columns")));
    }
    let columns = from.columns();
    let is_vector = x.ndim() == 1;
    let y = match out {
        Some(out) => writeable_output(out, rows, columns, is_vector)?,
        None => new_output(typed, x, rows, columns)?,
    };
    let to =
        Dense::of(&y)?.ok_or_else(|| PyValueError::new_err("out is not aligned; pass an aligned array"))?;
    if columns > 0 && rows > 0 {
        let beta = if out.is_some() { beta } else { 0.0 };
        let is_locked = (is_page_locked(x.as_untyped()), is_page_locked(y.as_untyped()));
        let operands = Operands { alpha, x: (from, is_locked.0), beta, y: (to, is_locked.1) };
        if !detached(py, || compute_short(typed, columns, &operands))? {
            let typed = typed.clone();
            let arrays = (x.clone().unbind(), y.clone().unbind());
            interruptible(py, arrays, move |cancel| {
                let cached = typed.product(columns)?;
                let entry = &mut *lock(&cached.entry);
                interrupt::check(cancel)?;
                typed.count_use();
                // Safety: `arrays` is kept, and with it X and Y, until the product has ended, and `y` may be written.
                let call = || unsafe { compute(entry, &operands, Some(cancel)) };
                cached.pace.measure(typed.product_bytes(columns), Some(cancel), call)
            })?;
        }
    }
    Ok(Some(y.into_any()))
}

/// The factors and arrays of a product. The flags say whether X and Y are in page-locked memory.
struct Operands<T> {
    alpha: f64,
    x: (Dense<T>, bool),
    beta: f64,
    y: (Dense<T>, bool),
}

/// Computes a product that is expected to be short; false if it may take long, or would wait for another one. X and Y are those of
/// the calling function, which holds them.
fn compute_short<T: Value>(typed: &Typed<T>, columns: usize, operands: &Operands<T>) -> Result<bool> {
    let Some(cached) = typed.made_product(columns) else { return Ok(false) };
    let bytes = typed.product_bytes(columns);
    if !cached.pace.is_short(bytes) {
        return Ok(false);
    }
    let Some(mut entry) = try_lock(&cached.entry) else { return Ok(false) };
    typed.count_use();
    // Safety: the caller holds X and Y, and Y may be written.
    cached.pace.measure(bytes, None, || unsafe { compute(&mut entry, operands, None) }).map(|()| true)
}

/// A new array of the same order as X: in page-locked memory where GPUs write it in place.
fn new_output<'py, T: Value>(
    typed: &Arc<Typed<T>>,
    x: &Bound<'py, PyArrayDyn<T>>,
    rows: usize,
    columns: usize,
) -> PyResult<Bound<'py, PyArrayDyn<T>>> {
    let py = x.py();
    let is_vector = x.ndim() == 1;
    let is_fortran = !is_vector && x.is_fortran_contiguous() && !x.is_c_contiguous();
    if !is_fortran
        && may_lend(typed, columns)
        && let Some(lent) = lent(py, typed, columns)?
        && let Some(array) = results::array(py, lent, is_vector)?
    {
        return Ok(array);
    }
    let shape = if is_vector { vec![rows] } else { vec![rows, columns] };
    // Safety: floating-point numbers have no invalid bits, and every element is written before it is read: beta is zero.
    Ok(unsafe { PyArrayDyn::<T>::new(py, &shape[..], is_fortran) })
}

/// A page-locked buffer for Y, if the product has one. The plan is made here if there is none, which may take long.
fn lent<T: Value>(py: Python<'_>, typed: &Arc<Typed<T>>, columns: usize) -> PyResult<Option<Lent<T>>> {
    let is_made = || typed.made_product(columns).is_some_and(|cached| try_lock(&cached.entry).is_some());
    if is_made() {
        return detached(py, || lend(typed, columns));
    }
    let typed = typed.clone();
    interruptible(py, (), move |_| lend(&typed, columns))
}

/// `out` as an array that can be Y.
fn writeable_output<'py, T: Value>(
    out: &Bound<'py, PyAny>,
    rows: usize,
    columns: usize,
    is_vector: bool,
) -> PyResult<Bound<'py, PyArrayDyn<T>>> {
    let name = T::DTYPE;
    let wrong_type =
        |_| PyTypeError::new_err(format!("out must be a NumPy array of {name}, as the result is"));
    let array = out.cast::<PyArrayDyn<T>>().map_err(wrong_type)?;
    let fits = match *array.shape() {
        [length] => is_vector && length == rows,
        [length, k] => !is_vector && (length, k) == (rows, columns),
        _ => false,
    };
    if !fits {
        let shape = if is_vector { format!("({rows},)") } else { format!("({rows}, {columns})") };
        let given = array.shape();
        return Err(PyValueError::new_err(format!("out has the shape {given:?}; the result has {shape}")));
    }
    if !Dense::is_writeable(array) {
        return Err(PyValueError::new_err("out is read-only"));
    }
    Ok(array.clone())
}

/// Computes the product, or a part of it if `cancel` is set meanwhile. Arrays whose rows are not contiguous, and a Y that overlaps X, go
/// through packed copies.
///
/// # Safety
///
/// Both arrays are alive, and `y` may be written.
unsafe fn compute<T: Value>(
    entry: &mut Entry<T>,
    operands: &Operands<T>,
    cancel: Option<&AtomicBool>,
) -> Result<()> {
    let Operands { alpha, x: (ref from, x_is_locked), beta, y: (ref to, y_is_locked) } = *operands;
    let Entry { product, packed_x, packed_y } = entry;
    let pool = product.runtime().pool().clone();
    let in_place = unsafe { from.view() };
    let x_is_locked = x_is_locked && in_place.is_some();
    let x = match in_place {
        Some(view) => view?,
        None => {
            let packed = packed(packed_x, from)?;
            unsafe { from.copy_to(packed, &pool) }?;
            packed.view()
        }
    };
    let x: &dyn Input<T> = if x_is_locked { &PageLocked(x) } else { &x };
    let in_place = if from.may_overlap(to) { None } else { unsafe { to.view_mut() } };
    match in_place {
        Some(y) if y_is_locked => product.apply_scaled_until(alpha, x, beta, &mut PageLocked(y?), cancel),
        Some(y) => product.apply_scaled_until(alpha, x, beta, &mut y?, cancel),
        None => {
            let packed = packed(packed_y, to)?;
            if beta != 0.0 {
                unsafe { to.copy_to(packed, &pool) }?;
            }
            product.apply_scaled_until(alpha, x, beta, packed, cancel)?;
            unsafe { to.copy_from(packed, &pool) }
        }
    }
}

/// The buffer for a packed copy of an array.
fn packed<'b, T: Value>(
    buffer: &'b mut Option<MultiVector<T>>,
    of: &Dense<T>,
) -> Result<&'b mut MultiVector<T>> {
    if buffer.is_none() {
        *buffer = Some(MultiVector::zeros(of.rows(), of.columns())?);
    }
    buffer.as_mut().ok_or_else(|| rowloom::Error::Internal("a buffer is missing".into()))
}
