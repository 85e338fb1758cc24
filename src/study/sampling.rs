//! How often something is measured: until its mean is known well, or enough time went by.

use super::welford::Welford;

/// Runs that even what takes long gets.
const LEAST_RUNS: usize = 3;

/// Runs before the spread is believed.
const LEAST_SAMPLES: usize = 10;

/// Measured seconds before the spread is believed.
const LEAST_S: f64 = 0.5;

/// Standard deviation over mean at which a measurement is good.
const GOOD_SPREAD: f64 = 0.005;

/// Runs of something so short that all of them together take no time; every one of them is kept.
const MOST_SAMPLES: usize = 10_000;

/// So many times slower than the best so far cannot win.
const HOPELESS: f64 = 3.0;

/// Seconds after which something has been measured enough unless told otherwise.
pub const TIME_CAP_S: f64 = 2.0;

/// How to measure.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BenchSettings {
    /// Runs before the measured ones.
    pub warmup: u32,
    /// Measured runs; where none are given, at least 10 and 0.5 s of them, until their standard deviation is 0.5 % of
    /// their mean.
    pub repeat: Option<u32>,
    /// Measured seconds after which no more runs are begun, if there are three.
    pub time_cap_s: f64,
    /// Whether what cannot win is let go after three runs.
    pub cut_hopeless: bool,
}

/// Measurements in the making.
#[derive(Debug)]
pub struct Sampler {
    settings: BenchSettings,
    /// The best of the others so far.
    best_s: f64,
    seconds: Vec<f64>,
    total_s: f64,
    welford: Welford,
    /// Whether all runs so far were hopeless.
    hopeless: bool,
}

impl Sampler {
    /// Nothing measured yet; others took `best_s`, or infinitely long where there are none.
    pub fn new(settings: BenchSettings, best_s: f64) -> Self {
        let (seconds, welford) = (Vec::new(), Welford::default());
        Self { settings, best_s, seconds, total_s: 0.0, welford, hopeless: true }
    }

    /// Whether a run as long as this cannot win.
    pub fn is_hopeless(&self, seconds: f64) -> bool {
        self.settings.cut_hopeless && seconds > HOPELESS * self.best_s
    }

    /// Takes a run's seconds.
    pub fn push(&mut self, seconds: f64) {
        self.hopeless &= self.is_hopeless(seconds);
        self.total_s += seconds;
        self.welford.push(seconds);
        self.seconds.push(seconds);
    }

    /// Whether there are enough.
    pub fn is_enough(&self) -> bool {
        let n = self.seconds.len();
        let capped = n >= LEAST_RUNS && (self.hopeless || self.total_s >= self.settings.time_cap_s);
        capped
            || match self.settings.repeat {
                Some(repeat) => n >= repeat as usize,
                None => n >= MOST_SAMPLES || self.is_good(),
            }
    }

    fn is_good(&self) -> bool {
        let spread = self.welford.relative_stddev();
        self.seconds.len() >= LEAST_SAMPLES
            && self.total_s >= LEAST_S
            && spread.is_some_and(|spread| spread <= GOOD_SPREAD)
    }

    /// All of them, in the order they were taken.
    pub fn into_seconds(self) -> Vec<f64> {
        self.seconds
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: BenchSettings =
        BenchSettings { warmup: 0, repeat: None, time_cap_s: TIME_CAP_S, cut_hopeless: true };

    /// How many runs there are when run number `n` takes `time(n)` seconds.
    fn runs(settings: BenchSettings, best_s: f64, time: impl Fn(usize) -> f64) -> usize {
        let mut sampler = Sampler::new(settings, best_s);
        let mut n = 0;
        while !sampler.is_enough() {
            sampler.push(time(n));
            n += 1;
        }
        n
    }

    #[test]
    fn steady_runs_are_ten_and_half_a_second() {
        assert_eq!(runs(ALL, f64::INFINITY, |_| 0.1), 10);
        assert_eq!(runs(ALL, f64::INFINITY, |_| 0.01), 50);
        assert_eq!(runs(ALL, f64::INFINITY, |_| 1e-9), MOST_SAMPLES);
    }

    #[test]
    fn restless_runs_go_on_to_the_cap() {
        let restless = |n: usize| if n.is_multiple_of(2) { 0.09 } else { 0.11 };
        assert_eq!(runs(ALL, f64::INFINITY, restless), 20);
        let settings = BenchSettings { time_cap_s: 0.95, ..ALL };
        assert_eq!(runs(settings, f64::INFINITY, restless), 10);
    }

    #[test]
    fn long_runs_are_three() {
        assert_eq!(runs(ALL, f64::INFINITY, |_| 60.0), 3);
        assert_eq!(runs(BenchSettings { repeat: Some(10), ..ALL }, f64::INFINITY, |_| 60.0), 3);
    }

    #[test]
    fn only_what_may_win_gets_all_its_runs() {
        let ten = BenchSettings { repeat: Some(10), ..ALL };
        assert_eq!(runs(ten, 0.1, |_| 0.2), 10);
        assert_eq!(runs(ten, 0.1, |_| 0.31), 3);
        assert_eq!(runs(BenchSettings { cut_hopeless: false, ..ten }, 0.001, |_| 0.1), 10);
        assert_eq!(runs(ten, 0.1, |n| if n == 0 { 0.1 } else { 0.2 }), 10, "one good run gives hope");
    }
}
