//! The inputs of a prediction, exported for the scripts that fit weights.

use serde::Serialize;

use super::kernels::floor_s;
use super::regressors::regressors;
use super::similarity::{row_descriptors, x_descriptors};
use crate::cost::{Load, Profile};
use crate::matrix::Dtype;
use crate::work::spmm::Features;

/// The inputs of a case's prediction.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Reference {
    /// Lower bound in seconds: the device's memory moves the bytes that every kernel must move. Weights predict a factor of it.
    pub floor_s: f64,
    /// The regressors, in the order of the weights.
    pub numbers: Vec<f64>,
    /// Descriptors of the rows.
    pub row_descriptors: Vec<f32>,
    /// Descriptors of X.
    pub x_descriptors: Vec<f32>,
}

impl Reference {
    /// The inputs for rows with these features on `device`.
    pub fn of(device: &Profile, features: &Features, k: u64, dtype: Dtype) -> Self {
        Self {
            floor_s: floor_s(device, features, &Load::of(features, k, dtype), dtype),
            numbers: regressors(features, k, dtype, device.cache_bytes).to_vec(),
            row_descriptors: row_descriptors(features).to_vec(),
            x_descriptors: x_descriptors(k, dtype).to_vec(),
        }
    }
}
