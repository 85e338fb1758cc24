//! `rowloom run`: computes Y = A X, measures it, verifies it with `--verify`, and reports.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use xxhash_rust::xxh3::xxh3_64;

use super::recording::Recording;
use super::repeat::{MAX_DESCRIBED_TASKS, MAX_TRACED_TASKS, Repeated, repeat, simulated_s, verdict};
use super::report;
use super::report::Outcome;
use super::simulated;
use super::workload::Subject;
use crate::args::MatrixSource;
use crate::args::RunArguments;
use crate::args::no_effect;
use crate::args::no_effect::DeviceKinds;
use crate::args::options::Devices;
use crate::console::{Console, check_target};
use crate::operands::output::DenseFile;
use crate::operands::session::{Session, check_intact, features, if_intact};
use crate::operands::x;
use crate::request::cluster;
use crate::request::plan_file;
use crate::request::planning;
use crate::statistics::Times;
use crate::trace::median_product::describe;
use rowloom::internal::adapt::{Computation, device_ratios};
use rowloom::internal::cost::Refined;
use rowloom::internal::device::Description;
use rowloom::internal::error::{Error, Result};
use rowloom::internal::kernel::cpu::Kernels;
use rowloom::internal::kernel::verify;
use rowloom::internal::matrix::io::Dense;
use rowloom::internal::matrix::{Dtype, Loaded, MultiVector};
use rowloom::internal::plan::Plan;
use rowloom::internal::runtime::{Bound, Computed, Product, ProductOptions, Round, RunReport, Runtime};
use rowloom::internal::trace::Clock;
use rowloom::internal::work::Work;

/// Multiplies and reports.
pub fn run(arguments: &RunArguments, console: &Console) -> Result<()> {
    let done = match arguments.matrix_arguments.dtype {
        Dtype::F64 => run_typed::<f64>(arguments, console),
        Dtype::F32 => run_typed::<f32>(arguments, console),
    };
    plan_file::named(done, arguments.plan.as_deref())
}

fn run_typed<T: Kernels>(arguments: &RunArguments, console: &Console) -> Result<()> {
    let planning = &arguments.planning;
    ProductOptions::kernel_named(&planning.kernel)?;
    arguments.repeated.trace.as_deref().map(check_target).transpose()?;
    let output = arguments.output.as_deref().map(DenseFile::new).transpose()?;
    let saved = arguments.plan.as_deref().map(Plan::load).transpose()?;
    let clock = Clock::start();
    let trace = arguments.repeated.trace.as_deref();
    let recording = trace.map(|path| Recording::start(path, &clock)).transpose()?;
    let session = Session::open(&arguments.matrix_arguments)?;
    let runtime = planning::runtime(planning, &session, clock)?;
    // GPUs that were named are opened while the matrix is read.
    runtime.start_opening();
    let source = MatrixSource::new(&arguments.matrix);
    // Kernels can be timed on values only.
    let needs_pattern = cluster::is_asked_for(&planning.devices, saved.as_ref()) && !planning.tune;
    let (loaded, load_s) = match needs_pattern {
        true => session.load_pattern::<T>(&source, arguments.finite, console)?,
        false => session.load::<T>(&source, arguments.finite, console)?,
    };
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
    if simulated::is_asked_for(arguments, saved.as_ref()) {
        return simulated::run(arguments, console, &session, source, loaded, load_s, saved, recording);
    }

    let mut limit = session.memory_limit_bytes().saturating_sub(loaded.matrix.memory_bytes());
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
        session.interrupt.defer();
        product.bind(&x, &mut y, |bound| repeat(&session, console, bound, &arguments.repeated, kept_tasks))?
    };
    let complete = measured.is_complete;
    let refined = runtime.refined_path();
    refine(product.plan(), product.last_report(), session.pool.threads() as u32, refined.as_deref());
    let verification = if arguments.repeated.verify && complete && !session.interrupt.asked() {
        let _spinner = console.spinner("verifying");
        Some(session.pool.install(|| verify(matrix, x.view(), y.view()))?)
    } else {
        None
    };
    check_intact(&loaded.matrix, source)?;
    let is_right = verification.as_ref().is_none_or(|verification| verification.passed);
    if let (Some(file), true) = (&output, complete && is_right) {
        file.write(&y, x_format)?;
    }

    session.add_gpus();
    let no_product = || Error::Internal("no product was run".into());
    let last = measured.phases.pop().ok_or_else(no_product)?;
    let described = describe(&last.plan, &last.descriptions, &last.reports)?;
    let outcome = Outcome {
        subject: Subject::product(arguments, &session, source, loaded, k as u64, &arguments.x.name()),
        repeated: &arguments.repeated,
        execution: &arguments.planning,
        session: &session,
        load_s,
        plan_s: Some(product.plan_s()),
        prepare_s: product.prepare_s(),
        plan: &last.plan,
        clock_errors: product.clock_errors(),
        host_reasons: (0..last.plan.chunks.len()).map(|chunk| product.host_reason(chunk)).collect(),
        times: Times::new(&measured.seconds),
        simulated_s: simulated_s(&last.plan),
        described: &described,
        checked: measured.checked,
        faults: product.faults(),
        simulated: false,
        verification: verification.as_ref(),
        verified_part: None,
        // Rows are packed, and all supported machines are little-endian.
        result_hash: complete.then(|| format!("{:016x}", xxh3_64(bytemuck::cast_slice(y.data())))),
        interrupted: session.interrupt.asked(),
    };
    console.table(&report::table(&outcome))?;
    console.json(&report::json(&outcome))?;
    if let Some(recording) = recording {
        recording.finish(&outcome, &measured.phases, &last)?;
    }
    product.remember();
    // The program ends; to close devices and to free their memory first would take longer than many products.
    std::mem::forget((product, runtime));
    session.interrupt.check()?;
    verdict("Y", verification.as_ref())
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
        ..planning::options(planning, arguments.repeated.repeat)?
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
        let gpus = rowloom::internal::machine::may_have_nvidia_gpu();
        DeviceKinds { has_gpu: gpus, has_model: runtime.has_model(), ..DeviceKinds::of_plan(product.plan()) }
    });
    no_effect::of_run(arguments, kinds).iter().for_each(|note| console.note(note));
    Ok(product)
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

impl<T: Kernels> Repeated for Bound<'_, '_, T> {
    fn apply(&mut self, cancel: &AtomicBool) -> Result<()> {
        self.apply_until(Some(cancel))
    }

    fn plan(&mut self) -> &Plan {
        self.product().plan()
    }

    fn changes(&mut self) -> u64 {
        self.product().changes()
    }

    fn descriptions(&mut self) -> Vec<Description> {
        self.product().descriptions()
    }

    fn take_set_up(&mut self) -> Option<Round> {
        self.product().take_set_up()
    }

    fn take_notes(&mut self) -> Vec<String> {
        self.product().take_notes()
    }

    fn last_report(&mut self) -> Option<&RunReport> {
        self.product().last_report()
    }
}
