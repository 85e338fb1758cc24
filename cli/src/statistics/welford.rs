//! Mean and variance in one pass (Welford 1962), without the cancellation of summing squares.

/// The mean and variance of the values seen so far.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Welford {
    n: u64,
    mean: f64,
    /// Sum of squared distances from the mean.
    squares: f64,
}

impl Welford {
    /// Adds a value.
    pub fn push(&mut self, value: f64) {
        self.n += 1;
        let before = value - self.mean;
        self.mean += before / self.n as f64;
        self.squares += before * (value - self.mean);
    }

    /// The number of values.
    pub fn n(&self) -> u64 {
        self.n
    }

    /// The mean; none without values.
    pub fn mean(&self) -> Option<f64> {
        (self.n > 0).then_some(self.mean)
    }

    /// The sample variance; none for fewer than two values.
    pub fn variance(&self) -> Option<f64> {
        (self.n > 1).then(|| self.squares / (self.n - 1) as f64)
    }

    /// The sample standard deviation.
    pub fn stddev(&self) -> Option<f64> {
        self.variance().map(f64::sqrt)
    }

    /// Standard deviation over mean; none where either is unknown or the mean is zero.
    pub fn relative_stddev(&self) -> Option<f64> {
        let (mean, stddev) = (self.mean().filter(|&mean| mean != 0.0)?, self.stddev()?);
        Some(stddev / mean.abs())
    }
}

impl FromIterator<f64> for Welford {
    fn from_iter<I: IntoIterator<Item = f64>>(values: I) -> Self {
        let mut welford = Self::default();
        values.into_iter().for_each(|value| welford.push(value));
        welford
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_variance_around_a_large_mean_is_exact() {
        // The sum of squares minus the square of the sum would lose all digits here; the variance is exactly 30.
        let welford: Welford = [4.0, 7.0, 13.0, 16.0].map(|value| value + 1e9).into_iter().collect();
        assert_eq!((welford.n(), welford.mean()), (4, Some(1e9 + 10.0)));
        assert!((welford.variance().unwrap() - 30.0).abs() < 1e-9);
    }

    #[test]
    fn too_few_values_have_no_variance() {
        assert_eq!(Welford::default().mean(), None);
        let one: Welford = [2.0].into_iter().collect();
        assert_eq!((one.mean(), one.variance(), one.relative_stddev()), (Some(2.0), None, None));
        let zero: Welford = [-1.0, 1.0].into_iter().collect();
        assert_eq!(zero.relative_stddev(), None);
    }
}
