//! A resource whose bandwidth is shared equally by its users, such as a link or the host's memory.
//!
//! One counter holds the bytes served to each user since the resource was last idle. A user finishes when the counter
//! reaches its value at the user's arrival plus the user's bytes. No per-user countdown is needed.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// Remaining times below this are rounding errors.
const ROUNDING_NS: f64 = 1e-3;
/// Remaining bytes below this fraction of the target are rounding errors.
const ROUNDING: f64 = 1e-12;

/// A user, by its operation number. It finishes when `served` reaches `target`.
#[derive(Debug, Clone, Copy)]
struct User {
    target: f64,
    arrival: u64,
    number: u32,
}

impl Ord for User {
    /// The user that finishes first is the greatest; among equals, the one that arrived first.
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
    /// A resource with the given bandwidth. Bandwidth zero means that no time passes, since nothing should use it.
    pub(super) fn new(gb_per_s: f64) -> Self {
        let bytes_per_ns = if gb_per_s > 0.0 { gb_per_s } else { f64::INFINITY };
        Self { bytes_per_ns, served: 0.0, last_ns: 0, users: BinaryHeap::new(), arrivals: 0 }
    }

    /// Whether nothing uses it.
    pub(super) fn is_idle(&self) -> bool {
        self.users.is_empty()
    }

    /// Changes the bandwidth from `now_ns` on; zero as for [`Shared::new`].
    pub(super) fn set_bandwidth(&mut self, now_ns: u64, gb_per_s: f64) {
        self.advance_to(now_ns);
        self.bytes_per_ns = if gb_per_s > 0.0 { gb_per_s } else { f64::INFINITY };
    }

    fn advance_to(&mut self, now_ns: u64) {
        if !self.users.is_empty() {
            let passed = (now_ns - self.last_ns) as f64;
            self.served += passed * self.bytes_per_ns / self.users.len() as f64;
        }
        self.last_ns = now_ns;
    }

    /// Adds a user with `bytes` bytes.
    pub(super) fn enter(&mut self, now_ns: u64, number: u32, bytes: u64) {
        self.advance_to(now_ns);
        if self.users.is_empty() {
            self.served = 0.0;
        }
        self.arrivals += 1;
        self.users.push(User { target: self.served + bytes as f64, arrival: self.arrivals, number });
    }

    /// Removes and returns a user that has finished at `now_ns`.
    pub(super) fn leave(&mut self, now_ns: u64) -> Option<u32> {
        if !self.bytes_per_ns.is_infinite() {
            self.advance_to(now_ns);
        }
        // At the largest representable time every user finishes.
        let ends = self.bytes_per_ns.is_infinite() || now_ns == u64::MAX;
        if ends || self.left_ns()? <= ROUNDING_NS {
            return self.users.pop().map(|user| user.number);
        }
        None
    }

    /// Remaining nanoseconds of the next user to finish, if no user arrives before.
    fn left_ns(&self) -> Option<f64> {
        let target = self.users.peek()?.target;
        let bytes = if target - self.served > ROUNDING * target { target - self.served } else { 0.0 };
        Some(bytes * self.users.len() as f64 / self.bytes_per_ns)
    }

    /// When the next user finishes, if no user arrives before.
    pub(super) fn next_ns(&self) -> Option<u64> {
        // Remaining bytes beyond rounding take at least a nanosecond, so that time advances.
        Some(self.last_ns.saturating_add((self.left_ns()? - ROUNDING_NS).ceil().max(0.0) as u64))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn at_every_predicted_finish_a_user_leaves_or_time_has_advanced(
            gb_per_s in prop_oneof![0.1f64..5000.0, Just(1e-300), Just(1e-9), Just(1e300)],
            arrivals in prop::collection::vec((0u64..1000, prop_oneof![1u64..1 << 34, Just(u64::MAX)]), 1..60),
        ) {
            let mut shared = Shared::new(gb_per_s);
            let (mut now_ns, mut left) = (0u64, 0);
            let mut pending = arrivals.iter().enumerate().peekable();
            let mut steps = 0;
            while left < arrivals.len() {
                steps += 1;
                prop_assert!(steps < 100 * arrivals.len(), "time advances too slowly at {now_ns}");
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
                prop_assert!(left > before || next_ns > now_ns, "the simulation does not advance at {now_ns}");
                now_ns = next_ns;
            }
        }
    }
}
