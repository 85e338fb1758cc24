//! What makes rows look alike to kernels, as numbers: cases one apart in one of them are halfway strange to each other.

use crate::matrix::Dtype;
use crate::work::{Features, pitch_bytes};

/// Numbers that tell of the rows.
pub(super) const OF_ROWS: usize = 10;
/// Numbers that tell of X.
pub(super) const OF_X: usize = 2;

/// The logarithm of a quantity within what there can be, in steps of so many doublings.
fn steps(quantity: f64, doublings: f64) -> f32 {
    (quantity.clamp(1e-3, 1e15).log2() / doublings) as f32
}

/// What the rows look like: how many, how long and how uneven they are, and how their columns lie.
pub fn looks_of_rows(features: &Features) -> [f32; OF_ROWS] {
    let rows = features.rows.max(1) as f64;
    let columns = features.end_column.saturating_sub(features.first_column).max(1);
    let share = |share: f64| (4.0 * share.clamp(0.0, 1.0)) as f32;
    [
        steps(rows, 2.0),
        steps(features.nnz.max(1) as f64 / rows, 1.0),
        (2.0 * features.coefficient_of_variation.clamp(0.0, 1e3).ln_1p()) as f32,
        steps(features.max.max(1) as f64, 1.0),
        steps(columns as f64, 4.0),
        share(features.locality.group_columns),
        share(features.locality.panel_columns),
        share(features.slice_fill),
        share(features.long_row_nonzero_share),
        share(features.locality.popular),
    ]
}

/// What X looks like: the bytes of its rows and its type.
pub fn looks_of_x(k: u64, dtype: Dtype) -> [f32; OF_X] {
    let row_bytes = pitch_bytes(k.saturating_mul(dtype.bytes() as u64)).max(4);
    [steps(row_bytes as f64, 1.5), if dtype == Dtype::F32 { 1.0 } else { 0.0 }]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_are_finite_whatever_the_rows() {
        let endless = Features {
            rows: u64::MAX,
            nnz: u64::MAX,
            max: u64::MAX,
            end_column: u64::MAX,
            coefficient_of_variation: f64::INFINITY,
            ..Features::default()
        };
        for features in [Features::default(), endless] {
            assert!(looks_of_rows(&features).iter().all(|look| look.abs() < 100.0), "{features:?}");
        }
        for k in [0, 1, u64::MAX] {
            assert!(looks_of_x(k, Dtype::F64).iter().all(|look| look.is_finite()), "{k}");
        }
    }

    #[test]
    fn types_and_widths_of_x_are_told_apart() {
        let [wide, double] = looks_of_x(32, Dtype::F64);
        let [narrow, single] = looks_of_x(4, Dtype::F32);
        assert!((wide - narrow - 4.0 / 1.5).abs() < 1e-6 && double != single);
    }
}
