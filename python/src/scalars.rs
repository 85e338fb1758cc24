//! Numbers, one for each column, that stay where a product is computed.

use std::mem::ManuallyDrop;
use std::process;
use std::sync::Arc;

use numpy::PyArray1;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use rowloom::internal::runtime::{self, Coefficient};

use crate::cache::{Cached, Value};
use crate::interrupt::interruptible;

/// Scalars of one value type, with the product that they belong to.
pub struct HeldScalars<T: Value> {
    /// Keeps the product alive.
    _product: Arc<Cached<T>>,
    pub scalars: runtime::Scalars<T>,
}

impl<T: Value> HeldScalars<T> {
    pub fn new(product: Arc<Cached<T>>, scalars: runtime::Scalars<T>) -> Arc<Self> {
        Arc::new(Self { _product: product, scalars })
    }
}

pub enum EitherScalars {
    F64(Arc<HeldScalars<f64>>),
    F32(Arc<HeldScalars<f32>>),
}

/// A value type of scalars.
pub trait HeldValue: Value {
    fn wrap(scalars: Arc<HeldScalars<Self>>) -> EitherScalars;
    /// The scalars, if they have this type.
    fn find(scalars: &EitherScalars) -> Option<&Arc<HeldScalars<Self>>>;
}

impl HeldValue for f64 {
    fn wrap(scalars: Arc<HeldScalars<Self>>) -> EitherScalars {
        EitherScalars::F64(scalars)
    }

    fn find(scalars: &EitherScalars) -> Option<&Arc<HeldScalars<Self>>> {
        match scalars {
            EitherScalars::F64(scalars) => Some(scalars),
            EitherScalars::F32(_) => None,
        }
    }
}

impl HeldValue for f32 {
    fn wrap(scalars: Arc<HeldScalars<Self>>) -> EitherScalars {
        EitherScalars::F32(scalars)
    }

    fn find(scalars: &EitherScalars) -> Option<&Arc<HeldScalars<Self>>> {
        match scalars {
            EitherScalars::F32(scalars) => Some(scalars),
            EitherScalars::F64(_) => None,
        }
    }
}

/// One number for each column, where the rows are.
#[pyclass(frozen, module = "rowloom._rowloom")]
pub struct Scalars {
    held: ManuallyDrop<EitherScalars>,
    process: u32,
}

/// A number, the scalars that it is multiplied by, and those that it is divided by.
pub type Factor = (f64, Option<Py<Scalars>>, Option<Py<Scalars>>);

/// The same, of one value type.
pub struct HeldFactor<T: Value> {
    number: f64,
    multiplied: Option<Arc<HeldScalars<T>>>,
    divisors: Option<Arc<HeldScalars<T>>>,
}

impl<T: HeldValue> HeldFactor<T> {
    pub fn new((number, multiplied, divisors): &Factor) -> PyResult<Self> {
        let held = |scalars: &Option<Py<Scalars>>| scalars.as_ref().map(|scalars| scalars.get().held());
        let (multiplied, divisors) = (held(multiplied).transpose()?, held(divisors).transpose()?);
        Ok(Self { number: *number, multiplied, divisors })
    }

    pub fn coefficient(&self) -> Coefficient<'_, T> {
        let Self { number, multiplied, divisors } = self;
        match (multiplied, divisors) {
            (None, None) => (*number).into(),
            (Some(by), None) => *number * &by.scalars,
            (None, Some(over)) => *number / &over.scalars,
            (Some(by), Some(over)) => *number * (&by.scalars / &over.scalars),
        }
    }
}

impl Scalars {
    pub fn new<T: HeldValue>(scalars: Arc<HeldScalars<T>>) -> Self {
        Self { held: ManuallyDrop::new(T::wrap(scalars)), process: process::id() }
    }

    /// The scalars of one type; an error in a forked child, which has none of the devices of its parent.
    pub fn held<T: HeldValue>(&self) -> PyResult<Arc<HeldScalars<T>>> {
        self.check_process()?;
        let other = || PyValueError::new_err("the vectors and the scalars have different dtypes");
        T::find(&self.held).cloned().ok_or_else(other)
    }

    fn check_process(&self) -> PyResult<()> {
        if self.process == process::id() {
            return Ok(());
        }
        Err(PyRuntimeError::new_err("the scalars belong to the parent process; make new ones after the fork"))
    }
}

impl Drop for Scalars {
    fn drop(&mut self) {
        // The threads and devices of a parent cannot be reached from its child, where its scalars stay as they are.
        if self.process == process::id() {
            // Safety: the value is not used again.
            unsafe { ManuallyDrop::drop(&mut self.held) }
        }
    }
}

#[pymethods]
impl Scalars {
    /// The numbers as a new array.
    fn to_numpy<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        fn of<'py, T: Value>(py: Python<'py>, held: &Arc<HeldScalars<T>>) -> PyResult<Bound<'py, PyAny>> {
            let held = held.clone();
            let values = interruptible(py, (), move |_| held.scalars.values())?;
            Ok(PyArray1::from_vec(py, values).into_any())
        }
        self.check_process()?;
        match &*self.held {
            EitherScalars::F64(held) => of(py, held),
            EitherScalars::F32(held) => of(py, held),
        }
    }
}
