//! A resource that everybody who uses it shares equally, such as a link or the host's memory.
//!
//! Instead of counting down each user's bytes, one number counts the bytes that every user has been served since the
//! resource was last idle; a user is done when it reaches what it was when the user came plus the user's bytes.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// Shorter than this it is rounding, not time.
const ROUNDING_NS: f64 = 1e-3;
/// Of all bytes that were served so small a part is rounding too.
const ROUNDING: f64 = 1e-12;

/// A user, by the number the clock gave it, that is done when `served` reaches `target`.
#[derive(Debug, Clone, Copy)]
struct User {
    target: f64,
    arrival: u64,
    number: u32,
}

impl Ord for User {
    /// The one that is done first is the greatest; among equals the one that came first.
    fn cmp(&self, other: &Self) -> Ordering {
        other.target.total_cmp(&self.target).then(other.arrival.cmp(&self.arrival))
    }
}

impl PartialOrd for User {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for User {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for User {}

/// A shared resource.
#[derive(Debug)]
pub(super) struct Shared {
    bytes_per_ns: f64,
    served: f64,
    last_ns: u64,
    users: BinaryHeap<User>,
    arrivals: u64,
}

impl Shared {
    /// A resource of that bandwidth; one without bandwidth takes no time, because nothing should use it.
    pub(super) fn new(gb_per_s: f64) -> Self {
        let bytes_per_ns = if gb_per_s > 0.0 { gb_per_s } else { f64::INFINITY };
        Self { bytes_per_ns, served: 0.0, last_ns: 0, users: BinaryHeap::new(), arrivals: 0 }
    }

    fn catch_up(&mut self, now_ns: u64) {
        if !self.users.is_empty() {
            let passed = (now_ns - self.last_ns) as f64;
            self.served += passed * self.bytes_per_ns / self.users.len() as f64;
        }
        self.last_ns = now_ns;
    }

    /// A user comes with so many bytes.
    pub(super) fn enter(&mut self, now_ns: u64, number: u32, bytes: u64) {
        self.catch_up(now_ns);
        if self.users.is_empty() {
            self.served = 0.0;
        }
        self.arrivals += 1;
        self.users.push(User { target: self.served + bytes as f64, arrival: self.arrivals, number });
    }

    /// A user that is done at `now_ns`, and leaves.
    pub(super) fn leave(&mut self, now_ns: u64) -> Option<u32> {
        if !self.bytes_per_ns.is_infinite() {
            self.catch_up(now_ns);
        }
        // At the end of time nobody waits any longer.
        let ends = self.bytes_per_ns.is_infinite() || now_ns == u64::MAX;
        if ends || self.left_ns()? <= ROUNDING_NS {
            return self.users.pop().map(|user| user.number);
        }
        None
    }

    /// How long the next user still takes if nobody comes before.
    fn left_ns(&self) -> Option<f64> {
        let target = self.users.peek()?.target;
        let bytes = if target - self.served > ROUNDING * target { target - self.served } else { 0.0 };
        Some(bytes * self.users.len() as f64 / self.bytes_per_ns)
    }

    /// When the next user will be done if nobody comes before.
    pub(super) fn next_ns(&self) -> Option<u64> {
        // What is left beyond rounding takes a nanosecond at least, so that time passes until the user leaves.
        Some(self.last_ns.saturating_add((self.left_ns()? - ROUNDING_NS).ceil().max(0.0) as u64))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn whenever_a_user_is_foreseen_to_be_done_it_leaves_or_time_has_passed(
            gb_per_s in prop_oneof![0.1f64..5000.0, Just(1e-300), Just(1e-9), Just(1e300)],
            arrivals in prop::collection::vec((0u64..1000, prop_oneof![1u64..1 << 34, Just(u64::MAX)]), 1..60),
        ) {
            let mut shared = Shared::new(gb_per_s);
            let (mut now_ns, mut left) = (0u64, 0);
            let mut pending = arrivals.iter().enumerate().peekable();
            let mut steps = 0;
            while left < arrivals.len() {
                steps += 1;
                prop_assert!(steps < 100 * arrivals.len(), "time passes too slowly at {now_ns}");
                let next_ns = shared.next_ns();
                let comes = pending.peek().is_some_and(|(_, (after_ns, _))| {
                    next_ns.is_none_or(|next_ns| now_ns.saturating_add(*after_ns) < next_ns)
                });
                if comes {
                    if let Some((number, (after_ns, bytes))) = pending.next() {
                        now_ns = now_ns.saturating_add(*after_ns);
                        shared.enter(now_ns, number as u32, *bytes);
                    }
                    continue;
                }
                let next_ns = next_ns.unwrap();
                let before = left;
                while shared.leave(next_ns).is_some() {
                    left += 1;
                }
                prop_assert!(left > before || next_ns > now_ns, "nothing happens at {now_ns} for ever");
                now_ns = next_ns;
            }
        }
    }
}
