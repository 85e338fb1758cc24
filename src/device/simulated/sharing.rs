//! A resource that everybody who uses it shares equally, such as a link or the host's memory.
//!
//! Instead of counting down each user's bytes, one number counts the bytes that every user has been served since the
//! resource was last idle; a user is done when it reaches what it was when the user came plus the user's bytes.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

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
        let first = self.users.peek()?;
        // Rounding of the sums above must not cost a user another round.
        let slack = 1e-6 + 1e-12 * self.served.abs();
        if self.bytes_per_ns.is_infinite() || first.target <= self.served + slack {
            return self.users.pop().map(|user| user.number);
        }
        None
    }

    /// When the next user will be done if nobody comes before.
    pub(super) fn next_ns(&self) -> Option<u64> {
        let first = self.users.peek()?;
        let bytes = (first.target - self.served).max(0.0);
        let nanoseconds = bytes * self.users.len() as f64 / self.bytes_per_ns;
        // Below a thousandth of a nanosecond it is rounding, not time.
        Some(self.last_ns.saturating_add((nanoseconds - 1e-3).ceil().max(0.0) as u64))
    }
}
