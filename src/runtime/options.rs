//! The options of a product of any kind of work, in the words of the command line.

use std::time::Duration;

use crate::adapt::ResolvedDevices;
use crate::error::{Error, Result};
use crate::kernel::cuda::{CudaKernel, Variant};
use crate::kernel::{Format, KernelId, Schedule};
use crate::plan::{Mode, PlanRequest};
use crate::work::Work;

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

/// Which products are checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Check {
    /// None.
    Never,
    /// The first product of every prepared plan, and the product after one that was wrong.
    #[default]
    First,
    /// Every product.
    Always,
}

impl Check {
    /// All values, in the words of `--check`.
    #[doc(hidden)]
    pub const NAMES: [&'static str; 3] = ["first", "always", "never"];

    /// The value of that name.
    #[doc(hidden)]
    pub fn named(name: &str) -> Result<Self> {
        match name {
            "never" => Ok(Self::Never),
            "first" => Ok(Self::First),
            "always" => Ok(Self::Always),
            _ => Err(Error::usage(format!(
                "'{name}' says nothing about which products are checked: use first, always or never"
            ))),
        }
    }

    /// `never`, `first` or `always`.
    #[doc(hidden)]
    pub fn name(self) -> &'static str {
        match self {
            Self::Never => "never",
            Self::First => "first",
            Self::Always => "always",
        }
    }
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
    /// X and Y will be bound ([`Product::bind`](super::Product::bind)), so the first plan may register them.
    pub bound: bool,
    /// Plan once and never change the plan.
    pub fixed: bool,
    /// Which products are checked.
    pub check: Check,
}

/// The options that the builders of all kinds of work have. A builder has the fields `options`, [`ProductOptions`], and `resolved`.
macro_rules! option_setters {
    () => {
        /// How often it will be computed. Without it a product with a sparse A adapts as products come, and other work is planned for one
        /// run.
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

        /// Upper limit of the memory use of each GPU, in bytes.
        #[must_use]
        pub fn memory_limit(mut self, bytes: u64) -> Self {
            self.options.memory_limit_bytes = Some(bytes);
            self
        }

        /// How A gets to GPUs.
        #[must_use]
        pub fn mode(mut self, mode: $crate::internal::plan::Mode) -> Self {
            self.options.mode = Some(mode);
            self
        }

        /// The share of the work that the CPU computes, from 0 to 1.
        #[must_use]
        pub fn cpu_share(mut self, share: f64) -> Self {
            self.options.cpu_share = Some(share);
            self
        }

        /// How A and the other operands are copied to GPUs.
        #[must_use]
        pub fn transfer(mut self, transfer: $crate::internal::runtime::Transfer) -> Self {
            self.options.transfer = transfer;
            self
        }

        /// Which products are checked, and wrong chunks computed again; the first of every plan without this. Means of columns have no
        /// check.
        #[must_use]
        pub fn check(mut self, check: $crate::internal::runtime::Check) -> Self {
            self.options.check = check;
            self
        }

        /// All options at once. With a dense A, those of sparse matrices must be unset.
        #[must_use]
        #[doc(hidden)]
        pub fn options(mut self, options: $crate::internal::runtime::ProductOptions) -> Self {
            self.options = options;
            self
        }

        /// The devices with corrected profiles, such as after tuning.
        #[must_use]
        #[doc(hidden)]
        pub fn resolved(mut self, resolved: $crate::internal::adapt::ResolvedDevices) -> Self {
            self.resolved = Some(resolved);
            self
        }
    };
}

pub(crate) use option_setters;

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
    pub fn request<'w>(&self, resolved: &ResolvedDevices, work: Work<'w>, uses: u64) -> PlanRequest<'w> {
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
            host_memory_bytes: self.host_memory_limit_bytes.unwrap_or(u64::MAX),
            ..PlanRequest::new(work, resolved.devices.clone(), resolved.host.clone())
        }
    }

    /// Whether the shares of devices follow from the options and not from their speed.
    pub(in crate::internal::runtime) fn fixes_shares(&self) -> bool {
        self.fixed || self.cpu_share.is_some() || self.chunks.is_some() || self.kernel.is_some()
    }
}
