//! From the card's clock to the host's.
//!
//! An anchor is an event whose time on the host is known to within half the time that recording it and waiting for it
//! took. Between anchors the card's time is taken at the rate that the last two gave. What was said once stays said:
//! while work is under way a new anchor bends the line and does not break it, so later times on the card are later
//! times on the host.

/// Time in which the line meets what the newest anchor says.
const SLEW_NS: f64 = 1e9;

/// Anchors closer than this give no rate: their own errors would be all of it.
const MIN_RATE_INTERVAL_NS: f64 = 1e8;

/// The line from the card's time to the host's, in nanoseconds of each.
#[derive(Debug, Clone)]
pub struct HostTime {
    /// In order of the card's time.
    pieces: Vec<Piece>,
    /// The newest anchor.
    anchor: Anchor,
    /// Host nanoseconds for each of the card's, from anchor to anchor.
    rate: f64,
    largest_error_ns: f64,
}

/// A known moment.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Anchor {
    /// On the card's clock.
    pub card_ns: f64,
    /// On the host's.
    pub host_ns: f64,
    /// By how much that may be off.
    pub error_ns: f64,
}

/// An event that happened on the card at a known distance from another, between two moments of the host.
#[derive(Debug, Clone, Copy)]
pub struct Bracket {
    /// On the card's clock.
    pub card_ns: f64,
    /// Before it, on the host's.
    pub before_ns: f64,
    /// After it.
    pub after_ns: f64,
}

/// The host's time where the card's is zero, and by how much it may be off: what all brackets leave open.
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
    /// A line through the first anchor; both clocks run alike as far as anybody knows.
    pub fn new(anchor: Anchor) -> Self {
        let piece = Piece { card_ns: anchor.card_ns, host_ns: anchor.host_ns, rate: 1.0 };
        Self { pieces: vec![piece], anchor, rate: 1.0, largest_error_ns: anchor.error_ns }
    }

    /// Goes on through another anchor, later than all before it. Where the card is idle there is nothing to keep in
    /// order and the line may break.
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
            // Never backwards, however wrong the line was.
            let rate = ((meet_ns - current_ns) / SLEW_NS).max(0.0);
            Piece { card_ns: anchor.card_ns, host_ns: current_ns, rate }
        };
        // The line was off by this much when the anchor came, for whatever was placed since the one before.
        let off_ns = (current_ns - anchor.host_ns).abs() + anchor.error_ns;
        self.largest_error_ns = self.largest_error_ns.max(off_ns);
        self.pieces.push(piece);
        self.anchor = anchor;
    }

    /// The host's time of a moment on the card.
    pub fn host_ns(&self, card_ns: f64) -> u64 {
        // Negative and not-a-number become zero.
        self.host(card_ns) as u64
    }

    fn host(&self, card_ns: f64) -> f64 {
        let behind = self.pieces.partition_point(|piece| piece.card_ns <= card_ns);
        let piece = self.pieces[behind.saturating_sub(1)];
        piece.host_ns + (card_ns - piece.card_ns) * piece.rate
    }

    /// By how much a time may have been off at most.
    pub fn largest_error_ns(&self) -> u64 {
        self.largest_error_ns.ceil() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A card whose clock started 5 s before the host's and runs slow by 20 in a million.
    fn card_ns(host_ns: f64) -> f64 {
        host_ns * (1.0 - 20e-6) + 5e9
    }

    fn anchor(host_ns: f64, noise_ns: f64) -> Anchor {
        Anchor { card_ns: card_ns(host_ns), host_ns: host_ns + noise_ns, error_ns: 4_000.0 }
    }

    #[test]
    fn drift_is_followed_within_the_error_told() {
        for idle in [false, true] {
            let mut line = HostTime::new(anchor(1e6, 1_000.0));
            for second in 1..60 {
                let host_ns = f64::from(second) * 1e9;
                for back_ns in [0.0, 1e8, 5e8] {
                    let host_estimate = line.host_ns(card_ns(host_ns - back_ns)) as f64;
                    // Before the second anchor nobody knows of the drift: 20 µs a second.
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
    fn later_on_the_card_is_later_on_the_host_across_anchors() {
        let mut line = HostTime::new(anchor(0.0, 3_000.0));
        let mut moments = Vec::new();
        for second in 1..6 {
            let host_ns = f64::from(second) * 1e9;
            // Some are placed before the anchor is known, as an operation under way is, and some after.
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
    fn brackets_together_are_tighter_than_each() {
        // The card's zero is the host's 1000; told 3 before the event at best, and seen 2 after it at best.
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
    fn an_idle_card_is_placed_afresh() {
        let mut line = HostTime::new(anchor(0.0, 0.0));
        line.add(anchor(100e9, 0.0), true);
        let host_estimate = line.host_ns(card_ns(100e9 + 1e6)) as f64;
        assert!((host_estimate - 100e9 - 1e6).abs() < 100.0, "{host_estimate}");
    }
}
