//! Sets of moments: how long something runs, and how long two things run at the same time.

/// Moments in which something runs, as intervals in order that neither touch nor overlap.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Moments(Vec<(u64, u64)>);

impl Moments {
    /// The moments that any of the intervals holds; ends are not part of theirs.
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

    /// How long they last together.
    pub(super) fn length(&self) -> u64 {
        self.0.iter().map(|(start, end)| end - start).sum()
    }

    /// How long both run at the same time.
    pub(super) fn shared_with(&self, other: &Self) -> u64 {
        let (mut left, mut right) = (self.0.iter().peekable(), other.0.iter().peekable());
        let mut shared = 0;
        while let (Some(a), Some(b)) = (left.peek(), right.peek()) {
            shared += a.1.min(b.1).saturating_sub(a.0.max(b.0));
            // The one that ends first can meet nothing more.
            if a.1 <= b.1 {
                left.next();
            } else {
                right.next();
            }
        }
        shared
    }
}

/// Nanoseconds as seconds.
pub(super) fn seconds(ns: u64) -> f64 {
    ns as f64 * 1e-9
}

/// `part` of `whole`, where there is a whole.
pub(super) fn share(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The same by looking at every tick of a short clock.
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
        fn lengths_and_overlaps_are_those_of_a_ticking_clock(a in intervals(), b in intervals()) {
            let (ticks_a, ticks_b) = (ticks(&a), ticks(&b));
            let count = |ticks: &dyn Fn(usize) -> bool| (0..80).filter(|&tick| ticks(tick)).count() as u64;
            let (moments_a, moments_b) = (Moments::of(a), Moments::of(b));
            prop_assert_eq!(moments_a.length(), count(&|tick| ticks_a[tick]));
            let both = count(&|tick| ticks_a[tick] && ticks_b[tick]);
            prop_assert_eq!(moments_a.shared_with(&moments_b), both);
            prop_assert_eq!(moments_b.shared_with(&moments_a), both);
        }
    }
}
