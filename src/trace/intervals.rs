//! Sets of time intervals: their length, and the length of their intersection.

/// A set of times as sorted, disjoint intervals that do not touch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct TimeSet(Vec<(u64, u64)>);

impl TimeSet {
    /// The union of half-open intervals.
    pub(super) fn of(intervals: impl IntoIterator<Item = (u64, u64)>) -> Self {
        let mut sorted: Vec<_> = intervals.into_iter().filter(|(start, end)| start < end).collect();
        sorted.sort_unstable();
        let mut merged: Vec<(u64, u64)> = Vec::new();
        for (start, end) in sorted {
            match merged.last_mut() {
                Some(last) if start <= last.1 => last.1 = last.1.max(end),
                _ => merged.push((start, end)),
            }
        }
        Self(merged)
    }

    /// The total length.
    pub(super) fn length(&self) -> u64 {
        self.0.iter().map(|(start, end)| end - start).sum()
    }

    /// The length of the intersection.
    pub(super) fn intersection_ns(&self, other: &Self) -> u64 {
        let (mut left, mut right) = (self.0.iter().peekable(), other.0.iter().peekable());
        let mut shared = 0;
        while let (Some(a), Some(b)) = (left.peek(), right.peek()) {
            shared += a.1.min(b.1).saturating_sub(a.0.max(b.0));
            // The interval that ends first intersects no further one.
            if a.1 <= b.1 {
                left.next();
            } else {
                right.next();
            }
        }
        shared
    }
}

/// The length of the times that are in at least two of the sets.
pub(super) fn shared_ns(sets: &[TimeSet]) -> u64 {
    // An end comes before a start at the same time.
    let ends = |&(start, end): &(u64, u64)| [(start, 1i64), (end, -1)];
    let mut changes: Vec<(u64, i64)> = sets.iter().flat_map(|set| set.0.iter().flat_map(ends)).collect();
    changes.sort_unstable();
    let (mut shared, mut open) = (0, 0);
    for (position, &(at, change)) in changes.iter().enumerate() {
        open += change;
        if open >= 2 {
            shared += changes.get(position + 1).map_or(0, |next| next.0 - at);
        }
    }
    shared
}

/// Nanoseconds as seconds.
pub(super) fn seconds(ns: u64) -> f64 {
    ns as f64 * 1e-9
}

/// `part / whole`; `None` if `whole` is zero.
pub(super) fn share(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The reference: whether each tick of a short clock is in an interval.
    fn ticks(intervals: &[(u64, u64)]) -> [bool; 80] {
        std::array::from_fn(|tick| {
            intervals.iter().any(|&(start, end)| (start..end).contains(&(tick as u64)))
        })
    }

    fn intervals() -> impl Strategy<Value = Vec<(u64, u64)>> {
        prop::collection::vec((0u64..60, 0u64..20).prop_map(|(start, length)| (start, start + length)), 0..10)
    }

    proptest! {
        #[test]
        fn lengths_and_intersections_agree_with_a_count_of_ticks(a in intervals(), b in intervals()) {
            let (ticks_a, ticks_b) = (ticks(&a), ticks(&b));
            let count = |ticks: &dyn Fn(usize) -> bool| (0..80).filter(|&tick| ticks(tick)).count() as u64;
            let (moments_a, moments_b) = (TimeSet::of(a), TimeSet::of(b));
            prop_assert_eq!(moments_a.length(), count(&|tick| ticks_a[tick]));
            let both = count(&|tick| ticks_a[tick] && ticks_b[tick]);
            prop_assert_eq!(moments_a.intersection_ns(&moments_b), both);
            prop_assert_eq!(moments_b.intersection_ns(&moments_a), both);
        }

        #[test]
        fn times_in_two_of_three_sets_agree_with_a_count_of_ticks(
            a in intervals(), b in intervals(), c in intervals()
        ) {
            let ticks = [ticks(&a), ticks(&b), ticks(&c)];
            let is_shared = |tick: &usize| ticks.iter().filter(|ticks| ticks[*tick]).count() >= 2;
            let expected = (0..80).filter(is_shared).count() as u64;
            prop_assert_eq!(shared_ns(&[a, b, c].map(TimeSet::of)), expected);
        }
    }
}
