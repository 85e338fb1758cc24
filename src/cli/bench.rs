//! `rowloom bench`: every kernel alone, checked, beside the vendor's library.

use super::args::{BenchArguments, PlanningArguments};
use super::bench_report;
use super::console::Console;
use super::options::{Devices, XSource};
use super::oracle;
use super::planning::resolve;
use super::session::{MatrixSource, Session, check_intact};
use super::x;
use crate::cost::Profile;
use crate::device::EmulatedOptions;
use crate::device::cuda::{AlgorithmTimes, CsrArrays, Cusparse, CusparseMatrix, card_number};
use crate::error::{Error, Result};
use crate::kernel::cpu::{CpuSettings, Kernels};
use crate::kernel::{Order, Processor, Schedule};
use crate::machine::Isa;
use crate::matrix::{Csr, CsrView, Dtype, MultiVector, MultiVectorView};
use crate::plan::DeviceSpec;
use crate::study::{
    BenchSettings, CaseResult, Expected, HostBench, KernelNames, PeerResult, ResidentBench, Room, Sizes,
    Subject, Times, bench_kernels, compulsory_bytes, used_columns,
};

/// A device to measure on; the host has no room of its own.
pub(super) struct Place {
    /// What is known of it.
    pub(super) profile: Profile,
    /// Its name.
    pub(super) name: String,
    /// Its memory.
    pub(super) room: Option<Room>,
}

/// What stays the same for all cases.
struct Bench<'a> {
    arguments: &'a BenchArguments,
    session: &'a Session,
    console: &'a Console,
    names: KernelNames,
    settings: BenchSettings,
    cpu: CpuSettings,
    cusparse: Option<Cusparse>,
}

/// Measures and reports.
pub fn run(arguments: &BenchArguments, console: &Console) -> Result<()> {
    if arguments.oracle {
        return oracle::run(arguments, console);
    }
    let names = KernelNames::new(&arguments.kernels)?;
    let session = Session::with(arguments.threads, arguments.seed)?;
    let mut places = open(&arguments.devices, &arguments.model, &session)?;
    check_names(&names, &places, arguments)?;
    let cusparse = cusparse(arguments, &places, console);
    let settings = BenchSettings { warmup: arguments.warmup, repeat: arguments.repeat };
    let threads = session.pool.threads();
    let cpu = CpuSettings { k: 0, threads, isa: Isa::detect(), schedule: Schedule::Balanced };
    let bench = Bench { arguments, session: &session, console, names, settings, cpu, cusparse };
    session.interrupt.defer();
    let mut cases = Vec::new();
    for matrix in &arguments.matrices {
        let source = MatrixSource::new(matrix);
        let (loaded, _) = session.load::<f64>(&source, false, console)?;
        let used = used_columns(loaded.matrix.view());
        for dtype in &arguments.dtype {
            match dtype {
                Dtype::F64 => {
                    bench.matrix(&loaded.info.name, &loaded.matrix, used, &mut places, &mut cases)?
                }
                Dtype::F32 => {
                    let single: Csr<f32> = session.pool.install(|| loaded.matrix.cast())?;
                    bench.matrix(&loaded.info.name, &single, used, &mut places, &mut cases)?;
                }
            }
        }
        check_intact(&loaded.matrix, &source)?;
    }
    bench_report::show(&cases, console)?;
    console.json(&bench_report::json(&cases, arguments, &session))?;
    session.interrupt.check()?;
    verdict(&cases)
}

impl Bench<'_> {
    /// Measures one matrix in one precision, and adds to `cases`. A signal ends it early.
    fn matrix<T: Kernels>(
        &self,
        name: &str,
        matrix: &Csr<T>,
        used_columns: u64,
        places: &mut [Place],
        cases: &mut Vec<CaseResult>,
    ) -> Result<()> {
        let Self { session, console, .. } = self;
        let a = matrix.view();
        let sizes = session.pool.install(|| Sizes::of(a))?;
        let limit = session.memory_limit_bytes();
        let mut subjects: Vec<(&str, f64, Box<dyn Subject<T> + '_>)> = Vec::new();
        for Place { profile, name, room } in places {
            let subject: Box<dyn Subject<T> + '_> = match room {
                Some(room) => Box::new(ResidentBench::new(room, a, &self.names)),
                None => Box::new(HostBench::new(&session.pool, a, &self.names, self.cpu, limit)),
            };
            subjects.push((name, profile.stream_gb_per_s * 1e9, subject));
        }
        let peer = self.peer_matrix(a);
        for &k in &self.arguments.k {
            x::check_memory::<T>("Y", matrix.rows(), k, limit)?;
            let load = || x::load::<T>(&XSource::Random, matrix.cols(), Some(k), session.seed, limit);
            let x = session.pool.install(load)?;
            let expected = Expected::new(&session.pool, a, &sizes, x.view(), self.cpu)?;
            let peers = peer.as_ref().map_or_else(Vec::new, |matrix| self.peers(matrix, &x, &expected));
            for (device, bytes_per_s, subject) in &mut subjects {
                let _spinner = console.spinner(format!("{name} {} k={k} on {device}", T::DTYPE.name()));
                if let Some(note) = subject.take_x(x.view())? {
                    console.note(&note);
                }
                let goes_on = || !session.interrupt.asked();
                let kernels = bench_kernels(
                    &session.pool,
                    &mut **subject,
                    x.view(),
                    &expected,
                    self.settings,
                    &goes_on,
                )?;
                let Some(kernels) = kernels else { return Ok(()) };
                let (rows, nnz) = (matrix.rows() as u64, matrix.nnz() as u64);
                let compulsory_bytes = compulsory_bytes(rows, nnz, used_columns, k as u64, T::DTYPE);
                let case = CaseResult {
                    device: (*device).into(),
                    matrix: name.into(),
                    dtype: T::DTYPE.name(),
                    k,
                    flops: 2.0 * nnz as f64 * k as f64,
                    compulsory_bytes,
                    floor_s: compulsory_bytes as f64 / *bytes_per_s,
                    kernels,
                    peers: peers.clone(),
                };
                console.note(&bench_report::line(&case));
                cases.push(case);
            }
        }
        Ok(())
    }

    /// The matrix on the peer's side.
    fn peer_matrix<T: Kernels>(&self, matrix: CsrView<'_, T>) -> Option<CusparseMatrix<'_, T>> {
        let arrays = CsrArrays {
            cols: matrix.cols(),
            row_pointers: matrix.row_pointers(),
            columns: matrix.columns(),
            values: matrix.values(),
        };
        let held = self.cusparse.as_ref()?.matrix(T::DTYPE, arrays);
        held.map_err(|fault| self.console.note(&format!("cusparse has no matrix: {}", fault.message))).ok()
    }

    /// Every algorithm of the peer.
    fn peers<T: Kernels>(
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
        let times =
            matrix.time(x.k(), x.data(), self.arguments.repeat as usize, check).unwrap_or_else(|fault| {
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

/// The peer, where it was asked for and is there.
fn cusparse(arguments: &BenchArguments, places: &[Place], console: &Console) -> Option<Cusparse> {
    if arguments.against.is_empty() {
        return None;
    }
    let card = places.iter().find_map(|place| card_number(&place.name)).unwrap_or(0);
    match Cusparse::open(card) {
        Ok(cusparse) => {
            console.note(&format!("cusparse {} on card {card}", cusparse.version()));
            Some(cusparse)
        }
        Err(missing) => {
            console.note(&format!("cusparse is not compared with: {missing}"));
            None
        }
    }
}

/// Opens the devices that were named, with what a model tells of them.
pub(super) fn open(devices: &Devices, model: &str, session: &Session) -> Result<Vec<Place>> {
    let planning = PlanningArguments { model: model.into(), ..PlanningArguments::of(devices.clone()) };
    let specs = resolve(&planning, session)?.devices;
    let open = |spec: DeviceSpec| {
        let room = open_one(devices, &spec.name)?;
        Ok(Place { profile: spec.profile, name: spec.name, room })
    };
    specs.into_iter().map(open).collect()
}

/// Opens one device of those that were named; none where it is the host.
pub(super) fn open_one(devices: &Devices, name: &str) -> Result<Option<Room>> {
    if name == "cpu" {
        return Ok(None);
    }
    if name.starts_with("sim:") {
        let reason = "a simulated device computes nothing; take cpu, cuda:0 or emu:0".into();
        return Err(Error::Device { device: name.into(), reason });
    }
    let emulated = devices.emulated()?;
    let special = emulated.iter().find(|(of, _)| of == name);
    let options = special.map_or_else(EmulatedOptions::default, |(_, options)| *options);
    Room::open(name, options).map(Some)
}

/// An error where a device has nothing to do.
fn check_names(names: &KernelNames, places: &[Place], arguments: &BenchArguments) -> Result<()> {
    for place in places {
        let processor = if place.room.is_some() { Processor::Gpu } else { Processor::Cpu };
        if !names.any_for(processor) {
            let (names, device) = (arguments.kernels.join(","), &place.name);
            return Err(Error::Usage(format!(
                "none of the kernels {names} runs on {device}; see rowloom run --help"
            )));
        }
    }
    Ok(())
}

/// An error where a kernel's Y was wrong.
fn verdict(cases: &[CaseResult]) -> Result<()> {
    let wrong = cases.iter().flat_map(|case| case.kernels.iter().map(move |kernel| (case, kernel)));
    let mut wrong = wrong.filter(|(_, kernel)| kernel.checked.is_some_and(|checked| !checked.passed));
    match wrong.next() {
        None => Ok(()),
        Some((case, kernel)) => {
            let others = wrong.count();
            let more = if others > 0 { format!(" and {others} more") } else { String::new() };
            Err(Error::Verification(format!("{} computed a wrong Y: {}{more}", kernel.kernel, case.name())))
        }
    }
}
