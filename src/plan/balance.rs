//! Load balance: the shares of the work with which all devices finish at the same time.

/// The time of a device as a linear function of its share.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Line {
    /// Seconds independent of the share, such as copying X.
    pub fixed_s: f64,
    /// Seconds for all of the work.
    pub whole_s: f64,
    /// Largest share that fits in its memory.
    pub most: f64,
}

/// Lower bound of `whole_s`, for products without rows.
const MIN_WHOLE_S: f64 = 1e-9;

/// The share of each device and the common finish time; `None` where the work does not fit in their memory together.
pub(super) fn balance(lines: &[Line]) -> Option<(Vec<f64>, f64)> {
    let share = |line: &Line, finish: f64| {
        let free = (finish - line.fixed_s).max(0.0);
        (free / line.whole_s.max(MIN_WHOLE_S)).clamp(0.0, line.most.clamp(0.0, 1.0))
    };
    let covered = |finish: f64| lines.iter().map(|line| share(line, finish)).sum::<f64>();
    let mut high = lines.iter().map(|line| line.fixed_s + line.whole_s.max(MIN_WHOLE_S)).fold(0.0, f64::max);
    if lines.is_empty() || covered(high) < 1.0 - 1e-9 {
        return None;
    }
    let mut low = 0.0;
    for _ in 0..200 {
        let middle = 0.5 * (low + high);
        if middle <= low || middle >= high {
            break;
        }
        if covered(middle) >= 1.0 {
            high = middle;
        } else {
            low = middle;
        }
    }
    let shares: Vec<f64> = lines.iter().map(|line| share(line, high)).collect();
    let sum: f64 = shares.iter().sum();
    Some((shares.iter().map(|share| share / sum).collect(), high))
}

/// Divides `total` items in proportion to `shares`; every share above zero gets at least one item while there are enough.
pub(super) fn apportion(shares: &[f64], total: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..shares.len()).filter(|&index| shares[index] > 0.0).collect();
    order.sort_by(|&a, &b| shares[b].total_cmp(&shares[a]).then(a.cmp(&b)));
    let mut counts = vec![0; shares.len()];
    for &index in order.iter().take(total) {
        counts[index] = 1;
    }
    for _ in order.len().min(total)..total {
        let behind = |index: usize| shares[index] / (counts[index] as f64 + 0.5);
        let Some(&next) = order.iter().max_by(|&&a, &&b| behind(a).total_cmp(&behind(b)).then(b.cmp(&a)))
        else {
            break;
        };
        counts[next] += 1;
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn line(fixed_s: f64, whole_s: f64) -> Line {
        Line { fixed_s, whole_s, most: 1.0 }
    }

    #[test]
    fn equal_devices_share_equally_and_faster_ones_take_more() {
        let (shares, finish) = balance(&[line(0.0, 2.0), line(0.0, 2.0)]).unwrap();
        assert!((shares[0] - 0.5).abs() < 1e-9 && (finish - 1.0).abs() < 1e-9);
        let (shares, _) = balance(&[line(0.0, 1.0), line(0.0, 3.0)]).unwrap();
        assert!((shares[0] - 0.75).abs() < 1e-9);
    }

    #[test]
    fn a_device_whose_fixed_time_is_too_long_gets_nothing() {
        let (shares, finish) = balance(&[line(0.0, 1.0), line(5.0, 0.1)]).unwrap();
        assert_eq!(shares[1], 0.0);
        assert!((finish - 1.0).abs() < 1e-9);
    }

    #[test]
    fn a_product_without_rows_is_shared_too() {
        let (shares, _) = balance(&[line(1e-5, 0.0), line(1e-5, 0.0)]).unwrap();
        assert!((shares[0] - 0.5).abs() < 1e-3, "{shares:?}");
    }

    #[test]
    fn work_that_does_not_fit_goes_to_other_devices_or_is_refused() {
        let small = Line { fixed_s: 0.0, whole_s: 0.1, most: 0.25 };
        let (shares, _) = balance(&[small, line(0.0, 10.0)]).unwrap();
        assert!((shares[0] - 0.25).abs() < 1e-9);
        assert!(balance(&[small]).is_none() && balance(&[]).is_none());
    }

    #[test]
    fn every_share_above_zero_gets_an_item() {
        assert_eq!(apportion(&[0.999, 0.001], 10), [9, 1]);
        assert_eq!(apportion(&[0.5, 0.5, 0.0], 1), [1, 0, 0]);
        assert_eq!(apportion(&[0.0, 0.0], 4), [0, 0]);
        assert_eq!(apportion(&[0.75, 0.25], 8), [6, 2]);
    }

    proptest! {
        #[test]
        fn shares_add_up_and_used_devices_finish_together(
            lines in prop::collection::vec((0.0f64..1.0, 1e-6f64..10.0), 1..9),
        ) {
            let lines: Vec<Line> = lines.iter().map(|&(fixed, whole)| line(fixed, whole)).collect();
            let (shares, finish) = balance(&lines).unwrap();
            prop_assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-9);
            for (line, share) in lines.iter().zip(&shares) {
                if *share > 0.0 {
                    prop_assert!((line.fixed_s + share * line.whole_s - finish).abs() < 1e-6 * (1.0 + finish));
                }
            }
        }
    }
}
