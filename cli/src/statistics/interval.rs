//! How well a median is known, and by how much two medians differ.
//!
//! The interval of a median is the 95 % interval by order statistics, which holds for every distribution. It assumes
//! independent samples, and runs that follow each other are not: clocks, caches and other programs change slowly. So the
//! samples are divided, in the order they were taken, into at most [`MAX_BLOCKS`] blocks, and each block's median counts
//! as one sample.

use serde::Serialize;

use super::times::{percentile, sorted};

/// Most blocks that samples are divided into.
const MAX_BLOCKS: usize = 20;

/// Probability with which an interval contains the median, where there are enough samples for it.
const CONFIDENCE: f64 = 0.95;

/// A median with its 95 % interval, in seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MedianInterval {
    /// The median of all samples.
    pub median: f64,
    /// Where the interval begins, at most the median.
    pub low: f64,
    /// Where it ends, at least the median.
    pub high: f64,
}

impl MedianInterval {
    /// The interval of the median of `samples`, which are in the order they were taken. Fewer than six samples cannot give
    /// 95 %: the interval is then from the fastest to the slowest. None where there are fewer than two samples.
    pub fn of(samples: &[f64]) -> Option<Self> {
        if samples.len() < 2 {
            return None;
        }
        let median = percentile(&sorted(samples.iter().copied()), 0.5)?;
        let blocks = sorted(block_medians(samples).into_iter());
        let outside = samples_outside(blocks.len());
        let low = *blocks.get(outside)?;
        let high = *blocks.get(blocks.len() - 1 - outside)?;
        Some(Self { median, low: low.min(median), high: high.max(median) })
    }

    /// Half the width of the interval, as a share of the median; none where the median is zero.
    pub fn relative_half_width(&self) -> Option<f64> {
        (self.median > 0.0).then(|| (self.high - self.low) / (2.0 * self.median))
    }
}

/// The median of each block of samples.
fn block_medians(samples: &[f64]) -> Vec<f64> {
    let count = samples.len().min(MAX_BLOCKS);
    let block = |index: usize| {
        let range = index * samples.len() / count..(index + 1) * samples.len() / count;
        percentile(&sorted(samples.get(range)?.iter().copied()), 0.5)
    };
    (0..count).filter_map(block).collect()
}

/// How many of `n` sorted samples may lie below the interval, and as many above it, so that it still contains the median
/// with probability [`CONFIDENCE`]: each sample is below the median with probability one half.
fn samples_outside(n: usize) -> usize {
    let tail = (1.0 - CONFIDENCE) / 2.0;
    let mut probability = 0.5f64.powi(n as i32);
    let mut below = probability;
    let mut outside = 0;
    // `below` is the probability that at most `outside` of the samples are below the median.
    while below <= tail {
        outside += 1;
        probability *= (n + 1 - outside) as f64 / outside as f64;
        below += probability;
    }
    outside.saturating_sub(1)
}

/// How many times longer one thing takes than another: the ratio of their medians.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct TimeRatio {
    /// Median over median.
    pub ratio: f64,
    /// Half the width of the ratio's 95 % interval; unknown where one of both ran only once.
    pub spread: Option<f64>,
}

impl TimeRatio {
    /// The time of `samples` over that of `reference`; none where one of both has no time. The relative half widths of both
    /// intervals are combined as independent errors are: the square root of the sum of their squares.
    pub fn of(samples: &[f64], reference: &[f64]) -> Option<Self> {
        let median = |samples: &[f64]| {
            percentile(&sorted(samples.iter().copied()), 0.5).filter(|median| *median > 0.0)
        };
        let ratio = median(samples)? / median(reference)?;
        let half_width = |samples: &[f64]| MedianInterval::of(samples)?.relative_half_width();
        let widths = half_width(samples).zip(half_width(reference));
        Some(Self { ratio, spread: widths.map(|(own, other)| ratio * own.hypot(other)) })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Whether the ratio differs from one by more than its spread; never where the spread is unknown.
    fn exceeds_spread(of: &TimeRatio) -> bool {
        of.spread.is_some_and(|spread| (of.ratio - 1.0).abs() > spread)
    }

    /// Uniformly distributed in 0..1, by a linear congruential generator.
    fn uniform(state: &mut u64) -> f64 {
        *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (*state >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Times with a median of one and a tail of slow runs, as timings have.
    fn skewed(state: &mut u64, n: usize) -> Vec<f64> {
        (0..n).map(|_| 1.0 + 0.2 * (-uniform(state).max(1e-12).ln() - 2f64.ln())).collect()
    }

    #[test]
    fn the_order_statistics_are_those_of_the_tables() {
        // Ranks of the distribution-free 95 % interval of a median, as printed in tables: n, lower rank.
        for (n, lower_rank) in [(2, 1), (5, 1), (6, 1), (8, 1), (9, 2), (10, 2), (12, 3), (15, 4), (20, 6)] {
            assert_eq!(samples_outside(n) + 1, lower_rank, "n = {n}");
        }
    }

    #[test]
    fn one_sample_has_no_interval_and_few_have_all_of_their_range() {
        assert_eq!(MedianInterval::of(&[]), None);
        assert_eq!(MedianInterval::of(&[1.0]), None);
        let few = MedianInterval::of(&[3.0, 1.0, 2.0]).unwrap();
        assert_eq!((few.low, few.median, few.high), (1.0, 2.0, 3.0));
        assert_eq!(TimeRatio::of(&[2.0], &[1.0]), Some(TimeRatio { ratio: 2.0, spread: None }));
        assert_eq!(TimeRatio::of(&[2.0], &[]), None);
        assert_eq!(TimeRatio::of(&[2.0], &[0.0]), None);
    }

    #[test]
    fn the_interval_contains_the_true_median_as_often_as_it_says() {
        for n in [7, 11, 20, 60, 400] {
            let mut state = 1;
            let contained = (0..2000).filter(|_| {
                let interval = MedianInterval::of(&skewed(&mut state, n)).unwrap();
                (interval.low..=interval.high).contains(&1.0)
            });
            let share = contained.count() as f64 / 2000.0;
            assert!(share > 0.92, "n = {n}: {share}");
        }
    }

    #[test]
    fn two_measurements_of_one_thing_rarely_differ_by_more_than_the_spread() {
        let mut state = 7;
        let differ = (0..2000).filter(|_| {
            let (one, other) = (skewed(&mut state, 15), skewed(&mut state, 15));
            exceeds_spread(&TimeRatio::of(&one, &other).unwrap())
        });
        let share = differ.count() as f64 / 2000.0;
        assert!(share < 0.05, "{share}");
    }

    #[test]
    fn a_slow_drift_widens_the_interval_that_shuffled_samples_would_not_show() {
        let drifting: Vec<f64> = (0..1000).map(|n| 1.0 + 1e-4 * f64::from(n)).collect();
        let shuffled: Vec<f64> = (0..1000).map(|n| 1.0 + 1e-4 * f64::from(n * 7919 % 1000)).collect();
        let width = |samples: &[f64]| MedianInterval::of(samples).unwrap().relative_half_width().unwrap();
        assert!(width(&drifting) > 2.0 * width(&shuffled));
    }

    proptest! {
        #[test]
        fn the_interval_contains_the_median_and_lies_within_the_samples(
            samples in prop::collection::vec(1e-6f64..10.0, 2..200),
        ) {
            let interval = MedianInterval::of(&samples).unwrap();
            let (min, max) = samples.iter().fold((f64::INFINITY, 0.0f64), |(min, max), &s| (min.min(s), max.max(s)));
            prop_assert!(min <= interval.low && interval.low <= interval.median);
            prop_assert!(interval.median <= interval.high && interval.high <= max);
        }

        #[test]
        fn ratios_do_not_depend_on_the_unit(
            one in prop::collection::vec(1e-6f64..10.0, 2..60),
            other in prop::collection::vec(1e-6f64..10.0, 2..60),
            scale in 1e-3f64..1e3,
        ) {
            let scaled = |samples: &[f64]| samples.iter().map(|s| s * scale).collect::<Vec<_>>();
            let plain = TimeRatio::of(&one, &other).unwrap();
            let in_unit = TimeRatio::of(&scaled(&one), &scaled(&other)).unwrap();
            prop_assert!((plain.ratio - in_unit.ratio).abs() <= 1e-9 * plain.ratio);
            let (spread, other) = (plain.spread.unwrap(), in_unit.spread.unwrap());
            prop_assert!((spread - other).abs() <= 1e-6 * spread.max(1e-9));
        }

        #[test]
        fn swapping_both_inverts_the_ratio_and_keeps_the_relative_spread(
            one in prop::collection::vec(1e-6f64..10.0, 2..60),
            other in prop::collection::vec(1e-6f64..10.0, 2..60),
        ) {
            let (there, back) = (TimeRatio::of(&one, &other).unwrap(), TimeRatio::of(&other, &one).unwrap());
            prop_assert!((there.ratio * back.ratio - 1.0).abs() < 1e-9);
            let relative = |ratio: &TimeRatio| ratio.spread.unwrap() / ratio.ratio;
            prop_assert!((relative(&there) - relative(&back)).abs() <= 1e-9 * relative(&there).max(1e-9));
        }

        #[test]
        fn a_thing_does_not_differ_from_itself(samples in prop::collection::vec(1e-6f64..10.0, 2..60)) {
            let same = TimeRatio::of(&samples, &samples).unwrap();
            prop_assert!(same.ratio == 1.0 && !exceeds_spread(&same));
        }
    }
}
