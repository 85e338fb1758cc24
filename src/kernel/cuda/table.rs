//! The table of CUDA kernels.

use super::{Constant, CudaKernel, Grid, Layout, Variant, parameter};
use crate::kernel::KernelId;
use crate::kernel::order::{SEGMENT, SPAN};

/// The source text of a file in `kernels/`, with its includes expanded.
macro_rules! text {
    ($file:literal) => {
        include_str!(concat!(env!("OUT_DIR"), "/", $file))
    };
}

const CSR_SCALAR: &str = text!("csr_scalar.cu");

/// One thread per element of Y, on CSR; other rows of the table derive from it.
const SCALAR: CudaKernel = CudaKernel {
    id: KernelId::CsrScalarV1,
    file: "csr_scalar.cu",
    text: CSR_SCALAR,
    layout: Layout::Csr,
    parameters: parameter::CSR,
    grid: Grid::Elements,
    constants: &[],
    variants: &[Variant::PLAIN],
};

/// Forms by threads per element of Y (`ways`); the default is 2.
const SUBWARPS: &[Variant] = &[
    Variant { ways: 2, ..Variant::PLAIN },
    Variant { ways: 4, ..Variant::PLAIN },
    Variant { ways: 8, ..Variant::PLAIN },
    Variant { ways: 16, ..Variant::PLAIN },
    Variant { ways: 32, ..Variant::PLAIN },
];

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
    SCALAR,
    CudaKernel { id: KernelId::CsrScalarV2, ..SCALAR },
    CudaKernel { id: KernelId::CsrScalarV3, ..SCALAR },
    CudaKernel {
        id: KernelId::CsrVector,
        file: "csr_vector.cu",
        text: text!("csr_vector.cu"),
        variants: &[Variant { ways: 32, ..Variant::PLAIN }],
        ..SCALAR
    },
    CudaKernel {
        id: KernelId::CsrVectorSubwarp,
        file: "csr_vector_subwarp.cu",
        text: text!("csr_vector_subwarp.cu"),
        constants: &[Constant::Ways],
        variants: SUBWARPS,
        ..SCALAR
    },
    CudaKernel {
        id: KernelId::CsrVectorByRow,
        file: "csr_vector_by_row.cu",
        text: text!("csr_vector_by_row.cu"),
        parameters: parameter::CSR_TRANSPOSED,
        grid: Grid::Items,
        variants: &[Variant { lanes: 8, ways: 4, ..Variant::PLAIN }],
        ..SCALAR
    },
    CudaKernel {
        id: KernelId::CsrAdaptive,
        file: "csr_adaptive.cu",
        text: text!("csr_adaptive.cu"),
        layout: Layout::RowBlocks,
        parameters: parameter::ROW_BLOCKS,
        grid: Grid::BlocksOfColumns,
        variants: &[Variant { threads: 128, ..Variant::PLAIN }],
        ..SCALAR
    },
    CudaKernel {
        id: KernelId::CsrAdaptiveSubblocks,
        file: "csr_adaptive_subblocks.cu",
        text: text!("csr_adaptive_subblocks.cu"),
        layout: Layout::RowBlocks,
        parameters: parameter::ROW_BLOCKS,
        grid: Grid::Blocks,
        ..SCALAR
    },
    CudaKernel {
        id: KernelId::Ellpack,
        file: "ellpack.cu",
        text: text!("ellpack.cu"),
        layout: Layout::Ellpack,
        parameters: parameter::ELLPACK,
        ..SCALAR
    },
    CudaKernel {
        id: KernelId::EllpackSubwarp,
        file: "ellpack_subwarp.cu",
        text: text!("ellpack_subwarp.cu"),
        layout: Layout::Ellpack,
        parameters: parameter::ELLPACK,
        constants: &[Constant::Ways],
        variants: SUBWARPS,
        ..SCALAR
    },
    CudaKernel {
        id: KernelId::CsrSubwarp,
        file: "csr_subwarp.cu",
        text: text!("csr_subwarp.cu"),
        grid: Grid::Tiles,
        constants: &[Constant::Bytes, Constant::Lanes, Constant::Vectors],
        variants: &forms_by_width(LANES, 0),
        ..SCALAR
    },
    CudaKernel {
        id: KernelId::CsrWays,
        file: "csr_subwarp.cu",
        text: text!("csr_subwarp.cu"),
        grid: Grid::Tiles,
        constants: &[Constant::Bytes, Constant::Lanes, Constant::Vectors, Constant::Ways],
        variants: &forms_by_width(WAYS, 0),
        ..SCALAR
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
