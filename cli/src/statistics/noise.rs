//! The noise of a median, and whether two medians differ by more than it.

use super::interval::MedianInterval;
use super::times::Times;

/// Samples that the noise is estimated from, at least.
const MIN_SAMPLES: usize = 5;

/// Whether a difference of two medians can be noise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Difference {
    /// The intervals of both medians are disjoint.
    ExceedsNoise,
    /// The intervals of both medians overlap.
    WithinNoise,
    /// One of them has too few samples.
    Unknown,
}

/// The 95 % interval of the median in seconds, as [`MedianInterval`] defines it for `bench` too. `None` for fewer than five samples.
pub fn noise_interval(times: &Times) -> Option<(f64, f64)> {
    let interval = MedianInterval::of(&times.samples).filter(|_| times.samples.len() >= MIN_SAMPLES)?;
    Some((interval.low, interval.high))
}

/// Compares two intervals of [`noise_interval`].
pub fn difference(one: Option<(f64, f64)>, other: Option<(f64, f64)>) -> Difference {
    match one.zip(other) {
        None => Difference::Unknown,
        Some((one, other)) if one.1 < other.0 || other.1 < one.0 => Difference::ExceedsNoise,
        Some(_) => Difference::WithinNoise,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(center: f64, spread: f64) -> Times {
        Times::new(&[-2.0, -1.0, 0.0, 1.0, 2.0, -1.0, 1.0, 0.0, 0.0].map(|step| center + spread * step))
    }

    #[test]
    fn the_interval_needs_five_samples() {
        // Ranks 2 and 8 of nine samples.
        assert_eq!(noise_interval(&times(100.0, 1.0)), Some((99.0, 101.0)));
        assert_eq!(noise_interval(&Times::new(&[1.0, 2.0, 3.0, 4.0])), None);
        assert_eq!(noise_interval(&Times::default()), None);
    }

    #[test]
    fn a_difference_exceeds_the_noise_where_the_intervals_are_disjoint() {
        let compare = |a: &Times, b: &Times| difference(noise_interval(a), noise_interval(b));
        assert_eq!(compare(&times(100.0, 1.0), &times(103.0, 1.0)), Difference::ExceedsNoise);
        assert_eq!(compare(&times(100.0, 1.0), &times(101.0, 1.0)), Difference::WithinNoise);
        assert_eq!(compare(&times(100.0, 1.0), &Times::new(&[1.0])), Difference::Unknown);
    }
}
