//! The kernels of a sparse product that a request allows.

use super::cost::eligible;
use crate::cost::{Candidate, Form};
use crate::error::{Advice, Error, Result};
use crate::kernel::cuda::CudaKernel;
use crate::kernel::{Format, KernelId, Order, Processor};
use crate::matrix::Dtype;
use crate::work::{Forms, KernelRequest, Layouts, XOrder};

/// GPU kernels that read A's own CSR arrays, the last with a list of its long rows beside them; the first is canonical and supports any K.
const CSR_ONLY: [KernelId; 3] = [KernelId::CsrSubwarp, KernelId::CsrWays, KernelId::CsrCuts];

/// The forms to choose among; an error where the requested kernel, format, order and devices contradict each other.
pub(super) fn forms(request: &KernelRequest, layouts: Layouts, dtype: Dtype, k: u64) -> Result<Forms> {
    let (cpu, gpu) = kernels(request, layouts)?;
    let suits = |form: &Form| request.variant.is_none() || request.kernel != Some(form.kernel);
    let all = |kernel: &KernelId| Form::all(*kernel, dtype, k, request.compiles);
    let mut of_gpus: Vec<Form> = gpu.iter().flat_map(all).filter(suits).collect();
    if let (Some(variant), Some(kernel)) = (request.variant, request.kernel) {
        let known = CudaKernel::of(kernel)?.variants_for(dtype, k).any(|other| *other == variant);
        of_gpus.extend(known.then_some(Form { kernel, variant }));
    }
    if of_gpus.is_empty() {
        let names: Vec<&str> = gpu.iter().map(|kernel| kernel.name()).collect();
        let names = names.join(", ");
        return Err(Error::usage(format!("kernel {names} has no form for k = {k}; use another kernel")));
    }
    let by_columns = |form: &Form| CudaKernel::of(form.kernel).is_ok_and(CudaKernel::transposes_x);
    let x_order = if of_gpus.iter().any(by_columns) { XOrder::Columns } else { XOrder::Rows };
    let candidates = |forms: Vec<Form>| -> Vec<Candidate> {
        forms.into_iter().map(|form| form.candidate(dtype, k)).collect()
    };
    let of_cpu = cpu.iter().copied().map(Form::cpu).collect();
    let is_requested = request.kernel.is_some();
    Ok(Forms { cpu: candidates(of_cpu), gpu: candidates(of_gpus), x_order, is_requested })
}

/// The refusal of a kernel that reads one value of A.
pub(crate) fn values_differ() -> Error {
    let name = KernelId::CsrPattern.name();
    let reason =
        format!("kernel {name} reads one value of A, and the values of this matrix are not all equal");
    Error::usage(reason).advise([Advice::AutomaticKernel])
}

/// The refusal of a plan whose A was packed in another way than this matrix is.
pub(crate) fn packed_differently() -> Error {
    let reason =
        "the plan is for a packed A of another size: its columns or values differ from those of this matrix";
    Error::usage(reason).advise([Advice::AutomaticKernel])
}

/// The refusal of a packed A that stays on the devices.
pub(super) fn packed_stays() -> Error {
    let name = KernelId::CsrPacked.name();
    let reason =
        format!("kernel {name} reads an A that is copied with each product, and A stays on the devices");
    Error::usage(reason).advise([Advice::StreamA, Advice::AutomaticKernel])
}

/// The kernels of the CPU and of GPUs.
fn kernels(request: &KernelRequest, layouts: Layouts) -> Result<(Vec<KernelId>, Vec<KernelId>)> {
    let mut gpu = match layouts {
        Layouts::Any => eligible(Processor::Gpu).to_vec(),
        Layouts::Unchanged => CSR_ONLY.to_vec(),
        Layouts::Pattern => vec![KernelId::CsrPattern],
        Layouts::Packed => vec![KernelId::CsrPacked],
    };
    let mut cpu = match request.format {
        None => eligible(Processor::Cpu).to_vec(),
        Some(Format::Csr) => vec![KernelId::CpuCsr],
        Some(Format::EllPadded) => {
            gpu = vec![KernelId::Ellpack];
            vec![KernelId::CpuEllPadded]
        }
        Some(format) if request.has_gpu => {
            let name = format.name();
            let reason = format!("no GPU kernel reads {name}");
            return Err(Error::usage(reason).advise([Advice::CsrOrEllpack]));
        }
        Some(format @ (Format::RowGroups | Format::Hybrid)) => {
            let name = format.name();
            let reason = format!("only GPU kernels read {name}");
            return Err(Error::usage(reason).advise([Advice::NamedKernel]));
        }
        Some(Format::Dense) => {
            return Err(Error::usage("the format of a sparse matrix is not dense"));
        }
        Some(Format::EllUnpadded) => vec![KernelId::CpuEllUnpadded],
        Some(Format::Sell) => vec![KernelId::CpuSell],
    };
    if request.format == Some(Format::Csr) {
        gpu.retain(|kernel| kernel.info().format == Format::Csr);
    }
    if request.reproducible {
        gpu.retain(|kernel| kernel.info().order == Order::Canonical);
    }
    let Some(kernel) = request.kernel else { return Ok((cpu, gpu)) };
    let info = kernel.info();
    if request.reproducible && info.order != Order::Canonical {
        let reason = format!("the order of additions of kernel {} is not canonical", info.name);
        return Err(Error::usage(reason).advise([Advice::AutomaticKernel, Advice::AnyOrder]));
    }
    if let Some(format) = request.format.filter(|&format| format != info.format) {
        let reason = format!("kernel {} reads {}, not {}", info.name, info.format.name(), format.name());
        return Err(Error::usage(reason).advise([Advice::AutomaticFormat]));
    }
    let other = |device: Advice| if request.is_cluster { Advice::OtherKernel } else { device };
    match info.runs_on {
        Processor::Gpu if !request.has_gpu => {
            let reason = format!("kernel {} needs a GPU", info.name);
            return Err(Error::usage(reason).advise([other(Advice::AddGpu)]));
        }
        Processor::Cpu if !request.has_cpu => {
            let reason = format!("kernel {} needs the CPU", info.name);
            return Err(Error::usage(reason).advise([other(Advice::AddCpu)]));
        }
        Processor::Gpu => gpu = vec![kernel],
        Processor::Cpu => cpu = vec![kernel],
    }
    Ok((cpu, gpu))
}
