//! Multivectors that stay on the devices of a product.

use std::mem::ManuallyDrop;
use std::process;
use std::sync::{Arc, Mutex};

use numpy::{PyArray1, PyArray2, PyArrayDyn, PyArrayMethods};
use pyo3::exceptions::{PyBufferError, PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use rowloom::device::Place;
use rowloom::matrix::{Csr, MultiVector};
use rowloom::{Error, Result, runtime};

use crate::arrays::Dense;
use crate::cache::{Cached, Typed, Value, lock};
use crate::dlpack::{self, Rows};
use crate::error::detached;
use crate::operator::Either;

/// Vectors of one value type, with the product that they belong to.
pub struct Held<T: Value> {
    /// Keeps the product alive.
    product: Arc<Cached<T>>,
    matrix: Arc<Csr<T>>,
    vectors: Mutex<runtime::Vectors<T>>,
    process: u32,
}

enum EitherHeld {
    F64(Held<f64>),
    F32(Held<f32>),
}

/// A multivector whose rows stay on the devices of a product.
#[pyclass(frozen, module = "rowloom._rowloom")]
pub struct Vectors {
    held: ManuallyDrop<EitherHeld>,
}

macro_rules! with_vectors {
    ($held:expr, $vectors:ident => $body:expr) => {
        match $held {
            EitherHeld::F64($vectors) => $body,
            EitherHeld::F32($vectors) => $body,
        }
    };
}

macro_rules! with_both {
    ($a:expr, $b:expr, ($x:ident, $y:ident) => $body:expr) => {
        match ($a, $b) {
            (EitherHeld::F64($x), EitherHeld::F64($y)) => $body,
            (EitherHeld::F32($x), EitherHeld::F32($y)) => $body,
            _ => Err(PyValueError::new_err("the vectors have different dtypes")),
        }
    };
}

/// New vectors of zeros.
pub fn make(py: Python<'_>, operator: &Either, columns: usize, of_x: bool) -> PyResult<Vectors> {
    fn of<T: Value>(py: Python<'_>, typed: &Typed<T>, columns: usize, of_x: bool) -> PyResult<Held<T>> {
        let (product, vectors) = detached(py, || {
            let cached = typed.product(columns)?;
            let product = &mut lock(&cached.entry).product;
            let vectors = if of_x { product.x_vectors()? } else { product.vectors()? };
            Ok((cached.clone(), vectors))
        })?;
        let (matrix, vectors) = (typed.matrix.clone(), Mutex::new(vectors));
        Ok(Held { product, matrix, vectors, process: process::id() })
    }
    let held = match operator {
        Either::F64(typed) => EitherHeld::F64(of(py, typed, columns, of_x)?),
        Either::F32(typed) => EitherHeld::F32(of(py, typed, columns, of_x)?),
    };
    Ok(Vectors { held: ManuallyDrop::new(held) })
}

/// `y = alpha A x + beta y`.
pub fn multiply(
    py: Python<'_>,
    operator: &Either,
    x: &Vectors,
    y: &Vectors,
    alpha: f64,
    beta: f64,
) -> PyResult<()> {
    fn of<T: Value>(
        py: Python<'_>,
        typed: &Typed<T>,
        x: &Held<T>,
        y: &Held<T>,
        alpha: f64,
        beta: f64,
    ) -> PyResult<()> {
        x.check_process()?;
        if !Arc::ptr_eq(&typed.matrix, &x.matrix) || !Arc::ptr_eq(&x.product, &y.product) {
            return Err(PyValueError::new_err("the vectors belong to another matrix or number of columns"));
        }
        typed.count_use();
        detached(py, || {
            // Every thread locks the product first, so two threads cannot wait for each other's vectors.
            let product = &mut lock(&x.product.entry).product;
            x.with_other(y, |x, y| product.apply_scaled(alpha, x, beta, y))
        })
    }
    match (operator, &*x.held, &*y.held) {
        (Either::F64(typed), EitherHeld::F64(x), EitherHeld::F64(y)) => of(py, typed, x, y, alpha, beta),
        (Either::F32(typed), EitherHeld::F32(x), EitherHeld::F32(y)) => of(py, typed, x, y, alpha, beta),
        _ => Err(PyTypeError::new_err("the vectors have another dtype than the matrix")),
    }
}

impl<T: Value> Held<T> {
    fn value_bytes(&self) -> usize {
        size_of::<T>()
    }

    /// A forked child has none of the threads and devices of its parent.
    fn check_process(&self) -> PyResult<()> {
        if self.process == process::id() {
            return Ok(());
        }
        Err(PyRuntimeError::new_err("the vectors belong to the parent process; make new ones after the fork"))
    }

    /// Calls `work` with the vectors of this object and those of `other`, to be changed. The one at the lower address is locked
    /// first, so that two threads cannot wait for each other.
    fn with_other<R>(
        &self,
        other: &Self,
        work: impl FnOnce(&runtime::Vectors<T>, &mut runtime::Vectors<T>) -> Result<R>,
    ) -> Result<R> {
        let (mine, others) = (&raw const self.vectors, &raw const other.vectors);
        if mine == others {
            return Err(Error::Usage(
                "both operands are the same vectors; make new ones for the result".into(),
            ));
        }
        if mine < others {
            let mine = lock(&self.vectors);
            return work(&mine, &mut lock(&other.vectors));
        }
        let mut others = lock(&other.vectors);
        work(&lock(&self.vectors), &mut others)
    }
}

/// A place as DLPack numbers it.
fn device_of(place: Place) -> (i32, i32) {
    match place {
        Place::Host => (dlpack::HOST, 0),
        Place::Card(card) => (dlpack::CUDA, card as i32),
    }
}

impl Vectors {
    fn exported(&self, py: Python<'_>) -> PyResult<Rows> {
        with_vectors!(&*self.held, held => {
            held.check_process()?;
            let (exported, shape, bytes_per_value) = detached(py, || {
                let mut vectors = lock(&held.vectors);
                let shape = (vectors.rows(), vectors.columns());
                match vectors.export() {
                    Err(Error::Usage(reason)) => Ok((Err(reason), shape, held.value_bytes())),
                    exported => Ok((Ok(exported?), shape, held.value_bytes())),
                }
            })?;
            let exported = exported.map_err(PyBufferError::new_err)?;
            let (address, leading_dimension) = (exported.address, exported.leading_dimension);
            Ok(Rows { address, device: device_of(exported.place), bytes_per_value, shape, leading_dimension })
        })
    }
}

impl Drop for Vectors {
    fn drop(&mut self) {
        // The threads and devices of a parent cannot be reached from its child, where its vectors stay as they are.
        if with_vectors!(&*self.held, held => held.process == process::id()) {
            // Safety: the value is not used again.
            unsafe { ManuallyDrop::drop(&mut self.held) }
        }
    }
}

#[pymethods]
impl Vectors {
    #[getter]
    fn shape(&self) -> (usize, usize) {
        with_vectors!(&*self.held, held => {
            let vectors = lock(&held.vectors);
            (vectors.rows(), vectors.columns())
        })
    }

    #[getter]
    fn is_single_precision(&self) -> bool {
        matches!(*self.held, EitherHeld::F32(_))
    }

    /// Copies all rows from an array of the same type and shape.
    fn copy_from(&self, py: Python<'_>, x: &Bound<'_, PyAny>) -> PyResult<()> {
        fn of<T: Value>(py: Python<'_>, held: &Held<T>, x: &Bound<'_, PyAny>) -> PyResult<()> {
            held.check_process()?;
            let array = x.cast::<PyArrayDyn<T>>()?;
            let from = Dense::of(array)?.ok_or_else(|| PyValueError::new_err("the array is not aligned"))?;
            // Safety: `x` is alive until this function returns.
            detached(py, || match unsafe { from.view() } {
                Some(view) => lock(&held.vectors).copy_from(&view?),
                None => {
                    let pool = lock(&held.product.entry).product.runtime().pool().clone();
                    let mut packed = MultiVector::zeros(from.rows(), from.columns())?;
                    unsafe { from.copy_to(&mut packed, &pool) }?;
                    lock(&held.vectors).copy_from(&packed)
                }
            })
        }
        with_vectors!(&*self.held, held => of(py, held, x))
    }

    /// All rows as a new array.
    fn to_numpy<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        fn of<'py, T: Value>(py: Python<'py>, held: &Held<T>) -> PyResult<Bound<'py, PyAny>> {
            held.check_process()?;
            let shape = {
                let vectors = lock(&held.vectors);
                [vectors.rows(), vectors.columns()]
            };
            let array = PyArray2::<T>::zeros(py, shape, false);
            let to = Dense::of(array.to_dyn())?.ok_or_else(|| PyRuntimeError::new_err("misaligned"))?;
            detached(py, || {
                let vectors = lock(&held.vectors);
                // Safety: the array is new and alive until this function returns.
                match unsafe { to.view_mut() } {
                    Some(view) => vectors.copy_to(&mut view?),
                    None => Ok(()),
                }
            })?;
            Ok(array.into_any())
        }
        with_vectors!(&*self.held, held => of(py, held))
    }

    /// The kind and number of the device that has all rows, as DLPack numbers them; `None` if several have them.
    fn place(&self) -> Option<(i32, i32)> {
        with_vectors!(&*self.held, held => lock(&held.vectors).memory_place().map(device_of))
    }

    /// The address of the first row, and the elements from one row to the next. Waits for the operations on the rows.
    fn export(&self, py: Python<'_>) -> PyResult<(u64, usize)> {
        self.exported(py).map(|rows| (rows.address, rows.leading_dimension))
    }

    /// All rows in place as a capsule of DLPack, which keeps this object. With `padded`, the padding of rows belongs to them.
    fn dlpack(slf: &Bound<'_, Self>, padded: bool) -> PyResult<Py<PyAny>> {
        let mut rows = slf.get().exported(slf.py())?;
        if padded {
            rows.shape.1 = rows.leading_dimension;
        }
        dlpack::capsule(slf.as_any(), &rows)
    }

    /// Sets all elements.
    fn fill(&self, py: Python<'_>, value: f64) -> PyResult<()> {
        with_vectors!(&*self.held, held => {
            held.check_process()?;
            detached(py, || lock(&held.vectors).fill(value))
        })
    }

    /// self = alpha x + beta self.
    fn axpby(&self, py: Python<'_>, alpha: f64, x: &Self, beta: f64) -> PyResult<()> {
        with_both!(&*x.held, &*self.held, (x, y) => {
            x.check_process()?;
            detached(py, || x.with_other(y, |x, y| y.axpby(alpha, x, beta)))
        })
    }

    /// Multiplies every column by its factor.
    fn scale_columns(&self, py: Python<'_>, factors: Vec<f64>) -> PyResult<()> {
        fn of<T: Value>(py: Python<'_>, held: &Held<T>, factors: &[f64]) -> PyResult<()> {
            held.check_process()?;
            let factors: Vec<T> = factors.iter().map(|&factor| T::from_f64(factor)).collect();
            detached(py, || lock(&held.vectors).scale_columns(&factors))
        }
        with_vectors!(&*self.held, held => of(py, held, &factors))
    }

    /// The inner products of the columns of both.
    fn dot<'py>(&self, py: Python<'py>, other: &Self) -> PyResult<Bound<'py, PyAny>> {
        with_both!(&*self.held, &*other.held, (x, y) => {
            x.check_process()?;
            let sums = detached(py, || match std::ptr::eq(x, y) {
                true => { let x = lock(&x.vectors); x.dot(&x) }
                false => x.with_other(y, |x, y| x.dot(y)),
            })?;
            Ok(PyArray1::from_vec(py, sums).into_any())
        })
    }

    /// The Euclidean norms of the columns.
    fn norm<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        with_vectors!(&*self.held, held => {
            held.check_process()?;
            let norms = detached(py, || lock(&held.vectors).norm())?;
            Ok(PyArray1::from_vec(py, norms).into_any())
        })
    }

    /// selfᵀ other.
    fn gram<'py>(&self, py: Python<'py>, other: &Self) -> PyResult<Bound<'py, PyAny>> {
        with_both!(&*self.held, &*other.held, (x, y) => {
            x.check_process()?;
            let gram = detached(py, || match std::ptr::eq(x, y) {
                true => { let x = lock(&x.vectors); x.gram(&x) }
                false => x.with_other(y, |x, y| x.gram(y)),
            })?;
            let flat = PyArray1::from_slice(py, gram.data());
            Ok(flat.reshape([gram.rows(), gram.k()])?.into_any())
        })
    }

    /// y = self s, with a square matrix of as many rows as self has columns.
    fn times(&self, py: Python<'_>, s: Vec<Vec<f64>>, y: &Self) -> PyResult<()> {
        fn of<T: Value>(py: Python<'_>, x: &Held<T>, s: &[Vec<f64>], y: &Held<T>) -> PyResult<()> {
            x.check_process()?;
            detached(py, || {
                let columns = s.first().map_or(0, Vec::len);
                if s.iter().any(|row| row.len() != columns) {
                    return Err(Error::Usage("the rows of S have different lengths".into()));
                }
                let s = MultiVector::from_fn(s.len(), columns, |row, column| T::from_f64(s[row][column]))?;
                x.with_other(y, |x, y| x.times(&s, y))
            })
        }
        with_both!(&*self.held, &*y.held, (x, y) => of(py, x, &s, y))
    }

    /// Waits for all operations on the devices.
    fn synchronize(&self, py: Python<'_>) -> PyResult<()> {
        with_vectors!(&*self.held, held => {
            held.check_process()?;
            detached(py, || lock(&held.vectors).synchronize())
        })
    }
}
