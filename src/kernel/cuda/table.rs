//! All kernels for CUDA devices.

use super::{CudaKernel, Grid, Layout, Variant, parameter};
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
        id: KernelId::Ellpack,
        file: "ellpack.cu",
        text: text!("ellpack.cu"),
        layout: Layout::Ellpack,
        parameters: parameter::ELLPACK,
        ..SCALAR
    },
];
