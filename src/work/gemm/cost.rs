//! Predicted times of dense products. Arithmetic limits them: each kernel reaches a part of the device's peak rate.

use crate::cost::{Form, Profile};
use crate::kernel::KernelId;
use crate::matrix::Dtype;
use crate::work::UniformRows;

/// The part of the peak rate without tensor cores that a kernel reaches with large matrices. Those of GPU kernels were measured on an
/// H200, where `gemm_blocked` and cuBLAS use tensor cores for f64.
fn efficiency(kernel: KernelId, dtype: Dtype) -> f64 {
    let [f64, f32] = match kernel {
        KernelId::Cublas => [1.75, 0.73],
        KernelId::CpuGemm => [0.8, 0.8],
        KernelId::GemmBlocked => [1.25, 0.6],
        KernelId::CpuGemmRows => [0.5, 0.5],
        KernelId::GemmTiledT32 | KernelId::GemmTiledT16 => [0.14, 0.12],
        KernelId::GemmTiledT8 => [0.1, 0.07],
        KernelId::GemmNaive => [0.05, 0.06],
        // One thread, without vectors.
        _ => [0.01, 0.01],
    };
    match dtype {
        Dtype::F64 => f64,
        Dtype::F32 => f32,
    }
}

/// Predicted seconds of a form on a device.
pub(in crate::internal::work) fn kernel_s(
    rows: &UniformRows,
    device: &Profile,
    form: &Form,
    k: u64,
    dtype: Dtype,
) -> f64 {
    if rows.rows == 0 {
        return 0.0;
    }
    let flops = 2.0 * rows.entries as f64 * k as f64;
    let moved_s = rows.load(k, dtype).moved_bytes() as f64 / (device.stream_gb_per_s * 1e9).max(1.0);
    let arithmetic_s = device.arithmetic_s(flops, efficiency(form.kernel, dtype), dtype);
    (device.launch_us * 1e-6 + arithmetic_s.max(moved_s)) * device.correction(form)
}
