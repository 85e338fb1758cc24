//! Fits the cost model of a device to measured times. Weights of shapes: ridge regression on logarithms of time, with the previous
//! weights as the prior, so that weights without samples keep their values. For a card whose weights are compiled in: one
//! factor for each shape.

use std::collections::BTreeMap;

use super::kernels::floor_s;
use super::regressors::{REGRESSORS, regressors};
use crate::cost::{Form, Load, Profile};
use crate::matrix::Dtype;
use crate::work::spmm::Features;

/// Ridge parameter of all weights but the first, and of the first, which is a common factor.
const RIDGE: f64 = 0.5;
const RIDGE_OF_FACTOR: f64 = 0.005;
/// Residual, in logarithms of time, beyond which a sample's weight falls: an outlier must not decide the fit.
const OUTLIER_RESIDUAL: f64 = 0.25;
/// Rounds of iterative reweighting.
const ROUNDS: usize = 3;
/// A sample's weight is its slow-down against the fastest form of its case to the power of minus this, and at least the minimum.
const SLOWDOWN_EXPONENT: f64 = 0.8;
const MIN_WEIGHT: f64 = 0.1;

/// Ridge parameter of a shape's own factor: about as many samples are needed to move it away from the common factor.
const RIDGE_OF_SHAPE: f64 = 10.0;

/// A measured time.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// The form that ran.
    pub form: Form,
    /// Features of the rows.
    pub features: Features,
    /// Columns of X.
    pub k: u64,
    /// Precision.
    pub dtype: Dtype,
    /// Measured seconds.
    pub seconds: f64,
    /// Measured seconds of the fastest form on the same rows.
    pub fastest_s: f64,
}

impl Sample {
    /// Its weight in the fit.
    fn weight(&self) -> f64 {
        let slowdown = (self.seconds / self.fastest_s.max(1e-12)).max(1.0);
        slowdown.powf(-SLOWDOWN_EXPONENT).max(MIN_WEIGHT)
    }
}

struct Row {
    numbers: [f64; REGRESSORS],
    logarithm: f64,
    weight: f64,
}

/// New weights, by shape, of every shape that has samples; the weights of `device` are the prior.
pub fn fit(device: &Profile, samples: &[Sample]) -> BTreeMap<String, Vec<f64>> {
    let mut rows: BTreeMap<&'static str, Vec<Row>> = BTreeMap::new();
    for sample in samples {
        let Some(shape) = sample.form.shape(sample.dtype, sample.k) else { continue };
        let load = Load::of(&sample.features, sample.k, sample.dtype);
        let floor_s = floor_s(device, &sample.features, &load, sample.dtype);
        rows.entry(shape).or_default().push(Row {
            numbers: regressors(&sample.features, sample.k, sample.dtype, device.cache_bytes),
            logarithm: (sample.seconds / floor_s).max(1e-9).ln(),
            weight: sample.weight(),
        });
    }
    let none = vec![0.0; REGRESSORS];
    let fitted = rows.into_iter().map(|(shape, rows)| {
        let before = device.weights.get(shape).unwrap_or(&none);
        (shape.to_string(), fit_shape(before, &rows))
    });
    fitted.collect()
}

/// For each shape the factor by which it is slower than `device` predicts: a common factor, refined for each shape by its own
/// samples.
pub fn fit_factors(device: &Profile, samples: &[Sample]) -> BTreeMap<String, f64> {
    let mut ratios: BTreeMap<&'static str, Vec<(f64, f64)>> = BTreeMap::new();
    for sample in samples {
        let Some(shape) = sample.form.shape(sample.dtype, sample.k) else { continue };
        let predicted_s = device.form_s(&sample.form, &sample.features, sample.k, sample.dtype);
        let ratio = (sample.seconds / predicted_s.max(1e-12)).max(1e-9).ln();
        ratios.entry(shape).or_default().push((ratio, sample.weight()));
    }
    let all: Vec<(f64, f64)> = ratios.values().flatten().copied().collect();
    let common = centre(&all, 0.0, RIDGE_OF_FACTOR);
    let factor = |own: &[(f64, f64)]| centre(own, common, RIDGE_OF_SHAPE).exp();
    ratios.iter().map(|(shape, own)| (shape.to_string(), factor(own))).collect()
}

/// The weighted mean of `(value, weight)` pairs with prior `before`; outliers count less.
fn centre(values: &[(f64, f64)], before: f64, ridge: f64) -> f64 {
    let mut centre = before;
    for _ in 0..ROUNDS {
        let trust = |&(value, weight): &(f64, f64)| weight / ((value - centre) / OUTLIER_RESIDUAL).hypot(1.0);
        let sum: f64 = values.iter().map(|own| trust(own) * own.0).sum();
        let trusts: f64 = values.iter().map(trust).sum();
        centre = (sum + ridge * before) / (trusts + ridge);
    }
    centre
}

fn fit_shape(before: &[f64], rows: &[Row]) -> Vec<f64> {
    let dot = |numbers: &[f64], weights: &[f64]| numbers.iter().zip(weights).map(|(a, b)| a * b).sum::<f64>();
    let mut weights = before.to_vec();
    let mut trust: Vec<f64> = rows.iter().map(|row| row.weight).collect();
    for _ in 0..ROUNDS {
        let mut matrix = vec![[0.0; REGRESSORS]; REGRESSORS];
        let mut right = [0.0; REGRESSORS];
        for (index, row) in matrix.iter_mut().enumerate() {
            row[index] = if index == 0 { RIDGE_OF_FACTOR } else { RIDGE };
        }
        for (row, &trust) in rows.iter().zip(&trust) {
            let left = row.logarithm - dot(&row.numbers, before);
            for (index, line) in matrix.iter_mut().enumerate() {
                let scaled = trust * row.numbers[index];
                line.iter_mut().zip(&row.numbers).for_each(|(to, number)| *to += scaled * number);
                right[index] += scaled * left;
            }
        }
        solve(&mut matrix, &mut right);
        weights = before.iter().zip(&right).map(|(before, change)| before + change).collect();
        for (row, trust) in rows.iter().zip(&mut trust) {
            let off = (row.logarithm - dot(&row.numbers, &weights)) / OUTLIER_RESIDUAL;
            *trust = row.weight / off.hypot(1.0);
        }
    }
    weights
}

/// Solves a symmetric positive definite system in place by Gaussian elimination without pivoting.
fn solve(matrix: &mut [[f64; REGRESSORS]], right: &mut [f64; REGRESSORS]) {
    for pivot in 0..REGRESSORS {
        let line = matrix[pivot];
        for below in pivot + 1..REGRESSORS {
            let factor = matrix[below][pivot] / line[pivot];
            for column in pivot..REGRESSORS {
                matrix[below][column] -= factor * line[column];
            }
            right[below] -= factor * right[pivot];
        }
    }
    for row in (0..REGRESSORS).rev() {
        let known: f64 = (row + 1..REGRESSORS).map(|column| matrix[row][column] * right[column]).sum();
        right[row] = (right[row] - known) / matrix[row][row];
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::preset;
    use crate::kernel::KernelId;
    use crate::matrix::{Csr, generate};
    use crate::work::ChunkRows;
    use crate::work::spmm::Spmm;

    fn samples(device: &Profile, kernel: KernelId) -> Vec<Sample> {
        let mut samples = Vec::new();
        for spec in
            ["stencil27,n=16", "uniform,rows=20000,degree=16", "road,n=40000", "rmat,scale=13,degree=8"]
        {
            let matrix: Csr<f64> = generate(spec, 1, 1 << 30).unwrap().matrix;
            let all = ChunkRows::Rows { begin: 0, end: matrix.rows() };
            for k in [1, 2, 4, 8, 16, 32, 64, 128] {
                let features = Features::of(&Spmm::new(&matrix.view(), k).unwrap(), &all);
                for form in Form::all(kernel, Dtype::F64, k as u64, true) {
                    let seconds = device.form_s(&form, &features, k as u64, Dtype::F64);
                    let (k, dtype) = (k as u64, Dtype::F64);
                    samples.push(Sample { form, features, k, dtype, seconds, fastest_s: seconds });
                }
            }
        }
        samples
    }

    fn off(device: &Profile, samples: &[Sample]) -> f64 {
        let off = |sample: &Sample| {
            let predicted_s = device.form_s(&sample.form, &sample.features, sample.k, sample.dtype);
            (predicted_s / sample.seconds).ln().abs()
        };
        samples.iter().map(off).fold(0.0, f64::max)
    }

    #[test]
    fn factors_of_a_slower_machine_are_recovered() {
        let mut device = preset("h200").unwrap().gpus.remove(0);
        let mut measured = samples(&device, KernelId::CsrSubwarp);
        measured.extend(samples(&device, KernelId::Hybrid));
        for sample in &mut measured {
            // One kernel is faster than the other on this machine.
            let own = if sample.form.kernel == KernelId::Hybrid { 1.2 } else { 1.5 };
            (sample.seconds, sample.fastest_s) = (own * sample.seconds, own * sample.fastest_s);
        }
        device.factors = fit_factors(&device, &measured);
        let of = |shape: &str| device.factors[shape];
        assert!((of("csr_subwarp") - 1.5).abs() < 0.08 && of("hybrid") < 1.35, "{:?}", device.factors);
        assert!(off(&device, &measured) < 0.12, "{}", off(&device, &measured));
        assert!(fit_factors(&device, &[]).is_empty());
    }

    #[test]
    fn weights_are_recovered_from_the_times_they_predict() {
        let mut device = preset("h200").unwrap().gpus.remove(0);
        let mut weights = vec![0.0; REGRESSORS];
        (weights[0], weights[1], weights[2], weights[15]) = (0.7, 0.4, -0.3, 0.1);
        device.weights = [("csr_subwarp".to_string(), weights)].into();
        device.cases = None;
        let measured = samples(&device, KernelId::CsrSubwarp);
        device.weights.clear();
        let known = fit(&device, &measured);
        assert_eq!(known.keys().collect::<Vec<_>>(), ["csr_subwarp"]);
        device.weights = known;
        assert!(off(&device, &measured) < 0.1, "{}", off(&device, &measured));
    }

    #[test]
    fn weights_without_samples_keep_their_values() {
        let mut device = preset("h200").unwrap().gpus.remove(0);
        device.cases = None;
        assert!(fit(&device, &[]).is_empty());
        let before = vec![0.2; REGRESSORS];
        device.weights = [("csr_subwarp".to_string(), before.clone())].into();
        let one: Vec<Sample> = samples(&device, KernelId::CsrSubwarp).into_iter().take(1).collect();
        let after = fit(&device, &one).remove("csr_subwarp").unwrap();
        assert!(after.iter().zip(&before).all(|(a, b)| (a - b).abs() < 1e-9), "{after:?}");
    }

    #[test]
    fn one_outlier_among_ten_samples_moves_the_common_factor_little() {
        let row = |logarithm| {
            let mut numbers = [0.0; REGRESSORS];
            numbers[0] = 1.0;
            Row { numbers, logarithm, weight: 1.0 }
        };
        let rows: Vec<Row> = std::iter::repeat_n(0.0, 9).chain([10.0]).map(row).collect();
        let common = fit_shape(&[0.0; REGRESSORS], &rows)[0];
        // The mean is 1. Three rounds of reweighting give 0.9995, 0.125 and 0.031.
        assert!((0.02..0.04).contains(&common), "{common}");
    }
}
