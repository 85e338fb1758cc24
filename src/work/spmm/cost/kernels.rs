//! The predicted time of a kernel on a device: a lower bound from memory bandwidth, times a factor that depends on the rows.
//!
//! The logarithm of the factor is the sum of the [`regressors`], weighted by the weights of the kernel's shape, and of the
//! correction from similar measured [`Cases`]. Times are regressed rather than labels, so a wrong choice between two nearly equal
//! kernels costs little.

use super::cases::{Cases, Nearby};
use super::regressors::{REGRESSORS, regressors};
use crate::cost::{Form, Load, Profile};
use crate::matrix::Dtype;
use crate::work::pitch_bytes;
use crate::work::spmm::Features;

/// Seconds of an empty kernel.
const START_S: f64 = 3e-6;
/// Smallest transfer of the memory system: a row of X costs at least this.
const SECTOR_BYTES: f64 = 32.0;
/// The logarithm of a factor is clamped to this magnitude.
const MAX_LOG_FACTOR: f64 = 6.0;

/// Lower bound in seconds: the device's memory, or the cache that holds X, moves the bytes that every kernel must move.
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

/// Predicts the times of several forms on the same rows; the common part is computed once.
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
    /// A forecast for rows with these features.
    pub fn new(device: &'a Profile, features: &Features, k: u64, dtype: Dtype) -> Self {
        let load = Load::of(features, k, dtype);
        let floor_s = floor_s(device, features, &load, dtype);
        let numbers = regressors(features, k, dtype, device.cache_bytes);
        let cases = device.cases.as_deref().and_then(Cases::of_card);
        let nearby = cases.map(|cases| cases.nearby(features, k, dtype));
        Self { device, load, k, dtype, floor_s, numbers, nearby }
    }

    /// Predicted seconds of a shape; `None` where the device has no weights for it.
    fn shape_s(&self, shape: &str) -> Option<f64> {
        let weights = self.device.weights.get(shape)?;
        let weighted: f64 = self.numbers.iter().zip(weights).map(|(number, weight)| number * weight).sum();
        let correction = self.nearby.as_ref().map_or(0.0, |nearby| nearby.correction(shape));
        let factor = self.device.factors.get(shape).copied().unwrap_or(1.0);
        Some(self.floor_s * (weighted + correction).clamp(-MAX_LOG_FACTOR, MAX_LOG_FACTOR).exp() * factor)
    }

    /// Predicted seconds of a form.
    pub fn form_s(&self, form: &Form) -> f64 {
        self.seconds(form, form.nearest_shape(self.dtype, self.k))
    }

    /// Predicted seconds of a form whose shape is known.
    pub fn seconds(&self, form: &Form, shape: Option<&str>) -> f64 {
        if self.load.rows == 0 {
            return 0.0;
        }
        let alone_s = shape.and_then(|shape| self.shape_s(shape));
        alone_s.unwrap_or_else(|| self.device.kernel_s(&self.load)) * self.device.correction(form)
    }

    /// The most similar measured matrix and its similarity.
    pub fn most_similar(&self) -> Option<(&'static str, f32)> {
        self.nearby.as_ref().and_then(Nearby::most_similar)
    }
}

impl Profile {
    /// Predicted seconds of a form on rows with these features, with the device otherwise idle.
    pub fn form_s(&self, form: &Form, features: &Features, k: u64, dtype: Dtype) -> f64 {
        Forecast::new(self, features, k, dtype).form_s(form)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::preset;

    #[test]
    fn the_lower_bound_is_the_time_of_the_bytes_that_every_kernel_moves() {
        let device = |stream_gb_per_s, gather_gb_per_s| Profile {
            stream_gb_per_s,
            gather_gb_per_s,
            ..preset("h200").unwrap().gpus.remove(0)
        };
        let bound_us = |device: &Profile, features: &Features, k, dtype| {
            floor_s(device, features, &Load::of(features, k, dtype), dtype) * 1e6
        };
        let features =
            Features { rows: 10, nnz: 100, first_column: 5, end_column: 55, ..Features::default() };
        // A: 100 entries of 12 bytes and 10 row pointers. Y and X: 10 and 50 rows of 64 bytes. An empty kernel takes 3 µs.
        let slow_memory = bound_us(&device(1.0, 1e3), &features, 8, Dtype::F64);
        assert!((slow_memory - (3.0 + 1.280 + 0.640 + 3.200)).abs() < 1e-9, "{slow_memory}");
        // Entries of 8 bytes, rows of 32 bytes, and fewer nonzeros than columns.
        let few = Features { nnz: 20, ..features };
        let single = bound_us(&device(1.0, 1e3), &few, 8, Dtype::F32);
        assert!((single - (3.0 + 0.240 + 0.320 + 0.640)).abs() < 1e-9, "{single}");
        // Each nonzero gathers a row of X, and at least 32 bytes.
        let slow_cache = bound_us(&device(1e3, 1.0), &features, 8, Dtype::F64);
        assert!((slow_cache - (3.0 + 6.400)).abs() < 1e-9, "{slow_cache}");
        let narrow = bound_us(&device(1e3, 1.0), &features, 1, Dtype::F64);
        assert!((narrow - (3.0 + 3.200)).abs() < 1e-9, "{narrow}");
    }
}
