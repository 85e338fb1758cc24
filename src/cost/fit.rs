//! Fits a kernel's constants to measured times: one constant after the other is made a little larger or smaller for as long
//! as that brings predictions nearer. Slow to write down as a formula, quick to run, and indifferent to the model's shape.

use super::form::Form;
use super::kernels::KernelRates;
use super::profile::{Load, Profile};
use crate::kernel::KernelId;
use crate::matrix::Dtype;
use crate::work::Features;

/// Factors that a constant is tried with, coarse ones first.
const FACTORS: [f64; 4] = [2.0, 1.3, 1.1, 1.03];
/// Most rounds over all constants with one factor.
const ROUNDS: usize = 12;
/// A prediction that is off by more than this factor counts as if it were off by it: one odd time must not decide.
const MOST_OFF: f64 = 3.0;

/// A measured time.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// What ran.
    pub form: Form,
    /// What the rows looked like.
    pub features: Features,
    /// Columns of X.
    pub k: u64,
    /// Precision.
    pub dtype: Dtype,
    /// How long it took.
    pub seconds: f64,
}

/// Constants of `kernel` that predict its samples best, from those it has in `device` on; nothing where it has none there, or
/// there are no samples.
pub fn fit(device: &Profile, kernel: KernelId, samples: &[Sample]) -> Option<KernelRates> {
    let own: Vec<&Sample> = samples.iter().filter(|sample| sample.form.kernel == kernel).collect();
    let mut rates = *device.kernels.get(&kernel)?;
    if own.is_empty() {
        return None;
    }
    let mut least = error(device, &rates, &own);
    for factor in FACTORS {
        for _ in 0..ROUNDS {
            let before = least;
            for place in 0..KernelRates::NUMBERS {
                for step in [factor, 1.0 / factor] {
                    let mut tried = rates;
                    if let Some(number) = tried.numbers_mut().into_iter().nth(place) {
                        *number *= step;
                    }
                    let found = error(device, &tried, &own);
                    if found < least {
                        (rates, least) = (tried, found);
                    }
                }
            }
            if least >= before * 0.999 {
                break;
            }
        }
    }
    Some(rates)
}

/// Mean square of the logarithms of predicted over measured.
fn error(device: &Profile, rates: &KernelRates, samples: &[&Sample]) -> f64 {
    let off = |sample: &&Sample| {
        let load = Load::of(&sample.features, sample.k, sample.dtype);
        let predicted_s = rates.seconds(device, &sample.form, &sample.features, &load, sample.dtype);
        let off = (predicted_s / sample.seconds.max(1e-12)).max(1e-12).ln().abs();
        off.min(MOST_OFF.ln()).powi(2)
    };
    samples.iter().map(off).sum::<f64>() / samples.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::preset;
    use crate::matrix::{Csr, generate};
    use crate::work::{ChunkRows, Work};

    #[test]
    fn constants_that_made_the_times_are_found_again() {
        let mut device = preset("h200").unwrap().gpus.remove(0);
        let kernel = KernelId::CsrSubwarp;
        let truth = KernelRates {
            start_us: 5.0,
            stream_gb_per_s: 3000.0,
            gather_gb_per_s: 7000.0,
            far_gather_gb_per_s: 3000.0,
            item_ns: 0.02,
            step_ns: 20.0,
        };
        device.kernels.insert(kernel, truth);
        let mut samples = Vec::new();
        for spec in
            ["stencil27,n=16", "uniform,rows=20000,degree=16", "road,n=40000", "rmat,scale=13,degree=8"]
        {
            let matrix: Csr<f64> = generate(spec, 1, 1 << 30).unwrap().matrix;
            let all = ChunkRows::Rows { begin: 0, end: matrix.rows() };
            for k in [1, 8, 32, 128] {
                let features = Features::of(&Work::spmm(&matrix.view(), k).unwrap(), &all);
                for form in Form::all(kernel, Dtype::F64, k as u64, true) {
                    let seconds = device.form_s(&form, &features, k as u64, Dtype::F64);
                    samples.push(Sample { form, features, k: k as u64, dtype: Dtype::F64, seconds });
                }
            }
        }
        // Off by half, all of them.
        device.kernels.get_mut(&kernel).unwrap().numbers_mut().into_iter().for_each(|number| *number *= 1.5);
        let found = fit(&device, kernel, &samples).unwrap();
        let own: Vec<&Sample> = samples.iter().collect();
        let (before, after) = (error(&device, &device.kernels[&kernel], &own), error(&device, &found, &own));
        assert!(after < 0.002 && after < before / 20.0, "{before} {after}: {found:?} for {truth:?}");
        assert_eq!(fit(&device, KernelId::CsrRuns, &samples), None, "no samples");
    }
}
