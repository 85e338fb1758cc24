//! The builder of a product.

use std::sync::Arc;

use crate::adapt::ResolvedDevices;
use crate::error::Result;
use crate::kernel::cpu::Kernels;
use crate::plan::Plan;
use crate::runtime::options::option_setters;
use crate::runtime::spmm::Matrix;
use crate::runtime::vectors::RankLists;
use crate::runtime::{ProductOptions, Runtime};
use crate::work::spmm::Features;

/// Builds a [`Product`](super::Product).
pub struct ProductBuilder<'a, T: Kernels> {
    pub(super) runtime: Runtime,
    pub(super) matrix: Matrix<'a, T>,
    pub(super) k: usize,
    pub(super) options: ProductOptions,
    pub(super) resolved: Option<ResolvedDevices>,
    pub(super) features: Option<Features>,
    pub(super) plan: Option<Plan>,
    pub(super) ranks: Option<Arc<RankLists>>,
}

impl Runtime {
    /// A product with `matrix`: a sparse matrix, an `Arc` of one, a reference or a view ([`Matrix`]).
    pub fn product<'a, T: Kernels>(&self, matrix: impl Into<Matrix<'a, T>>) -> ProductBuilder<'a, T> {
        ProductBuilder::new(self.clone(), matrix.into())
    }
}

impl<'a, T: Kernels> ProductBuilder<'a, T> {
    pub(in crate::internal::runtime) fn new(runtime: Runtime, matrix: Matrix<'a, T>) -> Self {
        let (options, resolved, features, plan) = (ProductOptions::default(), None, None, None);
        Self { runtime, matrix, k: 1, options, resolved, features, plan, ranks: None }
    }

    option_setters!();

    /// Columns of X and Y; 1 without it.
    #[must_use]
    pub fn columns(mut self, k: usize) -> Self {
        self.k = k;
        self
    }

    /// The kernel, by name.
    pub fn kernel(mut self, name: &str) -> Result<Self> {
        (self.options.kernel, self.options.variant) = ProductOptions::kernel_named(name)?;
        Ok(self)
    }

    /// Whether the product changes its plan after measured products; it does without this.
    #[must_use]
    pub fn adaptive(mut self, adaptive: bool) -> Self {
        self.options.fixed = !adaptive;
        self
    }

    /// The features of the whole matrix, which are then not computed again.
    #[must_use]
    #[doc(hidden)]
    pub fn features(mut self, features: Option<Features>) -> Self {
        self.features = features;
        self
    }

    /// An existing plan, which is never changed.
    #[must_use]
    pub fn plan(mut self, plan: Plan) -> Self {
        self.k = plan.k as usize;
        self.plan = Some(plan);
        self
    }

    /// The rows that ranks need of each other; the matrix has the rows of this rank.
    pub(in crate::internal::runtime) fn ranks(mut self, ranks: Arc<RankLists>) -> Self {
        self.ranks = Some(ranks);
        self
    }
}
