//! One product Y = alpha A X + beta Y with NumPy's arrays.

use numpy::{PyArrayDyn, PyArrayMethods, PyUntypedArrayMethods};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use rowloom::Result;
use rowloom::matrix::MultiVector;
use rowloom::runtime::{Input, PageLocked};

use crate::arrays::Dense;
use crate::cache::{Entry, Typed, Value, lock};
use crate::error::detached;
use crate::results::{self, is_page_locked, lend, may_lend};

/// Computes `alpha A x + beta out` into `out`, or into a new array of the same order as X. `None` if X is no array of this type, or
/// not aligned: the Python layer then converts it.
pub fn multiply<'py, T: Value>(
    typed: &Typed<T>,
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
        detached(py, || {
            let cached = typed.product(columns)?;
            typed.count_use();
            let entry = &mut *lock(&cached.entry);
            // Safety: `x` and `y` are alive until this function returns, and `y` may be written.
            unsafe { compute(entry, alpha, (&from, is_locked.0), beta, (&to, is_locked.1)) }
        })?;
    }
    Ok(Some(y.into_any()))
}

/// A new array of the same order as X: in page-locked memory where GPUs write it in place.
fn new_output<'py, T: Value>(
    typed: &Typed<T>,
    x: &Bound<'py, PyArrayDyn<T>>,
    rows: usize,
    columns: usize,
) -> PyResult<Bound<'py, PyArrayDyn<T>>> {
    let py = x.py();
    let is_vector = x.ndim() == 1;
    let is_fortran = !is_vector && x.is_fortran_contiguous() && !x.is_c_contiguous();
    if !is_fortran
        && may_lend(typed, columns)
        && let Some(lent) = detached(py, || lend(typed, columns))?
        && let Some(array) = results::array(py, lent, is_vector)?
    {
        return Ok(array);
    }
    let shape = if is_vector { vec![rows] } else { vec![rows, columns] };
    // Safety: floating-point numbers have no invalid bits, and every element is written before it is read: beta is zero.
    Ok(unsafe { PyArrayDyn::<T>::new(py, &shape[..], is_fortran) })
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

/// Computes the product. The flags say whether X and Y are in page-locked memory. Arrays whose rows are not contiguous, and a Y that overlaps X, go through packed copies.
///
/// # Safety
///
/// Both arrays are alive, and `to` may be written.
unsafe fn compute<T: Value>(
    entry: &mut Entry<T>,
    alpha: f64,
    (from, x_is_locked): (&Dense<T>, bool),
    beta: f64,
    (to, y_is_locked): (&Dense<T>, bool),
) -> Result<()> {
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
        Some(y) if y_is_locked => product.apply_scaled(alpha, x, beta, &mut PageLocked(y?)),
        Some(y) => product.apply_scaled(alpha, x, beta, &mut y?),
        None => {
            let packed = packed(packed_y, to)?;
            if beta != 0.0 {
                unsafe { to.copy_to(packed, &pool) }?;
            }
            product.apply_scaled(alpha, x, beta, packed)?;
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
