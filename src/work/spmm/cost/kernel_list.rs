//! The kernels that the planner chooses among, and the rows that each supports.

use crate::cost::Form;
use crate::kernel::order::SEGMENT;
use crate::kernel::{KernelId, Processor};
use crate::work::spmm::Features;
use crate::work::spmm::cuts::LONG_ROW;

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
    /// Whether it is a candidate for rows with these features: a slice holds rows of at most one segment, and a list of long rows is of
    /// no use without any.
    pub fn supports(&self, features: &Features) -> bool {
        match self.kernel {
            KernelId::CsrCuts => features.max > LONG_ROW,
            KernelId::Sell | KernelId::Hybrid => features.max <= SEGMENT as u64,
            _ => true,
        }
    }
}
