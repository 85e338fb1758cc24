//! Every kernel alone: timed, checked, compared.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};

use super::check::{Checked, Expected};
use super::facts::MatrixFacts;
use super::sampling::{BenchSettings, Sampler};
use super::times::Times;
use crate::error::Result;
use crate::kernel::cpu::Kernels;
use crate::kernel::cuda::{CUDA_KERNELS, CudaKernel};
use crate::kernel::{KernelId, Order, Processor, kernels_of};
use crate::matrix::{Dtype, MultiVectorView, Scalar};
use crate::runtime::Pool;
use crate::work::Features;

/// Elements of X up to which the result of every form of every kernel is checked.
const ALWAYS_CHECKED: usize = 1 << 22;

/// Which kernels to measure: all, or those with one of these names, be it the kernel's or one of its forms'.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelNames(Option<Vec<String>>);

impl KernelNames {
    /// All of them.
    pub const ALL: Self = Self(None);

    /// Those names, or all where one is `all`. An error names what is no kernel of any processor.
    pub fn new(names: &[String]) -> Result<Self> {
        if names.iter().any(|name| name == "all") {
            return Ok(Self::ALL);
        }
        for name in names {
            let is_form =
                |kernel: &CudaKernel| kernel.variants.iter().any(|form| kernel.variant_name(form) == *name);
            if !CUDA_KERNELS.iter().any(is_form) {
                KernelId::by_name(name)?;
            }
        }
        Ok(Self(Some(names.to_vec())))
    }

    /// Whether there is a kernel for such a processor among them.
    pub fn any_for(&self, processor: Processor) -> bool {
        let form_taken = |kernel: &CudaKernel| {
            kernel.variants.iter().any(|form| self.take(kernel.id, &kernel.variant_name(form)))
        };
        match processor {
            Processor::Cpu => kernels_of(processor).any(|info| self.take(info.id, info.name)),
            Processor::Gpu => CUDA_KERNELS.iter().any(form_taken),
        }
    }

    /// Whether the kernel, or this form of it, is among them.
    pub fn take(&self, kernel: KernelId, form: &str) -> bool {
        self.0.as_ref().is_none_or(|names| names.iter().any(|name| name == kernel.name() || name == form))
    }
}

/// A device with a matrix on it, and the kernels that can be run there. Numbers of kernels are places in `kernels`.
pub trait Subject<T: Scalar> {
    /// The kernels' forms: of which kernel, and under which name.
    fn kernels(&self) -> Vec<(KernelId, String)>;

    /// Gets ready for `x`, and may say what could have been better.
    fn take_x(&mut self, x: MultiVectorView<'_, T>) -> Result<Option<String>>;

    /// Gets ready for runs of a kernel, or says why it cannot be run on this matrix.
    fn ready(&mut self, kernel: usize) -> Result<std::result::Result<(), String>>;

    /// Runs a kernel that is ready and gives its seconds, or why it failed. `x` is what it was made ready for.
    fn run(&mut self, kernel: usize, x: MultiVectorView<'_, T>) -> Result<std::result::Result<f64, String>>;

    /// Has `read` read what the last run computed.
    fn read_y(&mut self, read: &mut dyn FnMut(MultiVectorView<'_, T>)) -> Result<()>;
}

/// What was measured of a form of a kernel.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct KernelResult {
    /// Its name.
    pub kernel: String,
    /// The order in which it adds.
    pub order: Order,
    /// Its times, in seconds.
    pub times: Times,
    /// How its Y compares; unknown where it did not run.
    pub checked: Option<Checked>,
    /// Why it did not run, or not well.
    pub reason: Option<String>,
}

impl KernelResult {
    /// Its time where it counts: it ran and is right.
    pub fn seconds(&self) -> Option<f64> {
        self.times.median.filter(|_| self.checked.is_some_and(|checked| checked.passed))
    }
}

/// What was measured of a peer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PeerResult {
    /// The peer's name.
    pub peer: String,
    /// Its algorithm and how X and Y lie: `ALG2 row-major`.
    pub algorithm: String,
    /// Its times, in seconds.
    pub times: Times,
    /// How its Y compares, where X and Y lie as ours do.
    pub checked: Option<Checked>,
}

/// One matrix, K and precision on one device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CaseResult {
    /// The device.
    pub device: String,
    /// The matrix.
    pub matrix: String,
    /// What the matrix is.
    pub facts: MatrixFacts,
    /// What its rows look like; unknown of cases that were kept before this was.
    #[serde(default)]
    pub features: Option<Features>,
    /// Threads of the CPU.
    pub threads: usize,
    /// The precision.
    pub dtype: Dtype,
    /// Columns of X.
    pub k: usize,
    /// Additions and multiplications.
    pub flops: f64,
    /// Bytes that must move once.
    pub compulsory_bytes: u64,
    /// Rate of the device's memory.
    pub memory_gb_per_s: f64,
    /// Most arithmetic the device does, where known.
    pub peak_gflops: Option<f64>,
    /// Seconds in which the device's memory moves those.
    pub floor_s: f64,
    /// Every kernel.
    pub kernels: Vec<KernelResult>,
    /// Every algorithm of every peer.
    pub peers: Vec<PeerResult>,
}

impl CaseResult {
    /// A name for people.
    pub fn name(&self) -> String {
        format!("{} {} k={} on {}", self.matrix, self.dtype, self.k, self.device)
    }

    /// The fastest right kernel, with its seconds.
    pub fn best(&self) -> Option<(&KernelResult, f64)> {
        let timed = self.kernels.iter().filter_map(|kernel| Some((kernel, kernel.seconds()?)));
        timed.min_by(|a, b| a.1.total_cmp(&b.1))
    }

    /// The fastest algorithm of any peer that is not known to be wrong, with its seconds.
    pub fn best_peer(&self) -> Option<(&PeerResult, f64)> {
        let right = self.peers.iter().filter(|peer| peer.checked.is_none_or(|checked| checked.passed));
        let timed = right.filter_map(|peer| Some((peer, peer.times.median?)));
        timed.min_by(|a, b| a.1.total_cmp(&b.1))
    }

    /// How many times faster the best kernel is than the best peer.
    pub fn ratio(&self) -> Option<f64> {
        let (own, peer) = (self.best()?.1, self.best_peer()?.1);
        (own > 0.0).then_some(peer / own)
    }

    /// Thousand million operations a second at that time.
    pub fn gflops(&self, seconds: f64) -> f64 {
        self.flops / seconds * 1e-9
    }

    /// Share of the memory's rate at that time, counting the bytes that must move.
    pub fn fraction(&self, seconds: f64) -> f64 {
        self.floor_s / seconds
    }
}

/// Measures and checks every kernel of `subject` with `x`, which it has taken, as long as `goes_on` says so; nothing where it did not.
pub fn bench_kernels<T: Kernels>(
    pool: &Pool,
    subject: &mut dyn Subject<T>,
    x: MultiVectorView<'_, T>,
    expected: &Expected<'_, T>,
    settings: BenchSettings,
    goes_on: &dyn Fn() -> bool,
) -> Result<Option<Vec<KernelResult>>> {
    let mut results = Vec::new();
    let mut best_s = f64::INFINITY;
    let mut checked = HashSet::new();
    for (number, (id, kernel)) in subject.kernels().into_iter().enumerate() {
        if !goes_on() {
            return Ok(None);
        }
        let order = id.info().order;
        let mut result = KernelResult { kernel, order, times: Times::new(&[]), checked: None, reason: None };
        match subject.ready(number)? {
            Err(reason) => result.reason = Some(reason),
            Ok(()) => match measure(settings, best_s, || subject.run(number, x))? {
                Err(reason) => result.reason = Some(reason),
                Ok(seconds) => {
                    result.times = Times::new(&seconds);
                    // A further form that cannot be the best is not worth bringing Y back for, where Y is large.
                    let best_so_far = result.times.median.is_some_and(|median| median < best_s);
                    if checked.insert(id) || best_so_far || x.rows() * x.k() <= ALWAYS_CHECKED {
                        subject.read_y(&mut |y| {
                            result.checked = Some(pool.install(|| expected.check(order, y)));
                        })?;
                    }
                }
            },
        }
        best_s = best_s.min(result.seconds().unwrap_or(f64::INFINITY));
        results.push(result);
    }
    Ok(Some(results))
}

/// Seconds of repeated runs. What is far slower than `best_s`, or takes long, is repeated less.
fn measure(
    settings: BenchSettings,
    best_s: f64,
    mut run: impl FnMut() -> Result<std::result::Result<f64, String>>,
) -> Result<std::result::Result<Vec<f64>, String>> {
    let mut sampler = Sampler::new(settings, best_s);
    for _ in 0..settings.warmup {
        match run()? {
            Ok(seconds) if sampler.is_hopeless(seconds) => break,
            Ok(_) => {}
            Err(reason) => return Ok(Err(reason)),
        }
    }
    while !sampler.is_enough() {
        match run()? {
            Ok(seconds) => sampler.push(seconds),
            Err(reason) => return Ok(Err(reason)),
        }
    }
    Ok(Ok(sampler.into_seconds()))
}

#[cfg(test)]
mod tests {
    use super::super::sampling::TIME_CAP_S;
    use super::*;

    const TEN: BenchSettings =
        BenchSettings { warmup: 2, repeat: Some(10), time_cap_s: TIME_CAP_S, cut_hopeless: true };

    #[test]
    fn what_cannot_win_is_not_even_warmed_up() {
        let runs = |best_s: f64, time: f64| {
            let mut count = 0;
            let seconds = measure(TEN, best_s, || {
                count += 1;
                Ok(Ok(time))
            });
            (count, seconds.unwrap().unwrap().len())
        };
        assert_eq!(runs(f64::INFINITY, 0.1), (12, 10));
        assert_eq!(runs(0.1, 0.31), (4, 3));
    }

    #[test]
    fn a_failure_ends_the_runs_with_its_reason() {
        let failed = measure(TEN, 1.0, || Ok(Err("too many registers".into()))).unwrap();
        assert_eq!(failed, Err("too many registers".into()));
    }

    #[test]
    fn wrong_results_never_win() {
        let kernel = |name: &str, seconds: f64, passed: bool| KernelResult {
            kernel: name.into(),
            order: Order::Free,
            times: Times::new(&[seconds]),
            checked: Some(Checked { passed, bitwise: false, max_bound_ratio: 0.0 }),
            reason: None,
        };
        let peer = |algorithm: &str, seconds: f64| PeerResult {
            peer: "peer".into(),
            algorithm: algorithm.into(),
            times: Times::new(&[seconds]),
            checked: None,
        };
        let case = CaseResult {
            device: "emu:0".into(),
            matrix: "a".into(),
            facts: MatrixFacts::default(),
            features: None,
            threads: 1,
            memory_gb_per_s: 1e-9,
            peak_gflops: None,
            dtype: Dtype::F64,
            k: 1,
            flops: 1e9,
            compulsory_bytes: 1,
            floor_s: 1.0,
            kernels: vec![kernel("wrong", 1.0, false), kernel("slow", 8.0, true), kernel("right", 2.0, true)],
            peers: vec![peer("one", 5.0), peer("two", 3.0)],
        };
        assert_eq!(case.best().unwrap().0.kernel, "right");
        assert_eq!(case.best_peer().unwrap().0.algorithm, "two");
        assert_eq!(case.ratio(), Some(1.5));
        assert_eq!((case.gflops(2.0), case.fraction(2.0)), (0.5, 0.5));
    }
}
