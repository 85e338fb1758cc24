//! Times forms of kernels for comparison: all of them in two passes, then the fastest ones in interleaved rounds.

use std::time::Instant;

use super::bench::Subject;
use rowloom::internal::error::Result;
use rowloom::internal::matrix::{MultiVectorView, Scalar};

/// Samples of a form in each of the two passes.
const SAMPLES: usize = 5;
/// Samples of a form that is [`SLOW_RATIO`] times slower than the fastest so far.
const FEW_SAMPLES: usize = 2;
/// A form that is this many times slower than the fastest so far gets few samples.
const SLOW_RATIO: f64 = 1.5;
/// Forms up to this many times slower than the fastest are timed again in the second pass.
const SECOND_PASS_RATIO: f64 = 1.2;
/// Seconds of warm-up before the first timing: a CPU that was idle is slower for about a tenth of a second.
pub const WARM_UP_SECONDS: f64 = 0.2;
/// Interleaved rounds in which candidates are timed.
const ROUNDS: usize = 9;
/// Rounds that are completed even where they exceed the time budget.
const LEAST_ROUNDS: usize = 3;

/// Warms up the processor of `subject`, which has taken `x`, with the first form that runs, for `WARM_UP_SECONDS`.
pub fn warm_up<T: Scalar>(subject: &mut dyn Subject<T>, x: MultiVectorView<'_, T>) -> Result<()> {
    let start = Instant::now();
    for number in 0..subject.kernels().len() {
        if subject.ready(number)?.is_err() {
            continue;
        }
        while subject.run(number, x)?.is_ok() {
            if start.elapsed().as_secs_f64() > WARM_UP_SECONDS {
                return Ok(());
            }
        }
    }
    Ok(())
}

/// The median of each form's times; none where a form does not run. The second pass times the fastest forms again, so that a
/// change of the clock frequency during the first pass does not decide which is fastest.
pub fn time_all<T: Scalar>(
    subject: &mut dyn Subject<T>,
    x: MultiVectorView<'_, T>,
    count: usize,
    budget_s: f64,
) -> Result<Vec<Option<f64>>> {
    let start = Instant::now();
    let mut samples: Vec<Vec<f64>> = vec![Vec::new(); count];
    let mut best_s = f64::INFINITY;
    for pass in 0..2 {
        for (number, own) in samples.iter_mut().enumerate() {
            let near = median(own).is_some_and(|own| own <= SECOND_PASS_RATIO * best_s);
            if pass > 0 && (!near || start.elapsed().as_secs_f64() > 2.0 * budget_s) {
                continue;
            }
            if subject.ready(number)?.is_err() {
                continue;
            }
            let Ok(warm_s) = subject.run(number, x)? else { continue };
            let wanted = match warm_s {
                _ if warm_s > SLOW_RATIO * best_s => FEW_SAMPLES,
                // Long products vary little: three samples are enough.
                _ if warm_s * (SAMPLES * count) as f64 > budget_s => SAMPLES - FEW_SAMPLES,
                _ => SAMPLES,
            };
            for _ in 0..wanted {
                let Ok(seconds) = subject.run(number, x)? else { break };
                own.push(seconds);
            }
            best_s = best_s.min(median(own).unwrap_or(f64::INFINITY));
        }
    }
    Ok(samples.iter().map(|samples| median(samples)).collect())
}

/// The median of each candidate's times, none where it does not run. Candidates are timed in interleaved rounds of alternating
/// direction, so that a machine that becomes slower does so for all of them.
pub fn interleaved_medians<T: Scalar>(
    subject: &mut dyn Subject<T>,
    x: MultiVectorView<'_, T>,
    candidates: &[usize],
    budget_s: f64,
) -> Result<Vec<Option<f64>>> {
    let start = Instant::now();
    let mut samples: Vec<Vec<f64>> = vec![Vec::new(); candidates.len()];
    for round in 0..ROUNDS {
        if round >= LEAST_ROUNDS && start.elapsed().as_secs_f64() > budget_s {
            break;
        }
        for turn in 0..candidates.len() {
            let position = if round % 2 == 0 { turn } else { candidates.len() - 1 - turn };
            let number = candidates[position];
            // The first run is not timed: the caches hold the data of the form before.
            if subject.ready(number)?.is_ok() && subject.run(number, x)?.is_ok() {
                samples[position].extend(subject.run(number, x)?.ok());
            }
        }
    }
    Ok(samples.iter().map(|samples| median(samples)).collect())
}

fn median(samples: &[f64]) -> Option<f64> {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rowloom::internal::kernel::KernelId;

    /// A machine that becomes 10 % slower with every run; kernel 1 takes twice as long as kernel 0, and kernel 2 does not run.
    struct Slowing {
        runs: u32,
    }

    impl Subject<f64> for Slowing {
        fn kernels(&self) -> Vec<(KernelId, String)> {
            Vec::new()
        }

        fn take_x(&mut self, _: MultiVectorView<'_, f64>) -> Result<Option<String>> {
            Ok(None)
        }

        fn ready(&mut self, kernel: usize) -> Result<std::result::Result<(), String>> {
            Ok(if kernel < 2 { Ok(()) } else { Err("it does not run".into()) })
        }

        fn run(
            &mut self,
            kernel: usize,
            _: MultiVectorView<'_, f64>,
        ) -> Result<std::result::Result<f64, String>> {
            self.runs += 1;
            Ok(Ok((kernel + 1) as f64 * 1.1f64.powi(self.runs as i32)))
        }

        fn forget_y(&mut self) -> Result<()> {
            Ok(())
        }

        fn read_y(&mut self, _: &mut dyn FnMut(MultiVectorView<'_, f64>)) -> Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_machine_that_slows_down_does_so_for_all_finalists() {
        let x = rowloom::internal::matrix::MultiVector::<f64>::zeros(1, 1).unwrap();
        for candidates in [[0, 1, 2], [1, 0, 2]] {
            let seconds = interleaved_medians(&mut Slowing { runs: 0 }, x.view(), &candidates, 1.0).unwrap();
            let of = |kernel: usize| seconds[candidates.iter().position(|&number| number == kernel).unwrap()];
            let ratio = of(1).unwrap() / of(0).unwrap();
            assert!((1.6..2.5).contains(&ratio), "{ratio}");
            assert_eq!(of(2), None);
        }
    }
}
