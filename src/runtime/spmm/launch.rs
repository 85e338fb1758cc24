//! Launches of kernels for products with a sparse A.

use super::spmm_job::SpmmJob;
use crate::device::{DeviceRows, MemoryRange, Operands, Operation};
use crate::error::{Error, Result};
use crate::kernel::cpu::Kernels;
use crate::kernel::cuda::CudaKernel;
use crate::runtime::job::{Accelerator, Job};
use crate::work::XOrder;

/// X and Y of a product in a device's memory.
#[derive(Debug, Clone, Copy)]
pub struct VectorOperands {
    /// The rows of X that the device holds.
    pub x: DeviceRows,
    /// The rows that the chunk reads, if others may be written meanwhile.
    pub x_part: Option<MemoryRange>,
    /// The rows of Y of the chunk.
    pub y: DeviceRows,
    /// The factor of A X.
    pub alpha: f64,
    /// The factor of Y.
    pub beta: f64,
}

/// The launch of the kernel of a chunk, which is stored at `a`; its slice `y` of Y becomes `alpha` A X.
pub(super) fn launch<T: Kernels>(
    job: &SpmmJob<'_, T>,
    chunk: usize,
    accelerator: &Accelerator,
    a: MemoryRange,
    y: MemoryRange,
    alpha: f64,
) -> Result<Operation<'static>> {
    let (planned, storage) = (job.chunk(chunk)?, job.storage(chunk)?);
    let by = |order: XOrder| (accelerator.x_order() == order).then(|| accelerator.x_range());
    let by_rows = accelerator.x_order() == XOrder::Rows && accelerator.first_row().is_some();
    let operands = Operands {
        dtype: T::DTYPE,
        k: accelerator.k(),
        a,
        uniform: job.is_uniform(),
        x: by(XOrder::Rows),
        x_part: planned.x_rows.filter(|_| by_rows).map(|rows| accelerator.x_rows(rows)),
        x_transposed: by(XOrder::Columns),
        ldx: accelerator.x_pitch(),
        alpha,
        beta: 0.0,
        y,
        ldy: accelerator.y_pitch(),
        keeps_padding: false,
        scratch: scratch(accelerator, storage.scratch_rows, T::DTYPE.bytes())?,
    };
    let kernel = CudaKernel::of(planned.gpu_kernel)?;
    Ok(Operation::Launch(operands.launch(kernel, planned.gpu_variant, storage)?))
}

/// The launch of the kernel of a chunk, which is stored at `a`, on rows of X and Y elsewhere in the device's memory.
pub(super) fn launch_on<T: Kernels>(
    job: &SpmmJob<'_, T>,
    chunk: usize,
    accelerator: &Accelerator,
    a: MemoryRange,
    operands: &VectorOperands,
) -> Result<Operation<'static>> {
    let VectorOperands { x, x_part, y, alpha, beta } = *operands;
    if accelerator.x_order() != XOrder::Rows {
        return Err(Error::Internal("a kernel for vectors reads X by columns".into()));
    }
    let (planned, storage) = (job.chunk(chunk)?, job.storage(chunk)?);
    let operands = Operands {
        dtype: x.dtype,
        k: accelerator.k(),
        a,
        uniform: job.is_uniform(),
        x: Some(x.memory),
        x_part,
        x_transposed: None,
        ldx: x.leading_dimension,
        alpha,
        beta,
        y: y.memory,
        ldy: y.leading_dimension,
        // Row-wise operations and copies between devices read the padding, too.
        keeps_padding: true,
        scratch: scratch(accelerator, storage.scratch_rows, x.dtype.bytes())?,
    };
    let kernel = CudaKernel::of(planned.gpu_kernel)?;
    Ok(Operation::Launch(operands.launch(kernel, planned.gpu_variant, storage)?))
}

fn scratch(accelerator: &Accelerator, rows: u64, value_bytes: usize) -> Result<MemoryRange> {
    accelerator.scratch(rows * accelerator.y_pitch() * value_bytes as u64)
}
