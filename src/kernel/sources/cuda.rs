//! The rows of these kernels in the table of CUDA kernels. Their text is in `kernels/sources/`.

use crate::kernel::KernelId;
use crate::kernel::cuda::{Constant, CudaKernel, Grid, Layout, Parameter, Variant, parameter, text};

/// Parameters of kernels on CSR that read X by columns.
const CSR_TRANSPOSED: &[Parameter] = &[
    Parameter::Number("rows"),
    Parameter::Number("k"),
    Parameter::Read("row_pointers"),
    Parameter::Read("columns"),
    Parameter::Read("values"),
    Parameter::Read("x_transposed"),
    Parameter::Number("ldx"),
    Parameter::Result("y"),
    Parameter::Number("ldy"),
    Parameter::Number("alpha"),
    Parameter::Number("beta"),
];

/// Parameters of kernels on row blocks; they read X by columns.
const ROW_BLOCKS: &[Parameter] = &[
    Parameter::Number("k"),
    Parameter::Read("row_blocks"),
    Parameter::Read("row_pointers"),
    Parameter::Read("columns"),
    Parameter::Read("values"),
    Parameter::Read("x_transposed"),
    Parameter::Number("ldx"),
    Parameter::Result("y"),
    Parameter::Number("ldy"),
    Parameter::Number("alpha"),
    Parameter::Number("beta"),
];

/// Parameters of kernels on padded ELLPACK.
const PADDED_ROWS: &[Parameter] = &[
    Parameter::Number("rows"),
    Parameter::Number("k"),
    Parameter::Number("width"),
    Parameter::Read("columns"),
    Parameter::Read("values"),
    Parameter::Read("x"),
    Parameter::Number("ldx"),
    Parameter::Result("y"),
    Parameter::Number("ldy"),
    Parameter::Number("alpha"),
    Parameter::Number("beta"),
];

/// Forms by threads per element of Y (`ways`); the default is 2.
const SUBWARPS: &[Variant] = &[
    Variant { ways: 2, ..Variant::PLAIN },
    Variant { ways: 4, ..Variant::PLAIN },
    Variant { ways: 8, ..Variant::PLAIN },
    Variant { ways: 16, ..Variant::PLAIN },
    Variant { ways: 32, ..Variant::PLAIN },
];

/// One thread per element of Y, on CSR; other rows derive from it.
pub const CSR_SCALAR_V1: CudaKernel = CudaKernel {
    id: KernelId::CsrScalarV1,
    file: "csr_scalar.cu",
    text: text!("csr_scalar.cu"),
    layout: Layout::Csr,
    parameters: parameter::CSR,
    grid: Grid::Elements,
    constants: &[],
    variants: &[Variant::PLAIN],
};

pub const CSR_SCALAR_V2: CudaKernel = CudaKernel { id: KernelId::CsrScalarV2, ..CSR_SCALAR_V1 };

pub const CSR_SCALAR_V3: CudaKernel = CudaKernel { id: KernelId::CsrScalarV3, ..CSR_SCALAR_V1 };

pub const CSR_VECTOR: CudaKernel = CudaKernel {
    id: KernelId::CsrVector,
    file: "csr_vector.cu",
    text: text!("csr_vector.cu"),
    variants: &[Variant { ways: 32, ..Variant::PLAIN }],
    ..CSR_SCALAR_V1
};

pub const CSR_VECTOR_SUBWARP: CudaKernel = CudaKernel {
    id: KernelId::CsrVectorSubwarp,
    file: "csr_vector_subwarp.cu",
    text: text!("csr_vector_subwarp.cu"),
    constants: &[Constant::Ways],
    variants: SUBWARPS,
    ..CSR_SCALAR_V1
};

pub const CSR_VECTOR_BY_ROW: CudaKernel = CudaKernel {
    id: KernelId::CsrVectorByRow,
    file: "csr_vector_by_row.cu",
    text: text!("csr_vector_by_row.cu"),
    parameters: CSR_TRANSPOSED,
    grid: Grid::Items,
    variants: &[Variant { lanes: 8, ways: 4, ..Variant::PLAIN }],
    ..CSR_SCALAR_V1
};

pub const CSR_ADAPTIVE: CudaKernel = CudaKernel {
    id: KernelId::CsrAdaptive,
    file: "csr_adaptive.cu",
    text: text!("csr_adaptive.cu"),
    layout: Layout::RowBlocks,
    parameters: ROW_BLOCKS,
    grid: Grid::BlocksOfColumns,
    variants: &[Variant { threads: 128, ..Variant::PLAIN }],
    ..CSR_SCALAR_V1
};

pub const CSR_ADAPTIVE_SUBBLOCKS: CudaKernel = CudaKernel {
    id: KernelId::CsrAdaptiveSubblocks,
    file: "csr_adaptive_subblocks.cu",
    text: text!("csr_adaptive_subblocks.cu"),
    layout: Layout::RowBlocks,
    parameters: ROW_BLOCKS,
    grid: Grid::Blocks,
    ..CSR_SCALAR_V1
};

pub const ELLPACK: CudaKernel = CudaKernel {
    id: KernelId::Ellpack,
    file: "ellpack.cu",
    text: text!("ellpack.cu"),
    layout: Layout::Ellpack,
    parameters: PADDED_ROWS,
    ..CSR_SCALAR_V1
};

pub const ELLPACK_SUBWARP: CudaKernel = CudaKernel {
    id: KernelId::EllpackSubwarp,
    file: "ellpack_subwarp.cu",
    text: text!("ellpack_subwarp.cu"),
    layout: Layout::Ellpack,
    parameters: PADDED_ROWS,
    constants: &[Constant::Ways],
    variants: SUBWARPS,
    ..CSR_SCALAR_V1
};
