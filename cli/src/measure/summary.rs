//! Ratios over many cases, and compulsory memory traffic.

use rayon::prelude::*;

use rowloom::internal::matrix::{CsrView, Dtype, Scalar};

/// Ratios below this count as slower; a ratio nearer to 1 is within the noise.
const SLOWER_BELOW: f64 = 0.95;

/// The ratios of all cases, summarized.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Summary {
    /// The number of cases with a ratio.
    pub cases: usize,
    /// Their geometric mean.
    pub geomean: f64,
    /// The smallest ratio.
    pub worst: f64,
    /// The case with the smallest ratio.
    pub worst_case: String,
    /// The number of ratios below 0.95.
    pub below: usize,
}

impl Summary {
    /// The summary of named ratios; none without ratios.
    pub fn of(ratios: &[(String, f64)]) -> Option<Self> {
        let (worst_case, worst) = ratios.iter().min_by(|a, b| a.1.total_cmp(&b.1))?.clone();
        let geomean = (ratios.iter().map(|(_, ratio)| ratio.ln()).sum::<f64>() / ratios.len() as f64).exp();
        let below = ratios.iter().filter(|(_, ratio)| *ratio < SLOWER_BELOW).count();
        Some(Self { cases: ratios.len(), geomean, worst, worst_case, below })
    }
}

/// The number of columns of A with an entry, which is the number of rows of X that are read.
pub fn used_columns<T: Scalar>(matrix: CsrView<'_, T>) -> u64 {
    let mut used = vec![false; matrix.cols()];
    for &column in matrix.columns() {
        if let Some(used) = used.get_mut(column as usize) {
            *used = true;
        }
    }
    used.par_iter().filter(|used| **used).count() as u64
}

/// Bytes that every kernel must move once: A with four-byte column indices and row pointers (eight-byte pointers from 2^31
/// entries on), the rows of X that are used, and Y.
pub fn compulsory_bytes(rows: u64, nnz: u64, used_columns: u64, k: u64, dtype: Dtype) -> u64 {
    let value = dtype.bytes() as u64;
    let pointer = if nnz < 1 << 31 { 4 } else { 8 };
    nnz * (value + 4) + pointer * (rows + 1) + value * k * (used_columns + rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_geometric_mean_and_the_worst_are_of_all_ratios() {
        assert_eq!(Summary::of(&[]), None);
        let ratios = [("a".into(), 4.0), ("b".into(), 0.5), ("c".into(), 0.96), ("d".into(), 1.0 / 1.92)];
        let summary = Summary::of(&ratios).unwrap();
        assert!((summary.geomean - 1.0).abs() < 1e-12, "{summary:?}");
        assert_eq!(
            (summary.cases, summary.worst, summary.worst_case.as_str(), summary.below),
            (4, 0.5, "b", 2)
        );
    }

    #[test]
    fn compulsory_bytes_count_a_x_and_y_once() {
        // 3 x 4 with 6 entries in 3 columns, K = 2, double precision.
        assert_eq!(compulsory_bytes(3, 6, 3, 2, Dtype::F64), 6 * 12 + 4 * 4 + 16 * 3 + 16 * 3);
        assert_eq!(compulsory_bytes(0, 1 << 31, 0, 1, Dtype::F32), (8 << 31) + 8);
    }
}
