//! What a plan is asked for.

use super::data::Mode;
use crate::cost::{HostRates, Profile};
use crate::error::{Error, Result};
use crate::kernel::cuda::{CudaKernel, Layout, Variant};
use crate::kernel::{Format, KernelId, Processor};
use crate::matrix::Dtype;
use crate::work::{Work, XOrder};

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
    /// Products that will be computed.
    pub repeat: u64,
}

/// The kernels of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct KernelPair {
    pub cpu: KernelId,
    pub gpu: KernelId,
    /// A form of the GPU's kernel, where the caller insists.
    pub variant: Option<Variant>,
}

impl KernelPair {
    /// How the GPU's kernel wants its chunks to lie, and which form of it is taken for `k` columns.
    pub fn gpu_form(&self, dtype: Dtype, k: u64) -> Result<(Layout, Variant)> {
        let kernel = CudaKernel::of(self.gpu)?;
        let suits = |variant: &Variant| kernel.variants_for(dtype, k).any(|other| other == variant);
        let variant = match self.variant {
            Some(variant) => Some(variant).filter(suits),
            None => kernel.variant_for(dtype, k),
        };
        let none = || {
            Error::Usage(format!("kernel {} has no such form for k = {k}; take another", kernel.id.name()))
        };
        Ok((kernel.layout, variant.ok_or_else(none)?))
    }

    /// How the GPU's kernel reads X.
    pub fn x_order(&self) -> Result<XOrder> {
        Ok(if CudaKernel::of(self.gpu)?.transposes_x() { XOrder::Columns } else { XOrder::Rows })
    }
}

impl PlanRequest<'_> {
    /// The kernel of GPUs where nobody asks for another: canonical, so that the split leaves no trace in Y. Where A stays, a
    /// list of runs of rows pays; where it crosses each time, its arrays cross as they lie.
    fn gpu_default(&self, mode: Mode) -> KernelId {
        let runs = CudaKernel::of(KernelId::CsrRuns);
        let reaches =
            runs.is_ok_and(|runs| runs.variant_for(self.work.dtype(), self.work.k() as u64).is_some());
        // Where memory is scarce, A's own arrays take least of it.
        let scarce = self.devices.iter().any(|device| device.memory_limit_bytes.is_some());
        if mode == Mode::Resident && reaches && !scarce { KernelId::CsrRuns } else { KernelId::CsrSubwarp }
    }

    /// The kernels to take; an error where kernel, format and devices contradict each other.
    pub(super) fn kernels(&self, mode: Mode) -> Result<KernelPair> {
        let has = |processor| self.devices.iter().any(|device| device.profile.processor == processor);
        let default = KernelPair { cpu: KernelId::CpuCsr, gpu: self.gpu_default(mode), variant: None };
        let of_format = match self.format {
            None | Some(Format::Csr) => default,
            Some(Format::EllPadded) => {
                KernelPair { cpu: KernelId::CpuEllPadded, gpu: KernelId::Ellpack, ..default }
            }
            Some(format) if has(Processor::Gpu) => {
                let name = format.name();
                return Err(Error::Usage(format!("no GPU kernel reads {name}; take --format csr or ell")));
            }
            Some(Format::RowGroups) => {
                return Err(Error::Usage("only GPU kernels read row groups; name one with --kernel".into()));
            }
            Some(Format::EllUnpadded) => KernelPair { cpu: KernelId::CpuEllUnpadded, ..default },
            Some(Format::Sell) => KernelPair { cpu: KernelId::CpuSell, ..default },
        };
        let Some(kernel) = self.kernel else { return Ok(of_format) };
        let info = kernel.info();
        if let Some(format) = self.format.filter(|&format| format != info.format) {
            return Err(Error::Usage(format!(
                "kernel {} reads {}, not {}; leave --format out",
                info.name,
                info.format.name(),
                format.name()
            )));
        }
        match info.runs_on {
            Processor::Gpu if !has(Processor::Gpu) => Err(Error::Usage(format!(
                "kernel {} needs a GPU: add one to --devices, or the emulated one, emu:0",
                info.name
            ))),
            Processor::Cpu if !has(Processor::Cpu) => {
                Err(Error::Usage(format!("kernel {} needs the CPU: add cpu to --devices", info.name)))
            }
            Processor::Gpu => Ok(KernelPair { gpu: kernel, variant: self.variant, ..of_format }),
            Processor::Cpu => Ok(KernelPair { cpu: kernel, ..of_format }),
        }
    }
}
