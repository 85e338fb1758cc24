//! Calibration: which kernels are timed on which matrices, and the model that is fitted to the times.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{Sample, eligible, fit, fit_factors};
use crate::cost::{DeviceModel, Load, Profile};
use crate::kernel::{KernelId, Processor};

/// The matrices that are timed: meshes, graphs, random and nearly empty rows, rows that share columns, hubs. Consecutive ones
/// differ in kind, since the time may run out before the last.
const MATRICES: [&str; 10] = [
    "stencil27,n=48",
    "rmat,scale=16,degree=16",
    "road,n=400000",
    "fem3,n=20",
    "uniform,rows=200000,degree=16",
    "hub,rows=40000,degree=6,hubs=8",
    "stencil5,n=60",
    "uniform,rows=2000,degree=100",
    "band,rows=300000,width=5",
    "rmat,scale=12,degree=40",
];
/// Bytes of a matrix larger than the cache, at least.
const MIN_LARGE_BYTES: u64 = 48 << 20;
/// Bytes of such a matrix, at most.
const MAX_LARGE_BYTES: u64 = 600 << 20;
/// The emulator is about a thousand times slower than a GPU, so it gets small matrices.
const EMULATED_MATRICES: [&str; 4] = ["stencil27,n=6", "rmat,scale=8,degree=8", "road,n=500", "fem3,n=4"];
const COLUMNS: [usize; 4] = [8, 1, 32, 128];
const EMULATED_COLUMNS: [usize; 2] = [8, 1];
/// K of the matrices larger than the cache. A fourth K would take half of the time on a small machine.
const LARGE_COLUMNS: [usize; 3] = [8, 1, 32];

/// Generated matrices with the numbers of columns of X, in the order in which a device is timed on them.
pub fn calibration_cases(device: &str, largest_cache_bytes: u64) -> Vec<(String, &'static [usize])> {
    let named = |matrices: &[&str], columns: &'static [usize]| {
        matrices.iter().map(|matrix| (matrix.to_string(), columns)).collect::<Vec<_>>()
    };
    if device.starts_with("emu:") {
        return named(&EMULATED_MATRICES, &EMULATED_COLUMNS);
    }
    let mut cases = Vec::new();
    if device == "cpu" {
        cases.extend(larger_than_cache(largest_cache_bytes).map(|matrix| (matrix, &LARGE_COLUMNS[..])));
    }
    cases.extend(named(&MATRICES, &COLUMNS));
    cases
}

/// The matrices that a CPU is timed on first. A of the first and X of the second (32 columns) exceed the largest cache; the third
/// is a power-law graph whose X exceeds it too, but whose most used rows stay in cache.
fn larger_than_cache(largest_cache_bytes: u64) -> [String; 3] {
    let bytes = (largest_cache_bytes + largest_cache_bytes / 2).clamp(MIN_LARGE_BYTES, MAX_LARGE_BYTES);
    let side = (bytes as f64 / (27.0 * 12.0)).cbrt() as u64;
    let rows = bytes / (32 * 8);
    let scale = rows.next_power_of_two().ilog2();
    [
        format!("stencil27,n={side}"),
        format!("uniform,rows={rows},degree=8"),
        format!("rmat,scale={scale},degree=8"),
    ]
}

/// How well a kernel's times were predicted before the fit, and after.
#[derive(Debug, Clone, Serialize)]
pub struct KernelFit {
    /// The device.
    pub device: String,
    /// The kernel.
    pub kernel: KernelId,
    /// Number of its times.
    pub samples: usize,
    /// Median relative error of the predictions before the fit.
    pub median_error_before: f64,
    /// The same after the fit.
    pub median_error_after: f64,
}

/// The model of the device with this profile, fitted to its times, and how well it predicts each kernel.
pub fn fit_device(
    device: &str,
    profile: &Profile,
    threads: usize,
    samples: &[Sample],
) -> (DeviceModel, Vec<KernelFit>) {
    // The built-in weights of a known card were fitted to more cases than are measured here: only factors are fitted.
    let (weights, factors) = match profile.cases {
        Some(_) => (BTreeMap::new(), fit_factors(profile, samples)),
        None => (fit(profile, samples), BTreeMap::new()),
    };
    let mut fitted_profile = profile.clone();
    fitted_profile.weights.extend(weights.clone());
    fitted_profile.factors.clone_from(&factors);
    let mut fits = Vec::new();
    for &kernel in eligible(profile.processor) {
        // Forms without a shape are never chosen, and their weights are not fitted.
        let counts = |sample: &&Sample| {
            sample.form.kernel == kernel && sample.form.shape(sample.dtype, sample.k).is_some()
        };
        let own: Vec<&Sample> = samples.iter().filter(counts).collect();
        if !own.is_empty() {
            fits.push(KernelFit {
                device: device.into(),
                kernel,
                samples: own.len(),
                median_error_before: median_error(profile, &own),
                median_error_after: median_error(&fitted_profile, &own),
            });
        }
    }
    let threads = (profile.processor == Processor::Cpu).then_some(threads as u32);
    (DeviceModel { name: profile.name.clone(), threads, weights, factors }, fits)
}

/// A lower bound of the host's memory bandwidth during a run: the bytes moved beyond what the largest cache can have kept.
pub fn least_gb_per_s(largest_cache_bytes: u64, sample: &Sample) -> f64 {
    let moved_bytes = Load::of(&sample.features, sample.k, sample.dtype).moved_bytes();
    moved_bytes.saturating_sub(largest_cache_bytes) as f64 / sample.seconds.max(1e-9) * 1e-9
}

/// The median relative error of the predictions; a factor of two too long and a factor of two too short both count as 1.
fn median_error(profile: &Profile, samples: &[&Sample]) -> f64 {
    let mut errors: Vec<f64> = samples
        .iter()
        .map(|sample| {
            let predicted_s = profile.form_s(&sample.form, &sample.features, sample.k, sample.dtype);
            (predicted_s / sample.seconds).ln().abs().exp() - 1.0
        })
        .collect();
    errors.sort_by(f64::total_cmp);
    errors.get(errors.len() / 2).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matrix::generate;

    #[test]
    fn a_cpu_is_timed_on_matrices_that_exceed_its_cache_first() {
        for cache in [0, 32 << 20, 260 << 20] {
            let cases = calibration_cases("cpu", cache);
            assert_eq!(cases.len(), 13);
            assert_eq!(cases[3..], calibration_cases("cuda:0", cache));
        }
        let small = calibration_cases("cpu", 2 << 20).remove(0).0;
        let matrix = generate::<f64>(&small, 1, u64::MAX).unwrap().matrix;
        assert!(matrix.nnz() * 12 > 40 << 20, "{small}");
    }

    #[test]
    fn every_case_of_an_emulated_gpu_is_small() {
        for (spec, columns) in calibration_cases("emu:0", 1 << 30) {
            let matrix = generate::<f64>(&spec, 1, u64::MAX).unwrap().matrix;
            assert!(matrix.nnz() * columns.iter().max().unwrap() < 100_000, "{spec}");
        }
    }

    #[test]
    fn large_matrices_have_one_and_a_half_times_the_bytes_of_the_largest_cache() {
        // 48 MiB are 53³ rows of 27 nonzeros of 12 bytes, and 196,608 rows of X of 32 columns of f64.
        let of_48_mib = ["stencil27,n=53", "uniform,rows=196608,degree=8", "rmat,scale=18,degree=8"];
        assert_eq!(larger_than_cache(0), of_48_mib);
        assert_eq!(larger_than_cache(32 << 20), of_48_mib);
        let of_96_mib = ["stencil27,n=67", "uniform,rows=393216,degree=8", "rmat,scale=19,degree=8"];
        assert_eq!(larger_than_cache(64 << 20), of_96_mib);
    }
}
