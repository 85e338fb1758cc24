//! What identifies a kernel: the kind of work that it belongs to, the format of A that it reads, and its processor.

/// A kind of work, to which kernels belong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum KindOfWork {
    /// Products with a sparse matrix.
    Spmm,
    /// Dense products.
    Gemm,
    /// Sums of the columns of a dense matrix.
    Colmean,
}

impl KindOfWork {
    /// The name in saved plans.
    pub fn name(self) -> &'static str {
        match self {
            Self::Spmm => "spmm",
            Self::Gemm => "gemm",
            Self::Colmean => "colmean",
        }
    }
}

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
    /// A dense matrix, stored by rows.
    Dense,
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
            Self::Dense => "dense",
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
    /// Lanes over the columns of X, one group of lanes per row, long rows cut at canonical segments.
    CsrCuts,
    /// The same for an A whose values are all equal, of which one is stored.
    CsrPattern,
    /// The same for an A that is packed once and crosses the link with fewer bytes.
    CsrPacked,
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
    /// Dense product: CPU, one thread.
    GemmReference,
    /// Dense product: CPU, all cores, canonical order.
    CpuGemmRows,
    /// Dense product: CPU, all cores, the kernels of the `gemm` crates.
    CpuGemm,
    /// Dense product: one GPU thread per element of C.
    GemmNaive,
    /// Dense product: one GPU thread per element of C, tiles of 8 by 8 in shared memory.
    GemmTiledT8,
    /// Dense product: one GPU thread per element of C, tiles of 16 by 16 in shared memory.
    GemmTiledT16,
    /// Dense product: one GPU thread per element of C, tiles of 32 by 32 in shared memory.
    GemmTiledT32,
    /// Dense product: 8 by 8 elements of C in the registers of each GPU thread.
    GemmBlocked,
    /// Dense product: the vendor's library.
    Cublas,
    /// Column sums: CPU, all cores.
    CpuColmean,
    /// Column sums: one GPU thread per column of a block of rows.
    ColmeanLoop,
    /// Column sums: one GPU thread per strand and column; a tree in shared memory.
    ColmeanReduce,
    /// Column sums: one warp per 64 bytes of columns; shuffles.
    ColmeanWarp,
}
