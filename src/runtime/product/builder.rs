//! The options of a product, in the words of the command line, and the builder that sets them.

use std::sync::Arc;
use std::time::Duration;

use super::product::Product;
use crate::adapt::Resolved;
use crate::error::{Error, Result};
use crate::kernel::cpu::Kernels;
use crate::kernel::cuda::{CudaKernel, Variant};
use crate::kernel::{Format, KernelId, Schedule};
use crate::plan::{Mode, Plan, PlanRequest};
use crate::runtime::Runtime;
use crate::runtime::job::Check;
use crate::runtime::spmm::Matrix;
use crate::runtime::vectors::RankLists;
use crate::work::Work;
use crate::work::spmm::Features;

/// How A, X and Y are copied to GPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Transfer {
    /// As predicted to be fastest.
    #[default]
    Auto,
    /// Through page-locked buffers.
    Staged,
    /// Directly, after the arrays were page-locked.
    Registered,
}

/// The options of a product.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ProductOptions {
    /// Number of products that the plan is made for; `None` where it is not known.
    pub uses: Option<u64>,
    /// How A gets to GPUs; `None` leaves it to the planner.
    pub mode: Option<Mode>,
    /// The kernel.
    pub kernel: Option<KernelId>,
    /// The variant of that kernel.
    pub variant: Option<Variant>,
    /// The storage format of A.
    pub format: Option<Format>,
    /// Number of chunks.
    pub chunks: Option<usize>,
    /// Bytes of A per chunk.
    pub chunk_bytes: Option<u64>,
    /// Share of the CPU.
    pub cpu_share: Option<f64>,
    /// How A, X and Y are copied to GPUs.
    pub transfer: Transfer,
    /// Upper limit of the memory use of each GPU.
    pub memory_limit_bytes: Option<u64>,
    /// Upper limit of converted copies of A on the host; `None` for the machine's limit.
    pub host_memory_limit_bytes: Option<u64>,
    /// Canonical kernels only: Y has the same bytes for any devices, chunks and threads.
    pub reproducible: bool,
    /// How the CPU's threads divide the rows.
    pub schedule: Schedule,
    /// How long devices may report nothing before they count as hung; half a minute without it.
    pub watchdog_timeout: Option<Duration>,
    /// X and Y will be bound ([`Product::bind`]), so the first plan may register them.
    pub bound: bool,
    /// Plan once and never change the plan.
    pub fixed: bool,
    /// Which products are checked.
    pub check: Check,
}

impl ProductOptions {
    /// The kernel of that name and its variant, where the name has one; none for `auto`.
    pub fn kernel_named(name: &str) -> Result<(Option<KernelId>, Option<Variant>)> {
        match CudaKernel::by_name(name) {
            _ if name == "auto" => Ok((None, None)),
            Some((kernel, variant)) => Ok((Some(kernel), Some(variant))),
            None => Ok((Some(KernelId::by_name(name)?), None)),
        }
    }

    /// The request for a plan of `uses` products of `work` on the devices of `resolved`.
    pub fn request<'w>(&self, resolved: &Resolved, work: Work<'w>, uses: u64) -> PlanRequest<'w> {
        PlanRequest {
            mode: self.mode,
            kernel: self.kernel,
            variant: self.variant,
            format: self.format,
            chunks: self.chunks,
            chunk_bytes: self.chunk_bytes,
            cpu_share: self.cpu_share,
            repeat: uses.max(1),
            always_register: self.transfer == Transfer::Registered,
            reproducible: self.reproducible,
            cluster: resolved.cluster.clone(),
            ..PlanRequest::new(work, resolved.devices.clone(), resolved.host.clone())
        }
    }

    /// Whether the shares of devices follow from the options and not from their speed.
    pub(super) fn fixes_shares(&self) -> bool {
        self.fixed || self.cpu_share.is_some() || self.chunks.is_some() || self.kernel.is_some()
    }
}

/// Builds a [`Product`].
pub struct ProductBuilder<'a, T: Kernels> {
    pub(super) runtime: Runtime,
    pub(super) matrix: Matrix<'a, T>,
    pub(super) k: usize,
    pub(super) options: ProductOptions,
    pub(super) resolved: Option<Resolved>,
    pub(super) features: Option<Features>,
    pub(super) plan: Option<Plan>,
    pub(super) ranks: Option<Arc<RankLists>>,
}

impl<'a, T: Kernels> ProductBuilder<'a, T> {
    pub(in crate::internal::runtime) fn new(runtime: Runtime, matrix: Matrix<'a, T>) -> Self {
        let (options, resolved, features, plan) = (ProductOptions::default(), None, None, None);
        Self { runtime, matrix, k: 1, options, resolved, features, plan, ranks: None }
    }

    /// Columns of X and Y; 1 without it.
    #[must_use]
    pub fn columns(mut self, k: usize) -> Self {
        self.k = k;
        self
    }

    /// How many products will be computed. Without it the product adapts as they come.
    #[must_use]
    pub fn uses(mut self, uses: u64) -> Self {
        self.options.uses = Some(uses);
        self
    }

    /// Whether Y has the same bytes for any devices, chunks and threads.
    #[must_use]
    pub fn reproducible(mut self, reproducible: bool) -> Self {
        self.options.reproducible = reproducible;
        self
    }

    /// Upper limit of the memory use of each GPU, in bytes.
    #[must_use]
    pub fn memory_limit(mut self, bytes: u64) -> Self {
        self.options.memory_limit_bytes = Some(bytes);
        self
    }

    /// The kernel, by name.
    pub fn kernel(mut self, name: &str) -> Result<Self> {
        (self.options.kernel, self.options.variant) = ProductOptions::kernel_named(name)?;
        Ok(self)
    }

    /// How A gets to GPUs.
    #[must_use]
    pub fn mode(mut self, mode: Mode) -> Self {
        self.options.mode = Some(mode);
        self
    }

    /// The share of the product that the CPU computes, from 0 to 1.
    #[must_use]
    pub fn cpu_share(mut self, share: f64) -> Self {
        self.options.cpu_share = Some(share);
        self
    }

    /// How A, X and Y are copied to GPUs.
    #[must_use]
    pub fn transfer(mut self, transfer: Transfer) -> Self {
        self.options.transfer = transfer;
        self
    }

    /// Which products are checked: Y is compared with A X, and wrong chunks are computed again. The first of every plan without this.
    #[must_use]
    pub fn check(mut self, check: Check) -> Self {
        self.options.check = check;
        self
    }

    /// Whether the product changes its plan after measured products; it does without this.
    #[must_use]
    pub fn adaptive(mut self, adaptive: bool) -> Self {
        self.options.fixed = !adaptive;
        self
    }

    /// All options at once.
    #[must_use]
    #[doc(hidden)]
    pub fn options(mut self, options: ProductOptions) -> Self {
        self.options = options;
        self
    }

    /// The devices with corrected profiles, such as after tuning.
    #[must_use]
    #[doc(hidden)]
    pub fn resolved(mut self, resolved: Resolved) -> Self {
        self.resolved = Some(resolved);
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

    /// Makes the first plan. Devices are opened with the first product, where they pay.
    pub fn build(self) -> Result<Product<'a, T>> {
        if self.k == 0 {
            return Err(Error::usage("a product needs at least one column"));
        }
        Product::new(self)
    }
}
