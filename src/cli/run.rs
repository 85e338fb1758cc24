//! `rowloom run`: computes Y = A X, measures it, verifies it with `--verify`, and reports.

use std::path::Path;
use std::sync::atomic::Ordering;

use xxhash_rust::xxh3::xxh3_64;

use super::args::RunArguments;
use super::console::{Console, check_target};
use super::described::describe;
use super::files::DenseFile;
use super::no_effect::{self, DeviceKinds};
use super::options::Devices;
use super::planning;
use super::recording::Recording;
use super::run_report::{self, Outcome};
use super::run_simulated;
use super::session::{MatrixSource, Session, check_intact, features, if_intact};
use super::x;
use crate::adapt::{Computation, device_ratios};
use crate::cost::Refined;
use crate::device::Description;
use crate::error::{Error, Place, Result};
use crate::kernel::cpu::Kernels;
use crate::kernel::{Verification, verify};
use crate::matrix::io::Dense;
use crate::matrix::{Dtype, Loaded, MultiVector};
use crate::plan::Plan;
use crate::runtime::{Computed, Product, ProductOptions, Round, RunReport, Runtime, Simulated};
use crate::study::Times;
use crate::trace::Clock;
use crate::work::Work;

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
        (Err(Error::Input { place, reason }), Some(path)) if place.source == Plan::PLACE => {
            Err(Error::input(Place::file(path), format!("the plan is invalid: {reason}")))
        }
        (done, _) => done,
    }
}

fn run_typed<T: Kernels>(arguments: &RunArguments, console: &Console) -> Result<()> {
    let planning = &arguments.planning;
    ProductOptions::kernel_named(&planning.kernel)?;
    arguments.trace.as_deref().map(check_target).transpose()?;
    let output = arguments.output.as_deref().map(DenseFile::new).transpose()?;
    let saved = arguments.plan.as_deref().map(Plan::load).transpose()?;
    let clock = Clock::start();
    let recording = arguments.trace.as_deref().map(|path| Recording::start(path, &clock)).transpose()?;
    let session = Session::open(&arguments.matrix_arguments)?;
    let runtime = planning::runtime(planning, &session, clock)?;
    // GPUs that were named are opened while the matrix is read.
    runtime.start_opening();
    let source = MatrixSource::new(&arguments.matrix);
    let (loaded, load_s) = session.load::<T>(&source, arguments.finite, console)?;
    let done =
        multiply(arguments, console, session, runtime, &source, &loaded, load_s, saved, recording, output);
    done.or_else(|error| if_intact(&loaded.matrix, &source, Err(error)))
}

/// Plans, multiplies and reports, once the matrix is loaded.
#[expect(clippy::too_many_arguments, reason = "the state of `run` once the matrix is loaded")]
fn multiply<T: Kernels>(
    arguments: &RunArguments,
    console: &Console,
    mut session: Session,
    runtime: Runtime,
    source: &MatrixSource,
    loaded: &Loaded<T>,
    load_s: f64,
    saved: Option<Plan>,
    recording: Option<Recording>,
    output: Option<DenseFile>,
) -> Result<()> {
    let matrix = loaded.matrix.view();
    if run_simulated::is_asked_for(arguments, saved.as_ref()) {
        return run_simulated::run(arguments, console, &session, source, loaded, load_s, saved, recording);
    }

    let mut limit = session.memory_limit_bytes().saturating_sub(matrix.bytes());
    let planned_k = saved.as_ref().map(|plan| plan.k as usize);
    let making_x = tracing::info_span!("make X").entered();
    let Dense { values: x, format: x_format, .. } = session.pool.install(|| {
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

    let mut product = {
        let _span = tracing::info_span!("plan").entered();
        build(arguments, &session, console, &runtime, loaded, k, limit, saved)?
    };
    {
        let _span = tracing::info_span!("prepare").entered();
        product.prepare()?;
    }
    product.take_notes().iter().for_each(|note| console.note(note));
    let kept_tasks = if recording.is_some() { MAX_TRACED_TASKS } else { MAX_DESCRIBED_TASKS };
    let mut measured = {
        let _spinner = console.spinner("multiplying");
        let _span = tracing::info_span!("multiply").entered();
        repeat(&session, console, &mut product, &x, &mut y, arguments, kept_tasks)?
    };
    let complete = measured.is_complete;
    let refined = runtime.refined_path();
    refine(product.plan(), product.last_report(), session.pool.threads() as u32, refined.as_deref());
    let verification = if arguments.verify && complete && !session.interrupt.asked() {
        let _spinner = console.spinner("verifying");
        Some(session.pool.install(|| verify(matrix, x.view(), y.view()))?)
    } else {
        None
    };
    check_intact(&loaded.matrix, source)?;
    if let (Some(file), true) = (&output, complete) {
        file.write(&y, x_format)?;
    }

    session.add_gpus();
    let no_product = || Error::Internal("no product was run".into());
    let last = measured.phases.pop().ok_or_else(no_product)?;
    let described = describe(&last.plan, &last.descriptions, &last.reports)?;
    let outcome = Outcome {
        arguments,
        session: &session,
        source,
        loaded,
        load_s,
        plan_s: Some(product.plan_s()),
        prepare_s: product.prepare_s(),
        plan: &last.plan,
        clock_errors: product.clock_errors(),
        host_reasons: (0..last.plan.chunks.len()).map(|chunk| product.host_reason(chunk)).collect(),
        times: Times::new(&measured.seconds),
        simulated_s: simulated_s(&last.plan),
        described: &described,
        faults: product.faults(),
        simulated: false,
        verification: verification.as_ref(),
        // Rows are packed, and all supported machines are little-endian.
        y_hash: complete.then(|| format!("{:016x}", xxh3_64(bytemuck::cast_slice(y.data())))),
        interrupted: session.interrupt.asked(),
    };
    console.table(&run_report::table(&outcome))?;
    console.json(&run_report::json(&outcome))?;
    if let Some(recording) = recording {
        recording.finish(&outcome, &measured.phases, &last)?;
    }
    product.remember();
    // The program ends; to close devices and to free their memory first would take longer than many products.
    std::mem::forget((product, runtime));
    session.interrupt.check()?;
    verdict(verification.as_ref())
}

/// Builds the product of the flags, or of the saved plan.
#[expect(clippy::too_many_arguments, reason = "the state of `run` once X is known")]
fn build<'a, T: Kernels>(
    arguments: &RunArguments,
    session: &Session,
    console: &Console,
    runtime: &Runtime,
    loaded: &'a Loaded<T>,
    k: usize,
    memory_limit_bytes: u64,
    saved: Option<Plan>,
) -> Result<Product<'a, T>> {
    let (planning, matrix) = (&arguments.planning, loaded.matrix.view());
    let options = ProductOptions {
        schedule: arguments.schedule,
        host_memory_limit_bytes: Some(memory_limit_bytes),
        ..planning::options(planning, arguments.repeat)?
    };
    let builder = runtime.product(matrix).columns(k).options(options).features(features(&loaded.info));
    let (builder, kinds) = match saved {
        Some(plan) => {
            let kinds = DeviceKinds::of_plan(&plan);
            let work = Work::spmm(&matrix, k)?;
            let found = session.pool.install(|| work.fingerprint());
            plan.check_fits(&found, k as u64, T::DTYPE)?;
            (builder.plan(plan), Some(kinds))
        }
        None if planning.tune || planning.devices != Devices::Auto => {
            let resolved = planning::resolve(planning, runtime, session, Some(console), matrix, k)?;
            let kinds = planning::kinds(&resolved);
            (builder.resolved(resolved), Some(kinds))
        }
        None => (builder, None),
    };
    let product = builder.build()?;
    // Of `auto` it is not known yet whether GPUs will be used.
    let kinds = kinds.unwrap_or_else(|| {
        let gpus = crate::machine::may_have_nvidia_gpu();
        DeviceKinds { has_gpu: gpus, has_model: runtime.has_model(), ..DeviceKinds::of_plan(product.plan()) }
    });
    no_effect::of_run(arguments, kinds).iter().for_each(|note| console.note(note));
    Ok(product)
}

/// Seconds of the plan in virtual time, where several devices work together.
fn simulated_s(plan: &Plan) -> Option<f64> {
    let together = plan.devices.len() > 1 && plan.chunks.len() <= MAX_SIMULATED_CHUNKS;
    together
        .then(|| Simulated::new(plan).and_then(|simulated| simulated.run()).ok().map(|run| run.seconds()))?
}

/// Learns the ratio of measured to predicted kernel time of each device from the last product. A file that cannot be written is no error.
fn refine(plan: &Plan, last: Option<&RunReport>, threads: u32, path: Option<&Path>) {
    let (Some(last), Some(path)) = (last.filter(|last| !last.cancelled && last.faults.is_empty()), path)
    else {
        return;
    };
    let computations = last.computed().map(|Computed { chunk, device, ns }| Computation {
        chunk,
        device: device.index(),
        ns,
    });
    let mut refined = Refined::load(path);
    for (device, ratio) in device_ratios(plan, computations) {
        if let Some(on) = plan.devices.get(device) {
            refined.learn(&on.profile, threads, ratio);
        }
    }
    if let Err(error) = refined.save(path) {
        tracing::debug!(%error, "the learned factors could not be saved");
    }
}

/// The products of one plan.
pub struct Phase {
    /// The plan.
    pub plan: Plan,
    /// Its devices, the host first.
    pub descriptions: Vec<Description>,
    /// The round that brought A to the devices.
    pub set_up: Option<Round>,
    /// The reports of measured products, the last one always.
    pub reports: Vec<RunReport>,
}

/// The measured products.
struct Measured {
    /// Seconds of each measured product.
    seconds: Vec<f64>,
    /// The plans in their order.
    phases: Vec<Phase>,
    /// Whether the last product computed all of Y.
    is_complete: bool,
}

/// Runs the warm-up and the measured products, until a signal comes. Keeps reports of up to `kept_tasks` tasks, and the last one.
fn repeat<T: Kernels>(
    session: &Session,
    console: &Console,
    product: &mut Product<'_, T>,
    x: &MultiVector<T>,
    y: &mut MultiVector<T>,
    arguments: &RunArguments,
    kept_tasks: usize,
) -> Result<Measured> {
    session.interrupt.defer();
    let (warmup, repeats) = (u64::from(arguments.warmup), u64::from(arguments.repeat));
    let mut measured = Measured { seconds: Vec::new(), phases: Vec::new(), is_complete: false };
    let (mut free_tasks, mut changes) = (kept_tasks, None);
    let cancel = session.interrupt.flag();
    product.bind(x, y, |bound| {
        for run in 0..warmup + repeats {
            if cancel.load(Ordering::SeqCst) {
                break;
            }
            bound.apply_until(Some(cancel))?;
            let product = bound.product();
            product.take_notes().iter().for_each(|note| console.note(note));
            if changes != Some(product.changes()) {
                changes = Some(product.changes());
                let (plan, descriptions) = (product.plan().clone(), product.descriptions());
                let set_up = product.take_set_up();
                measured.phases.push(Phase { plan, descriptions, set_up, reports: Vec::new() });
            }
            let Some(report) = product.last_report().cloned() else { continue };
            measured.is_complete = !report.cancelled;
            if run >= warmup && !report.cancelled {
                measured.seconds.push(report.seconds());
            }
            let Some(phase) = measured.phases.last_mut() else { continue };
            // The report before this one stays if it was measured and there is space.
            if let Some(before) = phase.reports.last() {
                let tasks = before.tasks();
                if run > warmup && free_tasks >= tasks {
                    free_tasks -= tasks;
                } else {
                    phase.reports.pop();
                }
            }
            phase.reports.push(report);
            if !measured.is_complete {
                break;
            }
        }
        Ok(())
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
