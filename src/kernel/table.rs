//! Every kernel by name: what format it reads, in which order it adds, and what it is for.

use super::order::Order;
use crate::error::{Error, Result};

/// A storage format of A.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    /// Compressed sparse rows.
    Csr,
    /// ELLPACK, every row padded to the longest.
    EllPadded,
    /// ELLPACK with each row at its own length.
    EllUnpadded,
    /// Sliced ELLPACK.
    Sell,
    /// Groups of rows with the columns they share.
    RowGroups,
    /// Narrow ELLPACK with longer rows beside it.
    Hybrid,
}

impl Format {
    /// The name that reports use.
    pub fn name(self) -> &'static str {
        match self {
            Self::Csr => "csr",
            Self::EllPadded => "ell_padded",
            Self::EllUnpadded => "ell_unpadded",
            Self::Sell => "sell",
            Self::RowGroups => "row_groups",
            Self::Hybrid => "hybrid",
        }
    }
}

/// What a kernel is written for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Processor {
    /// The host's cores.
    Cpu,
    /// A CUDA device, real or emulated.
    Gpu,
}

/// A kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KernelId {
    /// One thread, CSR.
    SerialCsr,
    /// One thread, padded ELLPACK.
    SerialEllPadded,
    /// One thread, ELLPACK without padding.
    SerialEllUnpadded,
    /// All cores, CSR.
    CpuCsr,
    /// All cores, padded ELLPACK.
    CpuEllPadded,
    /// All cores, ELLPACK without padding.
    CpuEllUnpadded,
    /// All cores, sliced ELLPACK.
    CpuSell,
    /// A GPU thread an element, adding in global memory.
    CsrScalarV1,
    /// A GPU thread an element, adding in a register.
    CsrScalarV2,
    /// A GPU thread an element, the row's bounds read once.
    CsrScalarV3,
    /// A warp an element.
    CsrVector,
    /// A few GPU threads an element.
    CsrVectorSubwarp,
    /// A warp a row.
    CsrVectorByRow,
    /// A GPU block a block of rows and column.
    CsrAdaptive,
    /// A GPU block a block of rows.
    CsrAdaptiveSubblocks,
    /// A GPU thread an element, padded ELLPACK.
    Ellpack,
    /// A few GPU threads an element, padded ELLPACK.
    EllpackSubwarp,
    /// Lanes over the columns of X, a row at a time.
    CsrSubwarp,
    /// The same, several lanes sharing a row's nonzeros.
    CsrWays,
    /// Lanes over the columns of X, long rows cut.
    CsrPieces,
    /// Lanes over the columns of X, long rows cut at segments, many rows of X on their way.
    CsrSegments,
    /// Lanes over the columns of X, short rows joined.
    CsrRuns,
    /// Lanes over the columns of X, rows that share columns together.
    RowGroups,
    /// The same, groups cut.
    RowGroupsCut,
    /// A GPU thread a row, sliced ELLPACK.
    Sell,
    /// Lanes over the columns of X, narrow ELLPACK with longer rows beside it.
    Hybrid,
}

/// What is known of a kernel.
#[derive(Debug, Clone, Copy)]
pub struct KernelInfo {
    /// The kernel.
    pub id: KernelId,
    /// The name that `--kernel` takes.
    pub name: &'static str,
    /// What it runs on.
    pub runs_on: Processor,
    /// What it reads.
    pub format: Format,
    /// How it adds up a row.
    pub order: Order,
    /// When it is the one to take.
    pub summary: &'static str,
}

/// All kernels.
pub const TABLE: &[KernelInfo] = &[
    KernelInfo {
        id: KernelId::SerialCsr,
        name: "serial_csr",
        runs_on: Processor::Cpu,
        format: Format::Csr,
        order: Order::Canonical,
        summary: "one thread, one element of Y at a time; the baseline of speed-ups",
    },
    KernelInfo {
        id: KernelId::SerialEllPadded,
        name: "serial_ell_padded",
        runs_on: Processor::Cpu,
        format: Format::EllPadded,
        order: Order::Canonical,
        summary: "the same on padded ELLPACK",
    },
    KernelInfo {
        id: KernelId::SerialEllUnpadded,
        name: "serial_ell_unpadded",
        runs_on: Processor::Cpu,
        format: Format::EllUnpadded,
        order: Order::Canonical,
        summary: "the same on ELLPACK without padding",
    },
    KernelInfo {
        id: KernelId::CpuCsr,
        name: "cpu_csr",
        runs_on: Processor::Cpu,
        format: Format::Csr,
        order: Order::Canonical,
        summary: "all cores, vectors over K, rows grouped by pattern or length; the default",
    },
    KernelInfo {
        id: KernelId::CpuEllPadded,
        name: "cpu_ell_padded",
        runs_on: Processor::Cpu,
        format: Format::EllPadded,
        order: Order::Canonical,
        summary: "the same bodies on padded ELLPACK; for comparison, or rows of one length",
    },
    KernelInfo {
        id: KernelId::CpuEllUnpadded,
        name: "cpu_ell_unpadded",
        runs_on: Processor::Cpu,
        format: Format::EllUnpadded,
        order: Order::Canonical,
        summary: "the same bodies on ELLPACK without padding",
    },
    KernelInfo {
        id: KernelId::CpuSell,
        name: "cpu_sell",
        runs_on: Processor::Cpu,
        format: Format::Sell,
        order: Order::Canonical,
        summary: "all cores on slices of rows sorted by length; short uneven rows and small K",
    },
    KernelInfo {
        id: KernelId::CsrScalarV1,
        name: "csr_scalar_v1",
        runs_on: Processor::Gpu,
        format: Format::Csr,
        order: Order::Free,
        summary: "a GPU thread an element of Y, adding in global memory at every step; for comparison",
    },
    KernelInfo {
        id: KernelId::CsrScalarV2,
        name: "csr_scalar_v2",
        runs_on: Processor::Gpu,
        format: Format::Csr,
        order: Order::Canonical,
        summary: "the same, adding in a register and storing once",
    },
    KernelInfo {
        id: KernelId::CsrScalarV3,
        name: "csr_scalar_v3",
        runs_on: Processor::Gpu,
        format: Format::Csr,
        order: Order::Canonical,
        summary: "the same, with the row's bounds read once",
    },
    KernelInfo {
        id: KernelId::CsrVector,
        name: "csr_vector",
        runs_on: Processor::Gpu,
        format: Format::Csr,
        order: Order::Free,
        summary: "a warp an element of Y; long rows and small K",
    },
    KernelInfo {
        id: KernelId::CsrVectorSubwarp,
        name: "csr_vector_subwarp",
        runs_on: Processor::Gpu,
        format: Format::Csr,
        order: Order::Free,
        summary: "2 GPU threads an element of Y, or 4, 8, 16, 32 with _w4 and so on behind the name; short rows",
    },
    KernelInfo {
        id: KernelId::CsrVectorByRow,
        name: "csr_vector_by_row",
        runs_on: Processor::Gpu,
        format: Format::Csr,
        order: Order::Free,
        summary: "a warp a row of Y, 4 threads a column, X by columns; for comparison",
    },
    KernelInfo {
        id: KernelId::CsrAdaptive,
        name: "csr_adaptive",
        runs_on: Processor::Gpu,
        format: Format::Csr,
        order: Order::Free,
        summary: "a GPU block a block of rows and column, X by columns; rows of all lengths and small K",
    },
    KernelInfo {
        id: KernelId::CsrAdaptiveSubblocks,
        name: "csr_adaptive_subblocks",
        runs_on: Processor::Gpu,
        format: Format::Csr,
        order: Order::Free,
        summary: "the same for all columns, 128 threads a column; larger K",
    },
    KernelInfo {
        id: KernelId::Ellpack,
        name: "ellpack",
        runs_on: Processor::Gpu,
        format: Format::EllPadded,
        order: Order::Canonical,
        summary: "a GPU thread an element of Y on padded ELLPACK; rows of nearly one length",
    },
    KernelInfo {
        id: KernelId::EllpackSubwarp,
        name: "ellpack_subwarp",
        runs_on: Processor::Gpu,
        format: Format::EllPadded,
        order: Order::Free,
        summary: "2 GPU threads an element of Y on padded ELLPACK, or more as csr_vector_subwarp",
    },
    KernelInfo {
        id: KernelId::CsrSubwarp,
        name: "csr_subwarp",
        runs_on: Processor::Gpu,
        format: Format::Csr,
        order: Order::Canonical,
        summary: "lanes over the columns of X in 16-byte vectors, a group of them a row; rows of some length",
    },
    KernelInfo {
        id: KernelId::CsrWays,
        name: "csr_ways",
        runs_on: Processor::Gpu,
        format: Format::Csr,
        order: Order::Free,
        summary: "the same with several groups a row; small K, or too few rows to fill a device",
    },
    KernelInfo {
        id: KernelId::CsrPieces,
        name: "csr_pieces",
        runs_on: Processor::Gpu,
        format: Format::Csr,
        order: Order::Free,
        summary: "the same on a list that cuts long rows and sorts short ones; rows of very different length",
    },
    KernelInfo {
        id: KernelId::CsrSegments,
        name: "csr_segments",
        runs_on: Processor::Gpu,
        format: Format::Csr,
        order: Order::Canonical,
        summary: "the same with long rows cut at segments and 4, 8 or 16 rows of X on their way; rows of any length",
    },
    KernelInfo {
        id: KernelId::CsrRuns,
        name: "csr_runs",
        runs_on: Processor::Gpu,
        format: Format::Csr,
        order: Order::Canonical,
        summary: "lanes over the columns of X, short rows joined, long ones cut at segments; the default",
    },
    KernelInfo {
        id: KernelId::RowGroups,
        name: "row_groups",
        runs_on: Processor::Gpu,
        format: Format::RowGroups,
        order: Order::Canonical,
        summary: "four rows together, each row of X read once for all; meshes and finite elements, K from 16 on",
    },
    KernelInfo {
        id: KernelId::RowGroupsCut,
        name: "row_groups_cut",
        runs_on: Processor::Gpu,
        format: Format::RowGroups,
        order: Order::Free,
        summary: "the same with long groups cut anywhere; rows that share columns, some of them long",
    },
    KernelInfo {
        id: KernelId::Sell,
        name: "sell",
        runs_on: Processor::Gpu,
        format: Format::Sell,
        order: Order::Canonical,
        summary: "a GPU thread a row on slices of rows sorted by length; small K and rows of similar length",
    },
    KernelInfo {
        id: KernelId::Hybrid,
        name: "hybrid",
        runs_on: Processor::Gpu,
        format: Format::Hybrid,
        order: Order::Canonical,
        summary: "lanes over the columns of X on rows of a few nonzeros side by side, longer ones apart; road networks",
    },
];

/// The kernels of one processor.
pub fn kernels_of(processor: Processor) -> impl Iterator<Item = &'static KernelInfo> {
    TABLE.iter().filter(move |info| info.runs_on == processor)
}

impl KernelId {
    /// What is known of it.
    pub fn info(self) -> &'static KernelInfo {
        // Every kernel has its row, which a test checks; the first one keeps this function total.
        TABLE.iter().find(|info| info.id == self).unwrap_or(&TABLE[0])
    }

    /// The name that `--kernel` takes.
    pub fn name(self) -> &'static str {
        self.info().name
    }

    /// The kernel of that name.
    pub fn by_name(name: &str) -> Result<Self> {
        TABLE.iter().find(|info| info.name == name).map(|info| info.id).ok_or_else(|| {
            let names: Vec<&str> = TABLE.iter().map(|info| info.name).collect();
            Error::Usage(format!("unknown kernel '{name}'; there are auto, {}", names.join(", ")))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_kernels_belong_together_one_to_one() {
        for info in TABLE {
            assert_eq!(KernelId::by_name(info.name).unwrap(), info.id);
            assert_eq!(info.id.info().name, info.name);
            assert_eq!(serde_json::to_value(info.id).unwrap(), info.name);
        }
    }

    #[test]
    fn an_unknown_name_lists_the_known_ones() {
        let error = KernelId::by_name("csr_magic").unwrap_err().to_string();
        assert!(error.contains("csr_magic") && error.contains("cpu_sell"), "{error}");
    }
}
