//! Predicted times of dense products. Arithmetic limits them: each kernel reaches a part of the device's peak rate.

use crate::cost::{Form, Profile};
use crate::kernel::KernelId;
use crate::matrix::Dtype;
use crate::work::UniformRows;

/// The part of the peak rate that a kernel reaches with large matrices.
fn efficiency(kernel: KernelId) -> f64 {
    match kernel {
        KernelId::Cublas => 0.9,
        KernelId::CpuGemm => 0.8,
        KernelId::GemmBlocked => 0.7,
        KernelId::CpuGemmRows => 0.5,
        KernelId::GemmTiledT32 | KernelId::GemmTiledT16 => 0.15,
        KernelId::GemmTiledT8 => 0.1,
        KernelId::GemmNaive => 0.07,
        // One thread, without vectors.
        _ => 0.01,
    }
}

/// Predicted seconds of a form on a device.
pub(in crate::work) fn kernel_s(
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
    let arithmetic_s = device.arithmetic_s(flops, efficiency(form.kernel), dtype);
    (device.launch_us * 1e-6 + arithmetic_s.max(moved_s)) * device.correction(form)
}
