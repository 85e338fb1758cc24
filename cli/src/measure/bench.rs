//! Single kernels on one matrix: timed, checked, and compared with peers (cuSPARSE, MKL, SciPy).

use serde::{Deserialize, Serialize};

use super::check::{Checked, Expected};
use super::facts::MatrixFacts;
use super::forms::form_names;
use crate::statistics::Times;
use crate::statistics::{BenchSettings, Sampler};
use rowloom::internal::cost::Form;
use rowloom::internal::error::{Counted, Result};
use rowloom::internal::kernel::cpu::Kernels;
use rowloom::internal::kernel::cuda::{CUDA_KERNELS, CudaKernel};
use rowloom::internal::kernel::{KernelId, KindOfWork, Order, Processor, kernels_of};
use rowloom::internal::matrix::{Dtype, MultiVectorView, Scalar};
use rowloom::internal::runtime::Pool;
use rowloom::internal::work::spmm::Features;

/// Which kernels to measure: all, or those named. A name is that of a kernel or of one of its forms.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelNames(Option<Vec<String>>);

impl KernelNames {
    /// All kernels.
    pub const ALL: Self = Self(None);

    /// The kernels with these names, or all where one is `all`. An error names what is no kernel of any processor.
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

    /// The forms with the short name of `form`, and no others.
    pub fn of_form(form: &Form) -> Self {
        let [_, short] = form_names(form);
        Self(Some(vec![short]))
    }

    /// Whether a kernel for this kind of processor is among them.
    pub fn any_for(&self, processor: Processor) -> bool {
        let form_taken = |kernel: &CudaKernel| {
            kernel.variants.iter().any(|form| self.take(kernel.id, &kernel.variant_name(form)))
        };
        match processor {
            Processor::Cpu => {
                kernels_of(KindOfWork::Spmm, processor).any(|info| self.take(info.id, info.name))
            }
            Processor::Gpu => CUDA_KERNELS.iter().any(form_taken),
        }
    }

    /// Whether the kernel, or this form of it, is among them.
    pub fn take(&self, kernel: KernelId, form: &str) -> bool {
        self.0.as_ref().is_none_or(|names| names.iter().any(|name| name == kernel.name() || name == form))
    }
}

/// The subject of a measurement: a device that holds a matrix, and the kernels that run there. A kernel's number is its index in `kernels`.
pub trait Subject<T: Scalar> {
    /// The forms: each one's kernel and name.
    fn kernels(&self) -> Vec<(KernelId, String)>;

    /// Copies `x` to where kernels read it. Returns a note where something did not work that kernels can do without.
    fn take_x(&mut self, x: MultiVectorView<'_, T>) -> Result<Option<String>>;

    /// Prepares a kernel for its runs. The inner error says why it cannot run on this matrix.
    fn ready(&mut self, kernel: usize) -> Result<std::result::Result<(), String>>;

    /// Runs a prepared kernel and returns its seconds. The inner error says why it failed. `x` must be the one last taken.
    fn run(&mut self, kernel: usize, x: MultiVectorView<'_, T>) -> Result<std::result::Result<f64, String>>;

    /// Fills Y with NaN, so that an element that the next runs do not write is not taken for one of an earlier kernel.
    fn forget_y(&mut self) -> Result<()>;

    /// Passes to `read` the Y that the last run computed.
    fn read_y(&mut self, read: &mut dyn FnMut(MultiVectorView<'_, T>)) -> Result<()>;
}

/// The measurement of one form of a kernel.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct KernelResult {
    /// The form's name.
    pub kernel: String,
    /// The order of its additions.
    pub order: Order,
    /// Its times, in seconds.
    pub times: Times,
    /// How its Y compares with the right one; none where it did not run, and in cases of older versions that were not checked.
    pub checked: Option<Checked>,
    /// Why it did not run.
    pub reason: Option<String>,
}

impl KernelResult {
    /// Its median time, where it ran and its Y is right.
    pub fn seconds(&self) -> Option<f64> {
        self.times.median.filter(|_| self.checked.is_some_and(|checked| checked.passed))
    }
}

/// The measurement of one algorithm of a peer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PeerResult {
    /// The peer's name.
    pub peer: String,
    /// Its algorithm and the layout of X and Y: `ALG2 row-major`; of SciPy, that it runs `on 1 thread`.
    pub algorithm: String,
    /// Its times, in seconds.
    pub times: Times,
    /// How its Y compares with the right one; none where it is unknown.
    pub checked: Option<Checked>,
}

impl PeerResult {
    /// The peer and its algorithm.
    pub fn name(&self) -> String {
        format!("{} {}", self.peer, self.algorithm).trim_end().into()
    }

    /// Its median time, where its Y is right.
    pub fn seconds(&self) -> Option<f64> {
        self.times.median.filter(|_| self.checked.is_some_and(|checked| checked.passed))
    }
}

/// One matrix, K and precision on one device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CaseResult {
    /// The device.
    pub device: String,
    /// The matrix.
    pub matrix: String,
    /// The matrix's size and hash.
    pub facts: MatrixFacts,
    /// Statistics of its rows; none in cases that older versions kept.
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
    /// Bandwidth of the device's memory.
    pub memory_gb_per_s: f64,
    /// Peak arithmetic rate of the device, where known.
    pub peak_gflops: Option<f64>,
    /// Seconds in which the device's memory moves the compulsory bytes.
    pub floor_s: f64,
    /// The default kernel of the CPU on one thread, which speed-ups are over; none where it is among the kernels or is not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub one_thread: Option<KernelResult>,
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

    /// The name, with the number of threads where the CPU computes.
    pub fn name_with_threads(&self) -> String {
        let threads = format!(", {}", Counted(self.threads as u64, "thread"));
        format!("{}{}", self.name(), if self.device == "cpu" { &threads } else { "" })
    }

    /// The fastest right kernel, with its seconds.
    pub fn best(&self) -> Option<(&KernelResult, f64)> {
        let timed = self.kernels.iter().filter_map(|kernel| Some((kernel, kernel.seconds()?)));
        timed.min_by(|a, b| a.1.total_cmp(&b.1))
    }

    /// The fastest right algorithm of any peer, with its seconds.
    pub fn best_peer(&self) -> Option<(&PeerResult, f64)> {
        let timed = self.peers.iter().filter_map(|peer| Some((peer, peer.seconds()?)));
        timed.min_by(|a, b| a.1.total_cmp(&b.1))
    }

    /// How many times faster the best kernel is than the best peer.
    pub fn ratio(&self) -> Option<f64> {
        let (own, peer) = (self.best()?.1, self.best_peer()?.1);
        (own > 0.0).then_some(peer / own)
    }

    /// GFLOP/s at that time.
    pub fn gflops(&self, seconds: f64) -> f64 {
        self.flops / seconds * 1e-9
    }

    /// Share of the memory bandwidth at that time, counting the compulsory bytes.
    pub fn fraction(&self, seconds: f64) -> f64 {
        self.floor_s / seconds
    }
}

/// Measures and checks every kernel of `subject`, which has taken `x`. None where `keep_going` returned false before the last one.
pub fn bench_kernels<T: Kernels>(
    pool: &Pool,
    subject: &mut dyn Subject<T>,
    x: MultiVectorView<'_, T>,
    expected: &Expected<'_, T>,
    settings: BenchSettings,
    keep_going: &dyn Fn() -> bool,
) -> Result<Option<Vec<KernelResult>>> {
    let mut results = Vec::new();
    let mut best_s = f64::INFINITY;
    for (number, (id, kernel)) in subject.kernels().into_iter().enumerate() {
        if !keep_going() {
            return Ok(None);
        }
        let order = id.info().order;
        let mut result = KernelResult { kernel, order, times: Times::new(&[]), checked: None, reason: None };
        match subject.ready(number)? {
            Err(reason) => result.reason = Some(reason),
            Ok(()) => {
                subject.forget_y()?;
                let measured = measure(settings, best_s, keep_going, || subject.run(number, x))?;
                if !keep_going() {
                    return Ok(None);
                }
                match measured {
                    Err(reason) => result.reason = Some(reason),
                    Ok(seconds) => {
                        result.times = Times::new(&seconds);
                        subject.read_y(&mut |y| {
                            result.checked = Some(pool.install(|| expected.check(order, y)));
                        })?;
                    }
                }
            }
        }
        best_s = best_s.min(result.seconds().unwrap_or(f64::INFINITY));
        results.push(result);
    }
    Ok(Some(results))
}

/// Seconds of repeated runs. A kernel that is far slower than `best_s`, or takes long, runs fewer times; no run begins once
/// `keep_going` is false.
fn measure(
    settings: BenchSettings,
    best_s: f64,
    keep_going: &dyn Fn() -> bool,
    mut run: impl FnMut() -> Result<std::result::Result<f64, String>>,
) -> Result<std::result::Result<Vec<f64>, String>> {
    let mut sampler = Sampler::new(settings, best_s);
    for _ in 0..settings.warmup {
        if !keep_going() {
            break;
        }
        match run()? {
            Ok(seconds) if sampler.is_hopeless(seconds) => break,
            Ok(_) => {}
            Err(reason) => return Ok(Err(reason)),
        }
    }
    while keep_going() && !sampler.is_enough() {
        match run()? {
            Ok(seconds) => sampler.push(seconds),
            Err(reason) => return Ok(Err(reason)),
        }
    }
    Ok(Ok(sampler.into_seconds()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::{HostBench, Sizes};
    use crate::statistics::TIME_CAP_S;
    use rowloom::internal::kernel::Schedule;
    use rowloom::internal::kernel::cpu::CpuSettings;
    use rowloom::internal::machine::{Isa, Machine};
    use rowloom::internal::matrix::{MultiVector, generate};

    const TEN: BenchSettings =
        BenchSettings { warmup: 2, repeat: Some(10), time_cap_s: TIME_CAP_S, cut_hopeless: true };

    #[test]
    fn a_kernel_three_times_slower_than_the_best_gets_one_warm_up_and_three_runs() {
        let runs = |best_s: f64, time: f64| {
            let mut count = 0;
            let seconds = measure(TEN, best_s, &|| true, || {
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
        let failed = measure(TEN, 1.0, &|| true, || Ok(Err("too many registers".into()))).unwrap();
        assert_eq!(failed, Err("too many registers".into()));
    }

    /// Two kernels, of which the second writes nothing.
    struct SecondWritesNothing<'a>(HostBench<'a, f64>);

    impl Subject<f64> for SecondWritesNothing<'_> {
        fn kernels(&self) -> Vec<(KernelId, String)> {
            self.0.kernels()
        }

        fn take_x(&mut self, x: MultiVectorView<'_, f64>) -> Result<Option<String>> {
            self.0.take_x(x)
        }

        fn ready(&mut self, kernel: usize) -> Result<std::result::Result<(), String>> {
            self.0.ready(kernel)
        }

        fn run(
            &mut self,
            kernel: usize,
            x: MultiVectorView<'_, f64>,
        ) -> Result<std::result::Result<f64, String>> {
            if kernel == 0 { self.0.run(kernel, x) } else { Ok(Ok(1e-9)) }
        }

        fn forget_y(&mut self) -> Result<()> {
            self.0.forget_y()
        }

        fn read_y(&mut self, read: &mut dyn FnMut(MultiVectorView<'_, f64>)) -> Result<()> {
            self.0.read_y(read)
        }
    }

    #[test]
    fn every_form_is_checked_and_the_y_of_an_earlier_kernel_does_not_count() {
        let matrix = generate::<f64>("stencil5,n=20", 1, 1 << 30).unwrap().matrix;
        let pool = Pool::new(&Machine::detect(), Some(1)).unwrap();
        let cpu = CpuSettings { k: 0, threads: 1, isa: Isa::detect(), schedule: Schedule::Balanced };
        let x = MultiVector::<f64>::random(matrix.cols(), 3, 1).unwrap();
        let sizes = Sizes::of(matrix.view()).unwrap();
        let expected = Expected::new(&pool, matrix.view(), &sizes, x.view(), cpu).unwrap();
        let names = KernelNames::new(&["cpu_csr".into(), "cpu_sell".into()]).unwrap();
        let mut subject = SecondWritesNothing(HostBench::new(&pool, matrix.view(), &names, cpu, u64::MAX));
        subject.take_x(x.view()).unwrap();
        let results =
            bench_kernels(&pool, &mut subject, x.view(), &expected, TEN, &|| true).unwrap().unwrap();
        let passed: Vec<Option<bool>> =
            results.iter().map(|result| result.checked.map(|checked| checked.passed)).collect();
        assert_eq!(passed, [Some(true), Some(false)]);
        assert_eq!(results[1].seconds(), None);
    }

    #[test]
    fn neither_wrong_nor_unverified_results_are_compared() {
        let kernel = |name: &str, seconds: f64, passed: bool| KernelResult {
            kernel: name.into(),
            order: Order::Free,
            times: Times::new(&[seconds]),
            checked: Some(Checked::weighed(usize::from(!passed))),
            reason: None,
        };
        let peer = |algorithm: &str, seconds: f64, checked: Option<Checked>| PeerResult {
            peer: "peer".into(),
            algorithm: algorithm.into(),
            times: Times::new(&[seconds]),
            checked,
        };
        let unverified = KernelResult { checked: None, ..kernel("unverified", 0.5, true) };
        let (right, wrong) = (Some(Checked::weighed(0)), Some(Checked::weighed(1)));
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
            one_thread: None,
            kernels: vec![
                kernel("wrong", 1.0, false),
                kernel("slow", 8.0, true),
                kernel("right", 2.0, true),
                unverified,
            ],
            peers: vec![
                peer("one", 5.0, right),
                peer("two", 3.0, right),
                peer("unverified", 1.0, None),
                peer("wrong", 2.0, wrong),
            ],
        };
        assert_eq!(case.best().unwrap().0.kernel, "right");
        assert_eq!(case.best_peer().unwrap().0.algorithm, "two");
        assert_eq!(case.ratio(), Some(1.5));
        assert_eq!((case.gflops(2.0), case.fraction(2.0)), (0.5, 0.5));
        let alone = |peer: &PeerResult| CaseResult { peers: vec![peer.clone()], ..case.clone() }.ratio();
        let ratios: Vec<Option<f64>> = case.peers.iter().map(alone).collect();
        assert_eq!(ratios, [Some(2.5), Some(1.5), None, None], "a peer is compared only if its Y is right");
    }
}
