//! Maps the card's clock to the host's.
//!
//! An anchor is an event with a known host time. Its error is at most half the time between recording the event and
//! seeing it complete. Between anchors the map is linear, with the rate of the last two anchors. It is monotonic: while
//! work is in flight, a new anchor changes the slope but does not make the map jump, so the order of times is kept.

/// Card time in which the map converges to the newest anchor.
const SLEW_NS: f64 = 1e9;

/// Anchors closer than this are not used for the rate, since their errors would dominate it.
const MIN_RATE_INTERVAL_NS: f64 = 1e8;

/// A piecewise linear map from card time to host time, both in nanoseconds.
#[derive(Debug, Clone)]
pub struct HostTime {
    /// Sorted by card time.
    pieces: Vec<Piece>,
    /// The newest anchor.
    anchor: Anchor,
    /// Host nanoseconds per card nanosecond, from the last two anchors.
    rate: f64,
    largest_error_ns: f64,
}

/// A card time with its host time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Anchor {
    /// Card time.
    pub card_ns: f64,
    /// Host time.
    pub host_ns: f64,
    /// Error bound of the host time.
    pub error_ns: f64,
}

/// An event with a card time, bracketed by two host times.
#[derive(Debug, Clone, Copy)]
pub struct Bracket {
    /// Card time, relative to a reference event.
    pub card_ns: f64,
    /// Host time before the event.
    pub before_ns: f64,
    /// Host time after the event.
    pub after_ns: f64,
}

/// The host time of card time zero and its error: the midpoint and half width of the brackets' intersection.
pub fn intersect(brackets: &[Bracket]) -> (f64, f64) {
    let earliest = brackets.iter().map(|one| one.before_ns - one.card_ns).fold(f64::NEG_INFINITY, f64::max);
    let latest = brackets.iter().map(|one| one.after_ns - one.card_ns).fold(f64::INFINITY, f64::min);
    (f64::midpoint(earliest, latest), (latest - earliest).abs() / 2.0)
}

#[derive(Debug, Clone, Copy)]
struct Piece {
    card_ns: f64,
    host_ns: f64,
    rate: f64,
}

impl HostTime {
    /// A map through the first anchor with rate 1, since the true rate is not known yet.
    pub fn new(anchor: Anchor) -> Self {
        let piece = Piece { card_ns: anchor.card_ns, host_ns: anchor.host_ns, rate: 1.0 };
        Self { pieces: vec![piece], anchor, rate: 1.0, largest_error_ns: anchor.error_ns }
    }

    /// Adds an anchor, which must be later than all earlier ones. If the card is idle the map may jump, because no times
    /// in flight depend on its order.
    pub fn add(&mut self, anchor: Anchor, idle: bool) {
        let passed_ns = anchor.card_ns - self.anchor.card_ns;
        if passed_ns >= MIN_RATE_INTERVAL_NS {
            self.rate = (anchor.host_ns - self.anchor.host_ns) / passed_ns;
        }
        let current_ns = self.host(anchor.card_ns);
        let piece = if idle {
            Piece { card_ns: anchor.card_ns, host_ns: anchor.host_ns, rate: self.rate }
        } else {
            let meet_ns = anchor.host_ns + SLEW_NS * self.rate;
            // Never negative, so that the map stays monotonic.
            let rate = ((meet_ns - current_ns) / SLEW_NS).max(0.0);
            Piece { card_ns: anchor.card_ns, host_ns: current_ns, rate }
        };
        // The error of all times mapped since the previous anchor.
        let off_ns = (current_ns - anchor.host_ns).abs() + anchor.error_ns;
        self.largest_error_ns = self.largest_error_ns.max(off_ns);
        self.pieces.push(piece);
        self.anchor = anchor;
    }

    /// The host time of a card time.
    pub fn host_ns(&self, card_ns: f64) -> u64 {
        // Negative values and NaN become zero.
        self.host(card_ns) as u64
    }

    fn host(&self, card_ns: f64) -> f64 {
        let behind = self.pieces.partition_point(|piece| piece.card_ns <= card_ns);
        let piece = self.pieces[behind.saturating_sub(1)];
        piece.host_ns + (card_ns - piece.card_ns) * piece.rate
    }

    /// The largest error of a mapped time.
    pub fn largest_error_ns(&self) -> u64 {
        self.largest_error_ns.ceil() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A card whose clock started 5 s before the host's and runs 20 ppm slow.
    fn card_ns(host_ns: f64) -> f64 {
        host_ns * (1.0 - 20e-6) + 5e9
    }

    fn anchor(host_ns: f64, noise_ns: f64) -> Anchor {
        Anchor { card_ns: card_ns(host_ns), host_ns: host_ns + noise_ns, error_ns: 4_000.0 }
    }

    #[test]
    fn drift_is_corrected_within_the_reported_error() {
        for idle in [false, true] {
            let mut line = HostTime::new(anchor(1e6, 1_000.0));
            for second in 1..60 {
                let host_ns = f64::from(second) * 1e9;
                for back_ns in [0.0, 1e8, 5e8] {
                    let host_estimate = line.host_ns(card_ns(host_ns - back_ns)) as f64;
                    // Before the second anchor the drift of 20 µs per second is unknown.
                    let bound = if second < 3 { 25_000.0 } else { 8_000.0 };
                    assert!((host_estimate - host_ns + back_ns).abs() < bound, "{second} {host_estimate}");
                }
                let noise_ns = if second % 2 == 0 { 2_000.0 } else { -2_000.0 };
                line.add(anchor(host_ns, noise_ns), idle);
            }
            assert!((20_000..30_000).contains(&line.largest_error_ns()), "{}", line.largest_error_ns());
        }
    }

    #[test]
    fn the_map_is_monotonic_across_anchors() {
        let mut line = HostTime::new(anchor(0.0, 3_000.0));
        let mut moments = Vec::new();
        for second in 1..6 {
            let host_ns = f64::from(second) * 1e9;
            // Some times are mapped before the anchor is added, as those of operations in flight are, and some after.
            for at_ns in [host_ns - 200.0, host_ns - 100.0] {
                moments.push((card_ns(at_ns), line.host_ns(card_ns(at_ns))));
            }
            line.add(anchor(host_ns, if second % 2 == 0 { -4_000.0 } else { 4_000.0 }), false);
            for at_ns in [host_ns - 50.0, host_ns, host_ns + 100.0] {
                moments.push((card_ns(at_ns), line.host_ns(card_ns(at_ns))));
            }
        }
        moments.sort_by(|a, b| a.0.total_cmp(&b.0));
        assert!(moments.windows(2).all(|pair| pair[0].1 <= pair[1].1), "{moments:?}");
    }

    #[test]
    fn the_intersection_of_brackets_is_tighter_than_each() {
        // Card time 0 is host time 1000. The tightest bounds are 3 before the event and 2 after it.
        let bracket = |card_ns: f64, told: f64, seen: f64| Bracket {
            card_ns,
            before_ns: 1000.0 + card_ns - told,
            after_ns: 1000.0 + card_ns + seen,
        };
        let (offset_ns, error_ns) = intersect(&[bracket(0.0, 9.0, 2.0), bracket(50.0, 3.0, 30.0)]);
        assert_eq!((offset_ns, error_ns), (999.5, 2.5));
        assert_eq!(intersect(&[bracket(7.0, 4.0, 4.0)]), (1000.0, 4.0));
    }

    #[test]
    fn on_an_idle_card_the_map_jumps_to_the_new_anchor() {
        let mut line = HostTime::new(anchor(0.0, 0.0));
        line.add(anchor(100e9, 0.0), true);
        let host_estimate = line.host_ns(card_ns(100e9 + 1e6)) as f64;
        assert!((host_estimate - 100e9 - 1e6).abs() < 100.0, "{host_estimate}");
    }
}
