//! The kernels for CUDA devices: their text, their entries, and the grid each is launched with.
//!
//! The text is plain CUDA C++ without headers, the same for NVRTC and for the emulator. Every parameter of an entry is
//! eight bytes wide: a 64-bit number or a pointer.

use super::table::KernelId;
use crate::error::{Error, Result};
use crate::matrix::Dtype;

/// Threads of a block, for every kernel so far.
const THREADS: u32 = 512;

/// Most blocks that CUDA allows along the first dimension of a grid.
const MAX_GRID_X: u64 = (1 << 31) - 1;

/// What an entry takes at one place of its parameter list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parameter {
    /// A 64-bit number.
    Number(&'static str),
    /// A pointer to what the kernel reads.
    Read(&'static str),
    /// A pointer to what the kernel writes.
    Write(&'static str),
}

impl Parameter {
    /// Its name in the kernel's text.
    pub fn name(self) -> &'static str {
        match self {
            Self::Number(name) | Self::Read(name) | Self::Write(name) => name,
        }
    }
}

/// What every kernel on compressed rows takes. The row pointers of a chunk still count from the whole matrix's start;
/// columns and values begin at the chunk's first nonzero.
pub const CSR_PARAMETERS: [Parameter; 9] = [
    Parameter::Number("rows"),
    Parameter::Number("k"),
    Parameter::Read("row_pointers"),
    Parameter::Read("columns"),
    Parameter::Read("values"),
    Parameter::Read("x"),
    Parameter::Number("ldx"),
    Parameter::Write("y"),
    Parameter::Number("ldy"),
];

/// What the kernel on padded ELLPACK takes.
pub const ELLPACK_PARAMETERS: [Parameter; 9] = [
    Parameter::Number("rows"),
    Parameter::Number("k"),
    Parameter::Number("width"),
    Parameter::Read("columns"),
    Parameter::Read("values"),
    Parameter::Read("x"),
    Parameter::Number("ldx"),
    Parameter::Write("y"),
    Parameter::Number("ldy"),
];

/// The shape of a launch. A grid without blocks is nothing to launch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LaunchShape {
    /// Blocks along x, y and z.
    pub grid: [u32; 3],
    /// Threads of a block along x, y and z.
    pub block: [u32; 3],
    /// Shared memory beyond what the kernel declares itself.
    pub dynamic_shared_bytes: u32,
}

/// A kernel for CUDA devices.
#[derive(Debug, Clone, Copy)]
pub struct CudaKernel {
    /// The kernel.
    pub id: KernelId,
    /// Its file in `kernels/`.
    pub file: &'static str,
    /// The whole text of that file.
    pub text: &'static str,
    /// Its entry for double precision.
    pub entry_f64: &'static str,
    /// Its entry for single precision.
    pub entry_f32: &'static str,
    /// What its entries take.
    pub parameters: &'static [Parameter],
    /// Threads that compute one element of Y together.
    pub threads_per_element: u32,
}

const CSR_SCALAR: &str = include_str!("../../kernels/csr_scalar.cu");

/// All kernels for CUDA devices.
pub const CUDA_KERNELS: &[CudaKernel] = &[
    CudaKernel {
        id: KernelId::CsrScalarV1,
        file: "csr_scalar.cu",
        text: CSR_SCALAR,
        entry_f64: "csr_scalar_v1_f64",
        entry_f32: "csr_scalar_v1_f32",
        parameters: &CSR_PARAMETERS,
        threads_per_element: 1,
    },
    CudaKernel {
        id: KernelId::CsrScalarV2,
        file: "csr_scalar.cu",
        text: CSR_SCALAR,
        entry_f64: "csr_scalar_v2_f64",
        entry_f32: "csr_scalar_v2_f32",
        parameters: &CSR_PARAMETERS,
        threads_per_element: 1,
    },
    CudaKernel {
        id: KernelId::CsrScalarV3,
        file: "csr_scalar.cu",
        text: CSR_SCALAR,
        entry_f64: "csr_scalar_v3_f64",
        entry_f32: "csr_scalar_v3_f32",
        parameters: &CSR_PARAMETERS,
        threads_per_element: 1,
    },
    CudaKernel {
        id: KernelId::CsrVector,
        file: "csr_vector.cu",
        text: include_str!("../../kernels/csr_vector.cu"),
        entry_f64: "csr_vector_f64",
        entry_f32: "csr_vector_f32",
        parameters: &CSR_PARAMETERS,
        threads_per_element: 32,
    },
    CudaKernel {
        id: KernelId::Ellpack,
        file: "ellpack.cu",
        text: include_str!("../../kernels/ellpack.cu"),
        entry_f64: "ellpack_f64",
        entry_f32: "ellpack_f32",
        parameters: &ELLPACK_PARAMETERS,
        threads_per_element: 1,
    },
];

impl CudaKernel {
    /// The kernel with that id; an error where it is none for a GPU.
    pub fn of(id: KernelId) -> Result<&'static Self> {
        CUDA_KERNELS
            .iter()
            .find(|kernel| kernel.id == id)
            .ok_or_else(|| Error::Usage(format!("kernel {} does not run on a GPU", id.name())))
    }

    /// The name of its entry for a precision.
    pub fn entry(&self, dtype: Dtype) -> &'static str {
        match dtype {
            Dtype::F64 => self.entry_f64,
            Dtype::F32 => self.entry_f32,
        }
    }

    /// The grid for `rows` rows of Y with `k` columns; an error where CUDA has no grid that large.
    pub fn shape(&self, rows: u64, k: u64) -> Result<LaunchShape> {
        let elements_per_block = u64::from(THREADS / self.threads_per_element);
        let blocks = rows.checked_mul(k).map(|elements| elements.div_ceil(elements_per_block));
        match blocks {
            Some(blocks) if blocks <= MAX_GRID_X => Ok(LaunchShape {
                grid: [blocks as u32, 1, 1],
                block: [THREADS, 1, 1],
                dynamic_shared_bytes: 0,
            }),
            _ => Err(Error::Usage(format!(
                "kernel {} cannot be launched for {rows} rows and k = {k}: the grid would exceed {MAX_GRID_X} blocks; \
                 take smaller chunks",
                self.id.name()
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::table::{Processor, kernels_of};
    use super::*;

    #[test]
    fn every_kernel_for_a_gpu_has_its_text_and_entries() {
        for info in kernels_of(Processor::Gpu) {
            let kernel = CudaKernel::of(info.id).unwrap();
            assert_eq!(kernel.entry(Dtype::F64), format!("{}_f64", info.name));
            assert_eq!(kernel.entry(Dtype::F32), format!("{}_f32", info.name));
            assert!(kernel.text.contains("extern \"C\" __global__") && !kernel.text.contains("#include"));
        }
        assert_eq!(kernels_of(Processor::Gpu).count(), CUDA_KERNELS.len());
        assert_eq!(CudaKernel::of(KernelId::CpuCsr).unwrap_err().exit_code(), 2);
    }

    #[test]
    fn the_grid_covers_every_element_and_hardly_more() {
        for kernel in CUDA_KERNELS {
            for (rows, k) in [(0, 4), (1, 1), (511, 1), (512, 1), (513, 1), (1000, 33), (1 << 33, 3)] {
                let shape = kernel.shape(rows, k).unwrap();
                let threads = u64::from(shape.grid[0]) * u64::from(shape.block[0]);
                let needed = rows * k * u64::from(kernel.threads_per_element);
                assert!(threads >= needed && threads < needed + u64::from(THREADS), "{rows} {k}");
            }
            assert!(kernel.shape(u64::MAX, 2).is_err() && kernel.shape(1 << 50, 1).is_err());
        }
    }
}
