//! `rowloom run`: Y = A X, measured, checked where asked, reported.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use xxhash_rust::xxh3::xxh3_64;

use super::args::RunArguments;
use super::console::{Console, check_target};
use super::files::DenseFile;
use super::no_effect::{self, DeviceKinds};
use super::planning::{kernel, notes, request, resolve};
use super::recording::Recording;
use super::replan::{Seen, replanned};
use super::run_report::{self, Outcome};
use super::run_simulated;
use super::session::{MatrixSource, Session, check_intact, work};
use super::sharing::share;
use super::trials::{Operands, Trials, cpu_once_more, in_the_end, products, trials};
use super::tune::tune;
use super::x;
use crate::cost::Refined;
use crate::error::{Error, Place, Result};
use crate::kernel::cpu::{CpuSettings, Kernels};
use crate::kernel::{KernelId, Processor, Verification, verify};
use crate::machine::Isa;
use crate::matrix::io::Dense;
use crate::matrix::{CsrView, Dtype, MultiVector};
use crate::plan::{Plan, PlanRequest};
use crate::runtime::{Computed, Prepared, RunReport, Settings, Simulated, open, open_planned};
use crate::study::Times;
use crate::trace::Clock;
use crate::work::Work;

/// How long devices may stay silent before they count as hung.
const PATIENCE: Duration = Duration::from_secs(30);

/// Tasks that a trace holds; of more runs only the first are kept, and the last.
const MOST_TRACED_TASKS: usize = 1 << 20;

/// Plans with more chunks are not simulated beside being run.
const MOST_SIMULATED_CHUNKS: usize = 4096;

/// Multiplies and reports.
pub fn run(arguments: &RunArguments, console: &Console) -> Result<()> {
    let done = match arguments.matrix_arguments.dtype {
        Dtype::F64 => run_typed::<f64>(arguments, console),
        Dtype::F32 => run_typed::<f32>(arguments, console),
    };
    match (done, &arguments.plan) {
        // What a plan says of a matrix is looked at where it is used.
        (Err(Error::Internal(what)), Some(path)) => {
            let reason =
                format!("the plan cannot be carried out: {what}; make it again with rowloom plan --save");
            Err(Error::input(Place::file(path), reason))
        }
        (done, _) => done,
    }
}

fn run_typed<T: Kernels>(arguments: &RunArguments, console: &Console) -> Result<()> {
    let planning = &arguments.planning;
    planning.devices.check_known()?;
    kernel(&planning.kernel)?;
    arguments.trace.as_deref().map(check_target).transpose()?;
    let output = arguments.output.as_deref().map(DenseFile::new).transpose()?;
    let saved = arguments.plan.as_deref().map(Plan::load).transpose()?;
    let clock = Clock::start();
    let recording = arguments.trace.as_deref().map(|path| Recording::start(path, &clock)).transpose()?;
    let session = Session::open(&arguments.matrix_arguments)?;
    let emulated = planning.devices.emulated()?;
    let cuda = planning.devices.cuda()?.into_iter().map(|device| (device.name, device.options)).collect();
    let source = MatrixSource::new(&arguments.matrix);
    let (loaded, load_s) = session.load::<T>(&source, arguments.finite, console)?;
    let matrix = loaded.matrix.view();
    if run_simulated::is_asked_for(arguments, saved.as_ref()) {
        return run_simulated::run(arguments, console, &session, &source, &loaded, load_s, saved, recording);
    }

    let mut limit = session.memory_limit_bytes().saturating_sub(matrix.bytes());
    let planned_k = saved.as_ref().map(|plan| plan.k as usize);
    let making_x = tracing::info_span!("make X").entered();
    let Dense { values: x, format: x_format } = session.pool.install(|| {
        x::load_with_format::<T>(&arguments.x, matrix.cols(), arguments.k.or(planned_k), session.seed, limit)
    })?;
    drop(making_x);
    if let Some(note) = session.pool.install(|| x::check_finite(&arguments.x, &x, arguments.finite))? {
        console.note(&note);
    }
    let k = x.k();
    limit = limit.saturating_sub(size_of_val(x.data()) as u64);
    x::check_memory::<T>("Y", matrix.rows(), k, limit)?;
    let mut y = MultiVector::<T>::zeros(matrix.rows(), k)?;
    limit = limit.saturating_sub(size_of_val(y.data()) as u64);

    let threads = session.pool.threads();
    let cpu = CpuSettings { k, threads, isa: Isa::detect(), schedule: arguments.schedule };
    let settings = Settings { cpu, memory_limit_bytes: limit, watchdog_timeout: PATIENCE, emulated, cuda };
    let start = Instant::now();
    let warmup = u64::from(arguments.warmup);
    let planning_span = tracing::info_span!("plan").entered();
    let work = work(&matrix, &loaded.info, k)?;
    let mut decided = decide(arguments, &session, console, matrix, work, saved)?;
    let mut tried = Trials::default();
    let (first, opened) = match &mut decided.plan {
        ToMake::Asked(request) => {
            let mut operands = Operands { matrix, x: &x, y: &mut y };
            tried = trials(&session, request, &settings, clock, &mut operands, warmup)?;
            if let Some((_, alone_s)) = tried.faster() {
                share(&session, request, &settings, clock, &mut operands, alone_s)?;
            }
            open(&session.pool, matrix, request.clone(), &settings, clock)?
        }
        ToMake::Saved(plan) => open_planned(matrix, plan.clone(), &settings, clock)?,
    };
    drop(planning_span);
    decided.told.iter().for_each(|note| console.note(note));
    let (mut job, mut plan_s) = (&first, opened.plan_s);
    let mut prepared = {
        let _span = tracing::info_span!("prepare").entered();
        Prepared::new(&session.pool, job, opened, settings.clone())?
    };
    let mut prepare_s = start.elapsed().as_secs_f64() - plan_s;

    let keep = recording.is_some();
    let repeats = u64::from(arguments.repeat);
    // Where devices were timed alone, what was planned gets as many products.
    let warming = |plan: &Plan| {
        if tried == Trials::default() { warmup } else { warmup.max(products(plan.predicted_s)) }
    };
    // The first finds nothing in the caches; how long the others take is looked at.
    let (cold, warm_runs) = (warmup.min(1), warming(job.plan()).saturating_sub(1));
    let warm = repeat(&session, console, &mut prepared, &x, &mut y, cold, warm_runs, false)?;
    let again = match (&decided.plan, &warm.last) {
        (ToMake::Asked(request), Some(last)) => {
            let seconds = in_the_end(&warm.seconds).unwrap_or(last.seconds());
            let mut trials = tried;
            if job.plan().devices.iter().any(|on| on.chunks > 0 && on.profile.processor == Processor::Gpu) {
                let mut operands = Operands { matrix, x: &x, y: &mut y };
                trials = cpu_once_more(&session, request, &settings, clock, &mut operands, tried, seconds)?;
            }
            let seen = Seen { last, seconds, trials, prepare_s, products: repeats };
            replanned(&session, request, job.plan(), &seen)?
        }
        _ => None,
    };
    let second;
    if let Some((request, why)) = again {
        console.note(&why);
        let start = Instant::now();
        // The devices are closed before they are opened anew.
        drop(prepared);
        let (replanned, opened) = open(&session.pool, matrix, request, &settings, clock)?;
        plan_s += opened.plan_s;
        second = replanned;
        job = &second;
        prepared = Prepared::new(&session.pool, job, opened, settings)?;
        prepare_s += start.elapsed().as_secs_f64();
    }
    let unseen = if std::ptr::eq(job, &first) { 0 } else { warming(job.plan()) };
    let mut measured = repeat(&session, console, &mut prepared, &x, &mut y, unseen, repeats, keep)?;
    measured.faults.splice(0..0, warm.faults);
    let complete = measured.last.as_ref().is_some_and(|last| !last.cancelled);
    refine(job.plan(), measured.last.as_ref(), threads as u32, decided.refined.as_deref());
    let verification = if arguments.verify && complete && !session.interrupt.asked() {
        let _spinner = console.spinner("verifying");
        Some(session.pool.install(|| verify(matrix, x.view(), y.view()))?)
    } else {
        None
    };
    check_intact(&loaded.matrix, &source)?;
    if let (Some(file), true) = (&output, complete) {
        file.write(&y, x_format)?;
    }

    let (descriptions, clock_errors) = (prepared.descriptions(), prepared.clock_errors());
    let outcome = Outcome {
        arguments,
        session: &session,
        source: &source,
        loaded: &loaded,
        load_s,
        plan_s: Some(plan_s),
        prepare_s,
        plan: job.plan(),
        descriptions: &descriptions,
        clock_errors,
        host_reasons: (0..job.plan().chunks.len()).map(|chunk| prepared.host_reason(chunk)).collect(),
        times: Times::new(&measured.seconds),
        simulated_s: simulated_s(job.plan()),
        last: measured.last.as_ref(),
        faults: prepared.faults().iter().chain(&measured.faults).cloned().collect(),
        simulated: false,
        verification: verification.as_ref(),
        // Rows are packed, and every machine Rowloom runs on is little-endian.
        y_hash: complete.then(|| format!("{:016x}", xxh3_64(bytemuck::cast_slice(y.data())))),
        interrupted: session.interrupt.asked(),
    };
    console.table(&run_report::table(&outcome))?;
    console.json(&run_report::json(&outcome))?;
    if let Some(recording) = recording {
        recording.finish(&outcome, prepared.set_up(), &measured.traced)?;
    }
    session.interrupt.check()?;
    verdict(verification.as_ref())
}

/// What was decided before the first product.
struct Decided<'a> {
    plan: ToMake<'a>,
    /// Where what the run tells is kept.
    refined: Option<PathBuf>,
    /// What is to be said of the devices.
    told: Vec<String>,
}

/// The plan of a product.
enum ToMake<'a> {
    /// One that was made before.
    Saved(Plan),
    /// One that is to be made.
    Asked(PlanRequest<'a>),
}

/// What the plan of this product is to be made from.
fn decide<'a, T: Kernels>(
    arguments: &RunArguments,
    session: &Session,
    console: &Console,
    matrix: CsrView<'a, T>,
    work: Work<'a>,
    saved: Option<Plan>,
) -> Result<Decided<'a>> {
    let k = work.k();
    if let Some(plan) = saved {
        plan.check_fits(&work.fingerprint(), k as u64, T::DTYPE)?;
        let told = no_effect::of_run(arguments, DeviceKinds::of_plan(&plan));
        return Ok(Decided { plan: ToMake::Saved(plan), refined: None, told });
    }
    let planning = &arguments.planning;
    let mut resolved = resolve(planning, session)?;
    let mut told = notes(planning, &resolved);
    told.extend(no_effect::of_run(arguments, resolved.kinds()));
    let refined = resolved.refined.take();
    if planning.tune {
        tune(&planning.devices, session, console, matrix, k, &mut resolved)?;
    }
    let products = u64::from(arguments.warmup) + u64::from(arguments.repeat);
    Ok(Decided { plan: ToMake::Asked(request(planning, resolved, work, products)?), refined, told })
}

/// Seconds of the plan in virtual time: how well the model foresees what several devices do together.
fn simulated_s(plan: &Plan) -> Option<f64> {
    let together = plan.devices.len() > 1 && plan.chunks.len() <= MOST_SIMULATED_CHUNKS;
    together
        .then(|| Simulated::new(plan).and_then(|simulated| simulated.run()).ok().map(|run| run.seconds()))?
}

/// Keeps what the last product told of the kernels, where that is wanted. A folder that lets nothing be written is no error.
fn refine(plan: &Plan, last: Option<&RunReport>, threads: u32, path: Option<&Path>) {
    let (Some(last), Some(path)) = (last.filter(|last| !last.cancelled && last.faults.is_empty()), path)
    else {
        return;
    };
    // A CPU that shares its memory with copies is slower than it is.
    let shared = plan.devices.iter().filter(|device| device.chunks > 0).count() > 1;
    let mut sums: BTreeMap<(u32, KernelId), (f64, f64)> = BTreeMap::new();
    for Computed { chunk, device, ns } in last.computed() {
        let (Some(chunk), Some(on)) = (plan.chunks.get(chunk), plan.devices.get(device.index())) else {
            continue;
        };
        if shared && on.profile.processor == Processor::Cpu {
            continue;
        }
        let form = chunk.form(on.profile.processor);
        let sum = sums.entry((device.0, form.kernel)).or_default();
        sum.0 += ns as f64 * 1e-9;
        sum.1 += match on.profile.processor {
            Processor::Cpu => chunk.predicted_s,
            Processor::Gpu => on.profile.form_s(&form, &chunk.features, plan.k, plan.dtype),
        };
    }
    let mut refined = Refined::load(path);
    for ((device, kernel), (measured_s, predicted_s)) in sums {
        let Some(on) = plan.devices.get(device as usize) else { continue };
        refined.learn(&on.profile, threads, kernel, measured_s / predicted_s);
    }
    if let Err(error) = refined.save(path) {
        tracing::debug!(%error, "what the run told is not kept");
    }
}

/// What the repeats gave.
struct Measured {
    /// Seconds of each measured product.
    seconds: Vec<f64>,
    /// The report of the last product.
    last: Option<RunReport>,
    /// The reports of measured products before the last, where a trace is wanted.
    traced: Vec<RunReport>,
    faults: Vec<crate::runtime::FaultReport>,
}

/// Warms up and measures until all repeats are done or a signal comes.
#[expect(
    clippy::too_many_arguments,
    reason = "everything that a product needs, and how often it is computed"
)]
fn repeat<T: Kernels>(
    session: &Session,
    console: &Console,
    prepared: &mut Prepared<'_, T>,
    x: &MultiVector<T>,
    y: &mut MultiVector<T>,
    warmup: u64,
    repeats: u64,
    keep: bool,
) -> Result<Measured> {
    let _spinner = console.spinner("multiplying");
    let _span = tracing::info_span!("multiply").entered();
    session.interrupt.defer();
    let runs = warmup + repeats;
    let mut measured = Measured { seconds: Vec::new(), last: None, traced: Vec::new(), faults: Vec::new() };
    let mut room = if keep { MOST_TRACED_TASKS } else { 0 };
    prepared.repeat(x.view(), y.view_mut(), runs, Some(session.interrupt.flag()), |run, report| {
        measured.faults.extend_from_slice(&report.faults);
        if run >= warmup && !report.cancelled {
            measured.seconds.push(report.seconds());
        }
        let before = measured.last.replace(report);
        if let Some(before) = before.filter(|before| run > warmup && room >= before.tasks()) {
            room -= before.tasks();
            measured.traced.push(before);
        }
    })?;
    Ok(measured)
}

fn verdict(verification: Option<&Verification>) -> Result<()> {
    match verification {
        Some(verification) if !verification.passed => {
            let place = verification.worst.map(|(row, column)| format!("row {row}, column {column} of "));
            Err(Error::Verification(format!(
                "{}Y is off by {:.3} times the rounding bound",
                place.unwrap_or_default(),
                verification.max_bound_ratio
            )))
        }
        _ => Ok(()),
    }
}
