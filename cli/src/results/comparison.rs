//! Two runs of `bench`, case by case: which differences exceed the noise.

use serde::Serialize;

use super::record::records_of;
use crate::measure::CaseResult;
use crate::statistics::TimeRatio;

/// Relative differences up to this count as noise whatever the spread: two processes on one machine differ by as much for
/// reasons that runs within one process do not show, such as where memory was allocated.
pub const LEAST_DIFFERENCE: f64 = 0.02;

/// What a difference means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// This run is faster, by more than the noise.
    Faster,
    /// This run is slower, by more than the noise.
    Slower,
    /// The difference may be noise.
    WithinNoise,
    /// One of both was measured only once, so that the noise is unknown.
    NoiseUnknown,
}

/// A time before and now.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Change {
    /// Median seconds in the baseline.
    pub before_s: f64,
    /// Median seconds now.
    pub now_s: f64,
    /// The longer of both times over the shorter.
    pub ratio: f64,
    /// Half the width of the ratio's 95 % interval; unknown where one of both ran only once.
    pub spread: Option<f64>,
    /// What the difference means.
    pub verdict: Verdict,
}

impl Change {
    /// From the samples of both; none where one of both has no time.
    pub fn of(before: &[f64], now: &[f64]) -> Option<Self> {
        let growth = TimeRatio::of(now, before)?;
        let slower = growth.ratio > 1.0;
        let TimeRatio { ratio, spread } = if slower { growth } else { TimeRatio::of(before, now)? };
        let verdict = match spread {
            None => Verdict::NoiseUnknown,
            Some(spread) if ratio - 1.0 <= spread.max(LEAST_DIFFERENCE) => Verdict::WithinNoise,
            Some(_) if slower => Verdict::Slower,
            Some(_) => Verdict::Faster,
        };
        let median = |samples: &[f64]| crate::statistics::Times::new(samples).median;
        Some(Self { before_s: median(before)?, now_s: median(now)?, ratio, spread, verdict })
    }
}

/// What changed in one kernel, or one peer.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct KernelChange {
    /// The kernel's form, or the peer and its algorithm.
    pub kernel: String,
    /// How its time changed.
    #[serde(flatten)]
    pub change: Change,
}

/// What changed in a case that both runs measured.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CaseChange {
    /// The case, as people call it.
    pub case: String,
    /// The fastest kernel in the baseline; none where no kernel computed the right Y.
    pub before_kernel: Option<String>,
    /// The fastest kernel now.
    pub now_kernel: Option<String>,
    /// How the time of the fastest kernel changed.
    pub fastest: Option<Change>,
    /// Every kernel and peer that both runs measured and verified.
    pub kernels: Vec<KernelChange>,
}

/// A run beside its baseline.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// The cases of both, in the order of this run.
    pub cases: Vec<CaseChange>,
    /// Cases of this run that the baseline does not have.
    pub only_now: Vec<String>,
    /// Cases of the baseline that this run does not have.
    pub only_before: Vec<String>,
    /// Matrices that both runs name and whose contents differ; their cases are not compared.
    pub other_contents: Vec<String>,
}

impl Comparison {
    /// Compares the cases of both runs that have the same matrix, precision, K and device.
    pub fn of(before: &[CaseResult], now: &[CaseResult]) -> Self {
        let key = |case: &CaseResult| (case.matrix.clone(), case.dtype, case.k, case.device.clone());
        let same = |one: &CaseResult, other: &CaseResult| {
            key(one) == key(other) && one.facts.hash == other.facts.hash
        };
        let mut comparison = Self {
            cases: Vec::new(),
            only_now: Vec::new(),
            only_before: Vec::new(),
            other_contents: Vec::new(),
        };
        for case in now {
            match before.iter().find(|old| same(old, case)) {
                Some(old) => comparison.cases.push(compare(old, case)),
                None => comparison.only_now.push(case.name()),
            }
        }
        for old in before.iter().filter(|old| !now.iter().any(|case| same(old, case))) {
            comparison.only_before.push(old.name());
            if now.iter().any(|case| key(case) == key(old))
                && !comparison.other_contents.contains(&old.matrix)
            {
                comparison.other_contents.push(old.matrix.clone());
            }
        }
        comparison
    }

    /// How many cases have this verdict on their fastest kernel.
    pub fn count(&self, verdict: Verdict) -> usize {
        let verdicts =
            self.cases.iter().filter_map(|case| case.fastest.as_ref().map(|change| change.verdict));
        verdicts.filter(|own| *own == verdict).count()
    }
}

fn compare(before: &CaseResult, now: &CaseResult) -> CaseChange {
    let (old, new) = (before.best(), now.best());
    let old_records = records_of(before);
    let both = records_of(now).into_iter().filter_map(|record| {
        let old = old_records.iter().find(|old| old.kernel == record.kernel)?;
        let verified = old.is_verified() && record.is_verified();
        let change = Change::of(&old.times.samples, &record.times.samples).filter(|_| verified)?;
        Some(KernelChange { kernel: record.kernel, change })
    });
    CaseChange {
        case: now.name(),
        before_kernel: old.map(|(kernel, _)| kernel.kernel.clone()),
        now_kernel: new.map(|(kernel, _)| kernel.kernel.clone()),
        fastest: old
            .zip(new)
            .and_then(|((old, _), (new, _))| Change::of(&old.times.samples, &new.times.samples)),
        kernels: both.collect(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn only_differences_beyond_the_spread_and_two_percent_are_called() {
        let verdict = |before: &[f64], now: &[f64]| Change::of(before, now).unwrap().verdict;
        assert_eq!(verdict(&[1.0; 9], &[1.5; 9]), Verdict::Slower);
        assert_eq!(verdict(&[1.5; 9], &[1.0; 9]), Verdict::Faster);
        assert_eq!(verdict(&[1.0; 9], &[1.015; 9]), Verdict::WithinNoise, "below two percent");
        assert_eq!(verdict(&[0.7, 1.0, 1.4], &[1.0, 1.3, 1.8]), Verdict::WithinNoise, "within the spread");
        assert_eq!(verdict(&[1.0], &[9.0]), Verdict::NoiseUnknown);
        assert_eq!(Change::of(&[1.0], &[]), None);
        assert_eq!(Change::of(&[0.0], &[1.0]), None);
    }

    proptest! {
        #[test]
        fn a_change_and_its_reverse_have_opposite_verdicts(
            one in prop::collection::vec(0.5f64..2.0, 2..30),
            other in prop::collection::vec(0.5f64..2.0, 2..30),
        ) {
            let (there, back) = (Change::of(&one, &other).unwrap(), Change::of(&other, &one).unwrap());
            let reverse = match there.verdict {
                Verdict::Faster => Verdict::Slower,
                Verdict::Slower => Verdict::Faster,
                same => same,
            };
            prop_assert_eq!(back.verdict, reverse);
            prop_assert_eq!((there.before_s, there.now_s), (back.now_s, back.before_s));
            prop_assert!(there.ratio >= 1.0 && (there.ratio - back.ratio).abs() < 1e-12);
        }

        #[test]
        fn a_run_compared_with_itself_has_not_changed(samples in prop::collection::vec(0.5f64..2.0, 2..30)) {
            prop_assert_eq!(Change::of(&samples, &samples).unwrap().verdict, Verdict::WithinNoise);
        }
    }
}
