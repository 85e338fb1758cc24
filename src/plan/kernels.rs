//! The kernels that a plan chooses among.

use super::request::PlanRequest;
use crate::cost::Form;
use crate::error::{Error, Result};
use crate::kernel::cuda::{CudaKernel, Layout};
use crate::kernel::{Format, KernelId, Order, Processor};
use crate::work::XOrder;
use crate::work::spmm::cost::{Candidate, eligible};

/// GPU kernels that read A's own CSR arrays; the first is canonical and supports any K.
const CSR_ONLY: [KernelId; 2] = [KernelId::CsrSubwarp, KernelId::CsrWays];

/// The layouts of A on GPUs that are allowed, where no kernel is requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Layouts {
    /// The CSR arrays of the host, unchanged.
    Csr,
    /// Any layout.
    Any,
}

/// The forms that a plan chooses among.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Forms {
    pub cpu: Vec<Candidate>,
    pub gpu: Vec<Candidate>,
}

/// The kernels of a chunk on a CPU and on a GPU, and the reason for the one on its own device.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ChunkKernels {
    pub cpu: Form,
    pub gpu: Form,
    pub reason: String,
    /// Predicted seconds of the kernel on the chunk's own device.
    pub home_s: f64,
}

impl Forms {
    /// The storage order of X that the GPU kernels read.
    pub fn x_order(&self) -> XOrder {
        let by_columns =
            |gpu: &Candidate| CudaKernel::of(gpu.form.kernel).is_ok_and(CudaKernel::transposes_x);
        if self.gpu.iter().any(by_columns) { XOrder::Columns } else { XOrder::Rows }
    }

    /// Whether the GPU kernels read A's own CSR arrays.
    pub fn read_csr(&self) -> bool {
        self.gpu.iter().all(|gpu| gpu.form.layout() == Layout::Csr)
    }
}

impl PlanRequest<'_> {
    /// The forms to choose among; an error where the requested kernel, format, order and devices contradict each other.
    pub(super) fn forms(&self, layouts: Layouts) -> Result<Forms> {
        let (cpu, gpu) = self.kernels(layouts)?;
        let (dtype, k) = (self.work.dtype(), self.work.k() as u64);
        let mut gpus = self.devices.iter().filter(|device| device.profile.link.is_some());
        let compiles = gpus.all(|device| device.profile.compiles);
        let suits = |form: &Form| self.variant.is_none() || self.kernel != Some(form.kernel);
        let all = |kernel: &KernelId| Form::all(*kernel, dtype, k, compiles);
        let mut of_gpus: Vec<Form> = gpu.iter().flat_map(all).filter(suits).collect();
        if let (Some(variant), Some(kernel)) = (self.variant, self.kernel) {
            let known = CudaKernel::of(kernel)?.variants_for(dtype, k).any(|other| *other == variant);
            of_gpus.extend(known.then_some(Form { kernel, variant }));
        }
        if of_gpus.is_empty() {
            let names: Vec<&str> = gpu.iter().map(|kernel| kernel.name()).collect();
            let names = names.join(", ");
            return Err(Error::Usage(format!("kernel {names} has no form for k = {k}; use another kernel")));
        }
        let candidates = |forms: Vec<Form>| -> Vec<Candidate> {
            forms.into_iter().map(|form| Candidate::new(form, dtype, k)).collect()
        };
        let of_cpu = cpu.iter().copied().map(Form::cpu).collect();
        Ok(Forms { cpu: candidates(of_cpu), gpu: candidates(of_gpus) })
    }

    /// The kernels of the CPU and of GPUs.
    fn kernels(&self, layouts: Layouts) -> Result<(Vec<KernelId>, Vec<KernelId>)> {
        let has = |processor| self.devices.iter().any(|device| device.profile.processor == processor);
        let mut gpu = match layouts {
            Layouts::Any => eligible(Processor::Gpu).to_vec(),
            Layouts::Csr => CSR_ONLY.to_vec(),
        };
        let mut cpu = match self.format {
            None => eligible(Processor::Cpu).to_vec(),
            Some(Format::Csr) => vec![KernelId::CpuCsr],
            Some(Format::EllPadded) => {
                gpu = vec![KernelId::Ellpack];
                vec![KernelId::CpuEllPadded]
            }
            Some(format) if has(Processor::Gpu) => {
                let name = format.name();
                return Err(Error::Usage(format!("no GPU kernel reads {name}; use --format csr or ell")));
            }
            Some(format @ (Format::RowGroups | Format::Hybrid)) => {
                let name = format.name();
                return Err(Error::Usage(format!("only GPU kernels read {name}; name one with --kernel")));
            }
            Some(Format::EllUnpadded) => vec![KernelId::CpuEllUnpadded],
            Some(Format::Sell) => vec![KernelId::CpuSell],
        };
        if self.format == Some(Format::Csr) {
            gpu.retain(|kernel| kernel.info().format == Format::Csr);
        }
        if self.reproducible {
            gpu.retain(|kernel| kernel.info().order == Order::Canonical);
        }
        let Some(kernel) = self.kernel else { return Ok((cpu, gpu)) };
        let info = kernel.info();
        if self.reproducible && info.order != Order::Canonical {
            return Err(Error::Usage(format!(
                "the order of additions of kernel {} is not canonical; leave out --kernel or --reproducible",
                info.name
            )));
        }
        if let Some(format) = self.format.filter(|&format| format != info.format) {
            return Err(Error::Usage(format!(
                "kernel {} reads {}, not {}; leave out --format",
                info.name,
                info.format.name(),
                format.name()
            )));
        }
        match info.runs_on {
            Processor::Gpu if !has(Processor::Gpu) => {
                return Err(Error::Usage(format!(
                    "kernel {} needs a GPU: add one to --devices, or the emulated one, emu:0",
                    info.name
                )));
            }
            Processor::Cpu if !has(Processor::Cpu) => {
                return Err(Error::Usage(format!(
                    "kernel {} needs the CPU: add cpu to --devices",
                    info.name
                )));
            }
            Processor::Gpu => gpu = vec![kernel],
            Processor::Cpu => cpu = vec![kernel],
        }
        Ok((cpu, gpu))
    }
}
