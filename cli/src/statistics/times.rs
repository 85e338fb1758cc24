//! Statistics of repeated measurements.

use serde::{Deserialize, Serialize};

use super::welford::Welford;

/// Statistics of repeated measurements, in seconds. Without samples every statistic is none; with one, the spreads are.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Times {
    /// The number of samples.
    pub n: usize,
    /// The median.
    pub median: Option<f64>,
    /// The mean.
    pub mean: Option<f64>,
    /// The sample standard deviation.
    pub stddev: Option<f64>,
    /// The sample variance.
    pub variance: Option<f64>,
    /// The shortest.
    pub min: Option<f64>,
    /// The longest.
    pub max: Option<f64>,
    /// The 95th percentile, linearly interpolated.
    pub p95: Option<f64>,
    /// The median absolute deviation from the median, a spread that a few outliers do not change.
    pub mad: Option<f64>,
    /// All samples, in the order of measurement.
    pub samples: Vec<f64>,
}

impl Times {
    /// Statistics of `seconds`.
    pub fn new(seconds: &[f64]) -> Self {
        let welford: Welford = seconds.iter().copied().collect();
        let sorted = sorted(seconds.iter().copied());
        let median = percentile(&sorted, 0.5);
        let distances = |median: f64| sorted.iter().map(move |value| (value - median).abs());
        let mad = median.and_then(|median| percentile(&self::sorted(distances(median)), 0.5));
        Self {
            n: seconds.len(),
            median,
            mean: welford.mean(),
            stddev: welford.stddev(),
            variance: welford.variance(),
            min: sorted.first().copied(),
            max: sorted.last().copied(),
            p95: percentile(&sorted, 0.95),
            mad,
            samples: seconds.to_vec(),
        }
    }
}

pub(super) fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values
}

/// The quantile `share` of `sorted`, linearly interpolated as NumPy does.
pub(super) fn percentile(sorted: &[f64], share: f64) -> Option<f64> {
    let place = share * sorted.len().checked_sub(1)? as f64;
    let (low, high) = (*sorted.get(place.floor() as usize)?, *sorted.get(place.ceil() as usize)?);
    Some(low + (high - low) * place.fract())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_an_even_number_is_interpolated() {
        let times = Times::new(&[4.0, 1.0, 2.0, 9.0]);
        assert_eq!((times.median, times.mean), (Some(3.0), Some(4.0)));
        assert_eq!((times.min, times.max), (Some(1.0), Some(9.0)));
        assert_eq!(times.samples, [4.0, 1.0, 2.0, 9.0], "in the order they were taken");
        assert_eq!(Times::new(&[3.0, 1.0, 2.0]).median, Some(2.0));
    }

    #[test]
    fn statistics_without_enough_samples_are_none() {
        assert_eq!(Times::new(&[]), Times::default());
        let one = Times::new(&[2.0]);
        assert_eq!((one.n, one.median, one.stddev), (1, Some(2.0), None));
        assert_eq!((one.p95, one.mad), (Some(2.0), Some(0.0)));
    }

    /// The expected numbers are from NumPy 2.4.6: `mean`, `var(ddof=1)`, `std(ddof=1)`, `median`,
    /// `percentile(_, 95)` and `median(abs(x - median(x)))`.
    #[test]
    fn fixed_samples_have_the_statistics_of_numpy() {
        for (samples, expected) in NUMPY {
            let times = Times::new(samples);
            let found = [times.mean, times.variance, times.stddev, times.median, times.p95, times.mad]
                .map(Option::unwrap);
            for (found, expected) in found.iter().zip(expected) {
                assert!(
                    (found - expected).abs() <= 1e-12 * expected.abs(),
                    "{found} {expected} of {samples:?}"
                );
            }
        }
    }

    const NUMPY: [(&[f64], [f64; 6]); 3] = [
        (
            &[0.00123, 0.00125, 0.00121, 0.00199, 0.0012301, 0.0012302, 0.00124],
            [
                0.001340042857142857,
                8.228900619047619e-08,
                0.0002868606041102127,
                0.0012302,
                0.0017679999999999996,
                9.799999999999913e-06,
            ],
        ),
        (
            &[
                0.000716896,
                0.000612901,
                0.000846408,
                0.00103447,
                0.00128219,
                0.000942393,
                0.000772565,
                0.000720594,
                0.001141541,
                0.001489127,
                0.00098964,
                0.000629869,
            ],
            [
                0.0009315494999999999,
                7.342491461445454e-08,
                0.00027097032054166845,
                0.0008944005,
                0.0013753116499999997,
                0.00017565550000000005,
            ],
        ),
        (
            &[
                2.5210623, 2.5355298, 2.4489342, 2.4972407, 2.5202744, 2.5270428, 2.5130758, 2.5299424,
                2.5057992,
            ],
            [
                2.5109890666666663,
                0.0006847499338574985,
                0.026167726952440833,
                2.5202744,
                2.53329484,
                0.00966800000000001,
            ],
        ),
    ];
}
