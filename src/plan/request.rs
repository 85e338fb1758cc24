//! The request that a plan is made from.

use super::data::{DevicePlan, Mode, Plan};
use crate::cost::{HostRates, Profile, SimulatedCluster, StoredForm};
use crate::kernel::cuda::Variant;
use crate::kernel::{Format, KernelId, Processor};
use crate::work::{ChunkRows, KernelRequest, Work, XPlan};

/// A device that the plan may use.
#[derive(Debug, Clone, PartialEq)]
pub struct DeviceSpec {
    /// Its name, as in `--devices`.
    pub name: String,
    /// Its rates; the profile of a CPU has no link.
    pub profile: Profile,
    /// Upper limit of its memory use, where that is less than it has.
    pub memory_limit_bytes: Option<u64>,
    /// Bytes of its memory that other data uses.
    pub taken_bytes: u64,
    /// Whether it was named and must get a share.
    pub required: bool,
}

impl DeviceSpec {
    /// A required device without a memory limit.
    pub fn new(name: impl Into<String>, profile: Profile) -> Self {
        Self { name: name.into(), profile, memory_limit_bytes: None, taken_bytes: 0, required: true }
    }
}

/// A request for a plan.
#[derive(Debug, Clone)]
pub struct PlanRequest<'a> {
    /// The product to compute.
    pub work: Work<'a>,
    /// The devices that may compute.
    pub devices: Vec<DeviceSpec>,
    /// Rates of the host's memory, which all devices share.
    pub host: HostRates,
    /// The nodes and the network of a simulated cluster. Its products are on vectors that stay on the devices.
    pub cluster: Option<SimulatedCluster>,
    /// The requested mode; `None` leaves it to the planner.
    pub mode: Option<Mode>,
    /// The requested kernel.
    pub kernel: Option<KernelId>,
    /// The requested variant of that kernel.
    pub variant: Option<Variant>,
    /// The requested format.
    pub format: Option<Format>,
    /// The requested number of chunks.
    pub chunks: Option<usize>,
    /// The requested bytes of A per chunk.
    pub chunk_bytes: Option<u64>,
    /// The requested share of the CPU; the other devices share the rest.
    pub cpu_share: Option<f64>,
    /// Number of products that the user asked for, without warm-ups.
    pub repeat: u64,
    /// Register (page-lock) every operand that can be registered, also where staging it is predicted faster.
    pub always_register: bool,
    /// X and Y are other arrays with every product, so they are staged and not registered.
    pub vectors_change: bool,
    /// X and Y stay on the devices: rows are not divided, and X is not gathered.
    pub vectors_stay: bool,
    /// Canonical kernels only: Y has the same bytes for any devices, chunks and threads.
    pub reproducible: bool,
    /// The most memory of the host for a packed copy of A.
    pub host_memory_bytes: u64,
    /// The layouts of the same A that devices have already, the most recently used first.
    pub resident: Vec<ResidentLayout>,
}

/// A layout of A in the memory of a device.
#[derive(Debug, Clone, PartialEq)]
pub struct ResidentLayout {
    /// The name of the device.
    pub device: String,
    /// Bytes of its memory.
    pub bytes: u64,
    /// Its chunks, ordered by row, and how each is stored.
    pub chunks: Vec<(ChunkRows, StoredForm)>,
    /// The part of X that its column numbers refer to.
    pub x: XPlan,
    /// Whether its memory stays in use: products other than the one that is planned need it.
    pub is_in_use: bool,
}

impl<'a> PlanRequest<'a> {
    /// What it says about kernels, for plans with this mode.
    pub(super) fn kernels(&self, mode: Mode) -> KernelRequest {
        let has = |processor| self.devices.iter().any(|device| device.profile.processor == processor);
        let mut gpus = self.devices.iter().filter(|device| device.profile.link.is_some());
        KernelRequest {
            kernel: self.kernel,
            variant: self.variant,
            format: self.format,
            reproducible: self.reproducible,
            has_cpu: has(Processor::Cpu),
            has_gpu: has(Processor::Gpu),
            a_stays: mode == Mode::Resident,
            is_cluster: self.cluster.is_some(),
            compiles: gpus.clone().all(|device| device.profile.compiles),
            cublas: gpus.all(|device| device.profile.cublas),
        }
    }

    /// Whether devices have got layouts of A since `plan` was made, and it uses none of them.
    pub fn misses_layouts(&self, plan: &Plan) -> bool {
        let of_device = |(index, device): (usize, &DevicePlan)| {
            let number = index as u32;
            let own = plan.chunks.iter().filter(|chunk| chunk.home == number);
            let own: Vec<_> = own.map(|chunk| (chunk.rows, chunk.form(Processor::Gpu).stored())).collect();
            let mut layouts = self.resident.iter().filter(|layout| layout.device == device.name).peekable();
            let is_same = |layout: &ResidentLayout| layout.chunks == own && layout.x == device.x;
            layouts.peek().is_some() && !(plan.mode == Mode::Resident && layouts.any(is_same))
        };
        self.mode.is_none_or(|mode| mode == Mode::Resident)
            && plan.devices.iter().enumerate().skip(1).any(of_device)
    }

    /// One product of `work` on `devices`, with all other decisions left to the planner.
    pub fn new(work: Work<'a>, devices: Vec<DeviceSpec>, host: HostRates) -> Self {
        Self {
            work,
            devices,
            host,
            cluster: None,
            mode: None,
            kernel: None,
            variant: None,
            format: None,
            chunks: None,
            chunk_bytes: None,
            cpu_share: None,
            repeat: 1,
            always_register: false,
            vectors_change: false,
            vectors_stay: false,
            reproducible: false,
            host_memory_bytes: u64::MAX,
            resident: Vec::new(),
        }
    }
}
