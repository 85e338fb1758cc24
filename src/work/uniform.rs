//! Rows that all weigh the same, such as those of dense matrices.

use serde::{Deserialize, Serialize};

use crate::cost::{Form, Load, Profile};
use crate::matrix::Dtype;

/// Facts about rows that all weigh the same: sizes say everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UniformRows {
    /// Number of rows of Y, or of partial sums.
    pub rows: u64,
    /// Number of entries of A.
    pub entries: u64,
    /// Bytes of A.
    pub a_bytes: u64,
    /// Bytes of X, which all rows need.
    pub x_bytes: u64,
}

impl UniformRows {
    /// The work of a kernel with `k` columns, which reads A and X once.
    pub fn load(&self, k: u64, dtype: Dtype) -> Load {
        let y_bytes = self.rows.saturating_mul(k).saturating_mul(dtype.bytes() as u64);
        Load {
            rows: self.rows,
            entries: self.entries,
            k,
            compulsory_bytes: self.a_bytes.saturating_add(y_bytes),
            gathered_bytes: self.x_bytes,
            x_bytes: self.x_bytes,
        }
    }

    /// Predicted seconds of a form, from the rates of the device.
    pub fn kernel_s(&self, device: &Profile, form: &Form, k: u64, dtype: Dtype) -> f64 {
        device.kernel_s(&self.load(k, dtype)) * device.correction(form)
    }
}
