//! Measures single kernels on one matrix: the loop that `bench` and `study` share.

use super::one_thread::{one_thread, one_thread_pool};
use crate::args::ExecutionArguments;
use crate::args::options::{Devices, XSource};
use crate::console::Console;
use crate::console::report::hash;
use crate::measure::compulsory_bytes;
use crate::measure::{
    BenchDevice, CaseResult, Checked, Expected, KernelNames, KernelResult, MatrixFacts, PeerResult,
    PythonPeer, Sizes, Subject, batch, bench_kernels, subject,
};
use crate::operands::session::{Session, changed};
use crate::operands::x;
use crate::request::planning::runtime;
use crate::statistics::{BenchSettings, Times};
use rowloom::internal::device::cuda::{AlgorithmTimes, CsrArrays, Cusparse, CusparseMatrix, card_number};
use rowloom::internal::error::{Error, Result};
use rowloom::internal::kernel::cpu::{CpuSettings, Kernels};
use rowloom::internal::kernel::{KernelId, Order, Processor, Schedule};
use rowloom::internal::machine::Isa;
use rowloom::internal::matrix::{Csr, CsrView, Dtype, MultiVector, MultiVectorView, Scalar};
use rowloom::internal::trace::Clock;
use rowloom::internal::work::ChunkRows;
use rowloom::internal::work::spmm::{Features, Spmm};

/// Measured runs of cuSPARSE where `--repeat` is not given.
const DEFAULT_CUSPARSE_REPEAT: u32 = 15;

/// Opens the named devices. `model` is as `--model` takes it.
pub fn open_devices(devices: &Devices, model: &str, session: &Session) -> Result<Vec<BenchDevice>> {
    let planning = ExecutionArguments { model: model.into(), ..ExecutionArguments::of(devices.clone()) };
    BenchDevice::open_all(&runtime(&planning, session, Clock::start())?)
}

/// An error where none of the kernels runs on some device.
pub fn check_names(names: &KernelNames, devices: &[BenchDevice], typed: &[String]) -> Result<()> {
    for device in devices {
        let processor = if device.gpu.is_some() { Processor::Gpu } else { Processor::Cpu };
        if !names.any_for(processor) {
            let (names, device) = (typed.join(","), &device.name);
            return Err(Error::usage(format!(
                "none of the kernels {names} runs on {device}; see rowloom run --help"
            )));
        }
    }
    Ok(())
}

/// The settings that all cases of one command share, and the peers.
pub struct KernelBench<'a> {
    session: &'a Session,
    console: &'a Console,
    names: KernelNames,
    settings: BenchSettings,
    cpu: CpuSettings,
    /// The Python peers that are installed.
    pythons: Vec<&'a str>,
    cusparse: Option<Cusparse>,
    /// Why a peer is not measured: one sentence for each that is missing.
    pub missing_peers: Vec<String>,
}

/// A matrix that kernels are measured on.
pub struct MeasuredMatrix<'a, T: Scalar> {
    /// Its name, hash and size.
    pub facts: &'a MatrixFacts,
    /// Its entries.
    pub matrix: &'a Csr<T>,
    /// Number of its columns with entries.
    pub used_columns: u64,
}

/// A device that holds the matrix.
struct LoadedDevice<'a, T> {
    device: &'a str,
    on_cpu: bool,
    memory_gb_per_s: f64,
    peak_gflops: Option<f64>,
    subject: Box<dyn Subject<T> + 'a>,
}

/// Receives measured cases and says which are to be measured.
pub trait CaseSink {
    /// Whether a case is to be measured.
    fn wants(&mut self, dtype: Dtype, k: usize, device: &str) -> bool;

    /// Receives a measured case.
    fn take(&mut self, case: CaseResult) -> Result<()>;
}

impl<'a> KernelBench<'a> {
    /// Measures the kernels of these names, without peers.
    pub fn new(
        session: &'a Session,
        console: &'a Console,
        names: KernelNames,
        settings: BenchSettings,
        schedule: Schedule,
    ) -> Self {
        let cpu = CpuSettings { k: 0, threads: session.pool.threads(), isa: Isa::detect(), schedule };
        let (pythons, cusparse, missing_peers) = (Vec::new(), None, Vec::new());
        Self { session, console, names, settings, cpu, pythons, cusparse, missing_peers }
    }

    /// Compares with these peers. Opens or starts each of them, and notes which are missing, so that it is known before anything is
    /// measured.
    pub fn against(mut self, against: &'a [String], devices: &[BenchDevice]) -> Self {
        for peer in against {
            let found = match peer.as_str() {
                "cusparse" => self.open_cusparse(devices),
                python => PythonPeer::probe(python, self.session.pool.threads())
                    .inspect(|_| self.pythons.push(python)),
            };
            match found {
                Ok(version) => self.console.note(&format!("{peer} {version}")),
                Err(missing) => {
                    let missing = not_measured(peer, &missing);
                    self.console.note(&missing);
                    self.missing_peers.push(missing);
                }
            }
        }
        self
    }

    /// Opens cuSPARSE on the first CUDA card among `devices` and returns its version and the card.
    fn open_cusparse(&mut self, devices: &[BenchDevice]) -> std::result::Result<String, String> {
        let card = devices.iter().find_map(|device| card_number(&device.name)).unwrap_or(0);
        let cusparse = Cusparse::open(card)?;
        let version = format!("{} on card {card}", cusparse.version());
        self.cusparse = Some(cusparse);
        Ok(version)
    }

    /// Measures one matrix in one precision with each K on each device. Returns early after a signal.
    pub fn matrix<T: Kernels>(
        &self,
        measured: &MeasuredMatrix<'_, T>,
        ks: &[usize],
        devices: &mut [BenchDevice],
        sink: &mut dyn CaseSink,
    ) -> Result<()> {
        let Self { session, console, .. } = self;
        let MeasuredMatrix { facts, matrix, used_columns } = *measured;
        let wanted = |sink: &mut dyn CaseSink, k: usize, devices: &[BenchDevice]| {
            let wants: Vec<bool> =
                devices.iter().map(|device| sink.wants(T::DTYPE, k, &device.name)).collect();
            wants
        };
        let unmeasured: Vec<(usize, Vec<bool>)> = ks
            .iter()
            .map(|&k| (k, wanted(sink, k, devices)))
            .filter(|(_, wants)| wants.contains(&true))
            .collect();
        if unmeasured.is_empty() {
            return Ok(());
        }
        let a = matrix.view();
        let sizes = session.pool.install(|| Sizes::of(a))?;
        let limit = session.memory_limit_bytes();
        let mut loaded: Vec<LoadedDevice<'_, T>> = Vec::new();
        for device in devices {
            let peak_gflops = device.peak_gflops();
            let BenchDevice { profile, name, gpu } = device;
            let on_cpu = gpu.is_none();
            let subject = subject(gpu.as_mut(), &session.pool, a, &self.names, self.cpu, limit);
            let memory_gb_per_s = profile.stream_gb_per_s;
            loaded.push(LoadedDevice { device: name, on_cpu, memory_gb_per_s, peak_gflops, subject });
        }
        let (rows, nnz) = (matrix.rows() as u64, matrix.nnz() as u64);
        let case = |loaded: &LoadedDevice<'_, T>, k: usize, features: Features| {
            let compulsory_bytes = compulsory_bytes(rows, nnz, used_columns, k as u64, T::DTYPE);
            CaseResult {
                device: loaded.device.into(),
                matrix: facts.name.clone(),
                facts: facts.clone(),
                features: Some(features),
                threads: session.pool.threads(),
                dtype: T::DTYPE,
                k,
                flops: 2.0 * nnz as f64 * k as f64,
                compulsory_bytes,
                memory_gb_per_s: loaded.memory_gb_per_s,
                peak_gflops: loaded.peak_gflops,
                floor_s: compulsory_bytes as f64 / (loaded.memory_gb_per_s * 1e9),
                one_thread: None,
                kernels: Vec::new(),
                peers: Vec::new(),
            }
        };
        let one_thread_pool = one_thread_pool(session, &self.names)?;
        let cusparse_matrix = self.cusparse_matrix(a);
        let mut pythons = self.pythons(a);
        for (k, wants) in unmeasured {
            if session.interrupt.asked() {
                return Ok(());
            }
            let all = ChunkRows::Rows { begin: 0, end: matrix.rows() };
            let work = Spmm::new(&a, k)?;
            let features = session.pool.install(|| Features::of(&work, &all));
            x::check_memory::<T>("Y", matrix.rows(), k, limit)?;
            let load = || x::load::<T>(&XSource::Random, matrix.cols(), Some(k), session.seed, limit);
            let x = session.pool.install(load)?;
            let expected = match Expected::new(&session.pool, a, &sizes, x.view(), self.cpu) {
                Ok(expected) => expected,
                Err(Error::Verification(reason)) => {
                    // Nothing can be compared with a wrong Y: the case has no times, and the others are measured.
                    for (loaded, _) in loaded.iter().zip(wants).filter(|(_, wanted)| *wanted) {
                        let kernels = without_expected(loaded.subject.kernels(), &reason);
                        sink.take(CaseResult { kernels, ..case(loaded, k, features) })?;
                    }
                    continue;
                }
                Err(error) => return Err(error),
            };
            let mut peers = Vec::new();
            if let Some(matrix) = &cusparse_matrix {
                peers.extend(self.time_cusparse(matrix, &x, &expected));
            }
            for python in &mut pythons {
                match python.time(&session.pool, &x, &expected, self.settings) {
                    Ok(result) => peers.push(result),
                    // Ctrl-C ends these programs too.
                    Err(_) if session.interrupt.asked() => return Ok(()),
                    Err(reason) => console.note(&reason),
                }
            }
            for (loaded, wanted) in loaded.iter_mut().zip(wants) {
                if !wanted {
                    continue;
                }
                let LoadedDevice { device, on_cpu, subject, .. } = loaded;
                let _spinner =
                    console.spinner(format!("{} {} k={k} on {device}", facts.name, T::DTYPE.name()));
                if let Some(note) = subject.take_x(x.view())? {
                    console.note(&note);
                }
                let keep_going = || !session.interrupt.asked();
                let kernels = bench_kernels(
                    &session.pool,
                    &mut **subject,
                    x.view(),
                    &expected,
                    self.settings,
                    &keep_going,
                )?;
                let Some(kernels) = kernels else { return Ok(()) };
                let one_thread = match &one_thread_pool {
                    Some(pool) if *on_cpu => {
                        one_thread((session, pool), a, x.view(), &expected, self.settings)?
                    }
                    _ => None,
                };
                if session.interrupt.asked() {
                    return Ok(());
                }
                if !matrix.is_intact() {
                    return Err(changed(facts.name.clone()));
                }
                sink.take(CaseResult {
                    one_thread,
                    kernels,
                    peers: peers.clone(),
                    ..case(loaded, k, features)
                })?;
            }
        }
        Ok(())
    }

    /// Starts the Python peers with the matrix, and notes which cannot take it.
    fn pythons<T: Kernels>(&self, matrix: CsrView<'_, T>) -> Vec<PythonPeer> {
        let start = |peer: &&str| {
            let started = PythonPeer::start(peer, matrix, self.session.pool.threads());
            started.map_err(|missing| self.console.note(&not_measured(peer, &missing))).ok()
        };
        self.pythons.iter().filter_map(start).collect()
    }

    /// The matrix as cuSPARSE holds it.
    fn cusparse_matrix<T: Kernels>(&self, matrix: CsrView<'_, T>) -> Option<CusparseMatrix<'_, T>> {
        let arrays = CsrArrays {
            cols: matrix.cols(),
            row_pointers: matrix.row_pointers(),
            columns: matrix.columns(),
            values: matrix.values(),
        };
        let held = self.cusparse.as_ref()?.matrix(T::DTYPE, arrays);
        held.map_err(|fault| {
            self.console.note(&format!("cusparse cannot hold the matrix: {}", fault.message))
        })
        .ok()
    }

    /// Times every algorithm of cuSPARSE.
    fn time_cusparse<T: Kernels>(
        &self,
        matrix: &CusparseMatrix<'_, T>,
        x: &MultiVector<T>,
        expected: &Expected<'_, T>,
    ) -> Vec<PeerResult> {
        let mut checks = Vec::new();
        let check = |algorithm: &str, y: &[T]| {
            let view = MultiVectorView::try_new(y, matrix.rows(), x.k(), x.k());
            let check = |view| self.session.pool.install(|| expected.check(Order::Free, view));
            checks.push((algorithm.to_string(), view.ok().map(check)));
        };
        let repeat = self.settings.repeat.unwrap_or(DEFAULT_CUSPARSE_REPEAT) as usize;
        let times = matrix.time(x.k(), x.data(), repeat, batch, check).unwrap_or_else(|fault| {
            self.console.note(&format!("cusparse failed: {}", fault.message));
            Vec::new()
        });
        let result = |AlgorithmTimes { algorithm, seconds }: AlgorithmTimes| {
            let checked = checks.iter().find(|(of, _)| *of == algorithm).and_then(|(_, checked)| *checked);
            PeerResult { peer: "cusparse".into(), algorithm, times: Times::new(&seconds), checked }
        };
        times.into_iter().map(result).collect()
    }
}

/// Why a peer is not measured.
pub fn not_measured(peer: &str, missing: &str) -> String {
    format!("{peer} is not measured: {missing}")
}

/// Kernels that were not measured because the Y to compare with failed its own verification.
fn without_expected(kernels: Vec<(KernelId, String)>, reason: &str) -> Vec<KernelResult> {
    let result = |(id, kernel): (KernelId, String)| KernelResult {
        kernel,
        order: id.info().order,
        times: Times::new(&[]),
        checked: Some(Checked::weighed(1)),
        reason: Some(reason.to_owned()),
    };
    kernels.into_iter().map(result).collect()
}

/// The name, hash and size of a matrix, as results contain them.
pub fn facts(name: &str, matrix: CsrView<'_, f64>) -> MatrixFacts {
    MatrixFacts {
        name: name.into(),
        hash: hash(&matrix),
        rows: matrix.rows() as u64,
        cols: matrix.cols() as u64,
        nnz: matrix.nnz() as u64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_without_a_right_y_to_compare_with_are_wrong_and_have_the_reason_instead_of_times() {
        let results =
            without_expected(vec![(KernelId::CpuCsr, "cpu_csr".into())], "the CPU's product differs");
        assert_eq!(results.len(), 1);
        assert_eq!((results[0].seconds(), results[0].times.median), (None, None));
        assert!(results[0].checked.is_some_and(|checked| !checked.passed));
        assert_eq!(results[0].reason.as_deref(), Some("the CPU's product differs"));
    }
}
