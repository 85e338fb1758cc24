//! Descriptors of a case: numbers whose Euclidean distance says how similar two cases are to a kernel. A distance of one gives a
//! similarity of about 0.5.

use crate::matrix::Dtype;
use crate::work::pitch_bytes;
use crate::work::spmm::Features;

/// Number of descriptors of the rows of A.
pub(super) const ROW_DESCRIPTORS: usize = 10;
/// Number of descriptors of X.
pub(super) const X_DESCRIPTORS: usize = 2;

/// The base-2 logarithm of a quantity, divided by `doublings`; the quantity is clamped to keep the result finite.
fn log_steps(quantity: f64, doublings: f64) -> f32 {
    (quantity.clamp(1e-3, 1e15).log2() / doublings) as f32
}

/// Descriptors of the rows: their number, lengths, imbalance and column locality.
pub fn row_descriptors(features: &Features) -> [f32; ROW_DESCRIPTORS] {
    let rows = features.rows.max(1) as f64;
    let columns = features.end_column.saturating_sub(features.first_column).max(1);
    let share = |share: f64| (4.0 * share.clamp(0.0, 1.0)) as f32;
    [
        log_steps(rows, 2.0),
        log_steps(features.nnz.max(1) as f64 / rows, 1.0),
        (2.0 * features.coefficient_of_variation.clamp(0.0, 1e3).ln_1p()) as f32,
        log_steps(features.max.max(1) as f64, 1.0),
        log_steps(columns as f64, 4.0),
        share(features.locality.group_columns),
        share(features.locality.panel_columns),
        share(features.slice_fill),
        share(features.long_row_nonzero_share),
        share(features.locality.popular),
    ]
}

/// Descriptors of X: the bytes of a row and the value type.
pub fn x_descriptors(k: u64, dtype: Dtype) -> [f32; X_DESCRIPTORS] {
    let row_bytes = pitch_bytes(k.saturating_mul(dtype.bytes() as u64)).max(4);
    [log_steps(row_bytes as f64, 1.5), if dtype == Dtype::F32 { 1.0 } else { 0.0 }]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_are_finite_for_any_rows() {
        let extreme = Features {
            rows: u64::MAX,
            nnz: u64::MAX,
            max: u64::MAX,
            end_column: u64::MAX,
            coefficient_of_variation: f64::INFINITY,
            ..Features::default()
        };
        for features in [Features::default(), extreme] {
            assert!(row_descriptors(&features).iter().all(|value| value.abs() < 100.0), "{features:?}");
        }
        for k in [0, 1, u64::MAX] {
            assert!(x_descriptors(k, Dtype::F64).iter().all(|value| value.is_finite()), "{k}");
        }
    }

    #[test]
    fn descriptors_of_x_differ_by_width_and_type() {
        let [wide, double] = x_descriptors(32, Dtype::F64);
        let [narrow, single] = x_descriptors(4, Dtype::F32);
        assert!((wide - narrow - 4.0 / 1.5).abs() < 1e-6);
        assert_eq!((double, single), (0.0, 1.0));
    }
}
