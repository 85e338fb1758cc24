//! Multivectors that stay on the devices of a product.

use std::mem::ManuallyDrop;
use std::process;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use numpy::{PyArray1, PyArray2, PyArrayDyn, PyArrayMethods};
use pyo3::exceptions::{PyBufferError, PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use rowloom::internal::device::MemoryPlace;
use rowloom::internal::matrix::{Csr, MultiVector};
use rowloom::internal::runtime;
use rowloom::{Error, Result};

use crate::abandoned::Ending;
use crate::arrays::Dense;
use crate::cache::{Cached, Typed, Value, lock, try_lock};
use crate::dlpack::{self, Rows};
use crate::error::detached;
use crate::interrupt::{self, interruptible};
use crate::operator::Either;
use crate::scalars::{Factor, HeldFactor, HeldScalars, HeldValue, Scalars};

/// Vectors of one value type, with the product that they belong to.
pub struct Held<T: Value> {
    /// Keeps the product alive.
    product: Arc<Cached<T>>,
    matrix: Arc<Csr<T>>,
    vectors: Mutex<runtime::Vectors<T>>,
    /// Rows and columns, for which no operation is waited for.
    shape: (usize, usize),
    process: u32,
}

enum EitherHeld {
    F64(Arc<Held<f64>>),
    F32(Arc<Held<f32>>),
}

/// Whether an operation waits for all operations before it, because the host needs its result.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Waits {
    Yes,
    No,
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
    fn of<T: Value>(
        py: Python<'_>,
        typed: &Arc<Typed<T>>,
        columns: usize,
        of_x: bool,
    ) -> PyResult<Arc<Held<T>>> {
        let (typed, matrix) = (typed.clone(), typed.matrix.clone());
        let make = move |_: &AtomicBool| {
            let cached = typed.product(columns)?;
            let product = &mut lock(&cached.entry).product;
            let vectors = if of_x { product.x_vectors()? } else { product.vectors()? };
            Ok((cached.clone(), vectors))
        };
        let (product, vectors) = interruptible(py, (), make)?;
        let shape = (vectors.rows(), vectors.columns());
        Ok(Arc::new(Held { product, matrix, vectors: Mutex::new(vectors), shape, process: process::id() }))
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
        x: &Arc<Held<T>>,
        y: &Arc<Held<T>>,
        alpha: f64,
        beta: f64,
    ) -> PyResult<()> {
        x.check_process()?;
        if !Arc::ptr_eq(&typed.matrix, &x.matrix) || !Arc::ptr_eq(&x.product, &y.product) {
            return Err(PyValueError::new_err("the vectors belong to another matrix or number of columns"));
        }
        typed.count_use();
        let bytes = typed.product_bytes(x.shape.1);
        let (held, y) = (x.clone(), y.clone());
        x.operate(py, Waits::No, bytes, move || {
            // Every thread locks the product first, so two threads cannot wait for each other's vectors.
            let product = &mut lock(&held.product.entry).product;
            held.with_other(&y, |x, y| product.apply_scaled(alpha, x, beta, y))
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

    /// Bytes of all elements.
    fn bytes(&self) -> u64 {
        (self.shape.0 * self.shape.1 * size_of::<T>()) as u64
    }

    /// Runs an operation on these vectors that reads and writes `bytes`. One that may take long, or would wait for another thread, can be
    /// interrupted.
    fn operate<R: Send + 'static>(
        &self,
        py: Python<'_>,
        waits: Waits,
        bytes: u64,
        work: impl FnOnce() -> Result<R> + Send + 'static,
    ) -> PyResult<R> {
        self.operate_with(py, (), waits, bytes, work)
    }

    /// The same, with the Python objects whose memory it uses.
    fn operate_with<K: Send + Sync + 'static, R: Send + 'static>(
        &self,
        py: Python<'_>,
        kept: K,
        waits: Waits,
        bytes: u64,
        work: impl FnOnce() -> Result<R> + Send + 'static,
    ) -> PyResult<R> {
        self.check_process()?;
        let paces = &self.product.vector_paces;
        let pending_bytes = paces.pending_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let (pace, bytes) = match waits {
            Waits::Yes => (&paces.waiting, pending_bytes),
            Waits::No => (&paces.queued, bytes),
        };
        let is_free = || {
            !self.product.abandoned.any()
                && try_lock(&self.vectors).is_some()
                && try_lock(&self.product.entry).is_some()
        };
        let result = if pace.is_short(bytes) && is_free() {
            detached(py, || pace.measure(bytes, None, work))
        } else {
            let product = self.product.clone();
            let ending = Arc::new(Ending::default());
            let guard = ending.guard();
            let done = interruptible(py, kept, move |cancel| {
                let _guard = guard;
                product.abandoned.wait();
                interrupt::check(cancel)?;
                let paces = &product.vector_paces;
                let pace = if waits == Waits::Yes { &paces.waiting } else { &paces.queued };
                pace.measure(bytes, Some(cancel), work)
            });
            if done.is_err() {
                self.product.abandoned.add(ending);
            }
            done
        };
        if waits == Waits::Yes {
            paces.pending_bytes.store(0, Ordering::Relaxed);
        }
        result
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
            return Err(Error::usage("both operands are the same vectors; make new ones for the result"));
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
fn device_of(place: MemoryPlace) -> (i32, i32) {
    match place {
        MemoryPlace::Host => (dlpack::HOST, 0),
        MemoryPlace::Card(card) => (dlpack::CUDA, card as i32),
    }
}

impl Vectors {
    fn exported(&self, py: Python<'_>) -> PyResult<Rows> {
        with_vectors!(&*self.held, held => {
            let (shape, bytes_per_value) = (held.shape, held.value_bytes());
            let exporting = held.clone();
            let exported = held.operate(py, Waits::Yes, 0, move || match lock(&exporting.vectors).export() {
                Err(Error::Usage(reason)) => Ok(Err(reason.words().to_owned())),
                exported => Ok(Ok(exported?)),
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
        with_vectors!(&*self.held, held => held.shape)
    }

    #[getter]
    fn is_single_precision(&self) -> bool {
        matches!(*self.held, EitherHeld::F32(_))
    }

    /// Copies all rows from an array of the same type and shape.
    fn copy_from(&self, py: Python<'_>, x: &Bound<'_, PyAny>) -> PyResult<()> {
        fn of<T: Value>(py: Python<'_>, held: &Arc<Held<T>>, x: &Bound<'_, PyAny>) -> PyResult<()> {
            held.check_process()?;
            let array = x.cast::<PyArrayDyn<T>>()?;
            let from = Dense::of(array)?.ok_or_else(|| PyValueError::new_err("the array is not aligned"))?;
            let (to, array) = (held.clone(), array.clone().unbind());
            // Safety: `array` is kept until the copy has ended.
            held.operate_with(py, array, Waits::Yes, held.bytes(), move || match unsafe { from.view() } {
                Some(view) => lock(&to.vectors).copy_from(&view?),
                None => {
                    let pool = lock(&to.product.entry).product.runtime().pool().clone();
                    let mut packed = MultiVector::zeros(from.rows(), from.columns())?;
                    unsafe { from.copy_to(&mut packed, &pool) }?;
                    lock(&to.vectors).copy_from(&packed)
                }
            })
        }
        with_vectors!(&*self.held, held => of(py, held, x))
    }

    /// All rows as a new array.
    fn to_numpy<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        fn of<'py, T: Value>(py: Python<'py>, held: &Arc<Held<T>>) -> PyResult<Bound<'py, PyAny>> {
            held.check_process()?;
            let array = PyArray2::<T>::zeros(py, [held.shape.0, held.shape.1], false);
            let to = Dense::of(array.to_dyn())?.ok_or_else(|| PyRuntimeError::new_err("misaligned"))?;
            let (from, kept) = (held.clone(), array.clone().unbind());
            held.operate_with(py, kept, Waits::Yes, held.bytes(), move || {
                let vectors = lock(&from.vectors);
                // Safety: the array is new, and kept until the copy has ended.
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
    fn place(&self, py: Python<'_>) -> Option<(i32, i32)> {
        py.detach(|| with_vectors!(&*self.held, held => lock(&held.vectors).memory_place().map(device_of)))
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
            let to = held.clone();
            held.operate(py, Waits::No, held.bytes(), move || lock(&to.vectors).fill(value))
        })
    }

    /// self = alpha x + beta self.
    fn axpby(&self, py: Python<'_>, alpha: Factor, x: &Self, beta: Factor) -> PyResult<()> {
        with_both!(&*x.held, &*self.held, (x, y) => {
            let (from, to) = (x.clone(), y.clone());
            let (alpha, beta) = (HeldFactor::new(&alpha)?, HeldFactor::new(&beta)?);
            let work = move || from.with_other(&to, |x, y| y.axpby(alpha.coefficient(), x, beta.coefficient()));
            x.operate(py, Waits::No, 3 * x.bytes(), work)
        })
    }

    /// Multiplies all elements by a number or by scalars.
    fn scale(&self, py: Python<'_>, alpha: Factor) -> PyResult<()> {
        with_vectors!(&*self.held, held => {
            let (to, alpha) = (held.clone(), HeldFactor::new(&alpha)?);
            let work = move || lock(&to.vectors).scale(alpha.coefficient());
            held.operate(py, Waits::No, 2 * held.bytes(), work)
        })
    }

    /// A zero for each column.
    fn scalars(&self, py: Python<'_>) -> PyResult<Scalars> {
        fn of<T: HeldValue>(py: Python<'_>, held: &Arc<Held<T>>) -> PyResult<Scalars> {
            let of = held.clone();
            let made = held.operate(py, Waits::Yes, 0, move || lock(&of.vectors).scalars())?;
            Ok(Scalars::new(HeldScalars::new(held.product.clone(), made)))
        }
        with_vectors!(&*self.held, held => of(py, held))
    }

    /// Writes the inner products of the columns of both, or the norms of the columns, to `sums`.
    fn sum_into(&self, py: Python<'_>, other: &Self, sums: &Scalars, roots: bool) -> PyResult<()> {
        with_both!(&*self.held, &*other.held, (x, y) => {
            let (a, b, to) = (x.clone(), y.clone(), sums.held()?);
            x.operate(py, Waits::No, 2 * x.bytes(), move || match Arc::ptr_eq(&a, &b) {
                true => { let a = lock(&a.vectors); a.sum_into(&a, &to.scalars, roots) }
                false => a.with_other(&b, |a, b| a.sum_into(b, &to.scalars, roots)),
            })
        })
    }

    /// Multiplies every column by its factor.
    fn scale_columns(&self, py: Python<'_>, factors: Vec<f64>) -> PyResult<()> {
        fn of<T: Value>(py: Python<'_>, held: &Arc<Held<T>>, factors: &[f64]) -> PyResult<()> {
            let factors: Vec<T> = factors.iter().map(|&factor| T::from_f64(factor)).collect();
            let to = held.clone();
            let work = move || lock(&to.vectors).scale_columns(&factors);
            held.operate(py, Waits::No, 2 * held.bytes(), work)
        }
        with_vectors!(&*self.held, held => of(py, held, &factors))
    }

    /// The inner products of the columns of both.
    fn dot<'py>(&self, py: Python<'py>, other: &Self) -> PyResult<Bound<'py, PyAny>> {
        with_both!(&*self.held, &*other.held, (x, y) => {
            let (a, b) = (x.clone(), y.clone());
            let sums = x.operate(py, Waits::Yes, 2 * x.bytes(), move || match Arc::ptr_eq(&a, &b) {
                true => { let a = lock(&a.vectors); a.dot(&a) }
                false => a.with_other(&b, |a, b| a.dot(b)),
            })?;
            Ok(PyArray1::from_vec(py, sums).into_any())
        })
    }

    /// The Euclidean norms of the columns.
    fn norm<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        with_vectors!(&*self.held, held => {
            let of = held.clone();
            let norms = held.operate(py, Waits::Yes, held.bytes(), move || lock(&of.vectors).norm())?;
            Ok(PyArray1::from_vec(py, norms).into_any())
        })
    }

    /// selfᵀ other.
    fn gram<'py>(&self, py: Python<'py>, other: &Self) -> PyResult<Bound<'py, PyAny>> {
        with_both!(&*self.held, &*other.held, (x, y) => {
            let (a, b) = (x.clone(), y.clone());
            // Every column is multiplied by every other one.
            let bytes = x.bytes() * x.shape.1 as u64;
            let gram = x.operate(py, Waits::Yes, bytes, move || match Arc::ptr_eq(&a, &b) {
                true => { let a = lock(&a.vectors); a.gram(&a) }
                false => a.with_other(&b, |a, b| a.gram(b)),
            })?;
            let flat = PyArray1::from_slice(py, gram.data());
            Ok(flat.reshape([gram.rows(), gram.k()])?.into_any())
        })
    }

    /// y = self s, with a square matrix of as many rows as self has columns.
    fn times(&self, py: Python<'_>, s: Vec<Vec<f64>>, y: &Self) -> PyResult<()> {
        fn of<T: Value>(
            py: Python<'_>,
            x: &Arc<Held<T>>,
            s: Vec<Vec<f64>>,
            y: &Arc<Held<T>>,
        ) -> PyResult<()> {
            let (from, to) = (x.clone(), y.clone());
            let bytes = x.bytes() * x.shape.1 as u64;
            x.operate(py, Waits::No, bytes, move || {
                let columns = s.first().map_or(0, Vec::len);
                if s.iter().any(|row| row.len() != columns) {
                    return Err(Error::usage("the rows of S have different lengths"));
                }
                let s = MultiVector::from_fn(s.len(), columns, |row, column| T::from_f64(s[row][column]))?;
                from.with_other(&to, |x, y| x.times(&s, y))
            })
        }
        with_both!(&*self.held, &*y.held, (x, y) => of(py, x, s, y))
    }

    /// Waits for all operations on the devices.
    fn synchronize(&self, py: Python<'_>) -> PyResult<()> {
        with_vectors!(&*self.held, held => {
            let of = held.clone();
            held.operate(py, Waits::Yes, 0, move || lock(&of.vectors).synchronize())
        })
    }
}
