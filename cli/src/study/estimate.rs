//! How long a study will take, from its time caps, its warm-up runs and a coarse prediction of one run.

use super::solver;
use crate::args::MatrixSource;
use crate::args::options::{DeviceWord, Devices};
use crate::measure::KernelNames;
use crate::operands::session::Session;
use crate::results::{Case, StudySubject};
use crate::statistics::BenchSettings;
use rowloom::internal::cost::{Load, Profile, cpu_profile, emulated_profile, preset};
use rowloom::internal::error::Error;
use rowloom::internal::kernel::Processor;
use rowloom::internal::kernel::cuda::CUDA_KERNELS;
use rowloom::internal::kernel::{KindOfWork, kernels_of};
use rowloom::internal::matrix::Dtype;
use rowloom::internal::matrix::generate::{generate, generate_dense};

/// By how much a run may be faster or slower than predicted here.
const UNCERTAINTY: f64 = 3.0;

/// Bytes of a matrix in memory for each byte of a text file, and of a compressed one.
const TEXT_EXPANSION: (u64, u64) = (1, 3);

/// Nonzeros of a row where only the size of the matrix is known.
const NONZEROS_PER_ROW: u64 = 10;

/// Seconds to generate or read a nonzero, and to convert one on one thread.
const LOAD_S_PER_NONZERO: f64 = 30e-9;
const CONVERT_S_PER_NONZERO: f64 = 30e-9;

/// Seconds to plan a product on vectors and to find its exchanged rows, per nonzero.
const SIMULATE_S_PER_NONZERO: f64 = 20e-9;

/// Seconds to verify one multiplication of the product, on one thread.
const VERIFY_S_PER_PRODUCT: f64 = 5e-9;

/// How many times slower a serial kernel is than the vectorized one on one thread.
const SERIAL_SLOWDOWN: f64 = 8.0;

/// Arithmetic rates of dense products, about.
const CPU_GFLOPS: f64 = 30.0;
const GPU_GFLOPS: f64 = 3000.0;

/// Least and most seconds of all copies of one size.
const TRANSFERS_S: (f64, f64) = (0.1, 10.0);

/// Least and most seconds to plan, open and close the devices of a case.
const CASE_OVERHEAD_S: (f64, f64) = (0.005, 0.05);
const GPU_OVERHEAD_S: (f64, f64) = (0.3, 3.0);

/// The least and the most seconds that something takes.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Span {
    least_s: f64,
    most_s: f64,
}

impl Span {
    fn new((least_s, most_s): (f64, f64)) -> Self {
        Self { least_s, most_s }
    }

    fn add(&mut self, other: Self, times: f64) {
        self.least_s += times * other.least_s;
        self.most_s += times * other.most_s;
    }
}

/// The seconds that `cases` take on this machine.
pub fn estimate<'a>(
    cases: impl Iterator<Item = &'a Case>,
    settings: BenchSettings,
    verify: bool,
    session: &Session,
) -> Span {
    let mut total = Span::default();
    let mut loaded = None;
    for case in cases {
        let Ok(devices) = case.devices.parse::<Devices>() else { continue };
        if devices.check_known().is_err() {
            // The case will be refused, which takes no time.
            continue;
        }
        let nnz = match case.subject.is_sparse() {
            true => nonzeros(&case.matrix),
            false => dense_entries(&case.matrix),
        };
        if loaded != Some(&case.matrix) {
            loaded = Some(&case.matrix);
            total.add(around(LOAD_S_PER_NONZERO * nnz as f64), 1.0);
        }
        let profiles = profiles(&devices, case.threads, session);
        total.add(Span::new(CASE_OVERHEAD_S), 1.0);
        let has_card = |word: &DeviceWord| matches!(word, DeviceWord::Cuda { .. });
        if devices.words().iter().any(has_card) {
            total.add(Span::new(GPU_OVERHEAD_S), 1.0);
        }
        let k = case.k.unwrap_or(1) as u64;
        let load = load(nnz, k, case.dtype);
        match case.subject {
            // Planning and one pass in virtual time.
            StudySubject::Run if case.devices.contains("sim:") => {}
            StudySubject::Vectors => total.add(around(SIMULATE_S_PER_NONZERO * nnz as f64), 1.0),
            StudySubject::Run | StudySubject::PowerIteration | StudySubject::SubspaceIteration => {
                let products = solver::products(case.subject) as f64;
                let seconds = || profiles.iter().map(|profile| profile.kernel_s(&load));
                let together_s = 1.0 / seconds().map(|one_s| 1.0 / one_s.max(1e-9)).sum::<f64>();
                let slowest_s = seconds().fold(0.0, f64::max);
                let least = measured(settings, products * together_s);
                let most = measured(settings, products * slowest_s);
                total.add(Span { least_s: least.least_s, most_s: most.most_s }, 1.0);
            }
            StudySubject::Kernel => {
                let Ok(names) = KernelNames::new(&case.kernels) else { continue };
                for profile in &profiles {
                    let run_s = profile.kernel_s(&load);
                    let one = measured(settings, run_s);
                    let Counts { serial, least, most } = kernel_counts(&names, profile.processor);
                    total.least_s += least as f64 * one.least_s;
                    total.most_s += most as f64 * one.most_s;
                    let serial_s = run_s * SERIAL_SLOWDOWN * case.threads as f64;
                    total.add(measured(settings, serial_s), serial as f64);
                    // Every kernel has its own format of A.
                    total.add(around(CONVERT_S_PER_NONZERO * nnz as f64), (serial + least) as f64);
                }
                let peer = measured(settings, profiles.first().map_or(0.0, |cpu| cpu.kernel_s(&load)));
                total.add(peer, case.against.len() as f64);
            }
            StudySubject::Gemm | StudySubject::Colmean => {
                let dense = dense_load(nnz, case);
                let one_s =
                    profiles.iter().map(|profile| dense.seconds(profile)).fold(f64::INFINITY, f64::min);
                total.add(measured(settings, if case.devices.contains("sim:") { 0.0 } else { one_s }), 1.0);
            }
            StudySubject::Transfers => total.add(Span::new(TRANSFERS_S), 1.0),
            // Three conversions, each serial and parallel.
            StudySubject::Conversion => {
                total.add(measured(settings, CONVERT_S_PER_NONZERO * nnz as f64), 6.0);
            }
        }
        if verify && verified(case.subject) && !case.devices.contains("sim:") {
            total.add(around(VERIFY_S_PER_PRODUCT * nnz as f64 * k as f64 / case.threads as f64), 1.0);
        }
    }
    total
}

fn verified(subject: StudySubject) -> bool {
    !matches!(subject, StudySubject::Conversion | StudySubject::Transfers | StudySubject::Gemm)
}

/// The entries of a dense matrix, without reading or generating it.
fn dense_entries(name: &str) -> u64 {
    match MatrixSource::new(name.as_ref()) {
        MatrixSource::Generated(spec) => match generate_dense::<f64>(&spec, 1, 0) {
            Err(Error::DoesNotFit { needed_bytes, .. }) => needed_bytes / 8,
            _ => 0,
        },
        MatrixSource::Collection(_) => 0,
        // A number of a text has about as many bytes as one in memory.
        MatrixSource::File(path) => path.metadata().map_or(0, |file| file.len() / 8),
    }
}

/// Operations and bytes of one repetition.
struct DenseLoad {
    operations: f64,
    bytes: f64,
}

fn dense_load(entries: u64, case: &Case) -> DenseLoad {
    let columns = case.k.unwrap_or(0) as f64;
    let bytes = entries as f64 * case.dtype.bytes() as f64;
    DenseLoad { operations: 2.0 * entries as f64 * columns, bytes }
}

impl DenseLoad {
    /// Bound by memory or by arithmetic.
    fn seconds(&self, profile: &Profile) -> f64 {
        let gflops = match profile.processor {
            Processor::Cpu => CPU_GFLOPS,
            Processor::Gpu => GPU_GFLOPS,
        };
        (self.bytes / (profile.stream_gb_per_s * 1e9)).max(self.operations / (gflops * 1e9))
    }
}

fn around(seconds: f64) -> Span {
    Span { least_s: seconds / UNCERTAINTY, most_s: seconds * UNCERTAINTY }
}

fn measured(settings: BenchSettings, run_s: f64) -> Span {
    let least = settings.seconds_for(run_s / UNCERTAINTY).0;
    let most = settings.seconds_for(run_s * UNCERTAINTY).1;
    Span { least_s: least, most_s: most }
}

/// About how many nonzeros a matrix has, without reading or generating it.
fn nonzeros(name: &str) -> u64 {
    let bytes = match MatrixSource::new(name.as_ref()) {
        // With no memory to use, the generator refuses and says how much it needs.
        MatrixSource::Generated(spec) => match generate::<f64>(&spec, 1, 0) {
            Err(Error::DoesNotFit { needed_bytes, .. }) => needed_bytes,
            _ => 0,
        },
        MatrixSource::Collection(_) => 0,
        MatrixSource::File(path) => {
            let bytes = path.metadata().map_or(0, |file| file.len());
            let is_compressed = path.extension().is_some_and(|ending| ending == "gz");
            bytes.saturating_mul(if is_compressed { TEXT_EXPANSION.1 } else { TEXT_EXPANSION.0 })
        }
    };
    // Four bytes for the column, eight for the value, and a row pointer for every few nonzeros.
    bytes / 13
}

fn load(nnz: u64, k: u64, dtype: Dtype) -> Load {
    let (rows, value) = (nnz / NONZEROS_PER_ROW + 1, dtype.bytes() as u64);
    let row_bytes = k.saturating_mul(value);
    Load {
        rows,
        entries: nnz,
        k,
        compulsory_bytes: nnz * (4 + value) + rows.saturating_mul(row_bytes),
        gathered_bytes: nnz.saturating_mul(row_bytes),
        x_bytes: rows.saturating_mul(row_bytes),
    }
}

/// The profile of each device.
fn profiles(devices: &Devices, threads: usize, session: &Session) -> Vec<Profile> {
    let profile = |word: &DeviceWord| match word {
        DeviceWord::Cpu => cpu_profile(threads, session.memory_limit_bytes()).ok(),
        DeviceWord::Emulated { .. } => emulated_profile().ok(),
        // Any GPU: the time caps matter more than its speed.
        DeviceWord::Cuda { .. } => preset("h200").ok().and_then(|machine| machine.gpus.into_iter().next()),
        DeviceWord::Simulated { .. } => word.preset().and_then(|machine| machine.gpus.into_iter().next()),
    };
    devices.words().iter().filter_map(profile).collect()
}

/// Kernels that a case measures on one device.
struct Counts {
    /// Serial kernels.
    serial: usize,
    /// Parallel kernels.
    least: usize,
    /// Forms of parallel kernels; not every form takes every K and value type.
    most: usize,
}

fn kernel_counts(names: &KernelNames, processor: Processor) -> Counts {
    match processor {
        Processor::Cpu => {
            let taken =
                || kernels_of(KindOfWork::Spmm, processor).filter(|info| names.take(info.id, info.name));
            let serial = taken().filter(|info| info.name.starts_with("serial_")).count();
            let parallel = taken().count() - serial;
            Counts { serial, least: parallel, most: parallel }
        }
        Processor::Gpu => {
            let forms = CUDA_KERNELS.iter().map(|kernel| {
                let taken = |form: &&_| names.take(kernel.id, &kernel.variant_name(form));
                kernel.variants.iter().filter(taken).count()
            });
            let forms: Vec<usize> = forms.collect();
            let kernels = forms.iter().filter(|&&count| count > 0).count();
            Counts { serial: 0, least: kernels, most: forms.iter().sum() }
        }
    }
}

/// `about 2 to 5 min`, `about 40 s to 2 min`, `about 1 s`.
impl std::fmt::Display for Span {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let ((least, unit), (most, most_unit)) = (rounded(self.least_s), rounded(self.most_s));
        if unit != most_unit {
            write!(f, "about {least} {unit} to {most} {most_unit}")
        } else if least == most {
            write!(f, "about {most} {unit}")
        } else {
            write!(f, "about {least} to {most} {unit}")
        }
    }
}

/// A number and its unit, with no more digits than an estimate deserves.
fn rounded(seconds: f64) -> (u64, &'static str) {
    let (value, unit) = match seconds {
        s if s < 90.0 => (s, "s"),
        s if s < 90.0 * 60.0 => (s / 60.0, "min"),
        s => (s / 3600.0, "h"),
    };
    let step = if value < 10.0 { 1.0 } else { 5.0 };
    (((value / step).round() * step).max(1.0) as u64, unit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::StudyConfig;
    use rowloom::internal::toml_file::TomlFile;

    fn span(text: &str) -> Span {
        let text = format!("title = 't'\n[measure]\nwarmup = 0\n{text}");
        let config = StudyConfig::parse(&TomlFile::new("t.toml", text)).unwrap();
        let session = Session::with(Some(1), 1).unwrap();
        let cases = config.cases(1, |_| 1).unwrap();
        let measure = &config.measure;
        let settings = BenchSettings {
            warmup: measure.warmup,
            repeat: measure.repeat,
            time_cap_s: measure.time_cap_s,
            cut_hopeless: false,
        };
        estimate(cases.iter(), settings, measure.verify, &session)
    }

    #[test]
    fn a_span_is_written_with_few_digits() {
        let written = |least_s, most_s| Span { least_s, most_s }.to_string();
        assert_eq!(written(118.0, 290.0), "about 2 to 5 min");
        assert_eq!(written(38.0, 130.0), "about 40 s to 2 min");
        assert_eq!(written(0.001, 0.9), "about 1 s");
        assert_eq!(written(7000.0, 36_000.0), "about 2 to 10 h");
    }

    #[test]
    fn every_case_counts_and_a_time_cap_bounds_it() {
        let sweep = "[[sweep]]\nname = 's'\nmatrices = 'gen:stencil5,n=300'\nthreads = 1\n";
        let one = span(&format!("{sweep}k = 1"));
        assert!(one.least_s > 0.4 && one.most_s < 3.0, "{one:?}");
        let eight = span(&format!("{sweep}k = [1, 1, 1, 1, 1, 1, 1, 1]"));
        assert!(eight.least_s > 7.0 * one.least_s && eight.most_s < 9.0 * one.most_s, "{eight:?}");
        let capped = span(&format!("time_cap_s = 0.1\n{sweep}k = 1"));
        assert!(capped.most_s < 0.4, "{capped:?}");
    }

    #[test]
    fn a_missing_device_takes_no_time() {
        let text = "[[sweep]]\nname = 's'\nmatrices = 'gen:stencil5,n=100'\ndevices = 'cuda:12345'";
        assert_eq!(span(text), Span::default());
    }
}
