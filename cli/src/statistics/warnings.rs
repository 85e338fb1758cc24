//! Warnings about measurements: outliers, and a machine that becomes slower.

use super::times::{Times, percentile, sorted};

/// A sample further above the median than this many median absolute deviations is an outlier (5 standard deviations of a
/// normal distribution).
const OUTLIER_MADS: f64 = 5.0 * 1.4826;

/// Share of outliers above which there is a warning.
const MOST_OUTLIERS: f64 = 0.1;

/// Slow-down from the first third of the samples to the last above which there is a warning.
const MOST_DRIFT: f64 = 0.05;

/// Fewer samples give no warning.
const LEAST_SAMPLES: usize = 9;

/// A sentence for each warning about these times.
pub fn doubts(times: &Times) -> Vec<String> {
    let (Some(median), Some(mad)) = (times.median, times.mad) else { return Vec::new() };
    let samples = &times.samples;
    if samples.len() < LEAST_SAMPLES || median <= 0.0 {
        return Vec::new();
    }
    let mut doubts = Vec::new();
    let far = |value: &&f64| **value > median + (OUTLIER_MADS * mad).max(0.1 * median);
    let outliers = samples.iter().filter(far).count();
    if outliers as f64 > MOST_OUTLIERS * samples.len() as f64 {
        let longest = times.max.unwrap_or(median) / median;
        doubts.push(format!(
            "{outliers} of {} samples are outliers of up to {longest:.1} times the median; other programs may be running",
            samples.len()
        ));
    }
    let third = samples.len() / 3;
    let middle = |part: &[f64]| percentile(&sorted(part.iter().copied()), 0.5);
    let ends = samples.get(..third).zip(samples.get(samples.len() - third..));
    let early_mad = samples.get(..third).and_then(|first| Times::new(first).mad).unwrap_or(mad);
    if let Some((first, last)) = ends.and_then(|(first, last)| middle(first).zip(middle(last))) {
        let slower = last / first - 1.0;
        if slower > MOST_DRIFT && last - first > 3.0 * early_mad {
            doubts.push(format!(
                "the last third of the samples is {:.0}% slower than the first; the processor may be throttling",
                slower * 100.0
            ));
        }
    }
    doubts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steady_samples_give_no_warning() {
        let steady: Vec<f64> = (0..60).map(|n| 1.0 + 0.01 * f64::from(n * 7 % 5)).collect();
        assert!(doubts(&Times::new(&steady)).is_empty());
        assert!(doubts(&Times::new(&[1.0, 9.0])).is_empty());
        let one_in_sixty: Vec<f64> = (0..60).map(|n| if n == 30 { 9.0 } else { 1.0 }).collect();
        assert!(doubts(&Times::new(&one_in_sixty)).is_empty());
    }

    #[test]
    fn many_outliers_are_counted() {
        let samples: Vec<f64> = (0..40).map(|n| if n % 5 == 0 { 3.0 } else { 1.0 }).collect();
        let doubts = doubts(&Times::new(&samples));
        assert!(
            doubts.len() == 1 && doubts[0].starts_with("8 of 40 samples") && doubts[0].contains("3.0 times")
        );
    }

    #[test]
    fn a_falling_clock_gives_a_warning_and_a_rising_one_does_not() {
        let falling: Vec<f64> = (0..30).map(|n| if n < 15 { 1.0 } else { 1.2 }).collect();
        let said = doubts(&Times::new(&falling));
        assert!(said.iter().any(|doubt| doubt.contains("20% slower")), "{said:?}");
        let rising: Vec<f64> = falling.into_iter().rev().collect();
        assert!(!doubts(&Times::new(&rising)).iter().any(|doubt| doubt.contains("slower")));
    }
}
