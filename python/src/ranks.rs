//! The ranks of an MPI job, which a communicator of mpi4py names, and matrices that are divided between them.
//!
//! MPI is initialised and ended by mpi4py. The communicator is duplicated once. All calls are collective: every rank makes them, in the
//! same order. An operator is made on all ranks or on none: each step that can fail on one rank alone ends with an agreement.

use std::ops::Range;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use rowloom::internal::device::network::Communicator;
use rowloom::internal::machine::memory_limit_bytes;
use rowloom::internal::matrix::Dtype;
use rowloom::internal::matrix::io::ReadOptions;
use rowloom::internal::runtime::cluster::agreement::{share, share_numbers, sum};
use rowloom::internal::runtime::cluster::{Distributed, generate_rows, read_rows};
use rowloom::internal::runtime::{Cluster, Product, ProductOptions, RowBlock};
use rowloom::{Csr, Error, Result, Runtime};

use crate::cache::{Options, Typed, Value, lock};
use crate::error::detached;
use crate::interrupt::interruptible;
use crate::of_process::OfProcess;
use crate::source::Source;

/// The number of columns for which the rows of a file are divided: products with any number use this division.
const DIVISION_COLUMNS: usize = 8;
/// The seed of generated matrices, as in one process.
const SEED: u64 = 1;

/// The ranks of a communicator.
#[pyclass(frozen, module = "rowloom._rowloom")]
pub struct Ranks {
    members: Arc<OfProcess<Members>>,
}

struct Members {
    communicator: Arc<dyn Communicator>,
    clusters: Mutex<Vec<OpenCluster>>,
}

/// A cluster, which all operators with these devices and threads share.
struct OpenCluster {
    /// The devices and the number of threads of each rank.
    asked: Vec<(String, Option<usize>)>,
    cluster: Cluster,
}

impl Members {
    /// The cluster in which this rank has the devices and threads of `options`. All ranks call this.
    fn cluster(&self, options: &Options) -> Result<Cluster> {
        let asked = share(&*self.communicator, &(options.devices.clone(), options.threads))?;
        let mut clusters = lock(&self.clusters);
        if let Some(open) = clusters.iter().find(|open| open.asked == asked) {
            return Ok(open.cluster.clone());
        }
        let mut builder = Runtime::builder().devices(&options.devices);
        if let Some(threads) = options.threads {
            builder = builder.threads(threads);
        }
        let cluster = builder.over(self.communicator.clone())?;
        clusters.push(OpenCluster { asked, cluster: cluster.clone() });
        Ok(cluster)
    }

    /// The source that every rank names, downloaded if it has to be. An error of one rank is an error on all of them.
    fn source(&self, name: &Path, cancel: &AtomicBool) -> Result<Source> {
        let named = Source::named(name, cancel);
        let failure = self.failure(named.as_ref().err().map(ToString::to_string))?;
        match failure {
            Some(words) if named.is_ok() => Err(Error::usage(words)),
            _ => named,
        }
    }

    /// The rank, its host and its words, if another rank failed. All ranks call this, with the words of their own error.
    fn failure(&self, own: Option<String>) -> Result<Option<String>> {
        let all = share(&*self.communicator, &own)?;
        let first = all.into_iter().enumerate().find_map(|(rank, failure)| Some((rank, failure?)));
        let host = |rank: usize| self.communicator.hosts().get(rank).cloned().unwrap_or_default();
        Ok(first.map(|(rank, words)| format!("rank {rank} on {}: {words}", host(rank))))
    }
}

#[pymethods]
impl Ranks {
    /// The ranks of the communicator whose handle is at `address` and which `comm` keeps alive. `library` names mpi4py's MPI library.
    #[new]
    fn new(py: Python<'_>, comm: Py<PyAny>, address: usize, library: String) -> PyResult<Self> {
        check_library(&library)?;
        let communicator = interruptible(py, comm, move |_| duplicated(address))?;
        let members = Members { communicator, clusters: Mutex::default() };
        Ok(Self { members: Arc::new(OfProcess::new(members)) })
    }

    /// Whether this build can use MPI.
    #[staticmethod]
    fn are_supported() -> bool {
        cfg!(feature = "mpi")
    }

    /// Tells all ranks whether this one failed, and raises the error of another rank. A rank that failed itself raises its own error.
    pub fn agree(&self, py: Python<'_>, failure: Option<String>) -> PyResult<()> {
        let (members, is_own) = (self.members.clone(), failure.is_some());
        match interruptible(py, (), move |_| members.get()?.failure(failure))? {
            Some(words) if !is_own => Err(PyValueError::new_err(words)),
            _ => Ok(()),
        }
    }
}

impl Ranks {
    /// The operator of a matrix of which `make` gives the rows of this rank.
    pub fn operator<T: Value>(
        &self,
        py: Python<'_>,
        options: Options,
        make: impl FnOnce(&Runtime) -> PyResult<Csr<T>>,
    ) -> PyResult<Typed<T>> {
        let (members, asked) = (self.members.clone(), options.clone());
        let cluster = interruptible(py, (), move |_| members.get()?.cluster(&asked))?;
        let made = make(cluster.runtime());
        self.agree(py, made.as_ref().err().map(ToString::to_string))?;
        let matrix = made?;
        let distribute = move || {
            let ranks = cluster.communicator();
            let counts = share_numbers(&**ranks, &[matrix.rows() as u64])?.concat();
            let first_row = counts.iter().take(ranks.rank()).sum();
            Distribution::new(
                cluster.clone(),
                RowBlock { first_row, total_rows: counts.iter().sum(), matrix },
            )
        };
        interruptible(py, (), move |_| distribute())
            .map(|distribution| Typed::distributed(distribution, options))
    }

    /// The operator of a file, of which this rank reads its own rows, or of a generated matrix.
    pub fn operator_of_file<T: Value>(
        &self,
        py: Python<'_>,
        options: Options,
        source: &Path,
    ) -> PyResult<Typed<T>> {
        let (members, asked, source) = (self.members.clone(), options.clone(), source.to_owned());
        let distribution = interruptible(py, (), move |cancel| {
            let members = members.get()?;
            let source = members.source(&source, cancel)?;
            let cluster = members.cluster(&asked)?;
            let ranks = cluster.communicator().clone();
            let dtype = if size_of::<T>() == 4 { Dtype::F32 } else { Dtype::F64 };
            let division = cluster.division(DIVISION_COLUMNS, dtype)?;
            // Ranks of one host share its memory.
            let memory_limit_bytes = memory_limit_bytes() / ranks.local_size().max(1) as u64;
            let read = || match source {
                Source::Generated(spec) => generate_rows(&*ranks, &spec, SEED, &division, memory_limit_bytes),
                Source::File(path) => {
                    let options = ReadOptions { memory_limit_bytes, ..ReadOptions::default() };
                    read_rows(&*ranks, &path, &division, &options)
                }
            };
            let rows = cluster.runtime().pool().install(read)?;
            Distribution::new(cluster, RowBlock::read(rows, ranks.rank()))
        })?;
        Ok(Typed::distributed(distribution, options))
    }
}

/// A matrix that is divided between ranks.
pub struct Distribution<T: Value> {
    cluster: Cluster,
    matrix: Distributed<T>,
    /// Nonzeros of the whole matrix.
    nonzeros: u64,
}

impl<T: Value> Distribution<T> {
    /// All ranks call this.
    fn new(cluster: Cluster, rows: RowBlock<T>) -> Result<Self> {
        let nonzeros = sum(&**cluster.communicator(), rows.matrix.nnz() as u64)?;
        Ok(Self { matrix: cluster.distribute(rows)?, cluster, nonzeros })
    }

    /// The rows of this rank.
    pub fn matrix(&self) -> &Arc<Csr<T>> {
        self.matrix.matrix()
    }

    /// The product with `columns` columns, on vectors only. All ranks call this.
    pub fn product(&self, columns: usize, options: ProductOptions) -> Result<Product<'static, T>> {
        self.cluster.product_of(&self.matrix, columns, options)
    }

    /// Rows, columns and nonzeros of the whole matrix.
    pub fn whole(&self) -> (usize, usize, usize) {
        let (rows, cols) = (self.matrix.y_rows().1, self.matrix.x_rows().1);
        (rows as usize, cols as usize, self.nonzeros as usize)
    }

    /// The rows of Y, or of X, that this rank owns.
    pub fn own_rows(&self, of_x: bool) -> Range<u64> {
        if of_x { self.matrix.x_rows().0 } else { self.matrix.y_rows().0 }
    }
}

/// An error if `library`, which mpi4py uses, is not the MPI library of this module.
fn check_library(library: &str) -> PyResult<()> {
    let clean = |name: &str| name.trim_matches(|c: char| c == '\0' || c.is_whitespace()).to_owned();
    let own = own_library().map(|own| clean(&own));
    match own {
        None => Err(PyRuntimeError::new_err("this build of rowloom has no MPI")),
        Some(own) if own == clean(library) => Ok(()),
        Some(own) => Err(PyRuntimeError::new_err(format!(
            "mpi4py uses the MPI library \"{}\", and rowloom was built with \"{own}\"; build both with the same library",
            clean(library)
        ))),
    }
}

/// The name and version of the MPI library of this module; `None` without one.
#[cfg(feature = "mpi")]
fn own_library() -> Option<String> {
    mpi::environment::library_version().ok()
}

#[cfg(not(feature = "mpi"))]
fn own_library() -> Option<String> {
    None
}

/// The ranks of a duplicate of the communicator whose handle is at `address`.
#[cfg(feature = "mpi")]
fn duplicated(address: usize) -> Result<Arc<dyn Communicator>> {
    use rowloom::internal::device::completion::RANK_TIMEOUT;
    let handle = address as *const mpi::ffi::MPI_Comm;
    // Safety: the Python layer, the only caller, gives the address of a handle of mpi4py, whose communicator is neither null nor between
    // two groups. It uses the same MPI library, which it has initialised, and the object is kept alive.
    unsafe { rowloom::mpi::from_raw(*handle, RANK_TIMEOUT) }
}

#[cfg(not(feature = "mpi"))]
fn duplicated(_address: usize) -> Result<Arc<dyn Communicator>> {
    Err(Error::Internal("a build without MPI has no communicator".into()))
}

/// Runs `work` on the distribution of an operator over ranks.
pub fn with_distribution<T: Value, R: Send>(
    py: Python<'_>,
    typed: &Typed<T>,
    work: impl FnOnce(&Distribution<T>) -> R + Send,
) -> PyResult<Option<R>> {
    detached(py, || typed.distribution.as_ref().map(|of_process| of_process.get().map(work)).transpose())
}
