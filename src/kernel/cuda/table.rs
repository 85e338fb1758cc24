//! All kernels for CUDA devices.

use super::{Constant, CudaKernel, Grid, Layout, Variant, parameter};
use crate::kernel::KernelId;

/// The text of a file in `kernels/`, with what it includes.
macro_rules! text {
    ($file:literal) => {
        include_str!(concat!(env!("OUT_DIR"), "/", $file))
    };
}

const CSR_SCALAR: &str = text!("csr_scalar.cu");

/// A thread for each element of Y, on compressed rows.
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

/// So many threads for each element of Y; two is what the sources found best.
const SUBWARPS: &[Variant] = &[
    Variant { ways: 2, ..Variant::PLAIN },
    Variant { ways: 4, ..Variant::PLAIN },
    Variant { ways: 8, ..Variant::PLAIN },
    Variant { ways: 16, ..Variant::PLAIN },
    Variant { ways: 32, ..Variant::PLAIN },
];

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
];
