//! Finish-time balance: shares of a job with which all devices are done at the same time.

/// What a device needs for a share of the job.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Line {
    /// Seconds before it computes anything, such as bringing X.
    pub fixed_s: f64,
    /// Seconds for all of the job.
    pub whole_s: f64,
    /// Most of the job that it can hold.
    pub most: f64,
}

/// A job shorter than this, such as one without rows, counts as this long.
const SHORTEST_S: f64 = 1e-9;

/// The share of each device and when they are done; `None` where together they cannot hold the job.
pub(super) fn balance(lines: &[Line]) -> Option<(Vec<f64>, f64)> {
    let share = |line: &Line, finish: f64| {
        let free = (finish - line.fixed_s).max(0.0);
        (free / line.whole_s.max(SHORTEST_S)).clamp(0.0, line.most.clamp(0.0, 1.0))
    };
    let covered = |finish: f64| lines.iter().map(|line| share(line, finish)).sum::<f64>();
    let mut high = lines.iter().map(|line| line.fixed_s + line.whole_s.max(SHORTEST_S)).fold(0.0, f64::max);
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

/// `total` things shared out as `shares` say, at least one to each share that is not zero while there are enough.
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
    fn a_device_that_would_start_too_late_gets_nothing() {
        let (shares, finish) = balance(&[line(0.0, 1.0), line(5.0, 0.1)]).unwrap();
        assert_eq!(shares[1], 0.0);
        assert!((finish - 1.0).abs() < 1e-9);
    }

    #[test]
    fn nothing_to_do_can_be_shared_too() {
        let (shares, _) = balance(&[line(1e-5, 0.0), line(1e-5, 0.0)]).unwrap();
        assert!((shares[0] - 0.5).abs() < 1e-3, "{shares:?}");
    }

    #[test]
    fn what_does_not_fit_goes_elsewhere_or_nowhere() {
        let small = Line { fixed_s: 0.0, whole_s: 0.1, most: 0.25 };
        let (shares, _) = balance(&[small, line(0.0, 10.0)]).unwrap();
        assert!((shares[0] - 0.25).abs() < 1e-9);
        assert!(balance(&[small]).is_none() && balance(&[]).is_none());
    }

    #[test]
    fn everyone_with_a_share_gets_one_of_enough_things() {
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
