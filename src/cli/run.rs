//! `rowloom run`: computes Y = A X, measures it, verifies it with `--verify`, and reports.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use xxhash_rust::xxh3::xxh3_64;

use super::args::RunArguments;
use super::console::{Console, check_target};
use super::described::describe;
use super::files::DenseFile;
use super::no_effect::{self, DeviceKinds};
use super::planning::{Requested, kernel, plan_request};
use super::recording::Recording;
use super::replan::{Observed, replanned};
use super::run_report::{self, Outcome};
use super::run_simulated;
use super::session::{MatrixSource, Session, check_intact, work};
use super::sharing::adjust_shares;
use super::trials::{Operands, Trials, retime_cpu, steady_state_median, trial_products, trials};
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

/// Time without a completed task after which a device counts as hung.
const WATCHDOG_TIMEOUT: Duration = Duration::from_secs(30);

/// Tasks that are kept for a trace, and without one for the description of the median product; of more products the first are kept,
/// and the last.
const MAX_TRACED_TASKS: usize = 1 << 20;
const MAX_DESCRIBED_TASKS: usize = 1 << 16;

/// Largest plan that is simulated in addition to being run.
const MAX_SIMULATED_CHUNKS: usize = 4096;

/// Multiplies and reports.
pub fn run(arguments: &RunArguments, console: &Console) -> Result<()> {
    let done = match arguments.matrix_arguments.dtype {
        Dtype::F64 => run_typed::<f64>(arguments, console),
        Dtype::F32 => run_typed::<f32>(arguments, console),
    };
    match (done, &arguments.plan) {
        // Some contradictions between a plan and a matrix are found only when the plan runs.
        (Err(Error::Internal(what)), Some(path)) => {
            let reason = format!("the plan cannot be run: {what}; make it again with rowloom plan --save");
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
    let settings =
        Settings { cpu, memory_limit_bytes: limit, watchdog_timeout: WATCHDOG_TIMEOUT, emulated, cuda };
    let start = Instant::now();
    let warmup = u64::from(arguments.warmup);
    let planning_span = tracing::info_span!("plan").entered();
    let work = work(&matrix, &loaded.info, k)?;
    let mut decided = decide(arguments, &session, console, matrix, work, saved)?;
    let mut tried = Trials::default();
    let (first, opened) = match &mut decided.plan {
        PlanSource::Requested(request) => {
            let mut operands = Operands { matrix, x: &x, y: &mut y };
            tried = trials(&session, request, &settings, clock, &mut operands, warmup)?;
            if let Some((_, alone_s)) = tried.faster() {
                adjust_shares(&session, request, &settings, clock, &mut operands, alone_s)?;
            }
            open(&session.pool, matrix, request.clone(), &settings, clock)?
        }
        PlanSource::Saved(plan) => open_planned(matrix, plan.clone(), &settings, clock)?,
    };
    drop(planning_span);
    decided.notes.iter().for_each(|note| console.note(note));
    let (mut job, mut plan_s) = (&first, opened.plan_s);
    let mut prepared = {
        let _span = tracing::info_span!("prepare").entered();
        Prepared::new(&session.pool, job, opened, settings.clone())?
    };
    let mut prepare_s = start.elapsed().as_secs_f64() - plan_s;

    let kept_tasks = if recording.is_some() { MAX_TRACED_TASKS } else { MAX_DESCRIBED_TASKS };
    let repeats = u64::from(arguments.repeat);
    // After trials the plan is warmed up with as many products as a trial.
    let warming = |plan: &Plan| {
        if tried == Trials::default() { warmup } else { warmup.max(trial_products(plan.predicted_s)) }
    };
    // The first product runs with cold caches; the others are timed.
    let (cold, warm_runs) = (warmup.min(1), warming(job.plan()).saturating_sub(1));
    let warm = repeat(&session, console, &mut prepared, &x, &mut y, cold, warm_runs, 0)?;
    let again = match (&decided.plan, warm.reports.last()) {
        (PlanSource::Requested(request), Some(last)) => {
            let seconds = steady_state_median(&warm.seconds).unwrap_or(last.seconds());
            let mut trials = tried;
            if job.plan().devices.iter().any(|on| on.chunks > 0 && on.profile.processor == Processor::Gpu) {
                let mut operands = Operands { matrix, x: &x, y: &mut y };
                trials = retime_cpu(&session, request, &settings, clock, &mut operands, tried, seconds)?;
            }
            let observed = Observed { last, seconds, trials, prepare_s, products: repeats };
            replanned(&session, request, job.plan(), &observed)?
        }
        _ => None,
    };
    let second;
    if let Some((request, why)) = again {
        console.note(&why);
        let start = Instant::now();
        // Closes the devices before they are opened again.
        drop(prepared);
        let (replanned, opened) = open(&session.pool, matrix, request, &settings, clock)?;
        plan_s += opened.plan_s;
        second = replanned;
        job = &second;
        prepared = Prepared::new(&session.pool, job, opened, settings)?;
        prepare_s += start.elapsed().as_secs_f64();
    }
    let unmeasured = if std::ptr::eq(job, &first) { 0 } else { warming(job.plan()) };
    let mut measured = repeat(&session, console, &mut prepared, &x, &mut y, unmeasured, repeats, kept_tasks)?;
    measured.faults.splice(0..0, warm.faults);
    let complete = measured.reports.last().is_some_and(|last| !last.cancelled);
    refine(job.plan(), measured.reports.last(), threads as u32, decided.refined.as_deref());
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
    let described = describe(job.plan(), &descriptions, &measured.reports)?;
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
        described: &described,
        faults: prepared.faults().iter().chain(&measured.faults).cloned().collect(),
        simulated: false,
        verification: verification.as_ref(),
        // Rows are packed, and all supported machines are little-endian.
        y_hash: complete.then(|| format!("{:016x}", xxh3_64(bytemuck::cast_slice(y.data())))),
        interrupted: session.interrupt.asked(),
    };
    console.table(&run_report::table(&outcome))?;
    console.json(&run_report::json(&outcome))?;
    if let Some(recording) = recording {
        recording.finish(&outcome, prepared.set_up(), &measured.reports)?;
    }
    session.interrupt.check()?;
    verdict(verification.as_ref())
}

/// The decisions before the first product.
struct Decided<'a> {
    plan: PlanSource<'a>,
    /// The file of factors that runs learn.
    refined: Option<PathBuf>,
    /// Notes for the user.
    notes: Vec<String>,
}

/// The origin of a plan.
enum PlanSource<'a> {
    /// `--plan FILE`.
    Saved(Plan),
    /// The flags.
    Requested(PlanRequest<'a>),
}

/// The saved plan, or the request that the flags give.
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
        let notes = no_effect::of_run(arguments, DeviceKinds::of_plan(&plan));
        return Ok(Decided { plan: PlanSource::Saved(plan), refined: None, notes });
    }
    let Requested { request, refined, mut notes, kinds } =
        plan_request(&arguments.planning, session, Some(console), matrix, work, arguments.repeat)?;
    notes.extend(no_effect::of_run(arguments, kinds));
    Ok(Decided { plan: PlanSource::Requested(request), refined, notes })
}

/// Seconds of the plan in virtual time, where several devices work together.
fn simulated_s(plan: &Plan) -> Option<f64> {
    let together = plan.devices.len() > 1 && plan.chunks.len() <= MAX_SIMULATED_CHUNKS;
    together
        .then(|| Simulated::new(plan).and_then(|simulated| simulated.run()).ok().map(|run| run.seconds()))?
}

/// Learns the ratio of measured to predicted time of each kernel from the last product. A file that cannot be written is no error.
fn refine(plan: &Plan, last: Option<&RunReport>, threads: u32, path: Option<&Path>) {
    let (Some(last), Some(path)) = (last.filter(|last| !last.cancelled && last.faults.is_empty()), path)
    else {
        return;
    };
    // Copies of other devices slow a CPU down, so its times in a shared product are not learned.
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
        tracing::debug!(%error, "the learned factors could not be saved");
    }
}

/// The measured products.
struct Measured {
    /// Seconds of each measured product.
    seconds: Vec<f64>,
    /// The reports of measured products, the last one always.
    reports: Vec<RunReport>,
    faults: Vec<crate::runtime::FaultReport>,
}

/// Runs `warmup` and then `repeats` products, until a signal comes. Keeps reports of up to `kept_tasks` tasks, and the last one.
#[expect(clippy::too_many_arguments, reason = "the operands of a product and the number of repetitions")]
fn repeat<T: Kernels>(
    session: &Session,
    console: &Console,
    prepared: &mut Prepared<'_, T>,
    x: &MultiVector<T>,
    y: &mut MultiVector<T>,
    warmup: u64,
    repeats: u64,
    kept_tasks: usize,
) -> Result<Measured> {
    let _spinner = console.spinner("multiplying");
    let _span = tracing::info_span!("multiply").entered();
    session.interrupt.defer();
    let runs = warmup + repeats;
    let mut measured = Measured { seconds: Vec::new(), reports: Vec::new(), faults: Vec::new() };
    let mut free_tasks = kept_tasks;
    prepared.repeat(x.view(), y.view_mut(), runs, Some(session.interrupt.flag()), |run, report| {
        measured.faults.extend_from_slice(&report.faults);
        if run >= warmup && !report.cancelled {
            measured.seconds.push(report.seconds());
        }
        // The report before this one stays if it was measured and there is space.
        if let Some(before) = measured.reports.last() {
            let tasks = before.tasks();
            if run > warmup && free_tasks >= tasks {
                free_tasks -= tasks;
            } else {
                measured.reports.pop();
            }
        }
        measured.reports.push(report);
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
