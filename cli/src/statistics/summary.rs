//! Ratios over many cases.

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
}
