//! The table of all kernels: name, processor, storage format of A, accumulation order, and the cases each one suits.

use super::order::Order;

/// A storage format of A.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    /// Compressed sparse rows.
    Csr,
    /// ELLPACK with every row padded to the length of the longest row.
    EllPadded,
    /// ELLPACK without padding: each row has its own length.
    EllUnpadded,
    /// Sliced ELLPACK.
    Sell,
    /// Groups of rows, each stored with the union of its rows' columns.
    RowGroups,
    /// ELLPACK of a small width for short rows; longer rows are stored separately.
    Hybrid,
}

impl Format {
    /// The name printed in plans and reports.
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

/// The kind of processor that a kernel runs on.
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
    /// CPU, one thread, CSR.
    SerialCsr,
    /// CPU, one thread, padded ELLPACK.
    SerialEllPadded,
    /// CPU, one thread, ELLPACK without padding.
    SerialEllUnpadded,
    /// CPU, all cores, CSR.
    CpuCsr,
    /// CPU, all cores, padded ELLPACK.
    CpuEllPadded,
    /// CPU, all cores, ELLPACK without padding.
    CpuEllUnpadded,
    /// CPU, all cores, sliced ELLPACK.
    CpuSell,
    /// One GPU thread per element of Y, accumulating in global memory.
    CsrScalarV1,
    /// One GPU thread per element of Y, accumulating in a register.
    CsrScalarV2,
    /// One GPU thread per element of Y, accumulating in a register; the row's bounds are loaded once.
    CsrScalarV3,
    /// One warp per element of Y.
    CsrVector,
    /// A sub-warp (2 to 32 GPU threads) per element of Y.
    CsrVectorSubwarp,
    /// One warp per row of Y.
    CsrVectorByRow,
    /// One thread block per row block and column of X.
    CsrAdaptive,
    /// One thread block per row block, for all columns of X.
    CsrAdaptiveSubblocks,
    /// One GPU thread per element of Y, padded ELLPACK.
    Ellpack,
    /// A sub-warp (2 to 32 GPU threads) per element of Y, padded ELLPACK.
    EllpackSubwarp,
    /// Lanes over the columns of X, one group of lanes per row.
    CsrSubwarp,
    /// Lanes over the columns of X, several groups of lanes per row, which share its nonzeros.
    CsrWays,
    /// Lanes over the columns of X, long rows cut into pieces.
    CsrPieces,
    /// Lanes over the columns of X, long rows cut at canonical segments, several loads of X in flight.
    CsrSegments,
    /// Lanes over the columns of X, short rows joined into runs.
    CsrRuns,
    /// Lanes over the columns of X, rows with common columns computed together.
    RowGroups,
    /// As `RowGroups`, with long groups cut anywhere.
    RowGroupsCut,
    /// One GPU thread per row, sliced ELLPACK.
    Sell,
    /// Lanes over the columns of X, ELLPACK of a small width with longer rows stored separately.
    Hybrid,
}

/// A row of the kernel table.
#[derive(Debug, Clone, Copy)]
pub struct KernelInfo {
    /// The kernel.
    pub id: KernelId,
    /// The name for `--kernel`.
    pub name: &'static str,
    /// The processor it runs on.
    pub runs_on: Processor,
    /// The storage format of A that it reads.
    pub format: Format,
    /// The order in which it accumulates a row.
    pub order: Order,
    /// What the kernel does and which matrices it suits; printed as the start of a plan's reason, so each text must
    /// make sense without the rows before it.
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
        summary: "one CPU thread on CSR, one element of Y at a time; the baseline for speed-ups",
    },
    KernelInfo {
        id: KernelId::SerialEllPadded,
        name: "serial_ell_padded",
        runs_on: Processor::Cpu,
        format: Format::EllPadded,
        order: Order::Canonical,
        summary: "one CPU thread on padded ELLPACK, one element of Y at a time; a baseline for speed-ups",
    },
    KernelInfo {
        id: KernelId::SerialEllUnpadded,
        name: "serial_ell_unpadded",
        runs_on: Processor::Cpu,
        format: Format::EllUnpadded,
        order: Order::Canonical,
        summary: "one CPU thread on ELLPACK without padding, one element of Y at a time; a baseline for speed-ups",
    },
    KernelInfo {
        id: KernelId::CpuCsr,
        name: "cpu_csr",
        runs_on: Processor::Cpu,
        format: Format::Csr,
        order: Order::Canonical,
        summary: "all cores on CSR, SIMD over the columns of X; the default CPU kernel",
    },
    KernelInfo {
        id: KernelId::CpuEllPadded,
        name: "cpu_ell_padded",
        runs_on: Processor::Cpu,
        format: Format::EllPadded,
        order: Order::Canonical,
        summary: "all cores on padded ELLPACK, SIMD over the columns of X; for comparison, or for rows of equal length",
    },
    KernelInfo {
        id: KernelId::CpuEllUnpadded,
        name: "cpu_ell_unpadded",
        runs_on: Processor::Cpu,
        format: Format::EllUnpadded,
        order: Order::Canonical,
        summary: "all cores on ELLPACK without padding, SIMD over the columns of X; for comparison",
    },
    KernelInfo {
        id: KernelId::CpuSell,
        name: "cpu_sell",
        runs_on: Processor::Cpu,
        format: Format::Sell,
        order: Order::Canonical,
        summary: "all cores on sliced ELLPACK, rows sorted by length; suits short rows of uneven length and small K",
    },
    KernelInfo {
        id: KernelId::CsrScalarV1,
        name: "csr_scalar_v1",
        runs_on: Processor::Gpu,
        format: Format::Csr,
        order: Order::Free,
        summary: "one GPU thread per element of Y, accumulating in global memory; for comparison",
    },
    KernelInfo {
        id: KernelId::CsrScalarV2,
        name: "csr_scalar_v2",
        runs_on: Processor::Gpu,
        format: Format::Csr,
        order: Order::Canonical,
        summary: "one GPU thread per element of Y, accumulating in a register; for comparison",
    },
    KernelInfo {
        id: KernelId::CsrScalarV3,
        name: "csr_scalar_v3",
        runs_on: Processor::Gpu,
        format: Format::Csr,
        order: Order::Canonical,
        summary: "one GPU thread per element of Y, accumulating in a register, row bounds loaded once; for comparison",
    },
    KernelInfo {
        id: KernelId::CsrVector,
        name: "csr_vector",
        runs_on: Processor::Gpu,
        format: Format::Csr,
        order: Order::Free,
        summary: "one warp per element of Y; suits long rows and small K",
    },
    KernelInfo {
        id: KernelId::CsrVectorSubwarp,
        name: "csr_vector_subwarp",
        runs_on: Processor::Gpu,
        format: Format::Csr,
        order: Order::Free,
        summary: "one sub-warp per element of Y: 2 GPU threads, or the 4 to 32 of _w4 to _w32 in the name; suits short rows",
    },
    KernelInfo {
        id: KernelId::CsrVectorByRow,
        name: "csr_vector_by_row",
        runs_on: Processor::Gpu,
        format: Format::Csr,
        order: Order::Free,
        summary: "one warp per row of Y, 4 threads per column, X stored by columns; for comparison",
    },
    KernelInfo {
        id: KernelId::CsrAdaptive,
        name: "csr_adaptive",
        runs_on: Processor::Gpu,
        format: Format::Csr,
        order: Order::Free,
        summary: "one thread block per row block and column, X stored by columns; suits mixed row lengths and small K",
    },
    KernelInfo {
        id: KernelId::CsrAdaptiveSubblocks,
        name: "csr_adaptive_subblocks",
        runs_on: Processor::Gpu,
        format: Format::Csr,
        order: Order::Free,
        summary: "one thread block per row block, 128 threads per column, X stored by columns; suits mixed row lengths",
    },
    KernelInfo {
        id: KernelId::Ellpack,
        name: "ellpack",
        runs_on: Processor::Gpu,
        format: Format::EllPadded,
        order: Order::Canonical,
        summary: "one GPU thread per element of Y on padded ELLPACK; suits rows of nearly equal length",
    },
    KernelInfo {
        id: KernelId::EllpackSubwarp,
        name: "ellpack_subwarp",
        runs_on: Processor::Gpu,
        format: Format::EllPadded,
        order: Order::Free,
        summary: "one sub-warp per element of Y on padded ELLPACK: 2 GPU threads, or the 4 to 32 of _w4 to _w32 in the name",
    },
    KernelInfo {
        id: KernelId::CsrSubwarp,
        name: "csr_subwarp",
        runs_on: Processor::Gpu,
        format: Format::Csr,
        order: Order::Canonical,
        summary: "lanes over the columns of X, one group of lanes per row; suits rows of medium length",
    },
    KernelInfo {
        id: KernelId::CsrWays,
        name: "csr_ways",
        runs_on: Processor::Gpu,
        format: Format::Csr,
        order: Order::Free,
        summary: "lanes over the columns of X, several groups of lanes per row; suits small K, or too few rows to fill the GPU",
    },
    KernelInfo {
        id: KernelId::CsrPieces,
        name: "csr_pieces",
        runs_on: Processor::Gpu,
        format: Format::Csr,
        order: Order::Free,
        summary: "lanes over the columns of X, long rows cut into pieces, short rows sorted by length; suits very uneven row lengths",
    },
    KernelInfo {
        id: KernelId::CsrSegments,
        name: "csr_segments",
        runs_on: Processor::Gpu,
        format: Format::Csr,
        order: Order::Canonical,
        summary: "lanes over the columns of X, long rows cut at canonical segments, 4 to 16 loads of X in flight; suits any row length",
    },
    KernelInfo {
        id: KernelId::CsrRuns,
        name: "csr_runs",
        runs_on: Processor::Gpu,
        format: Format::Csr,
        order: Order::Canonical,
        summary: "lanes over the columns of X, short rows joined into runs, long rows cut at canonical segments; the default GPU kernel",
    },
    KernelInfo {
        id: KernelId::RowGroups,
        name: "row_groups",
        runs_on: Processor::Gpu,
        format: Format::RowGroups,
        order: Order::Canonical,
        summary: "four rows at a time, each row of X loaded once for all four; suits meshes and finite elements at K of 16 or more",
    },
    KernelInfo {
        id: KernelId::RowGroupsCut,
        name: "row_groups_cut",
        runs_on: Processor::Gpu,
        format: Format::RowGroups,
        order: Order::Free,
        summary: "four rows at a time, each row of X loaded once for all four, long groups cut; suits rows with common columns, some of them long",
    },
    KernelInfo {
        id: KernelId::Sell,
        name: "sell",
        runs_on: Processor::Gpu,
        format: Format::Sell,
        order: Order::Canonical,
        summary: "one GPU thread per row on sliced ELLPACK, rows sorted by length; suits small K and rows of similar length",
    },
    KernelInfo {
        id: KernelId::Hybrid,
        name: "hybrid",
        runs_on: Processor::Gpu,
        format: Format::Hybrid,
        order: Order::Canonical,
        summary: "lanes over the columns of X; ELLPACK of width 4 for short rows, longer rows stored separately; suits road networks",
    },
];

/// The kernels that run on `processor`.
pub fn kernels_of(processor: Processor) -> impl Iterator<Item = &'static KernelInfo> {
    TABLE.iter().filter(move |info| info.runs_on == processor)
}

impl KernelId {
    /// The kernel's row in the table.
    pub fn info(self) -> &'static KernelInfo {
        // Every kernel has a row, as a test checks; the fallback only keeps this function total.
        TABLE.iter().find(|info| info.id == self).unwrap_or(&TABLE[0])
    }

    /// The name for `--kernel`.
    pub fn name(self) -> &'static str {
        self.info().name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kernel_has_exactly_one_name_and_serializes_to_it() {
        for info in TABLE {
            assert_eq!(KernelId::by_name(info.name).unwrap(), info.id);
            assert_eq!(info.id.info().name, info.name);
            assert_eq!(serde_json::to_value(info.id).unwrap(), info.name);
        }
    }

    #[test]
    fn an_unknown_name_suggests_the_nearest_kernel_or_form() {
        let error = |name: &str| KernelId::by_name(name).unwrap_err().to_string();
        assert!(error("csr_vektor").contains("'csr_vektor' (did you mean 'csr_vector'?)"));
        assert!(error("csr_vector_subwarp_w44").contains("did you mean 'csr_vector_subwarp_w4'?"));
        assert!(error("zzz").ends_with("unknown kernel 'zzz'; `rowloom run --help` lists the kernels"));
    }
}
