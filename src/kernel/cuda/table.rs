//! The table of CUDA kernels.

use super::{Constant, CudaKernel, Grid, Layout, Variant, parameter};
use crate::kernel::KernelId;
use crate::kernel::order::{SEGMENT, SPAN};
use crate::kernel::sources;

/// The source text of a file in `kernels/` or `kernels/sources/`, with its includes expanded.
macro_rules! text {
    ($file:literal) => {
        include_str!(concat!(env!("OUT_DIR"), "/", $file))
    };
}
pub(crate) use text;

/// A group of lanes per row, on CSR; the next rows of the table derive from it.
const CSR_SUBWARP: CudaKernel = CudaKernel {
    id: KernelId::CsrSubwarp,
    file: "csr_subwarp.cu",
    text: text!("csr_subwarp.cu"),
    layout: Layout::Csr,
    parameters: parameter::CSR,
    grid: Grid::Tiles,
    constants: &[Constant::Bytes, Constant::Lanes, Constant::Vectors],
    variants: &forms_by_width(LANES, 0),
};

/// The same with a list of the segments of long rows; the next row of the table derives from it.
const CSR_CUTS: CudaKernel = CudaKernel {
    id: KernelId::CsrCuts,
    file: "csr_cuts.cu",
    text: text!("csr_cuts.cu"),
    layout: Layout::Cuts,
    parameters: parameter::CUTS,
    grid: Grid::TilesApart,
    ..CSR_SUBWARP
};

/// Bytes of a vector, lanes, vectors per lane, and ways.
type TileShape = (u32, u32, u32, u32);
/// Tile shapes from the widest, which covers rows of any width in tiles, to the narrowest.
const LANES: [TileShape; 9] = [
    (16, 16, 4, 1),
    (16, 8, 4, 1),
    (16, 8, 2, 1),
    (16, 4, 2, 1),
    (16, 4, 1, 1),
    (16, 2, 1, 1),
    (16, 1, 1, 1),
    (8, 1, 1, 1),
    (4, 1, 1, 1),
];
const WAYS: [TileShape; 9] = [
    (16, 16, 4, 2),
    (16, 8, 4, 4),
    (16, 8, 2, 4),
    (16, 4, 2, 2),
    (16, 4, 1, 2),
    (16, 2, 1, 4),
    (16, 1, 1, 8),
    (8, 1, 1, 8),
    (4, 1, 1, 8),
];

/// Threads per block of the kernels with lanes over K.
const THREADS: u32 = 128;

/// A form for each tile shape, with pieces of `piece` nonzeros.
const fn forms_by_width(shapes: [TileShape; 9], piece: u32) -> [Variant; 9] {
    let mut variants = [Variant::PLAIN; 9];
    let mut at = 0;
    while at < shapes.len() {
        let (bytes, lanes, vectors, ways) = shapes[at];
        variants[at] = Variant { bytes, lanes, vectors, ways, threads: THREADS, piece, ..Variant::PLAIN };
        at += 1;
    }
    variants
}

const fn group(lanes: u32, vectors: u32, piece: u32) -> Variant {
    let depth = if vectors == 1 { 8 } else { 4 };
    Variant { lanes, vectors, rows: 4, depth, threads: THREADS, piece, ..Variant::PLAIN }
}

const fn slice(bytes: u32, vectors: u32) -> Variant {
    Variant { bytes, vectors, threads: THREADS, ..Variant::PLAIN }
}

/// A form whose pieces are canonical segments. Blocks are small, so that few rows still occupy every multiprocessor.
const fn segment(bytes: u32, lanes: u32, vectors: u32, depth: u32) -> Variant {
    Variant { bytes, lanes, vectors, depth, threads: 64, piece: SEGMENT as u32, ..Variant::PLAIN }
}

/// As `segment`, with pieces of a canonical span.
const fn span(lanes: u32, vectors: u32, depth: u32) -> Variant {
    Variant { piece: SPAN as u32, ..segment(16, lanes, vectors, depth) }
}

/// As `segment`, with several ways, which add in turn to keep the canonical order.
const fn segment_by_ways(bytes: u32, lanes: u32, vectors: u32, ways: u32, depth: u32) -> Variant {
    Variant { ways, ..segment(bytes, lanes, vectors, depth) }
}

/// Forms that compute two rows at a time.
const fn two_row_forms() -> [Variant; 9] {
    let mut variants = forms_by_width(LANES, 0);
    let mut at = 0;
    while at < variants.len() {
        variants[at].rows = 2;
        at += 1;
    }
    variants
}

/// All kernels for CUDA devices.
pub const CUDA_KERNELS: &[CudaKernel] = &[
    sources::cuda::CSR_SCALAR_V1,
    sources::cuda::CSR_SCALAR_V2,
    sources::cuda::CSR_SCALAR_V3,
    sources::cuda::CSR_VECTOR,
    sources::cuda::CSR_VECTOR_SUBWARP,
    sources::cuda::CSR_VECTOR_BY_ROW,
    sources::cuda::CSR_ADAPTIVE,
    sources::cuda::CSR_ADAPTIVE_SUBBLOCKS,
    sources::cuda::ELLPACK,
    sources::cuda::ELLPACK_SUBWARP,
    CSR_SUBWARP,
    CudaKernel {
        id: KernelId::CsrWays,
        constants: &[Constant::Bytes, Constant::Lanes, Constant::Vectors, Constant::Ways],
        variants: &forms_by_width(WAYS, 0),
        ..CSR_SUBWARP
    },
    CSR_CUTS,
    CudaKernel {
        id: KernelId::CsrPattern,
        file: "csr_pattern.cu",
        text: text!("csr_pattern.cu"),
        layout: Layout::Pattern,
        ..CSR_CUTS
    },
    CudaKernel {
        id: KernelId::CsrPacked,
        file: "csr_packed.cu",
        text: text!("csr_packed.cu"),
        layout: Layout::Packed,
        parameters: parameter::PACKED,
        ..CSR_CUTS
    },
    CudaKernel {
        id: KernelId::CsrPieces,
        file: "csr_pieces.cu",
        text: text!("csr_pieces.cu"),
        layout: Layout::Pieces,
        parameters: parameter::PIECES,
        grid: Grid::HeavyTiles,
        constants: &[Constant::Bytes, Constant::Lanes, Constant::Vectors, Constant::Ways],
        variants: &forms_by_width(WAYS, 1024),
    },
    CudaKernel {
        id: KernelId::CsrSegments,
        file: "csr_segments.cu",
        text: text!("csr_segments.cu"),
        layout: Layout::Pieces,
        parameters: parameter::SEGMENTS,
        grid: Grid::LongestTiles,
        constants: &[
            Constant::Bytes,
            Constant::Lanes,
            Constant::Vectors,
            Constant::Ways,
            Constant::Depth,
            Constant::Piece,
        ],
        variants: &[
            segment(16, 16, 4, 4),
            segment(16, 8, 4, 4),
            segment(16, 8, 2, 8),
            segment(16, 4, 2, 8),
            segment(16, 4, 1, 8),
            span(4, 1, 8),
            segment_by_ways(16, 4, 1, 4, 4),
            segment(16, 2, 1, 8),
            segment(16, 1, 1, 8),
            segment_by_ways(16, 1, 1, 8, 4),
            segment(8, 1, 1, 8),
            segment_by_ways(8, 1, 1, 8, 8),
            segment(4, 1, 1, 8),
            segment_by_ways(4, 1, 1, 4, 8),
        ],
    },
    CudaKernel {
        id: KernelId::CsrRuns,
        file: "csr_runs.cu",
        text: text!("csr_runs.cu"),
        layout: Layout::Runs,
        parameters: parameter::RUNS,
        grid: Grid::Tiles,
        constants: &[Constant::Bytes, Constant::Lanes, Constant::Vectors],
        variants: &forms_by_width(LANES, 16),
    },
    CudaKernel {
        id: KernelId::RowGroups,
        file: "row_groups.cu",
        text: text!("row_groups.cu"),
        layout: Layout::RowGroups,
        parameters: parameter::ROW_GROUPS,
        grid: Grid::Tiles,
        constants: &[
            Constant::Bytes,
            Constant::Lanes,
            Constant::Vectors,
            Constant::Shares,
            Constant::Rows,
            Constant::Depth,
        ],
        variants: &[
            group(4, 1, 0),
            Variant { shares: 4, ..group(4, 1, 0) },
            Variant { depth: 16, ..group(4, 1, 0) },
            group(8, 2, 0),
            group(16, 4, 0),
            Variant { shares: 2, ..group(16, 4, 0) },
        ],
    },
    CudaKernel {
        id: KernelId::RowGroupsCut,
        file: "row_groups.cu",
        text: text!("row_groups.cu"),
        layout: Layout::RowGroups,
        parameters: parameter::ROW_GROUPS,
        grid: Grid::Tiles,
        constants: &[Constant::Bytes, Constant::Lanes, Constant::Vectors, Constant::Ways, Constant::Rows],
        variants: &[group(4, 1, 256), group(8, 2, 256), group(16, 4, 256)],
    },
    CudaKernel {
        id: KernelId::Sell,
        file: "sell.cu",
        text: text!("sell.cu"),
        layout: Layout::Slices,
        parameters: parameter::SLICES,
        grid: Grid::Slices,
        constants: &[Constant::Bytes, Constant::Vectors],
        variants: &[slice(16, 1), slice(16, 2), slice(16, 4), slice(8, 1), slice(4, 1)],
    },
    CudaKernel {
        id: KernelId::Hybrid,
        file: "hybrid.cu",
        text: text!("hybrid.cu"),
        layout: Layout::Hybrid,
        parameters: parameter::HYBRID,
        grid: Grid::TilesApart,
        constants: &[Constant::Bytes, Constant::Lanes, Constant::Vectors, Constant::Rows],
        variants: &two_row_forms(),
    },
];
