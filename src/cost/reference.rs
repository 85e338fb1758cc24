//! What the prediction of a case is made from, for those who fit weights.

use serde::Serialize;

use super::kernels::floor_s;
use super::looks::{looks_of_rows, looks_of_x};
use super::profile::{Load, Profile};
use super::regressors::regressors;
use crate::matrix::Dtype;
use crate::work::Features;

/// The numbers of a case.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Reference {
    /// Seconds in which the device's memory moves what any kernel has to move; factors are counted from here.
    pub floor_s: f64,
    /// What weights weigh.
    pub numbers: Vec<f64>,
    /// What the rows look like.
    pub looks: Vec<f32>,
    /// What X looks like.
    pub looks_of_x: Vec<f32>,
}

impl Reference {
    /// Of rows that look like this, on that device.
    pub fn of(device: &Profile, features: &Features, k: u64, dtype: Dtype) -> Self {
        Self {
            floor_s: floor_s(device, features, &Load::of(features, k, dtype), dtype),
            numbers: regressors(features, k, dtype, device.cache_bytes).to_vec(),
            looks: looks_of_rows(features).to_vec(),
            looks_of_x: looks_of_x(k, dtype).to_vec(),
        }
    }
}
