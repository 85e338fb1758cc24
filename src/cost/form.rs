//! A kernel and which form of it: what is chosen among.

use serde::{Deserialize, Serialize};

use crate::kernel::cuda::{Constant, CudaKernel, Layout, Variant};
use crate::kernel::order::SEGMENT;
use crate::kernel::{KernelId, Order, Processor};
use crate::matrix::Dtype;
use crate::work::Features;

/// Kernels of the CPU to choose among, the one to take of equals first. Those on ELLPACK run the same bodies as the first.
const OF_CPU: [KernelId; 2] = [KernelId::CpuCsr, KernelId::CpuSell];
/// Kernels of GPUs to choose among. The first is canonical and for any K but the largest.
const OF_GPU: [KernelId; 9] = [
    KernelId::CsrRuns,
    KernelId::CsrSubwarp,
    KernelId::CsrSegments,
    KernelId::RowGroups,
    KernelId::Sell,
    KernelId::Hybrid,
    KernelId::CsrPieces,
    KernelId::CsrWays,
    KernelId::RowGroupsCut,
];

/// The kernels worth choosing among; the others are there for comparison.
pub fn eligible(processor: Processor) -> &'static [KernelId] {
    match processor {
        Processor::Cpu => &OF_CPU,
        Processor::Gpu => &OF_GPU,
    }
}

/// A kernel and, where it has several, one of its forms.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Form {
    /// The kernel.
    pub kernel: KernelId,
    /// Its form; of no meaning for the CPU's kernels.
    pub variant: Variant,
}

impl Form {
    /// A kernel of the CPU.
    pub fn cpu(kernel: KernelId) -> Self {
        Self { kernel, variant: Variant::PLAIN }
    }

    /// How the rows that it computes are to lie on a GPU.
    pub fn layout(&self) -> Layout {
        CudaKernel::of(self.kernel).map_or(Layout::Csr, |kernel| kernel.layout)
    }

    /// The forms of `kernel` for `k` columns that a device can run; all that can be made where it `compiles`, else those
    /// that are built in. None where the kernel is for fewer columns.
    pub fn all(kernel: KernelId, dtype: Dtype, k: u64, compiles: bool) -> Vec<Self> {
        let form = |variant| Self { kernel, variant };
        match CudaKernel::of(kernel) {
            Ok(gpu) => gpu.forms(dtype, k, compiles).into_iter().map(form).collect(),
            Err(_) => vec![Self::cpu(kernel)],
        }
    }

    /// Its name, with what tells it from the kernel's other forms.
    pub fn name(&self) -> String {
        match CudaKernel::of(self.kernel) {
            Ok(gpu) if self.variant.piece > 0 && !gpu.constants.contains(&Constant::Piece) => {
                format!("{} p{}", gpu.variant_name(&self.variant), self.variant.piece)
            }
            Ok(gpu) => gpu.variant_name(&self.variant),
            Err(_) => self.kernel.name().into(),
        }
    }

    /// Whether it adds in the order that all canonical kernels add in.
    pub fn is_canonical(&self) -> bool {
        self.kernel.info().order == Order::Canonical
    }

    /// What it runs on.
    pub fn processor(&self) -> Processor {
        self.kernel.info().runs_on
    }

    /// Whether rows that look like this can be laid out for it: slices hold rows of one segment at most.
    pub fn holds(&self, features: &Features) -> bool {
        match self.kernel {
            KernelId::Sell | KernelId::Hybrid => features.max <= SEGMENT as u64,
            _ => true,
        }
    }
}
