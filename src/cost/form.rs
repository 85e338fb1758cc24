//! Forms: a kernel with its compile-time parameters, the unit of choice.

use serde::{Deserialize, Serialize};

use crate::kernel::cuda::{Constant, CudaKernel, Layout, Variant};
use crate::kernel::order::SEGMENT;
use crate::kernel::{KernelId, Order, Processor};
use crate::matrix::Dtype;
use crate::work::Features;

/// CPU kernels to choose among; the first wins a tie. The ELLPACK kernels run the same bodies as the first and are left out.
const OF_CPU: [KernelId; 2] = [KernelId::CpuCsr, KernelId::CpuSell];
/// GPU kernels to choose among. The first is canonical and supports all but the largest K.
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

/// The kernels that the planner chooses among; the other kernels exist for comparison.
pub fn eligible(processor: Processor) -> &'static [KernelId] {
    match processor {
        Processor::Cpu => &OF_CPU,
        Processor::Gpu => &OF_GPU,
    }
}

/// A kernel and, where it has several, one of its variants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Form {
    /// The kernel.
    pub kernel: KernelId,
    /// Its variant; ignored for CPU kernels.
    pub variant: Variant,
}

impl Form {
    /// The form of a CPU kernel.
    pub fn cpu(kernel: KernelId) -> Self {
        Self { kernel, variant: Variant::PLAIN }
    }

    /// The layout of A that it reads on a GPU.
    pub fn layout(&self) -> Layout {
        CudaKernel::of(self.kernel).map_or(Layout::Csr, |kernel| kernel.layout)
    }

    /// The forms of `kernel` for `k` columns that a device can run: all that can be compiled where it `compiles`, else the
    /// compiled-in ones. Empty where the kernel supports fewer columns only.
    pub fn all(kernel: KernelId, dtype: Dtype, k: u64, compiles: bool) -> Vec<Self> {
        let form = |variant| Self { kernel, variant };
        match CudaKernel::of(kernel) {
            Ok(gpu) => gpu.forms(dtype, k, compiles).into_iter().map(form).collect(),
            Err(_) => vec![Self::cpu(kernel)],
        }
    }

    /// Its name: the kernel's, with the parameters that differ between its forms.
    pub fn name(&self) -> String {
        match CudaKernel::of(self.kernel) {
            Ok(gpu) if self.variant.piece > 0 && !gpu.constants.contains(&Constant::Piece) => {
                format!("{} p{}", gpu.variant_name(&self.variant), self.variant.piece)
            }
            Ok(gpu) => gpu.variant_name(&self.variant),
            Err(_) => self.kernel.name().into(),
        }
    }

    /// Whether its order of additions is canonical.
    pub fn is_canonical(&self) -> bool {
        self.kernel.info().order == Order::Canonical
    }

    /// The processor that it runs on.
    pub fn processor(&self) -> Processor {
        self.kernel.info().runs_on
    }

    /// Whether it supports rows with these features: a slice holds rows of at most one segment.
    pub fn supports(&self, features: &Features) -> bool {
        match self.kernel {
            KernelId::Sell | KernelId::Hybrid => features.max <= SEGMENT as u64,
            _ => true,
        }
    }
}
