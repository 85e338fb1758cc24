//! The regressors of the cost model, scaled to a magnitude of about one.
//!
//! The first group describes the rows and X, mostly as logarithms; then come products of two of those, and hinge terms.
//! [`names`] gives them in order.

use crate::cost::WEIGHTS_PER_SHAPE;
use crate::matrix::Dtype;
use crate::work::pitch_bytes;
use crate::work::spmm::Features;

/// The simple regressors, in order.
const SINGLE: [&str; 15] = [
    "one",
    "row_bytes",
    "mean",
    "spread",
    "group",
    "panel",
    "x",
    "gathered",
    "rows",
    "longest",
    "cut",
    "long_rows",
    "padding",
    "single",
    "popular",
];

/// Products of two simple regressors, by index.
const PRODUCTS: [(usize, usize); 24] = [
    (1, 1),
    (1, 2),
    (1, 3),
    (1, 4),
    (1, 5),
    (1, 8),
    (1, 10),
    (2, 2),
    (2, 4),
    (2, 8),
    (8, 8),
    (9, 9),
    (9, 8),
    (9, 1),
    (7, 7),
    (3, 2),
    (10, 2),
    (4, 8),
    (1, 6),
    (5, 6),
    (1, 13),
    (3, 8),
    (12, 1),
    (10, 8),
];

/// Hinge terms: a regressor where it is positive, else zero.
const HINGES: [&str; 6] =
    ["wide_rows", "many_rows", "long_mean", "long_longest", "much_gathered", "narrow_rows"];

/// The number of regressors.
pub const REGRESSORS: usize = SINGLE.len() + PRODUCTS.len() + HINGES.len();

const _: () = assert!(REGRESSORS == WEIGHTS_PER_SHAPE);

/// The names of the regressors; products as `mean*rows`.
pub fn names() -> Vec<String> {
    let product = |&(a, b): &(usize, usize)| format!("{}*{}", SINGLE[a], SINGLE[b]);
    let single = SINGLE.iter().map(ToString::to_string);
    single.chain(PRODUCTS.iter().map(product)).chain(HINGES.iter().map(ToString::to_string)).collect()
}

/// The regressors for rows with these features, on a device whose cache usefully holds `cache_bytes` of X.
pub fn regressors(features: &Features, k: u64, dtype: Dtype, cache_bytes: u64) -> [f64; REGRESSORS] {
    // The logarithm of a quantity over a typical one, clamped to the measured range, in units of `doublings` doublings.
    let log =
        |quantity: f64, low: f64, high: f64, doublings: f64| quantity.clamp(low, high).log2() / doublings;
    let row_bytes = pitch_bytes(k.saturating_mul(dtype.bytes() as u64)).max(4) as f64;
    let (rows, nnz) = (features.rows.max(1) as f64, features.nnz.max(1) as f64);
    let columns = features.end_column.saturating_sub(features.first_column).max(1) as f64;
    let longest = features.max as f64;
    let locality = &features.locality;
    let single = [
        1.0,
        log(row_bytes / 64.0, 1e-3, 1e3, 3.0),
        log((nnz / rows).clamp(1.0, 4096.0) / 16.0, 1e-3, 1e3, 4.0),
        features.coefficient_of_variation.min(20.0).ln_1p(),
        2.0 * (locality.group_columns - 0.6),
        2.0 * (locality.panel_columns - 0.5),
        log(columns * row_bytes / cache_bytes.max(1) as f64, 0.01, 30.0, 5.0).max(-0.5),
        log(nnz * row_bytes / 1e7, 1e-3, 1e4, 4.0),
        log(rows * row_bytes / (16.0 * 32.0 * 8000.0), 1e-3, 100.0, 4.0),
        log(longest.clamp(1.0, 1e5) / 64.0, 1e-3, 1e4, 4.0),
        log(longest / 512.0, 1.0, 200.0, 3.0),
        features.long_row_nonzero_share,
        1.0 - features.slice_fill,
        if dtype == Dtype::F32 { 1.0 } else { 0.0 },
        locality.popular,
    ];
    let [_, row_bytes, mean, .., longest, _, _, _, _, _] = single;
    let (gathered, rows) = (single[7], single[8]);
    let hinges = [
        row_bytes.max(0.0),
        rows.max(0.0),
        mean.max(0.0),
        longest.max(0.0),
        gathered.max(0.0),
        (-row_bytes).max(0.0).powi(2),
    ];
    let products = PRODUCTS.map(|(a, b)| single[a] * single[b]);
    let mut all = [0.0; REGRESSORS];
    let values = single.into_iter().chain(products).chain(hinges);
    all.iter_mut().zip(values).for_each(|(to, value)| *to = value);
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::work::spmm::Locality;

    #[test]
    fn every_regressor_has_a_name_and_is_bounded() {
        assert_eq!(names().len(), REGRESSORS);
        let extremes = [
            Features::default(),
            Features { rows: 1, nnz: 1, max: 1, end_column: 1, ..Features::default() },
            Features {
                rows: 1 << 40,
                nnz: 1 << 44,
                max: 1 << 36,
                coefficient_of_variation: 1e9,
                end_column: 1 << 32,
                long_row_nonzero_share: 1.0,
                ..Features::default()
            },
        ];
        for features in extremes {
            for k in [0, 1, 33, 1 << 40] {
                let numbers = regressors(&features, k, Dtype::F64, 36_000_000);
                assert!(numbers.iter().all(|number| number.abs() < 30.0), "{numbers:?}");
            }
        }
    }

    #[test]
    fn doubling_k_adds_a_third_to_the_row_bytes_regressor() {
        let features = Features { rows: 100, nnz: 1600, max: 16, end_column: 100, ..Features::default() };
        let at = |k| regressors(&features, k, Dtype::F64, 1 << 20)[1];
        assert!((at(16) - at(8) - 1.0 / 3.0).abs() < 1e-12);
    }

    #[test]
    fn simple_regressors_have_the_values_of_their_definitions() {
        let features = Features {
            rows: 78_125,
            nnz: 156_250,
            max: 1024,
            coefficient_of_variation: std::f64::consts::E - 1.0,
            first_column: 1000,
            end_column: 2024,
            long_row_nonzero_share: 0.25,
            slice_fill: 0.75,
            locality: Locality {
                group_columns: 0.85,
                panel_columns: 0.75,
                popular: 0.125,
                ..Locality::default()
            },
            ..Features::default()
        };
        // Rows of 128 bytes: X has 2^17 bytes, four times the cache; 20 MB are gathered; Y has 2.44140625 times 4.096 MB.
        let found = regressors(&features, 16, Dtype::F64, 1 << 15);
        let expected = [
            1.0,                        // one
            1.0 / 3.0,                  // row_bytes: 128 / 64
            -0.75,                      // mean: 2 / 16
            1.0,                        // spread
            0.5,                        // group
            0.5,                        // panel
            0.4,                        // x
            0.25,                       // gathered
            2.44140625f64.log2() / 4.0, // rows
            1.0,                        // longest: 1024 / 64
            1.0 / 3.0,                  // cut: 1024 / 512
            0.25,                       // long_rows
            0.25,                       // padding
            0.0,                        // single
            0.125,                      // popular
        ];
        for ((found, expected), name) in found.iter().zip(expected).zip(SINGLE) {
            assert!((found - expected).abs() < 1e-12, "{name}: {found}, expected {expected}");
        }
        assert_eq!(regressors(&features, 16, Dtype::F32, 1 << 15)[13], 1.0);
    }
}
