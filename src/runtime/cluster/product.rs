//! A product of all ranks.

use super::Cluster;
use super::distribution::RowBlock;
use crate::device::Description;
use crate::error::{Error, Result};
use crate::kernel::cpu::Kernels;
use crate::plan::Plan;
use crate::runtime::vectors::MessagesOfDevices;
use crate::runtime::{FaultReport, Product, ProductOptions, RunReport, Vectors};

/// Builds a [`ClusterProduct`].
pub struct ClusterProductBuilder<T: Kernels> {
    cluster: Cluster,
    rows: RowBlock<T>,
    k: usize,
    options: ProductOptions,
}

impl Cluster {
    /// A product with a matrix of which this rank has the rows `rows`.
    pub fn product<T: Kernels>(&self, rows: RowBlock<T>) -> ClusterProductBuilder<T> {
        ClusterProductBuilder::new(self.clone(), rows)
    }
}

impl<T: Kernels> ClusterProductBuilder<T> {
    pub(super) fn new(cluster: Cluster, rows: RowBlock<T>) -> Self {
        Self { cluster, rows, k: 1, options: ProductOptions::default() }
    }

    /// Columns of X and Y; 1 without it.
    #[must_use]
    pub fn columns(mut self, k: usize) -> Self {
        self.k = k;
        self
    }

    /// All options of the product of this rank. Kernels are canonical whatever they say.
    #[must_use]
    #[doc(hidden)]
    pub fn options(mut self, options: ProductOptions) -> Self {
        self.options = options;
        self
    }

    /// Divides the matrix, plans the product of this rank and brings its rows of A to its devices. All ranks call this.
    pub fn build(self) -> Result<ClusterProduct<T>> {
        let Self { cluster, rows, k, options } = self;
        if k == 0 {
            return Err(Error::usage("a product needs at least one column"));
        }
        let nonzeros = rows.matrix.nnz() as u64;
        let product = cluster.product_of(&cluster.distribute(rows)?, k, options)?;
        Ok(ClusterProduct { cluster, product, nonzeros })
    }
}

/// A product of all ranks with one matrix and a fixed number of columns. Every call is made by all ranks.
pub struct ClusterProduct<T: Kernels> {
    cluster: Cluster,
    product: Product<'static, T>,
    nonzeros: u64,
}

impl<T: Kernels> ClusterProduct<T> {
    /// The cluster.
    #[doc(hidden)]
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// Columns of X and Y.
    pub fn columns(&self) -> usize {
        self.product.columns()
    }

    /// Number of nonzeros of the rows of this rank.
    #[doc(hidden)]
    pub fn nonzeros(&self) -> u64 {
        self.nonzeros
    }

    /// New vectors of zeros with the rows of Y. For a square matrix they can be X too.
    pub fn vectors(&mut self) -> Result<Vectors<T>> {
        self.product.vectors()
    }

    /// New vectors of zeros with the rows of X, for a matrix that is not square.
    pub fn x_vectors(&mut self) -> Result<Vectors<T>> {
        self.product.x_vectors()
    }

    /// Y = A X.
    pub fn apply_into(&mut self, x: &Vectors<T>, y: &mut Vectors<T>) -> Result<()> {
        self.product.apply_into(x, y)
    }

    /// Y = alpha A X + beta Y. The old Y has no effect if beta is zero.
    pub fn apply_scaled(&mut self, alpha: f64, x: &Vectors<T>, beta: f64, y: &mut Vectors<T>) -> Result<()> {
        self.product.apply_scaled(alpha, x, beta, y)
    }

    /// Number of rows of X that this rank receives from others with every product: the distinct columns of its rows that refer to
    /// rows of other ranks.
    #[doc(hidden)]
    pub fn received_rows(&mut self) -> Result<u64> {
        self.product.rows_from_ranks()
    }

    /// The messages to and from other ranks with every product whose rows a device of this rank has or needs.
    #[doc(hidden)]
    pub fn messages_of_devices(&mut self) -> Result<MessagesOfDevices> {
        self.product.messages_of_devices()
    }

    /// The plan of this rank.
    pub fn plan(&mut self) -> Result<&Plan> {
        self.product.vector_plan()
    }

    /// The report of the last product; `None` if it ran without a graph.
    pub fn last_report(&self) -> Option<&RunReport> {
        self.product.last_report()
    }

    /// The descriptions of the devices of this rank, the host first and the network last.
    #[doc(hidden)]
    pub fn descriptions(&self) -> Vec<Description> {
        self.product.vector_descriptions()
    }

    /// Seconds of planning.
    #[doc(hidden)]
    pub fn plan_s(&self) -> f64 {
        self.product.plan_s()
    }

    /// Seconds of opening devices, preparing and bringing A.
    #[doc(hidden)]
    pub fn prepare_s(&self) -> f64 {
        self.product.prepare_s()
    }

    /// Faults from which products recovered.
    pub fn faults(&self) -> Vec<FaultReport> {
        self.product.faults()
    }
}
