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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::preset;

    #[test]
    fn a_naive_product_runs_at_its_measured_part_of_the_peak_rate() {
        let device = Profile {
            launch_us: 5.0,
            stream_gb_per_s: 1000.0,
            f64_gflop_per_s: 1000.0,
            f32_gflop_per_s: 2000.0,
            corrections: Vec::new(),
            ..preset("h200").unwrap().gpus.remove(0)
        };
        let rows = UniformRows { rows: 1000, entries: 1_000_000, a_bytes: 8_000_000, x_bytes: 8_000_000 };
        let naive_s = |dtype| kernel_s(&rows, &device, &Form::cpu(KernelId::GemmNaive), 1000, dtype);
        // 2 GFLOP at 50 and at 120 GFLOP/s, after a launch of 5 µs.
        assert!((naive_s(Dtype::F64) - 0.040_005).abs() < 1e-9, "{}", naive_s(Dtype::F64));
        assert!((naive_s(Dtype::F32) - (1.0 / 60.0 + 5e-6)).abs() < 1e-9, "{}", naive_s(Dtype::F32));
    }
}
