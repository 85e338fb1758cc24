//! The one clock of a run.

use std::time::Instant;

/// Nanoseconds since the origin of a run; every recorder of the program reads the same one.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    origin: Instant,
}

impl Clock {
    /// A clock that shows zero now.
    pub fn start() -> Self {
        Self { origin: Instant::now() }
    }

    /// Nanoseconds since the origin; they never go back.
    pub fn now_ns(&self) -> u64 {
        self.ns_at(Instant::now())
    }

    /// What the clock showed at `instant`; zero before the origin.
    pub fn ns_at(&self, instant: Instant) -> u64 {
        // Full after 584 years.
        instant.saturating_duration_since(self.origin).as_nanos() as u64
    }

    /// The instant at which the clock showed zero.
    pub fn origin(&self) -> Instant {
        self.origin
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn an_instant_is_placed_by_its_distance_from_the_origin() {
        let clock = Clock::start();
        assert_eq!(clock.ns_at(clock.origin() + Duration::from_micros(7)), 7_000);
        assert_eq!(clock.ns_at(clock.origin() - Duration::from_micros(7)), 0);
        let first = clock.now_ns();
        assert!(clock.now_ns() >= first);
    }
}
