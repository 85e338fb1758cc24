//! The time of a kernel on a device: what its memory would need, times a factor that depends on what the rows look like.
//!
//! The logarithm of the factor is a sum of [`regressors`] with weights of the kernel's shape, fitted to measured times, and of
//! what [`Cases`] that look alike say. Times are regressed and not labels, so that a near tie costs little whichever way it goes.

use super::cases::{Cases, Nearby};
use super::form::Form;
use super::profile::{Load, Profile};
use super::regressors::{REGRESSORS, regressors};
use crate::matrix::Dtype;
use crate::work::{Features, pitch_bytes};

/// Seconds of a kernel that has nothing to do.
const START_S: f64 = 3e-6;
/// Bytes that a row of X takes at least on its way.
const SECTOR_BYTES: f64 = 32.0;
/// The logarithm of a factor is not believed beyond this.
const MOST: f64 = 6.0;

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

/// Predicts times of forms on the same rows: what they share is found out once.
pub(super) struct Forecast<'a> {
    device: &'a Profile,
    load: Load,
    k: u64,
    dtype: Dtype,
    floor_s: f64,
    numbers: [f64; REGRESSORS],
    nearby: Option<Nearby>,
}

impl<'a> Forecast<'a> {
    /// For rows that look like this.
    pub fn new(device: &'a Profile, features: &Features, k: u64, dtype: Dtype) -> Self {
        let load = Load::of(features, k, dtype);
        let floor_s = floor_s(device, features, &load, dtype);
        let numbers = regressors(features, k, dtype, device.cache_bytes);
        let cases = device.cases.as_deref().and_then(Cases::of_card);
        let nearby = cases.map(|cases| cases.nearby(features, k, dtype));
        Self { device, load, k, dtype, floor_s, numbers, nearby }
    }

    /// Seconds of a shape, if the device has weights for it.
    fn shape_s(&self, shape: &str) -> Option<f64> {
        let weights = self.device.weights.get(shape)?;
        let weighed: f64 = self.numbers.iter().zip(weights).map(|(number, weight)| number * weight).sum();
        let measured = self.nearby.as_ref().map_or(0.0, |nearby| nearby.correction(shape));
        let factor = self.device.factors.get(shape).copied().unwrap_or(1.0);
        Some(self.floor_s * (weighed + measured).clamp(-MOST, MOST).exp() * factor)
    }

    /// Seconds of a form.
    pub fn form_s(&self, form: &Form) -> f64 {
        self.seconds(form, form.nearest_shape(self.dtype, self.k))
    }

    /// Seconds of a form of such a shape.
    pub fn seconds(&self, form: &Form, shape: Option<&str>) -> f64 {
        if self.load.rows == 0 {
            return 0.0;
        }
        let alone_s = shape.and_then(|shape| self.shape_s(shape));
        alone_s.unwrap_or_else(|| self.device.kernel_s(&self.load)) * self.device.correction(form)
    }

    /// A matrix that was measured and looks like these rows.
    pub fn alike(&self) -> Option<&'static str> {
        self.nearby.as_ref().and_then(Nearby::alike)
    }
}

impl Profile {
    /// Seconds of a form of a kernel on rows that look like this, if it has the device to itself.
    pub fn form_s(&self, form: &Form, features: &Features, k: u64, dtype: Dtype) -> f64 {
        Forecast::new(self, features, k, dtype).form_s(form)
    }
}

/// Whether weights are as many as there are numbers to weigh, all finite.
pub(super) fn are_sound(weights: &[f64]) -> bool {
    weights.len() == REGRESSORS && weights.iter().all(|weight| weight.is_finite())
}
