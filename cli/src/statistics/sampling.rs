//! How often something is measured: until its mean is known well, or the time cap is reached.

use super::welford::Welford;

/// Runs of every measurement, however long one run takes.
const LEAST_RUNS: usize = 3;

/// Runs before the standard deviation is trusted.
const LEAST_SAMPLES: usize = 10;

/// Measured seconds before the standard deviation is trusted.
const LEAST_S: f64 = 0.5;

/// Standard deviation over mean at which a measurement is precise enough.
const PRECISE_SPREAD: f64 = 0.005;

/// Most runs of a measurement; all of them are kept.
const MOST_SAMPLES: usize = 10_000;

/// A kernel this many times slower than the best so far cannot win.
const HOPELESS_RATIO: f64 = 3.0;

/// Measured seconds after which no further run begins, unless the user sets another cap.
pub const TIME_CAP_S: f64 = 2.0;

/// How to measure.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BenchSettings {
    /// Warm-up runs, which are not measured.
    pub warmup: u32,
    /// Measured runs. Without it: at least 10 runs and 0.5 s, until the standard deviation is 0.5 % of the mean.
    pub repeat: Option<u32>,
    /// Measured seconds after which no further run begins, once there are three runs.
    pub time_cap_s: f64,
    /// Whether a kernel that cannot win is measured three times only.
    pub cut_hopeless: bool,
}

impl BenchSettings {
    /// The least and the most seconds that a measurement takes, warm-up included, where one run takes `run_s`.
    pub fn seconds_for(&self, run_s: f64) -> (f64, f64) {
        let warmup_s = f64::from(self.warmup) * run_s;
        let cap_s = self.time_cap_s.max(LEAST_RUNS as f64 * run_s);
        let (least_s, most_s) = match self.repeat {
            Some(repeat) => (f64::from(repeat) * run_s, f64::from(repeat) * run_s),
            None => {
                let all_s = MOST_SAMPLES as f64 * run_s;
                (LEAST_S.max(LEAST_SAMPLES as f64 * run_s).min(all_s), all_s)
            }
        };
        (warmup_s + least_s.min(cap_s), warmup_s + most_s.min(cap_s))
    }
}

/// A measurement in progress.
#[derive(Debug)]
pub struct Sampler {
    settings: BenchSettings,
    /// The shortest time of the other kernels so far.
    best_s: f64,
    seconds: Vec<f64>,
    total_s: f64,
    welford: Welford,
    /// Whether every run so far was too slow to win.
    hopeless: bool,
}

impl Sampler {
    /// A measurement without runs. `best_s` is the shortest time of the other kernels, infinite where there are none.
    pub fn new(settings: BenchSettings, best_s: f64) -> Self {
        let (seconds, welford) = (Vec::new(), Welford::default());
        Self { settings, best_s, seconds, total_s: 0.0, welford, hopeless: true }
    }

    /// Whether a kernel with a run of `seconds` cannot win.
    pub fn is_hopeless(&self, seconds: f64) -> bool {
        self.settings.cut_hopeless && seconds > HOPELESS_RATIO * self.best_s
    }

    /// Adds a run.
    pub fn push(&mut self, seconds: f64) {
        self.hopeless &= self.is_hopeless(seconds);
        self.total_s += seconds;
        self.welford.push(seconds);
        self.seconds.push(seconds);
    }

    /// Whether there are enough runs.
    pub fn is_enough(&self) -> bool {
        let n = self.seconds.len();
        let capped = n >= LEAST_RUNS && (self.hopeless || self.total_s >= self.settings.time_cap_s);
        capped
            || match self.settings.repeat {
                Some(repeat) => n >= repeat as usize,
                None => n >= MOST_SAMPLES || self.is_precise(),
            }
    }

    fn is_precise(&self) -> bool {
        let spread = self.welford.relative_stddev();
        self.seconds.len() >= LEAST_SAMPLES
            && self.total_s >= LEAST_S
            && spread.is_some_and(|spread| spread <= PRECISE_SPREAD)
    }

    /// The seconds of all runs, in order.
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
    fn equal_runs_end_after_ten_runs_and_half_a_second() {
        assert_eq!(runs(ALL, f64::INFINITY, |_| 0.1), 10);
        assert_eq!(runs(ALL, f64::INFINITY, |_| 0.01), 50);
        assert_eq!(runs(ALL, f64::INFINITY, |_| 1e-9), MOST_SAMPLES);
    }

    #[test]
    fn noisy_runs_go_on_to_the_time_cap() {
        let noisy = |n: usize| if n.is_multiple_of(2) { 0.09 } else { 0.11 };
        assert_eq!(runs(ALL, f64::INFINITY, noisy), 20);
        let settings = BenchSettings { time_cap_s: 0.95, ..ALL };
        assert_eq!(runs(settings, f64::INFINITY, noisy), 10);
    }

    #[test]
    fn a_run_longer_than_the_cap_is_measured_three_times() {
        assert_eq!(runs(ALL, f64::INFINITY, |_| 60.0), 3);
        assert_eq!(runs(BenchSettings { repeat: Some(10), ..ALL }, f64::INFINITY, |_| 60.0), 3);
    }

    #[test]
    fn a_kernel_that_cannot_win_is_measured_three_times() {
        let ten = BenchSettings { repeat: Some(10), ..ALL };
        assert_eq!(runs(ten, 0.1, |_| 0.2), 10);
        assert_eq!(runs(ten, 0.1, |_| 0.31), 3);
        assert_eq!(runs(BenchSettings { cut_hopeless: false, ..ten }, 0.001, |_| 0.1), 10);
        assert_eq!(runs(ten, 0.1, |n| if n == 0 { 0.1 } else { 0.2 }), 10, "one fast run");
    }

    #[test]
    fn the_estimated_time_is_that_of_the_runs_there_will_be() {
        for run_s in [1e-6, 1e-3, 0.1, 60.0] {
            for repeat in [None, Some(10)] {
                let settings = BenchSettings { repeat, warmup: 2, ..ALL };
                let measured_s = 2.0 * run_s + run_s * runs(settings, f64::INFINITY, |_| run_s) as f64;
                let (least_s, most_s) = settings.seconds_for(run_s);
                let span = least_s * 0.99..=most_s * 1.01 + run_s;
                assert!(span.contains(&measured_s), "{measured_s}: {span:?}");
            }
        }
    }
}
