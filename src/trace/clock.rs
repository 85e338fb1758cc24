//! The clock of a run.

use std::time::Instant;

/// A monotonic clock in nanoseconds since the origin of a run; all recorders of the program share it.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    origin: Instant,
}

impl Clock {
    /// A clock that shows zero now.
    pub fn start() -> Self {
        Self { origin: Instant::now() }
    }

    /// Nanoseconds since the origin; never decreases.
    pub fn now_ns(&self) -> u64 {
        self.ns_at(Instant::now())
    }

    /// The time of `instant` in nanoseconds since the origin; zero before the origin.
    pub fn ns_at(&self, instant: Instant) -> u64 {
        // Saturates after 584 years.
        instant.saturating_duration_since(self.origin).as_nanos() as u64
    }

    /// The instant of time zero.
    pub fn origin(&self) -> Instant {
        self.origin
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_time_of_an_instant_is_its_distance_from_the_origin() {
        let clock = Clock::start();
        assert_eq!(clock.ns_at(clock.origin() + Duration::from_micros(7)), 7_000);
        assert_eq!(clock.ns_at(clock.origin() - Duration::from_micros(7)), 0);
        let first = clock.now_ns();
        assert!(clock.now_ns() >= first);
    }
}
