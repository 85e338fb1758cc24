//! `rowloom calibrate`: times kernels on generated matrices, fits weights that predict those times, and writes them to a model.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;

use serde_json::{Value, json};

use super::args::{CalibrateArguments, PlanningArguments};
use super::console::{Console, check_target};
use super::kernel_bench::BenchDevice;
use super::no_effect;
use super::options::XSource;
use super::planning::{options, runtime};
use super::report::{Report, machine_report};
use super::reported_cases::{self, Names};
use super::session::Session;
use super::table::{Table, count, percent};
use super::x;
use crate::cost::{
    DeviceModel, Form, Load, Model, Profile, Sample, eligible, fit, fit_factors, regressor_names,
};
use crate::error::{Error, Result};
use crate::kernel::cpu::{CpuSettings, Kernels};
use crate::kernel::{KernelId, Processor, Schedule};
use crate::machine::{Isa, Machine};
use crate::matrix::{Csr, generate};
use crate::study::{HostBench, KernelNames, ResidentBench, Subject, measure_host, time_forms, warm_up};
use crate::trace::Clock;
use crate::work::{ChunkRows, Features, Work};

/// The matrices that are timed: meshes, graphs, random and nearly empty rows, rows that share columns, hubs. Consecutive ones
/// differ in kind, since the time may run out before the last.
const MATRICES: [&str; 10] = [
    "stencil27,n=48",
    "rmat,scale=16,degree=16",
    "road,n=400000",
    "fem3,n=20",
    "uniform,rows=200000,degree=16",
    "hub,rows=40000,degree=6,hubs=8",
    "stencil5,n=60",
    "uniform,rows=2000,degree=100",
    "band,rows=300000,width=5",
    "rmat,scale=12,degree=40",
];
/// The matrices that a CPU is timed on first. A of the first and X of the second (32 columns) exceed the largest cache; the third
/// is a power-law graph whose X exceeds it too, but whose most used rows stay in cache.
fn larger_than_cache(machine: &Machine) -> [String; 3] {
    let cache = machine.largest_cache_bytes();
    let bytes = (cache + cache / 2).clamp(MIN_LARGE_BYTES, MAX_LARGE_BYTES);
    let side = (bytes as f64 / (27.0 * 12.0)).cbrt() as u64;
    let rows = bytes / (32 * 8);
    let scale = rows.next_power_of_two().ilog2();
    [
        format!("stencil27,n={side}"),
        format!("uniform,rows={rows},degree=8"),
        format!("rmat,scale={scale},degree=8"),
    ]
}

/// Bytes of such a matrix, at least.
const MIN_LARGE_BYTES: u64 = 48 << 20;
/// Bytes of such a matrix, at most.
const MAX_LARGE_BYTES: u64 = 600 << 20;

/// The emulator is about a thousand times slower than a GPU, so it gets small matrices.
const EMULATED_MATRICES: [&str; 4] = ["stencil27,n=6", "rmat,scale=8,degree=8", "road,n=500", "fem3,n=4"];
const COLUMNS: [usize; 4] = [8, 1, 32, 128];
const EMULATED_COLUMNS: [usize; 2] = [8, 1];
/// K of the matrices larger than the cache. A fourth K would take half of the time on a small machine.
const LARGE_COLUMNS: [usize; 3] = [8, 1, 32];
/// Seconds for timing all forms of a case, approximately.
const CASE_SECONDS: f64 = 0.25;

/// How well a kernel's times were predicted before the fit, and after.
struct Fitted {
    device: String,
    kernel: KernelId,
    samples: usize,
    median_error_before: f64,
    median_error_after: f64,
}

/// Measures, fits and writes.
pub fn run(arguments: &CalibrateArguments, console: &Console) -> Result<()> {
    no_effect::of_calibrate(arguments).iter().for_each(|note| console.note(note));
    let output = match &arguments.output {
        Some(path) => path.clone(),
        None => Model::of_user().ok_or_else(|| {
            Error::Usage("neither XDG_CONFIG_HOME nor HOME is set; name the file with --output".into())
        })?,
    };
    if arguments.output.is_some() {
        check_target(&output)?;
    }
    let session = Session::with(arguments.threads, arguments.seed)?;
    if !arguments.from.is_empty() {
        return fit_to_reports(arguments, &output, &session, console);
    }
    let mut devices = BenchDevice::open(&arguments.devices, "none", &session)?;
    session.interrupt.defer();
    let start = Instant::now();
    let mut model = existing_model(&output, console)?;
    let mut fitted = Vec::new();
    let share_s = arguments.seconds / devices.len().max(1) as f64;
    for (index, bench_device) in devices.iter_mut().enumerate() {
        let until_s = share_s * (index + 1) as f64;
        if bench_device.gpu.is_none() {
            let _spinner = console.spinner("measuring the host's memory");
            model.host = Some(measure_host(&session.pool, &session.machine)?);
        }
        let samples = measure(&session, console, bench_device, &start, until_s)?;
        if let (None, Some(host)) = (&bench_device.gpu, &mut model.host) {
            let rates = samples.iter().map(|sample| least_gb_per_s(&session.machine, sample));
            host.memory_gb_per_s = rates.fold(host.memory_gb_per_s, f64::max);
        }
        let device = fit_device(&session, bench_device, &samples, &mut fitted);
        model.devices.retain(|known| (&known.name, known.threads) != (&device.name, device.threads));
        model.devices.push(device);
        session.interrupt.check()?;
    }
    finish(&model, &output, &fitted, console)?;
    let report = Report::new("calibrate")
        .with("machine", machine_report(&session.machine))
        .with("output", output.display().to_string())
        .with("seconds", start.elapsed().as_secs_f64())
        .with("kernels", fitted.iter().map(fitted_json).collect::<Vec<_>>())
        .with("model", &model);
    console.json(&report)
}

/// A lower bound of the host's memory bandwidth during a run: the bytes moved beyond what the largest cache can have kept.
fn least_gb_per_s(machine: &Machine, sample: &Sample) -> f64 {
    let moved_bytes = Load::of(&sample.features, sample.k, sample.dtype).moved_bytes();
    moved_bytes.saturating_sub(machine.largest_cache_bytes()) as f64 / sample.seconds.max(1e-9) * 1e-9
}

/// The model that `output` holds so far: its devices that are not measured now stay in it. The user's own model file is replaced
/// where it is damaged; a damaged file of another name is an error, since it may not be a model.
fn existing_model(output: &Path, console: &Console) -> Result<Model> {
    if !output.exists() {
        return Ok(Model::default());
    }
    match Model::load(output) {
        Err(error) if is_user_model(output) => {
            console.note(&format!("{error}; the file is replaced"));
            Ok(Model::default())
        }
        loaded => loaded,
    }
}

fn is_user_model(output: &Path) -> bool {
    Model::of_user().as_deref() == Some(output)
}

/// Writes the model and prints how well it predicts.
fn finish(model: &Model, output: &Path, fitted: &[Fitted], console: &Console) -> Result<()> {
    model.save(output)?;
    console.table(&table(fitted))?;
    let used = if is_user_model(output) {
        "run and plan use it by default".into()
    } else {
        format!("run and plan use it with --model {}", output.display())
    };
    console.text(&format!("\nwrote {}; {used}\n", output.display()))
}

/// Fits to the cases of `--from`: those measured on a CPU for the CPU, all others for GPUs.
fn fit_to_reports(
    arguments: &CalibrateArguments,
    output: &Path,
    session: &Session,
    console: &Console,
) -> Result<()> {
    let mut cases = Vec::new();
    for path in &arguments.from {
        cases.extend(reported_cases::load(path)?);
    }
    let mut names = Names::default();
    let planning =
        PlanningArguments { model: "none".into(), ..PlanningArguments::of(arguments.devices.clone()) };
    let mut model = existing_model(output, console)?;
    let (mut fitted, mut references) = (Vec::new(), Vec::new());
    let runtime = runtime(&planning, session, Clock::start())?;
    for spec in runtime.resolve(&options(&planning, 1)?)?.devices {
        let of_cpu = spec.profile.processor == Processor::Cpu;
        let mut samples = Vec::new();
        for case in cases.iter().filter(|case| (case.device == "cpu") == of_cpu) {
            let own = case.samples(&mut names);
            references.push(case.reference(&spec.profile, &own));
            samples.extend(own);
        }
        let bench_device = BenchDevice { profile: spec.profile, name: spec.name, gpu: None };
        let device = fit_device(session, &bench_device, &samples, &mut fitted);
        model.devices.retain(|known| (&known.name, known.threads) != (&device.name, device.threads));
        model.devices.push(device);
    }
    finish(&model, output, &fitted, console)?;
    let report = Report::new("calibrate")
        .with("output", output.display().to_string())
        .with("kernels", fitted.iter().map(fitted_json).collect::<Vec<_>>())
        .with("model", &model)
        .with("numbers", regressor_names())
        .with("cases", references);
    console.json(&report)
}

/// Times all forms on as many matrices as there is time for, at least one.
fn measure(
    session: &Session,
    console: &Console,
    bench_device: &mut BenchDevice,
    start: &Instant,
    until_s: f64,
) -> Result<Vec<Sample>> {
    let emulated = bench_device.name.starts_with("emu:");
    let large = larger_than_cache(&session.machine);
    let on_cpu = bench_device.gpu.is_none();
    let (others, columns): (&[&str], &[usize]) =
        if emulated { (&EMULATED_MATRICES, &EMULATED_COLUMNS) } else { (&MATRICES, &COLUMNS) };
    let large = large.iter().filter(|_| on_cpu).map(|spec| (spec.as_str(), &LARGE_COLUMNS[..]));
    let matrices = large.chain(others.iter().map(|&spec| (spec, columns)));
    let mut samples = Vec::new();
    for (spec, columns) in matrices {
        let enough = !samples.is_empty() && start.elapsed().as_secs_f64() > until_s;
        if enough || session.interrupt.asked() {
            break;
        }
        let _spinner = console.spinner(format!("{spec} on {}", bench_device.name));
        let limit = session.memory_limit_bytes();
        let matrix: Csr<f64> = session.pool.install(|| generate(spec, session.seed, limit))?.matrix;
        let single: Csr<f32> = session.pool.install(|| matrix.cast())?;
        samples.extend(measure_matrix(session, bench_device, &matrix, columns, start, until_s)?);
        samples.extend(measure_matrix(session, bench_device, &single, columns, start, until_s)?);
    }
    Ok(samples)
}

fn measure_matrix<T: Kernels>(
    session: &Session,
    bench_device: &mut BenchDevice,
    matrix: &Csr<T>,
    columns: &[usize],
    start: &Instant,
    until_s: f64,
) -> Result<Vec<Sample>> {
    let BenchDevice { profile, gpu, .. } = bench_device;
    let (a, limit, threads) = (matrix.view(), session.memory_limit_bytes(), session.pool.threads());
    let kernels = eligible(profile.processor);
    let names: Vec<String> = kernels.iter().map(|kernel| kernel.name().into()).collect();
    let names = KernelNames::new(&names)?;
    let cpu = CpuSettings { k: 0, threads, isa: Isa::detect(), schedule: Schedule::Balanced };
    let mut subject: Box<dyn Subject<T> + '_> = match gpu {
        Some(gpu) => Box::new(ResidentBench::new(gpu, a, &names)),
        None => Box::new(HostBench::new(&session.pool, a, &names, cpu, limit)),
    };
    let mut samples = Vec::new();
    for &k in columns {
        let enough = !samples.is_empty() && start.elapsed().as_secs_f64() > until_s;
        if enough || session.interrupt.asked() {
            break;
        }
        let load = || x::load::<T>(&XSource::Random, matrix.cols(), Some(k), session.seed, limit);
        let x = session.pool.install(load)?;
        subject.take_x(x.view())?;
        if samples.is_empty() {
            warm_up(&mut *subject, x.view())?;
        }
        let work = Work::spmm(&a, k)?;
        let all = ChunkRows::Rows { begin: 0, end: matrix.rows() };
        let features = session.pool.install(|| Features::of(&work, &all));
        let forms = |kernel: &KernelId| Form::all(*kernel, T::DTYPE, k as u64, profile.compiles);
        let forms: Vec<Form> = kernels.iter().flat_map(forms).collect();
        samples.extend(time_forms(&mut *subject, x.view(), &forms, &features, CASE_SECONDS)?);
    }
    Ok(samples)
}

fn fit_device(
    session: &Session,
    bench_device: &BenchDevice,
    samples: &[Sample],
    fitted: &mut Vec<Fitted>,
) -> DeviceModel {
    let profile = &bench_device.profile;
    // The built-in weights of a known card were fitted to more cases than are measured here: only factors are fitted.
    let (weights, factors) = match profile.cases {
        Some(_) => (BTreeMap::new(), session.pool.install(|| fit_factors(profile, samples))),
        None => (session.pool.install(|| fit(profile, samples)), BTreeMap::new()),
    };
    let mut fitted_profile = profile.clone();
    fitted_profile.weights.extend(weights.clone());
    fitted_profile.factors.clone_from(&factors);
    for &kernel in eligible(profile.processor) {
        // Forms without a shape are never chosen, and their weights are not fitted.
        let counts = |sample: &&Sample| {
            sample.form.kernel == kernel && sample.form.shape(sample.dtype, sample.k).is_some()
        };
        let own: Vec<&Sample> = samples.iter().filter(counts).collect();
        if !own.is_empty() {
            fitted.push(Fitted {
                device: bench_device.name.clone(),
                kernel,
                samples: own.len(),
                median_error_before: median_error(profile, &own),
                median_error_after: median_error(&fitted_profile, &own),
            });
        }
    }
    let threads = (profile.processor == Processor::Cpu).then(|| session.pool.threads() as u32);
    DeviceModel { name: profile.name.clone(), threads, weights, factors }
}

/// The median relative error of the predictions; a factor of two too long and a factor of two too short both count as 1.
fn median_error(profile: &Profile, samples: &[&Sample]) -> f64 {
    let mut errors: Vec<f64> = samples
        .iter()
        .map(|sample| {
            let predicted_s = profile.form_s(&sample.form, &sample.features, sample.k, sample.dtype);
            (predicted_s / sample.seconds).ln().abs().exp() - 1.0
        })
        .collect();
    errors.sort_by(f64::total_cmp);
    errors.get(errors.len() / 2).copied().unwrap_or(0.0)
}

fn table(fitted: &[Fitted]) -> Table {
    let headings = ["device", "kernel", "times", "median error before", "after the fit"];
    let mut table = Table::columns(headings, &[2, 3, 4]);
    for row in fitted {
        table.row([
            row.device.clone(),
            row.kernel.name().into(),
            count(row.samples as u64),
            percent(row.median_error_before),
            percent(row.median_error_after),
        ]);
    }
    table
}

fn fitted_json(fitted: &Fitted) -> Value {
    json!({
        "device": fitted.device,
        "kernel": fitted.kernel,
        "samples": fitted.samples,
        "median_error_before": fitted.median_error_before,
        "median_error_after": fitted.median_error_after,
    })
}
