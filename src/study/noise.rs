//! The noise of a median, and whether two medians differ by more than it.

use super::times::{Times, percentile, sorted};

/// The half-width of the notch of a box plot in interquartile ranges over √n (McGill, Tukey and Larsen 1978): medians whose notches do
/// not overlap differ at the 95 % level.
const NOTCH_FACTOR: f64 = 1.57;

/// Samples that an interquartile range needs.
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

/// The interval of the median that noise explains, in seconds: median ± 1.57 × interquartile range / √n. `None` for fewer than five
/// samples.
pub fn noise_interval(times: &Times) -> Option<(f64, f64)> {
    if times.samples.len() < MIN_SAMPLES {
        return None;
    }
    let samples = sorted(times.samples.iter().copied());
    let range = percentile(&samples, 0.75)? - percentile(&samples, 0.25)?;
    let notch = NOTCH_FACTOR * range / (samples.len() as f64).sqrt();
    let median = times.median?;
    Some((median - notch, median + notch))
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
    fn the_interval_is_the_notch_of_a_box_plot() {
        // Quartiles -1 and 1 of nine samples: 1.57 × 2 / 3.
        let (low, high) = noise_interval(&times(100.0, 1.0)).unwrap();
        assert!((high - 100.0 - 1.57 * 2.0 / 3.0).abs() < 1e-9 && (low + high - 200.0).abs() < 1e-9);
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
