//! The builder of jobs with a dense A, in the words of [`ProductBuilder`](crate::runtime::ProductBuilder).

use super::operand::DenseOperand;
use crate::adapt::ResolvedDevices;
use crate::kernel::KernelId;
use crate::matrix::Scalar;
use crate::plan::Plan;
use crate::runtime::options::option_setters;
use crate::runtime::{ProductOptions, Runtime};

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

    option_setters!();

    /// The kernel.
    #[must_use]
    #[doc(hidden)]
    pub fn kernel_id(mut self, kernel: KernelId) -> Self {
        self.options.kernel = Some(kernel);
        self
    }

    /// Number of chunks.
    #[must_use]
    #[doc(hidden)]
    pub fn chunks(mut self, chunks: usize) -> Self {
        self.options.chunks = Some(chunks);
        self
    }

    /// Whether the caller's matrices will be bound for all runs, so that the plan may register them.
    #[must_use]
    pub fn bound(mut self, bound: bool) -> Self {
        self.options.bound = bound;
        self
    }

    /// An existing plan.
    #[must_use]
    pub fn plan(mut self, plan: Plan) -> Self {
        self.plan = Some(plan);
        self
    }
}
