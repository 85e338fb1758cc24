//! Times forms against each other: all of them in two passes, and those that may be the fastest in turns.

use std::time::Instant;

use super::bench::Subject;
use crate::error::Result;
use crate::matrix::{MultiVectorView, Scalar};

/// Samples of a form in each of two passes, and of one that is far behind.
const SAMPLES: usize = 5;
const FEW_SAMPLES: usize = 2;
/// So many times slower than the best so far is far behind; forms nearer than the second come again in the second pass.
const BEHIND: f64 = 1.5;
const NEAR: f64 = 1.2;
/// Seconds for which a processor that was idle is kept busy before it is timed: a CPU is slower for a tenth of a second.
pub const WARM_S: f64 = 0.2;
/// Rounds in which finalists are timed, and those that come whatever they take.
const ROUNDS: usize = 9;
const FEW_ROUNDS: usize = 3;

/// Keeps the processor of `subject`, which has taken `x`, busy with the first form that runs, until it has been for long enough.
pub fn warm_up<T: Scalar>(subject: &mut dyn Subject<T>, x: MultiVectorView<'_, T>) -> Result<()> {
    let start = Instant::now();
    for number in 0..subject.kernels().len() {
        if subject.ready(number)?.is_err() {
            continue;
        }
        while subject.run(number, x)?.is_ok() {
            if start.elapsed().as_secs_f64() > WARM_S {
                return Ok(());
            }
        }
    }
    Ok(())
}

/// The median of each form's times, none where it does not run. Two passes, so that a change of the clock in between does
/// not decide; the second is for those that may be the fastest.
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
            let near = median(own).is_some_and(|own| own <= NEAR * best_s);
            if pass > 0 && (!near || start.elapsed().as_secs_f64() > 2.0 * budget_s) {
                continue;
            }
            if subject.ready(number)?.is_err() {
                continue;
            }
            let Ok(warm_s) = subject.run(number, x)? else { continue };
            let wanted = match warm_s {
                _ if warm_s > BEHIND * best_s => FEW_SAMPLES,
                // A product that takes long is measured well by few of them.
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

/// The median of each finalist's times, taken in turns, there and back: whatever the machine does meanwhile, it does to all of
/// them. None where one does not run.
pub fn final_s<T: Scalar>(
    subject: &mut dyn Subject<T>,
    x: MultiVectorView<'_, T>,
    finalists: &[usize],
    budget_s: f64,
) -> Result<Vec<Option<f64>>> {
    let start = Instant::now();
    let mut samples: Vec<Vec<f64>> = vec![Vec::new(); finalists.len()];
    for round in 0..ROUNDS {
        if round >= FEW_ROUNDS && start.elapsed().as_secs_f64() > budget_s {
            break;
        }
        for turn in 0..finalists.len() {
            let place = if round % 2 == 0 { turn } else { finalists.len() - 1 - turn };
            let number = finalists[place];
            // The first run finds the caches full of what others used.
            if subject.ready(number)?.is_ok() && subject.run(number, x)?.is_ok() {
                samples[place].extend(subject.run(number, x)?.ok());
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
    use crate::kernel::KernelId;

    /// A machine that gets slower with every run; kernel 1 takes twice what kernel 0 does, and kernel 2 does not run.
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

        fn read_y(&mut self, _: &mut dyn FnMut(MultiVectorView<'_, f64>)) -> Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_machine_that_slows_down_does_so_for_all_finalists() {
        let x = crate::matrix::MultiVector::<f64>::zeros(1, 1).unwrap();
        for finalists in [[0, 1, 2], [1, 0, 2]] {
            let seconds = final_s(&mut Slowing { runs: 0 }, x.view(), &finalists, 1.0).unwrap();
            let of = |kernel: usize| seconds[finalists.iter().position(|&on| on == kernel).unwrap()];
            let ratio = of(1).unwrap() / of(0).unwrap();
            assert!((1.6..2.5).contains(&ratio), "{ratio}");
            assert_eq!(of(2), None);
        }
    }
}
