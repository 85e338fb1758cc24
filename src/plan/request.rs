//! What a plan is asked for.

use super::data::Mode;
use crate::cost::{HostRates, Profile};
use crate::kernel::cuda::Variant;
use crate::kernel::{Format, KernelId};
use crate::work::Work;

/// A device that may be used.
#[derive(Debug, Clone, PartialEq)]
pub struct DeviceSpec {
    /// Its name, as `--devices` takes it.
    pub name: String,
    /// Its rates; a CPU's say that it computes in the host's memory.
    pub profile: Profile,
    /// Most memory that it may use, where that is less than it has.
    pub memory_limit_bytes: Option<u64>,
    /// Whether it was asked for by name and so must get a part.
    pub required: bool,
}

impl DeviceSpec {
    /// A device that must get a part and may use all of its memory.
    pub fn new(name: impl Into<String>, profile: Profile) -> Self {
        Self { name: name.into(), profile, memory_limit_bytes: None, required: true }
    }
}

/// What to plan.
#[derive(Debug, Clone)]
pub struct PlanRequest<'a> {
    /// The job.
    pub work: Work<'a>,
    /// Devices that may compute.
    pub devices: Vec<DeviceSpec>,
    /// The memory that all of them share.
    pub host: HostRates,
    /// How A gets to the devices, where the caller insists.
    pub mode: Option<Mode>,
    /// A kernel, where the caller insists.
    pub kernel: Option<KernelId>,
    /// A form of that kernel, where the caller insists.
    pub variant: Option<Variant>,
    /// A format, where the caller insists.
    pub format: Option<Format>,
    /// Number of chunks, where the caller insists.
    pub chunks: Option<usize>,
    /// Bytes of A in a chunk, where the caller insists.
    pub chunk_bytes: Option<u64>,
    /// Share of the job that the CPU gets, where the caller insists; the other devices share the rest.
    pub cpu_share: Option<f64>,
    /// Products that will be computed.
    pub repeat: u64,
    /// Only kernels of canonical order: the same bytes whatever the devices, chunks and threads.
    pub reproducible: bool,
}

impl<'a> PlanRequest<'a> {
    /// One product of `work` on `devices`, everything else left to the planner.
    pub fn new(work: Work<'a>, devices: Vec<DeviceSpec>, host: HostRates) -> Self {
        Self {
            work,
            devices,
            host,
            mode: None,
            kernel: None,
            variant: None,
            format: None,
            chunks: None,
            chunk_bytes: None,
            cpu_share: None,
            repeat: 1,
            reproducible: false,
        }
    }
}
