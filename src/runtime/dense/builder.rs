//! The builder of jobs with a dense A, in the words of [`ProductBuilder`](crate::runtime::ProductBuilder).

use super::operand::DenseOperand;
use crate::adapt::ResolvedDevices;
use crate::kernel::KernelId;
use crate::matrix::Scalar;
use crate::plan::{Mode, Plan};
use crate::runtime::Check;
use crate::runtime::{ProductOptions, Runtime, Transfer};

/// Builds a job with a dense A; `W` is its shape as a planner sees it.
pub struct DenseBuilder<'a, T: Scalar, W> {
    pub(in crate::internal::runtime) runtime: Runtime,
    pub(in crate::internal::runtime) a: DenseOperand<'a, T>,
    pub(in crate::internal::runtime) work: W,
    pub(in crate::internal::runtime) options: ProductOptions,
    pub(in crate::internal::runtime) resolved: Option<ResolvedDevices>,
    pub(in crate::internal::runtime) plan: Option<Plan>,
}

impl<'a, T: Scalar, W> DenseBuilder<'a, T, W> {
    pub(in crate::internal::runtime) fn new(runtime: Runtime, a: DenseOperand<'a, T>, work: W) -> Self {
        Self { runtime, a, work, options: ProductOptions::default(), resolved: None, plan: None }
    }

    /// How often it will be computed; once without it.
    #[must_use]
    pub fn uses(mut self, uses: u64) -> Self {
        self.options.uses = Some(uses);
        self
    }

    /// Whether the result has the same bytes for any devices, chunks and threads.
    #[must_use]
    pub fn reproducible(mut self, reproducible: bool) -> Self {
        self.options.reproducible = reproducible;
        self
    }

    /// The kernel.
    #[must_use]
    #[doc(hidden)]
    pub fn kernel_id(mut self, kernel: KernelId) -> Self {
        self.options.kernel = Some(kernel);
        self
    }

    /// How A gets to GPUs.
    #[must_use]
    pub fn mode(mut self, mode: Mode) -> Self {
        self.options.mode = Some(mode);
        self
    }

    /// Number of chunks.
    #[must_use]
    #[doc(hidden)]
    pub fn chunks(mut self, chunks: usize) -> Self {
        self.options.chunks = Some(chunks);
        self
    }

    /// The share of the work that the CPU computes, from 0 to 1.
    #[must_use]
    pub fn cpu_share(mut self, share: f64) -> Self {
        self.options.cpu_share = Some(share);
        self
    }

    /// How matrices are copied to GPUs.
    #[must_use]
    pub fn transfer(mut self, transfer: Transfer) -> Self {
        self.options.transfer = transfer;
        self
    }

    /// Which products are checked; the first of every plan without this. Means of columns have no check.
    #[must_use]
    pub fn check(mut self, check: Check) -> Self {
        self.options.check = check;
        self
    }

    /// Whether the caller's matrices will be bound for all runs, so that the plan may register them.
    #[must_use]
    pub fn bound(mut self, bound: bool) -> Self {
        self.options.bound = bound;
        self
    }

    /// Upper limit of the memory use of each GPU, in bytes.
    #[must_use]
    pub fn memory_limit(mut self, bytes: u64) -> Self {
        self.options.memory_limit_bytes = Some(bytes);
        self
    }

    /// All options at once. Those of sparse matrices must be unset.
    #[must_use]
    #[doc(hidden)]
    pub fn options(mut self, options: ProductOptions) -> Self {
        self.options = options;
        self
    }

    /// The devices with corrected profiles.
    #[must_use]
    #[doc(hidden)]
    pub fn resolved(mut self, resolved: ResolvedDevices) -> Self {
        self.resolved = Some(resolved);
        self
    }

    /// An existing plan.
    #[must_use]
    pub fn plan(mut self, plan: Plan) -> Self {
        self.plan = Some(plan);
        self
    }
}
