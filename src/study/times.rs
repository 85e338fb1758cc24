//! Statistics of repeated measurements.

use serde::Serialize;

/// What repeated measurements say, in seconds; nothing is known of none, and no spread of one.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Times {
    /// How many there are.
    pub n: usize,
    /// The middle one.
    pub median: Option<f64>,
    /// Their mean.
    pub mean: Option<f64>,
    /// Their standard deviation, as of a sample.
    pub stddev: Option<f64>,
    /// The shortest.
    pub min: Option<f64>,
    /// The longest.
    pub max: Option<f64>,
}

impl Times {
    /// Statistics of `seconds`.
    pub fn new(seconds: &[f64]) -> Self {
        let n = seconds.len();
        let mut sorted = seconds.to_vec();
        sorted.sort_by(f64::total_cmp);
        let middle = |index: usize| sorted.get(index).copied();
        let median = if n % 2 == 1 {
            middle(n / 2)
        } else {
            middle((n / 2).wrapping_sub(1)).zip(middle(n / 2)).map(|(low, high)| (low + high) / 2.0)
        };
        let mean = (n > 0).then(|| seconds.iter().sum::<f64>() / n as f64);
        let stddev = mean.filter(|_| n > 1).map(|mean| {
            let squares: f64 = seconds.iter().map(|value| (value - mean).powi(2)).sum();
            (squares / (n - 1) as f64).sqrt()
        });
        Self { n, median, mean, stddev, min: sorted.first().copied(), max: sorted.last().copied() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_an_even_number_lies_between() {
        let times = Times::new(&[4.0, 1.0, 2.0, 9.0]);
        assert_eq!((times.median, times.mean), (Some(3.0), Some(4.0)));
        assert_eq!((times.min, times.max), (Some(1.0), Some(9.0)));
        assert!((times.stddev.unwrap() - (38.0f64 / 3.0).sqrt()).abs() < 1e-12);
        assert_eq!(Times::new(&[3.0, 1.0, 2.0]).median, Some(2.0));
    }

    #[test]
    fn what_is_unknown_is_left_out() {
        assert_eq!(Times::new(&[]).median, None);
        assert_eq!(Times::new(&[]).mean, None);
        let one = Times::new(&[2.0]);
        assert_eq!((one.n, one.median, one.stddev), (1, Some(2.0), None));
    }
}
