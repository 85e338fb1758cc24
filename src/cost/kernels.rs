//! The time of a kernel on a device: what its memory would need, times a factor that depends on what the rows look like.
//!
//! The logarithm of the factor is a sum of [`regressors`] with weights of the kernel's shape, fitted to measured times. Times
//! are regressed and not labels, so that a near tie costs little whichever way it goes.

use serde::{Deserialize, Serialize};

use super::form::Form;
use super::profile::{Load, Profile};
use super::regressors::{REGRESSORS, regressors};
use crate::kernel::KernelId;
use crate::kernel::cuda::Variant;
use crate::matrix::Dtype;
use crate::work::{Features, pitch_bytes};

/// Seconds of a kernel that has nothing to do.
const START_S: f64 = 3e-6;
/// Bytes that a row of X takes at least on its way.
const SECTOR_BYTES: f64 = 32.0;
/// The logarithm of a factor is not believed beyond this.
const MOST: f64 = 6.0;

/// By how much a kernel was found to be slower than its weights say; less than 1 where it is faster.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Correction {
    /// The kernel.
    pub kernel: KernelId,
    /// The form that was measured; none where it is true of all.
    #[serde(default)]
    pub variant: Option<Variant>,
    /// Measured over predicted.
    pub factor: f64,
}

/// Seconds in which the device's memory, or the cache that X lies in, moves what any kernel has to move.
pub(super) fn floor_s(device: &Profile, features: &Features, load: &Load, dtype: Dtype) -> f64 {
    let row_bytes = pitch_bytes(load.k.saturating_mul(dtype.bytes() as u64)) as f64;
    let columns = features.end_column.saturating_sub(features.first_column).max(1);
    let x_bytes = features.nnz.min(columns) as f64 * row_bytes;
    let a_bytes = features.nnz as f64 * (4.0 + dtype.bytes() as f64) + 8.0 * features.rows as f64;
    let rate = |gb_per_s: f64| (gb_per_s * 1e9).max(1.0);
    let moved_s = (a_bytes + features.rows as f64 * row_bytes + x_bytes) / rate(device.stream_gb_per_s);
    let gathered_s = features.nnz as f64 * row_bytes.max(SECTOR_BYTES) / rate(device.gather_gb_per_s);
    START_S + moved_s.max(gathered_s)
}

/// Seconds of a form, if the device has weights for it.
pub(super) fn weighted_s(
    device: &Profile,
    form: &Form,
    features: &Features,
    load: &Load,
    dtype: Dtype,
) -> Option<f64> {
    let weights = device.weights.get(form.nearest_shape(dtype, load.k)?)?;
    let numbers = regressors(features, load.k, dtype, device.cache_bytes);
    let logarithm: f64 = numbers.iter().zip(weights).map(|(number, weight)| number * weight).sum();
    Some(floor_s(device, features, load, dtype) * logarithm.clamp(-MOST, MOST).exp())
}

/// Whether weights are as many as there are numbers to weigh, all finite.
pub(super) fn are_sound(weights: &[f64]) -> bool {
    weights.len() == REGRESSORS && weights.iter().all(|weight| weight.is_finite())
}
