//! The rows of these kernels in the table of all kernels, which keeps their places there.

use crate::kernel::id::{Format, KernelId, KindOfWork, Processor};
use crate::kernel::order::Order;
use crate::kernel::table::KernelInfo;

pub const SERIAL_ELL_PADDED: KernelInfo = KernelInfo {
    id: KernelId::SerialEllPadded,
    name: "serial_ell_padded",
    work: KindOfWork::Spmm,
    runs_on: Processor::Cpu,
    format: Format::EllPadded,
    order: Order::Canonical,
    summary: "one CPU thread on padded ELLPACK, one element of Y at a time; slow, to compare other kernels with",
};

pub const SERIAL_ELL_UNPADDED: KernelInfo = KernelInfo {
    id: KernelId::SerialEllUnpadded,
    name: "serial_ell_unpadded",
    work: KindOfWork::Spmm,
    runs_on: Processor::Cpu,
    format: Format::EllUnpadded,
    order: Order::Canonical,
    summary: "one CPU thread on ELLPACK without padding, one element of Y at a time; slow, to compare other kernels with",
};

pub const CPU_ELL_PADDED: KernelInfo = KernelInfo {
    id: KernelId::CpuEllPadded,
    name: "cpu_ell_padded",
    work: KindOfWork::Spmm,
    runs_on: Processor::Cpu,
    format: Format::EllPadded,
    order: Order::Canonical,
    summary: "all cores on padded ELLPACK, SIMD over the columns of X; for comparison, or for rows of equal length",
};

pub const CPU_ELL_UNPADDED: KernelInfo = KernelInfo {
    id: KernelId::CpuEllUnpadded,
    name: "cpu_ell_unpadded",
    work: KindOfWork::Spmm,
    runs_on: Processor::Cpu,
    format: Format::EllUnpadded,
    order: Order::Canonical,
    summary: "all cores on ELLPACK without padding, SIMD over the columns of X; for comparison",
};

pub const CSR_SCALAR_V1: KernelInfo = KernelInfo {
    id: KernelId::CsrScalarV1,
    name: "csr_scalar_v1",
    work: KindOfWork::Spmm,
    runs_on: Processor::Gpu,
    format: Format::Csr,
    order: Order::Free,
    summary: "one GPU thread per element of Y, accumulating in global memory; for comparison",
};

pub const CSR_SCALAR_V2: KernelInfo = KernelInfo {
    id: KernelId::CsrScalarV2,
    name: "csr_scalar_v2",
    work: KindOfWork::Spmm,
    runs_on: Processor::Gpu,
    format: Format::Csr,
    order: Order::Canonical,
    summary: "one GPU thread per element of Y, accumulating in a register; for comparison",
};

pub const CSR_SCALAR_V3: KernelInfo = KernelInfo {
    id: KernelId::CsrScalarV3,
    name: "csr_scalar_v3",
    work: KindOfWork::Spmm,
    runs_on: Processor::Gpu,
    format: Format::Csr,
    order: Order::Canonical,
    summary: "one GPU thread per element of Y, accumulating in a register, row bounds loaded once; for comparison",
};

pub const CSR_VECTOR: KernelInfo = KernelInfo {
    id: KernelId::CsrVector,
    name: "csr_vector",
    work: KindOfWork::Spmm,
    runs_on: Processor::Gpu,
    format: Format::Csr,
    order: Order::Free,
    summary: "one warp per element of Y; suits long rows and small K",
};

pub const CSR_VECTOR_SUBWARP: KernelInfo = KernelInfo {
    id: KernelId::CsrVectorSubwarp,
    name: "csr_vector_subwarp",
    work: KindOfWork::Spmm,
    runs_on: Processor::Gpu,
    format: Format::Csr,
    order: Order::Free,
    summary: "one sub-warp per element of Y: 2 GPU threads, or the 4 to 32 of _w4 to _w32 in the name; suits short rows",
};

pub const CSR_VECTOR_BY_ROW: KernelInfo = KernelInfo {
    id: KernelId::CsrVectorByRow,
    name: "csr_vector_by_row",
    work: KindOfWork::Spmm,
    runs_on: Processor::Gpu,
    format: Format::Csr,
    order: Order::Free,
    summary: "one warp per row of Y, 4 threads per column, X stored by columns; for comparison",
};

pub const CSR_ADAPTIVE: KernelInfo = KernelInfo {
    id: KernelId::CsrAdaptive,
    name: "csr_adaptive",
    work: KindOfWork::Spmm,
    runs_on: Processor::Gpu,
    format: Format::Csr,
    order: Order::Free,
    summary: "one thread block per row block and column, X stored by columns; suits mixed row lengths and small K",
};

pub const CSR_ADAPTIVE_SUBBLOCKS: KernelInfo = KernelInfo {
    id: KernelId::CsrAdaptiveSubblocks,
    name: "csr_adaptive_subblocks",
    work: KindOfWork::Spmm,
    runs_on: Processor::Gpu,
    format: Format::Csr,
    order: Order::Free,
    summary: "one thread block per row block, 128 threads per column, X stored by columns; suits mixed row lengths",
};

pub const ELLPACK: KernelInfo = KernelInfo {
    id: KernelId::Ellpack,
    name: "ellpack",
    work: KindOfWork::Spmm,
    runs_on: Processor::Gpu,
    format: Format::EllPadded,
    order: Order::Canonical,
    summary: "one GPU thread per element of Y on padded ELLPACK; suits rows of nearly equal length",
};

pub const ELLPACK_SUBWARP: KernelInfo = KernelInfo {
    id: KernelId::EllpackSubwarp,
    name: "ellpack_subwarp",
    work: KindOfWork::Spmm,
    runs_on: Processor::Gpu,
    format: Format::EllPadded,
    order: Order::Free,
    summary: "one sub-warp per element of Y on padded ELLPACK: 2 GPU threads, or the 4 to 32 of _w4 to _w32 in the name",
};
