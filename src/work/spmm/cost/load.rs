//! The work of a kernel on rows of a sparse matrix.

use crate::cost::Load;
use crate::matrix::Dtype;
use crate::work::spmm::Features;

impl Load {
    /// The work of rows with these features.
    pub fn of(features: &Features, k: u64, dtype: Dtype) -> Self {
        let value = dtype.bytes() as u64;
        let row_bytes = k.saturating_mul(value);
        let a_bytes = (features.rows + 1) * 8 + features.nnz * (4 + value);
        Self {
            rows: features.rows,
            entries: features.nnz,
            k,
            compulsory_bytes: a_bytes.saturating_add(features.rows.saturating_mul(row_bytes)),
            gathered_bytes: features.nnz.saturating_mul(row_bytes),
            x_bytes: features.end_column.saturating_sub(features.first_column).saturating_mul(row_bytes),
        }
    }
}
