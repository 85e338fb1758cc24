//! Products on the ranks of a job: each rank has its own rows of A, X and Y, and its own devices.
//!
//! Ranks own consecutive rows. No rank holds all of A, X or Y. A program on every rank
//!
//! 1. opens a [`Cluster`] with [`Runtime::over`] and a [`Communicator`];
//! 2. reads its rows with [`read_rows`], divided as [`Cluster::division`] says, or makes those of [`Cluster::row_bounds`];
//! 3. gives them as a [`RowBlock`]: the rows of this rank with the column numbers of the whole matrix;
//! 4. computes with [`ClusterProduct`] and [`Vectors`](crate::runtime::Vectors), which have the words of a job of one process. The rows that
//!    `copy_from` and `copy_to` copy are those of this rank.
//!
//! ```
//! use rowloom::internal::device::network::thread_communicators;
//! use rowloom::internal::matrix::MultiVector;
//! use rowloom::internal::runtime::RowBlock;
//! use rowloom::{Csr, Result, Runtime};
//!
//! // Two ranks that are threads; `rowloom::mpi::communicator()` gives the ranks of an MPI job.
//! let threads: Vec<_> = thread_communicators(2)
//!     .into_iter()
//!     .map(|communicator| {
//!         std::thread::spawn(move || -> Result<Vec<f64>> {
//!             let rank = communicator.rank() as u32;
//!             let cluster = Runtime::builder().devices("cpu").over(communicator)?;
//!             // Rank 0 has the rows 0 and 1 of a matrix with 4 rows, rank 1 has the others.
//!             let columns = vec![2 * rank, 3, 2 * rank + 1, 0];
//!             let matrix = Csr::try_new(2, 4, vec![0, 2, 4], columns, vec![1.0; 4])?;
//!             let rows = RowBlock { first_row: 2 * u64::from(rank), total_rows: 4, matrix };
//!             let mut product = cluster.product(rows).columns(1).build()?;
//!             let (mut x, mut y) = (product.vectors()?, product.vectors()?);
//!             x.copy_from(&MultiVector::from_fn(2, 1, |row, _| (2 * rank) as f64 + row as f64)?)?;
//!             product.apply_into(&x, &mut y)?;
//!             y.norm()
//!         })
//!     })
//!     .collect();
//! let norms: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap().unwrap()).collect();
//! assert_eq!(norms[0], norms[1]);
//! ```
//!
//! Calls on a cluster, its products and its vectors are collective: all ranks make them in the same order. An error of one rank does
//! not reach the others by itself; a rank that gives up calls [`Communicator::abort`].
//!
//! Y has the same bytes for any number of ranks: rows are never divided, the order of a row's sum does not change, and kernels are
//! canonical. The sums `dot`, `norm` and `gram` have a canonical order of all rows. Rows of X reach other ranks through host memory,
//! page-locked where a device copies from it or to it, or directly from the memory of one device to that of another where the
//! communicator takes it ([`Communicator::takes_device_memory`]).

pub mod agreement;
pub mod clock;
mod device_memory;
mod distribution;
pub mod division;
mod entry_messages;
pub mod halo;
mod product;
mod rank_matrix;
pub mod read;
mod read_whole;
mod sharing;
pub mod watch;
pub mod write;

use std::sync::{Arc, Mutex};

pub use distribution::{Distributed, RowBlock};
pub use division::Division;
pub use product::{ClusterProduct, ClusterProductBuilder};
pub use rank_matrix::RankMatrix;
pub use read::{generate_rows, read_rows};
pub use watch::{Actions, End, Watch};
pub use write::{RowsFormat, hash_rows, write_rows};

pub use crate::runtime::vectors::MessagesOfDevices;

use crate::device::NetworkDevice;
use crate::device::network::Communicator;
use crate::error::{Error, Result};
use crate::matrix::Dtype;
use crate::runtime::{ProductOptions, Runtime, RuntimeBuilder};

/// The runtime of one rank of a job. Cloning it is cheap; all clones are the same.
#[derive(Clone)]
pub struct Cluster {
    runtime: Runtime,
    communicator: Arc<dyn Communicator>,
    network: Arc<Mutex<NetworkDevice>>,
    /// Whether messages may be in the memory of devices.
    direct: bool,
}

impl RuntimeBuilder {
    /// The runtime of one rank of a job: the hardware threads and the cards of a host are divided between its ranks, unless
    /// `devices` or `threads` say otherwise. All ranks call this.
    pub fn over(self, communicator: Arc<dyn Communicator>) -> Result<Cluster> {
        Cluster::open(self, communicator)
    }
}

impl Runtime {
    /// Opens the runtime of one rank of a job on all its devices; [`RuntimeBuilder::over`] has the options. All ranks call this.
    pub fn over(communicator: Arc<dyn Communicator>) -> Result<Cluster> {
        Self::builder().over(communicator)
    }
}

impl Cluster {
    pub(in crate::internal::runtime) fn open(
        builder: RuntimeBuilder,
        communicator: Arc<dyn Communicator>,
    ) -> Result<Self> {
        let runtime = sharing::open_shared(builder, &*communicator)?;
        let network = NetworkDevice::open(communicator.clone(), runtime.clock())?;
        let direct = device_memory::is_used(&*communicator)?;
        Ok(Self { runtime, communicator, network: Arc::new(Mutex::new(network)), direct })
    }

    /// The runtime of this rank.
    #[doc(hidden)]
    pub fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    /// The ranks.
    pub fn communicator(&self) -> &Arc<dyn Communicator> {
        &self.communicator
    }

    /// Bytes of all rows that this rank has sent to others in products.
    #[doc(hidden)]
    pub fn sent_bytes(&self) -> u64 {
        self.network.lock().unwrap_or_else(std::sync::PoisonError::into_inner).sent_bytes()
    }

    /// The bounds of the ranks' rows of a matrix with these row pointers: rank r owns the rows from bound r to bound r + 1. Ranks get
    /// rows in proportion to the predicted speed of their devices. Every rank has the same row pointers.
    pub fn row_bounds(&self, row_pointers: &[u64], k: usize, dtype: Dtype) -> Result<Vec<u64>> {
        let before = |row: u64| row_pointers.get(row as usize).copied().unwrap_or(0);
        let rows = row_pointers.len().saturating_sub(1) as u64;
        Ok(self.division(k, dtype)?.boundaries(rows, |row| row, before))
    }

    /// How rows are divided over the ranks for products with `k` columns.
    #[doc(hidden)]
    pub fn division(&self, k: usize, dtype: Dtype) -> Result<Division> {
        Ok(Division::for_product(self.speeds()?, k, dtype.bytes()))
    }

    /// For each rank the predicted memory bandwidth of its devices, which limits products.
    #[doc(hidden)]
    pub fn speeds(&self) -> Result<Vec<f64>> {
        let resolved = self.runtime.resolve(&ProductOptions::default())?;
        let own: f64 = resolved.devices.iter().map(|device| device.profile.stream_gb_per_s).sum();
        let all = self.communicator.all_gather(&own.to_le_bytes())?;
        all.iter()
            .map(|bytes| match <[u8; 8]>::try_from(&bytes[..]) {
                Ok(bytes) => Ok(f64::from_le_bytes(bytes)),
                Err(_) => Err(Error::Internal("a rank gave no speed".into())),
            })
            .collect()
    }
}
