//! The native operator: a matrix of either value type, and its products.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use numpy::{PyArray1, PyArrayDescr};
use pyo3::exceptions::{PyFileExistsError, PyValueError};
use pyo3::prelude::*;
use rowloom::internal::device::{ForeignMemory, StreamHandle};
use rowloom::internal::matrix::spy::spy_svg;
use rowloom::internal::matrix::transpose;
use rowloom::internal::runtime::{Check, RunReport, Timeline};
use rowloom::internal::trace::Trace;
use rowloom::internal::work::pitch_bytes;
use rowloom::{Csr, Error, Runtime};

use crate::cache::{Options, Typed, Value, lock};
use crate::copies::NewArray;
use crate::error::detached;
use crate::explain::{kernel_names, plan_lines, product_lines};
use crate::interrupt::interruptible;
use crate::matrix::{Copies, Indices, Parts, load};
use crate::product::multiply;
use crate::ranks::{Distribution, Ranks, with_distribution};
use crate::vectors::{self, Vectors};

/// The operator of one value type.
#[derive(Clone)]
pub enum Either {
    F64(Arc<Typed<f64>>),
    F32(Arc<Typed<f32>>),
}

/// Runs an expression with the operator of either type.
macro_rules! with_type {
    ($either:expr, $typed:ident => $body:expr) => {
        match $either {
            Either::F64($typed) => $body,
            Either::F32($typed) => $body,
        }
    };
}

/// Values, columns and row pointers.
type Arrays<'py> = (Bound<'py, PyAny>, Bound<'py, PyArray1<i64>>, Bound<'py, PyArray1<i64>>);

/// A sparse matrix and its products.
#[pyclass(frozen, module = "rowloom._rowloom")]
pub struct Operator {
    either: Either,
}

/// An operator from the arrays of CSR, which are contiguous. `copy` is true for copies of all, false for none, and `None` for
/// copies of those that could change what the operator reads. With `ranks`, the arrays have the rows of this rank.
#[pyfunction]
#[pyo3(signature = (values, columns, row_pointers, shape, copy, devices, threads, uses, reproducible, check, ranks = None))]
#[allow(clippy::too_many_arguments)] // The options of one call.
pub fn from_arrays(
    py: Python<'_>,
    values: &Bound<'_, PyAny>,
    columns: &Bound<'_, PyAny>,
    row_pointers: &Bound<'_, PyAny>,
    shape: (usize, usize),
    copy: Option<bool>,
    devices: String,
    threads: Option<usize>,
    uses: Option<u64>,
    reproducible: bool,
    check: &str,
    ranks: Option<&Ranks>,
) -> PyResult<Operator> {
    let options = Options { devices, threads, uses, reproducible, check: checks(py, check, ranks)? };
    let (columns, row_pointers) = (Indices::new(columns)?, Indices::new(row_pointers)?);
    let parts = Parts { shape, values, columns, row_pointers, copies: Copies::named(copy) };
    let either = if values.cast::<PyArray1<f32>>().is_ok() {
        Either::F32(Arc::new(made(py, options, ranks, |runtime| parts.matrix(py, runtime))?))
    } else {
        Either::F64(Arc::new(made(py, options, ranks, |runtime| parts.matrix(py, runtime))?))
    };
    Ok(Operator { either })
}

/// The operator of the matrix that `matrix` makes; with `ranks` these are the rows of this rank.
fn made<T: Value>(
    py: Python<'_>,
    options: Options,
    ranks: Option<&Ranks>,
    matrix: impl FnOnce(&Runtime) -> PyResult<Csr<T>>,
) -> PyResult<Typed<T>> {
    match ranks {
        Some(ranks) => ranks.operator(py, options, matrix),
        None => {
            let runtime = detached(py, || options.runtime())?;
            Ok(Typed::new(Arc::new(matrix(&runtime)?), options))
        }
    }
}

/// The option `check`. Ranks agree on errors.
fn checks(py: Python<'_>, name: &str, ranks: Option<&Ranks>) -> PyResult<Check> {
    let named = detached(py, || Check::named(name));
    if let Some(ranks) = ranks {
        ranks.agree(py, named.as_ref().err().map(ToString::to_string))?;
    }
    named
}

/// An operator from a matrix file, or from a generator named `gen:...`.
#[pyfunction]
#[pyo3(signature = (source, single_precision, devices, threads, uses, reproducible, check, ranks = None))]
#[allow(clippy::too_many_arguments)] // The options of one call.
pub fn from_file(
    py: Python<'_>,
    source: PathBuf,
    single_precision: bool,
    devices: String,
    threads: Option<usize>,
    uses: Option<u64>,
    reproducible: bool,
    check: &str,
    ranks: Option<&Ranks>,
) -> PyResult<Operator> {
    fn of<T: Value>(
        py: Python<'_>,
        source: &Path,
        options: Options,
        ranks: Option<&Ranks>,
    ) -> PyResult<Arc<Typed<T>>> {
        let typed = match ranks {
            Some(ranks) => ranks.operator_of_file(py, options, source),
            None => made(py, options, None, |runtime| load(py, runtime, source)),
        };
        typed.map(Arc::new)
    }
    let options = Options { devices, threads, uses, reproducible, check: checks(py, check, ranks)? };
    let either = if single_precision {
        Either::F32(of(py, &source, options, ranks)?)
    } else {
        Either::F64(of(py, &source, options, ranks)?)
    };
    Ok(Operator { either })
}

#[pymethods]
impl Operator {
    #[getter]
    fn shape(&self) -> (usize, usize) {
        with_type!(&self.either, typed => (typed.matrix.rows(), typed.matrix.cols()))
    }

    #[getter]
    fn nnz(&self) -> usize {
        with_type!(&self.either, typed => typed.matrix.nnz())
    }

    /// Rows, columns and nonzeros of the matrix of all ranks; `None` in one process.
    fn whole(&self, py: Python<'_>) -> PyResult<Option<(usize, usize, usize)>> {
        with_type!(&self.either, typed => with_distribution(py, typed, Distribution::whole))
    }

    /// The first row of Y, or of X, that this rank owns, and the end of its rows; `None` in one process.
    fn own_rows(&self, py: Python<'_>, of_x: bool) -> PyResult<Option<(u64, u64)>> {
        with_type!(&self.either, typed => with_distribution(py, typed, |distribution| {
            let rows = distribution.own_rows(of_x);
            (rows.start, rows.end)
        }))
    }

    #[getter]
    fn dtype<'py>(&self, py: Python<'py>) -> Bound<'py, PyArrayDescr> {
        match &self.either {
            Either::F64(_) => numpy::dtype::<f64>(py),
            Either::F32(_) => numpy::dtype::<f32>(py),
        }
    }

    /// The number of its last product among those of all operators; 0 before the first.
    #[getter]
    fn last_use(&self) -> u64 {
        with_type!(&self.either, typed => typed.last_use())
    }

    /// `alpha A x + beta out`, in `out` or in a new array; `None` if X is no aligned array of the matrix's type.
    #[pyo3(signature = (x, alpha = 1.0, beta = 0.0, out = None))]
    fn multiply<'py>(
        &self,
        x: &Bound<'py, PyAny>,
        alpha: f64,
        beta: f64,
        out: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        with_type!(&self.either, typed => multiply(typed, x, alpha, beta, out))
    }

    /// `y = alpha A x + beta y` on vectors of one product.
    fn multiply_vectors(
        &self,
        py: Python<'_>,
        x: &Vectors,
        y: &Vectors,
        alpha: f64,
        beta: f64,
    ) -> PyResult<()> {
        vectors::multiply(py, &self.either, x, y, alpha, beta)
    }

    /// New vectors of zeros with the rows of Y, or of X.
    fn vectors(&self, py: Python<'_>, columns: usize, of_x: bool) -> PyResult<Vectors> {
        vectors::make(py, &self.either, columns, of_x)
    }

    /// The operator of the same matrix on other devices.
    fn on_devices(&self, devices: String) -> Self {
        fn of<T: Value>(typed: &Typed<T>, devices: String) -> Arc<Typed<T>> {
            let options = Options { devices, ..typed.options.clone() };
            Arc::new(Typed::new(typed.matrix.clone(), options))
        }
        let either = match &self.either {
            Either::F64(typed) => Either::F64(of(typed, devices)),
            Either::F32(typed) => Either::F32(of(typed, devices)),
        };
        Self { either }
    }

    /// Elements between the rows of X and of Y on a card.
    fn card_pitch(&self, columns: usize) -> usize {
        let value_bytes = with_type!(&self.either, typed => typed.value_bytes());
        (pitch_bytes((columns * value_bytes) as u64) as usize) / value_bytes
    }

    /// The handle of the card's stream that computes products with `columns` columns.
    fn card_stream(&self, py: Python<'_>, columns: usize) -> PyResult<Option<u64>> {
        with_type!(&self.either, typed => detached(py, || {
            let cached = typed.product(columns)?;
            Ok(lock(&cached.entry).product.compute_stream()?.map(StreamHandle::handle))
        }))
    }

    /// `y = alpha A x + beta y` with packed rows at addresses of the card's memory, at the distance of `card_pitch`. The caller has
    /// checked the shapes. With a stream, the product is issued on it and not waited for, and the arrays are freed in the order of
    /// this stream. Without one, the caller keeps the arrays and has let `card_stream` wait for them.
    #[allow(clippy::too_many_arguments)] // Two arrays, two factors and a stream.
    fn multiply_on_card(
        &self,
        py: Python<'_>,
        columns: usize,
        x: u64,
        y: u64,
        alpha: f64,
        beta: f64,
        stream: Option<u64>,
    ) -> PyResult<()> {
        let row_bytes = self.card_pitch(columns) as u64;
        with_type!(&self.either, typed => detached(py, || {
            let row_bytes = row_bytes * typed.value_bytes() as u64;
            let memory = |address, rows: usize| {
                // Safety: as the Python layer, the only caller, promises; without a stream the product ends before this returns.
                unsafe { ForeignMemory::new(address, rows as u64 * row_bytes) }
            };
            // Safety: the library of the arrays has named its current stream, which it keeps during the call.
            let stream = stream.map(|handle| unsafe { StreamHandle::new(handle) });
            let (x, y) = (memory(x, typed.matrix.cols()), memory(y, typed.matrix.rows()));
            let cached = typed.product(columns)?;
            typed.count_use();
            lock(&cached.entry).product.apply_foreign(alpha, x, beta, y, stream)
        }))
    }

    /// The operator of the transposed matrix.
    fn transposed(&self, py: Python<'_>) -> PyResult<Self> {
        fn of<T: Value>(py: Python<'_>, typed: &Typed<T>) -> PyResult<Arc<Typed<T>>> {
            let (matrix, options) = (typed.matrix.clone(), typed.options.clone());
            let transpose = move |_: &AtomicBool| {
                let runtime = options.runtime()?;
                runtime.pool().install(|| transpose(&matrix.view()))
            };
            let matrix = interruptible(py, (), transpose)?;
            Ok(Arc::new(Typed::new(Arc::new(matrix), typed.options.clone())))
        }
        let either = match &self.either {
            Either::F64(typed) => Either::F64(of(py, typed)?),
            Either::F32(typed) => Either::F32(of(py, typed)?),
        };
        Ok(Self { either })
    }

    /// The operator of the same matrix in double precision, or in single.
    fn cast(&self, py: Python<'_>, single_precision: bool) -> PyResult<Self> {
        fn of<F: Value, T: Value>(py: Python<'_>, typed: &Typed<F>) -> PyResult<Arc<Typed<T>>> {
            let (matrix, options) = (typed.matrix.clone(), typed.options.clone());
            let cast = move |_: &AtomicBool| options.runtime()?.pool().install(|| matrix.cast());
            Ok(Arc::new(Typed::new(Arc::new(interruptible(py, (), cast)?), typed.options.clone())))
        }
        let either = match (&self.either, single_precision) {
            (Either::F64(typed), true) => Either::F32(of(py, typed)?),
            (Either::F32(typed), false) => Either::F64(of(py, typed)?),
            (same, _) => same.clone(),
        };
        Ok(Self { either })
    }

    /// Copies of the values, columns and row pointers.
    fn arrays<'py>(&self, py: Python<'py>) -> PyResult<Arrays<'py>> {
        fn of<'py, T: Value>(py: Python<'py>, typed: &Typed<T>) -> PyResult<Arrays<'py>> {
            let matrix = typed.matrix.clone();
            let values = NewArray::<T>::new(py, matrix.nnz());
            let (columns, pointers) =
                (NewArray::<i64>::new(py, matrix.nnz()), NewArray::new(py, matrix.rows() + 1));
            let (values, columns, pointers) = interruptible(py, (), move |_| {
                let view = matrix.view();
                let values = values.filled(view.values(), |&value| value);
                let columns = columns.filled(view.columns(), |&column| i64::from(column));
                Ok((values, columns, pointers.filled(view.row_pointers(), |&pointer| pointer as i64)))
            })?;
            Ok((values.into_bound(py).into_any(), columns.into_bound(py), pointers.into_bound(py)))
        }
        with_type!(&self.either, typed => of(py, typed))
    }

    /// The plan for `columns` columns: as JSON, in words, and the names of its kernels.
    fn plan(&self, py: Python<'_>, columns: usize) -> PyResult<(String, Vec<String>, Vec<&'static str>)> {
        with_type!(self.either.clone(), typed => interruptible(py, (), move |_| {
            let cached = typed.product(columns)?;
            let product = &mut lock(&cached.entry).product;
            let is_distributed = typed.distribution.is_some();
            let plan = if is_distributed { product.vector_plan()?.clone() } else { product.plan().clone() };
            let data = serde_json::to_string(&plan).map_err(|error| Error::Internal(error.to_string()))?;
            Ok((data, plan_lines(product, &plan), kernel_names(&plan)))
        }))
    }

    /// The decisions of a plan in words: for `columns` columns, or of the last product.
    #[pyo3(signature = (columns = None))]
    fn explain(&self, py: Python<'_>, columns: Option<usize>) -> PyResult<Option<String>> {
        with_type!(self.either.clone(), typed => interruptible(py, (), move |_| {
            let cached = match columns {
                Some(columns) => Some(typed.product(columns)?),
                None => typed.last_product(),
            };
            Ok(cached.map(|cached| {
                let product = &lock(&cached.entry).product;
                product_lines(product, product.plan()).join("\n")
            }))
        }))
    }

    /// The seconds of the last product, the seconds that each device computed, and the faults as (device, task, error, recovered on).
    #[allow(clippy::type_complexity)] // Plain data for a class of the Python layer.
    fn last_report(
        &self,
        py: Python<'_>,
    ) -> PyResult<Option<(f64, Vec<(String, f64)>, Vec<(String, String, String, Option<String>)>)>> {
        with_type!(self.either.clone(), typed => interruptible(py, (), move |_| {
            let Some(cached) = typed.last_product() else { return Ok(None) };
            let mut entry = lock(&cached.entry);
            let product = &mut entry.product;
            let plan = if typed.distribution.is_some() { product.vector_plan()? } else { product.plan() };
            let names: Vec<String> = plan.devices.iter().map(|device| device.name.clone()).collect();
            let Some(report) = entry.product.last_report() else {
                let Some((device, record)) = entry.product.foreign_record()? else { return Ok(None) };
                let seconds = record.seconds();
                return Ok(Some((seconds, vec![(device.name, seconds)], Vec::new())));
            };
            let faults = report.faults.iter().map(|fault| {
                let fault = fault.clone();
                (fault.device, fault.task, fault.error, fault.recovered_on)
            });
            Ok(Some((report.seconds(), seconds_by_device(names, report), faults.collect())))
        }))
    }

    /// Writes the timeline of the last product. A file that is no trace of Rowloom is replaced only with `force`.
    fn trace(&self, py: Python<'_>, path: PathBuf, force: bool) -> PyResult<()> {
        if !force && py.detach(|| Trace::would_replace_other_file(&path)) {
            let path = path.display();
            return Err(PyFileExistsError::new_err(format!(
                "{path} exists and is not a trace that Rowloom wrote; name another file, or pass force=True"
            )));
        }
        with_type!(self.either.clone(), typed => {
            let written = interruptible(py, (), move |_| {
                let Some(cached) = typed.last_product() else { return Ok(false) };
                let product = &lock(&cached.entry).product;
                let mut trace = Trace::default();
                let Some(report) = product.last_report() else {
                    let Some((device, record)) = product.foreign_record()? else { return Ok(false) };
                    Timeline::add_operations(&mut trace, &device, &[record]);
                    return trace.write(&path).map(|()| true);
                };
                Timeline::new(&mut trace, product.plan(), &product.descriptions()).add_run(&mut trace, report, 0);
                for (clock, error_ns) in product.clock_errors() {
                    trace.clock_error(&clock, error_ns);
                }
                trace.write(&path).map(|()| true)
            })?;
            written.then_some(()).ok_or_else(|| PyValueError::new_err("there is no product to trace yet"))
        })
    }

    /// The spy plot as SVG.
    fn spy(&self, py: Python<'_>, title: String) -> PyResult<String> {
        with_type!(self.either.clone(), typed => interruptible(py, (), move |_| {
            let runtime = typed.options.runtime()?;
            Ok(runtime.pool().install(|| spy_svg(&typed.matrix.view(), &title)))
        }))
    }

    /// Drops all products and their memory on devices; later products make them anew.
    fn clear(&self, py: Python<'_>) {
        py.detach(|| with_type!(&self.either, typed => typed.clear()));
    }
}

/// The seconds that each device computed, by the names of the devices.
fn seconds_by_device(names: Vec<String>, report: &RunReport) -> Vec<(String, f64)> {
    let devices = names.into_iter().enumerate().map(|(index, name)| {
        let computed = report.computed().filter(|computed| computed.device.index() == index);
        (name, computed.map(|computed| computed.ns).sum::<u64>() as f64 / 1e9)
    });
    devices.filter(|(_, seconds)| *seconds > 0.0).collect()
}
