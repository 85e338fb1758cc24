//! The kernels that the planner chooses among, and the rows that each supports.

use crate::cost::Form;
use crate::kernel::order::SEGMENT;
use crate::kernel::{KernelId, Processor};
use crate::work::spmm::Features;

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

impl Form {
    /// Whether it supports rows with these features: a slice holds rows of at most one segment.
    pub fn supports(&self, features: &Features) -> bool {
        match self.kernel {
            KernelId::Sell | KernelId::Hybrid => features.max <= SEGMENT as u64,
            _ => true,
        }
    }
}
