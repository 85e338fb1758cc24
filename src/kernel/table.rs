//! The table of all kernels: name, kind of work, processor, storage format of A, accumulation order, and the cases each one suits.

use super::id::{Format, KernelId, KindOfWork, Processor};
use super::order::Order;
use super::sources;

/// A row of the kernel table.
#[derive(Debug, Clone, Copy)]
pub struct KernelInfo {
    /// The kernel.
    pub id: KernelId,
    /// The name for `--kernel`.
    pub name: &'static str,
    /// The kind of work that it belongs to.
    pub work: KindOfWork,
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
        work: KindOfWork::Spmm,
        runs_on: Processor::Cpu,
        format: Format::Csr,
        order: Order::Canonical,
        summary: "one CPU thread on CSR, one element of Y at a time; slow, to compare other kernels with",
    },
    sources::table::SERIAL_ELL_PADDED,
    sources::table::SERIAL_ELL_UNPADDED,
    KernelInfo {
        id: KernelId::CpuCsr,
        name: "cpu_csr",
        work: KindOfWork::Spmm,
        runs_on: Processor::Cpu,
        format: Format::Csr,
        order: Order::Canonical,
        summary: "all cores on CSR, SIMD over the columns of X; the default CPU kernel",
    },
    sources::table::CPU_ELL_PADDED,
    sources::table::CPU_ELL_UNPADDED,
    KernelInfo {
        id: KernelId::CpuSell,
        name: "cpu_sell",
        work: KindOfWork::Spmm,
        runs_on: Processor::Cpu,
        format: Format::Sell,
        order: Order::Canonical,
        summary: "all cores on sliced ELLPACK, rows sorted by length; suits short rows of uneven length and small K",
    },
    sources::table::CSR_SCALAR_V1,
    sources::table::CSR_SCALAR_V2,
    sources::table::CSR_SCALAR_V3,
    sources::table::CSR_VECTOR,
    sources::table::CSR_VECTOR_SUBWARP,
    sources::table::CSR_VECTOR_BY_ROW,
    sources::table::CSR_ADAPTIVE,
    sources::table::CSR_ADAPTIVE_SUBBLOCKS,
    sources::table::ELLPACK,
    sources::table::ELLPACK_SUBWARP,
    KernelInfo {
        id: KernelId::CsrSubwarp,
        name: "csr_subwarp",
        work: KindOfWork::Spmm,
        runs_on: Processor::Gpu,
        format: Format::Csr,
        order: Order::Canonical,
        summary: "lanes over the columns of X, one group of lanes per row; suits rows of medium length",
    },
    KernelInfo {
        id: KernelId::CsrWays,
        name: "csr_ways",
        work: KindOfWork::Spmm,
        runs_on: Processor::Gpu,
        format: Format::Csr,
        order: Order::Free,
        summary: "lanes over the columns of X, several groups of lanes per row; suits small K, or too few rows to fill the GPU",
    },
    KernelInfo {
        id: KernelId::CsrCuts,
        name: "csr_cuts",
        work: KindOfWork::Spmm,
        runs_on: Processor::Gpu,
        format: Format::Csr,
        order: Order::Canonical,
        summary: "lanes over the columns of X, one group of lanes per row, long rows cut at canonical segments; suits an A with long rows that is copied for each product",
    },
    KernelInfo {
        id: KernelId::CsrPattern,
        name: "csr_pattern",
        work: KindOfWork::Spmm,
        runs_on: Processor::Gpu,
        format: Format::Csr,
        order: Order::Canonical,
        summary: "as csr_cuts, with one value for all nonzeros; suits an A whose values are all equal and that is copied for each product",
    },
    KernelInfo {
        id: KernelId::CsrPacked,
        name: "csr_packed",
        work: KindOfWork::Spmm,
        runs_on: Processor::Gpu,
        format: Format::Csr,
        order: Order::Canonical,
        summary: "as csr_cuts, with columns and few distinct values in fewer bytes; suits an A that is copied for each of many products",
    },
    KernelInfo {
        id: KernelId::CsrPieces,
        name: "csr_pieces",
        work: KindOfWork::Spmm,
        runs_on: Processor::Gpu,
        format: Format::Csr,
        order: Order::Free,
        summary: "lanes over the columns of X, long rows cut into pieces, short rows sorted by length; suits very uneven row lengths",
    },
    KernelInfo {
        id: KernelId::CsrSegments,
        name: "csr_segments",
        work: KindOfWork::Spmm,
        runs_on: Processor::Gpu,
        format: Format::Csr,
        order: Order::Canonical,
        summary: "lanes over the columns of X, long rows cut at canonical segments, 4 to 16 loads of X in flight; suits any row length",
    },
    KernelInfo {
        id: KernelId::CsrRuns,
        name: "csr_runs",
        work: KindOfWork::Spmm,
        runs_on: Processor::Gpu,
        format: Format::Csr,
        order: Order::Canonical,
        summary: "lanes over the columns of X, short rows joined into runs, long rows cut at canonical segments; the default GPU kernel",
    },
    KernelInfo {
        id: KernelId::RowGroups,
        name: "row_groups",
        work: KindOfWork::Spmm,
        runs_on: Processor::Gpu,
        format: Format::RowGroups,
        order: Order::Canonical,
        summary: "four rows at a time, each row of X loaded once for all four; suits meshes and finite elements at K of 16 or more",
    },
    KernelInfo {
        id: KernelId::RowGroupsCut,
        name: "row_groups_cut",
        work: KindOfWork::Spmm,
        runs_on: Processor::Gpu,
        format: Format::RowGroups,
        order: Order::Free,
        summary: "four rows at a time, each row of X loaded once for all four, long groups cut; suits rows with common columns, some of them long",
    },
    KernelInfo {
        id: KernelId::Sell,
        name: "sell",
        work: KindOfWork::Spmm,
        runs_on: Processor::Gpu,
        format: Format::Sell,
        order: Order::Canonical,
        summary: "one GPU thread per row on sliced ELLPACK, rows sorted by length; suits small K and rows of similar length",
    },
    KernelInfo {
        id: KernelId::Hybrid,
        name: "hybrid",
        work: KindOfWork::Spmm,
        runs_on: Processor::Gpu,
        format: Format::Hybrid,
        order: Order::Canonical,
        summary: "lanes over the columns of X; ELLPACK of width 4 for short rows, longer rows stored separately; suits road networks",
    },
    KernelInfo {
        id: KernelId::GemmReference,
        name: "gemm_reference",
        work: KindOfWork::Gemm,
        runs_on: Processor::Cpu,
        format: Format::Dense,
        order: Order::Canonical,
        summary: "one CPU thread, one element of C at a time; slow, to compare other kernels with",
    },
    KernelInfo {
        id: KernelId::CpuGemmRows,
        name: "cpu_gemm_rows",
        work: KindOfWork::Gemm,
        runs_on: Processor::Cpu,
        format: Format::Dense,
        order: Order::Canonical,
        summary: "all cores, panels of B packed, SIMD over the columns of C; reproducible",
    },
    KernelInfo {
        id: KernelId::CpuGemm,
        name: "cpu_gemm",
        work: KindOfWork::Gemm,
        runs_on: Processor::Cpu,
        format: Format::Dense,
        order: Order::Free,
        summary: "all cores, A and B packed, kernels of the gemm crate; the default CPU kernel",
    },
    KernelInfo {
        id: KernelId::GemmNaive,
        name: "gemm_naive",
        work: KindOfWork::Gemm,
        runs_on: Processor::Gpu,
        format: Format::Dense,
        order: Order::Canonical,
        summary: "one GPU thread per element of C, operands from global memory; for comparison",
    },
    KernelInfo {
        id: KernelId::GemmTiledT8,
        name: "gemm_tiled_t8",
        work: KindOfWork::Gemm,
        runs_on: Processor::Gpu,
        format: Format::Dense,
        order: Order::Canonical,
        summary: "one GPU thread per element of C, tiles of 8 by 8 in shared memory; for comparison",
    },
    KernelInfo {
        id: KernelId::GemmTiledT16,
        name: "gemm_tiled_t16",
        work: KindOfWork::Gemm,
        runs_on: Processor::Gpu,
        format: Format::Dense,
        order: Order::Canonical,
        summary: "one GPU thread per element of C, tiles of 16 by 16 in shared memory; for comparison",
    },
    KernelInfo {
        id: KernelId::GemmTiledT32,
        name: "gemm_tiled_t32",
        work: KindOfWork::Gemm,
        runs_on: Processor::Gpu,
        format: Format::Dense,
        order: Order::Canonical,
        summary: "one GPU thread per element of C, tiles of 32 by 32 in shared memory; for comparison",
    },
    KernelInfo {
        id: KernelId::GemmBlocked,
        name: "gemm_blocked",
        work: KindOfWork::Gemm,
        runs_on: Processor::Gpu,
        format: Format::Dense,
        order: Order::Canonical,
        summary: "tiles of C in registers, the next step loaded meanwhile; f64 on tensor cores; the default GPU kernel",
    },
    KernelInfo {
        id: KernelId::Cublas,
        name: "cublas",
        work: KindOfWork::Gemm,
        runs_on: Processor::Gpu,
        format: Format::Dense,
        order: Order::Free,
        summary: "the vendor's library, where it is installed",
    },
    KernelInfo {
        id: KernelId::CpuColmean,
        name: "cpu_colmean",
        work: KindOfWork::Colmean,
        runs_on: Processor::Cpu,
        format: Format::Dense,
        order: Order::Canonical,
        summary: "all cores, eight rows at a time, SIMD over the columns; reads the matrix once",
    },
    KernelInfo {
        id: KernelId::ColmeanLoop,
        name: "colmean_loop",
        work: KindOfWork::Colmean,
        runs_on: Processor::Gpu,
        format: Format::Dense,
        order: Order::Canonical,
        summary: "one GPU thread per column of a block of rows; suits sums without deviations",
    },
    KernelInfo {
        id: KernelId::ColmeanReduce,
        name: "colmean_reduce",
        work: KindOfWork::Colmean,
        runs_on: Processor::Gpu,
        format: Format::Dense,
        order: Order::Canonical,
        summary: "eight GPU threads per column of a block of rows, a tree in shared memory; the default GPU kernel",
    },
    KernelInfo {
        id: KernelId::ColmeanWarp,
        name: "colmean_warp",
        work: KindOfWork::Colmean,
        runs_on: Processor::Gpu,
        format: Format::Dense,
        order: Order::Canonical,
        summary: "one warp per 64 bytes of columns of a block of rows, eight loads of 16 bytes in flight, shuffles; for comparison",
    },
];

/// The kernels of a kind of work.
pub fn kernels_for(work: KindOfWork) -> impl Iterator<Item = &'static KernelInfo> {
    TABLE.iter().filter(move |info| info.work == work)
}

/// The kernels of a kind of work that run on `processor`.
pub fn kernels_of(work: KindOfWork, processor: Processor) -> impl Iterator<Item = &'static KernelInfo> {
    kernels_for(work).filter(move |info| info.runs_on == processor)
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
            assert_eq!(info.work.kernel(info.name).unwrap(), info.id);
            assert_eq!(info.id.info().name, info.name);
            assert_eq!(serde_json::to_value(info.id).unwrap(), info.name);
        }
    }

    #[test]
    fn an_unknown_name_suggests_the_nearest_kernel_or_form() {
        let error = |name: &str| KernelId::by_name(name).unwrap_err().to_string();
        assert!(error("csr_vektor").contains("'csr_vektor' (did you mean 'csr_vector'?)"));
        assert!(error("csr_vector_subwarp_w44").contains("did you mean 'csr_vector_subwarp_w4'?"));
        assert!(error("zzz").ends_with("unknown kernel 'zzz'; docs/kernels.md lists the kernels"));
        assert!(
            error("gemm_blocked")
                .ends_with("unknown kernel 'gemm_blocked'; docs/kernels.md lists the kernels")
        );
        let error = KindOfWork::Gemm.kernel("gemm_naiv").unwrap_err().to_string();
        assert!(error.contains("did you mean 'gemm_naive'?); docs/kernels.md"), "{error}");
    }
}
