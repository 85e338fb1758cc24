//! `rowloom run`: computes Y = A X, measures it, verifies it with `--verify`, and reports.

use std::path::Path;

use xxhash_rust::xxh3::xxh3_64;

use super::job::Job;
use super::repeat::Repeated;
use super::report::Done;
use super::request::Request;
use super::workload::{ProductMatrix, Workload};
use crate::args::no_effect::DeviceKinds;
use crate::args::options::Devices;
use crate::args::{MatrixSource, RunArguments};
use crate::console::Console;
use crate::console::report::hash;
use crate::measure::used_columns;
use crate::operands::output::DenseFile;
use crate::operands::session::{Session, check_intact, features, if_intact, work};
use crate::operands::x;
use crate::request::{cluster, plan_file};
use rowloom::internal::adapt::{Computation, device_ratios};
use rowloom::internal::cost::LearnedFactors;
use rowloom::internal::device::Description;
use rowloom::internal::error::Result;
use rowloom::internal::kernel::cpu::Kernels;
use rowloom::internal::kernel::{verify, verify_complex};
use rowloom::internal::matrix::io::Dense;
use rowloom::internal::matrix::{Dtype, Field, Loaded, MultiVector, complex};
use rowloom::internal::plan::Plan;
use rowloom::internal::runtime::{Bound, Computed, Product, ProductOptions, Round, RunReport};
use rowloom::internal::work::Work;

/// Multiplies and reports.
pub fn run(arguments: &RunArguments, console: &Console) -> Result<()> {
    let done = match arguments.matrix_arguments.dtype {
        Dtype::F64 => run_typed::<f64>(arguments, console),
        Dtype::F32 => run_typed::<f32>(arguments, console),
    };
    plan_file::named(done, arguments.plan.as_deref())
}

/// A loaded matrix and where it comes from.
struct Matrix<T: Kernels> {
    source: MatrixSource,
    loaded: Loaded<T>,
    load_s: f64,
}

fn run_typed<T: Kernels>(arguments: &RunArguments, console: &Console) -> Result<()> {
    let request = Request::of_run(arguments)?;
    let output = arguments.output.as_deref().map(DenseFile::new).transpose()?;
    let job = Job::open(request, console)?;
    let source = MatrixSource::new(&arguments.matrix);
    // Kernels can be timed on values only.
    let is_pattern = matches!(source, MatrixSource::Generated(_))
        && cluster::is_asked_for(&arguments.planning.devices, job.saved.as_ref())
        && !arguments.planning.tune;
    let (loaded, load_s) = match is_pattern {
        true => job.session.load_pattern::<T>(&source, arguments.finite, console)?,
        false => job.session.load_any::<T>(&source, arguments.finite, console)?,
    };
    if let Some(output) = &output {
        output.check_holds(loaded.info.field)?;
    }
    let a = Matrix { source, loaded, load_s };
    let done = match job.is_simulated() {
        true => simulate(job, arguments, &a),
        false => multiply(job, arguments, &a, output),
    };
    done.or_else(|error| if_intact(&a.loaded.matrix, &a.source, Err(error)))
}

impl<T: Kernels> Matrix<T> {
    /// Real numbers of one value.
    fn parts(&self) -> usize {
        self.loaded.info.field.parts()
    }

    /// The product with `k` columns in reports, complex ones of a complex matrix. `x` describes X.
    fn workload(&self, arguments: &RunArguments, session: &Session, k: usize, x: &str) -> Workload {
        let matrix = self.loaded.matrix.view();
        let parts = self.parts() as u64;
        let (used_columns, hash) = (session.pool.install(|| used_columns(matrix)), hash(&matrix));
        let matrix = ProductMatrix {
            info: &self.loaded.info,
            notes: &self.loaded.notes,
            rows: matrix.rows() as u64,
            cols: matrix.cols() as u64 / parts,
            nnz: matrix.nnz() as u64 / parts,
            used_columns: used_columns / parts,
            bytes: matrix.bytes(),
            hash: Some(&hash),
        };
        Workload::product(arguments, &matrix, k as u64, x)
    }
}

/// Computes in virtual time and reports, without a Y.
fn simulate<T: Kernels>(job: Job<'_>, arguments: &RunArguments, a: &Matrix<T>) -> Result<()> {
    let (matrix, session) = (a.loaded.matrix.view(), &job.session);
    let limit = session.memory_limit_bytes().saturating_sub(a.loaded.matrix.memory_bytes());
    let (parts, field) = (a.parts(), a.loaded.info.field);
    let k = arguments.k.or(job.saved.as_ref().map(|plan| plan.k as usize / parts));
    let columns = || x::columns::<T>(&arguments.x, matrix.cols() / parts, k, arguments.finite, limit, field);
    let (k, note) = session.pool.install(columns)?;
    note.iter().for_each(|note| job.console.note(note));
    let columns = k * parts;
    let work = work(&matrix, &a.loaded.info, columns)?;
    let workload = a.workload(arguments, session, k, "not needed");
    job.simulate(work, workload, a.load_s, |job| job.resolve_for(&arguments.planning, matrix, columns))
}

/// Plans, multiplies, verifies, writes Y and reports.
fn multiply<T: Kernels>(
    mut job: Job<'_>,
    arguments: &RunArguments,
    a: &Matrix<T>,
    output: Option<DenseFile>,
) -> Result<()> {
    let (matrix, session) = (a.loaded.matrix.view(), &job.session);
    let mut limit = session.memory_limit_bytes().saturating_sub(a.loaded.matrix.memory_bytes());
    let (parts, field) = (a.parts(), a.loaded.info.field);
    let k = arguments.k.or(job.saved.as_ref().map(|plan| plan.k as usize / parts));
    let making_x = tracing::info_span!("make X").entered();
    let load_x =
        || x::load_with_format::<T>(&arguments.x, matrix.cols() / parts, k, session.seed, limit, field);
    let Dense { values: x, format: x_format, .. } = session.pool.install(load_x)?;
    drop(making_x);
    if let Some(note) = session.pool.install(|| x::check_finite(&arguments.x, &x, arguments.finite))? {
        job.console.note(&note);
    }
    // Of a complex A the real columns.
    let k = x.k();
    limit = limit.saturating_sub(size_of_val(x.data()) as u64);
    let rotated = match field {
        Field::Complex => {
            x::check_memory::<T>("X of the real product", matrix.cols(), k, limit)?;
            Some(session.pool.install(|| complex::with_rotated_rows(x.view()))?)
        }
        _ => None,
    };
    let multiplied = rotated.as_ref().unwrap_or(&x);
    limit = limit.saturating_sub(rotated.as_ref().map_or(0, |rotated| size_of_val(rotated.data()) as u64));
    x::check_memory::<T>("Y", matrix.rows(), k, limit)?;
    let mut y = MultiVector::<T>::zeros(matrix.rows(), k)?;
    limit = limit.saturating_sub(size_of_val(y.data()) as u64);

    let mut product = tracing::info_span!("plan").in_scope(|| build(&job, arguments, &a.loaded, k, limit))?;
    tracing::info_span!("prepare").in_scope(|| product.prepare())?;
    product.take_notes().iter().for_each(|note| job.console.note(note));
    let measured = product.bind(multiplied, &mut y, |bound| job.repeat(bound))?;
    let (threads, path) = (session.pool.threads() as u32, job.runtime.factors_path());
    learn_factors(product.plan(), product.last_report(), threads, path.as_deref());
    let verification = job.verify(|| match field {
        Field::Complex => verify_complex(matrix, x.view(), y.view()),
        _ => verify(matrix, x.view(), y.view()),
    })?;
    check_intact(&a.loaded.matrix, &a.source)?;
    let is_right = verification.as_ref().is_none_or(|verification| verification.passed);
    if let (Some(file), true) = (&output, is_right) {
        file.write(&y, x_format, field)?;
    }

    let chunks = measured.phases.last().map_or(0, |last| last.plan.chunks.len());
    let done = Done {
        load_s: a.load_s,
        plan_s: product.plan_s(),
        prepare_s: product.prepare_s(),
        clock_errors: product.clock_errors(),
        host_reasons: (0..chunks).map(|chunk| product.host_reason(chunk)).collect(),
        faults: product.faults(),
        verification,
        // Rows are packed, and all supported machines are little-endian.
        result_hash: Some(format!("{:016x}", xxh3_64(bytemuck::cast_slice(y.data())))),
        ..Done::new(a.workload(arguments, session, k / parts, &arguments.x.name()))
    };
    job.report(done, measured)?;
    product.remember();
    let ended = job.end("Y", verification.as_ref());
    // The program ends; to close devices and to free their memory first would take longer than many products.
    std::mem::forget((product, job));
    ended
}

/// Builds the product of the flags, or of the saved plan.
fn build<'a, T: Kernels>(
    job: &Job<'_>,
    arguments: &RunArguments,
    loaded: &'a Loaded<T>,
    k: usize,
    memory_limit_bytes: u64,
) -> Result<Product<'a, T>> {
    let (planning, matrix) = (&arguments.planning, loaded.matrix.view());
    let options = ProductOptions {
        schedule: arguments.schedule,
        host_memory_limit_bytes: Some(memory_limit_bytes),
        ..job.request.options.clone()
    };
    let builder = job.runtime.product(matrix).columns(k).options(options).features(features(&loaded.info));
    let (builder, kinds) = match &job.saved {
        Some(plan) => {
            job.check_saved(&Work::spmm(&matrix, k)?)?;
            (builder.plan(plan.clone()), Some(DeviceKinds::of_plan(plan)))
        }
        None if planning.tune || planning.devices != Devices::Auto => {
            let resolved = job.resolve_for(planning, matrix, k)?;
            let kinds = DeviceKinds::of_resolved(&resolved);
            (builder.resolved(resolved), Some(kinds))
        }
        None => (builder, None),
    };
    let product = builder.build()?;
    // Of `auto` it is not known yet whether GPUs will be used.
    job.note_flags(kinds.unwrap_or_else(|| {
        let gpus = rowloom::internal::machine::may_have_nvidia_gpu();
        let has_model = job.runtime.has_model();
        DeviceKinds { has_gpu: gpus, has_model, ..DeviceKinds::of_plan(product.plan()) }
    }));
    Ok(product)
}

/// Learns the ratio of measured to predicted kernel time of each device from the last product. A file that cannot be written is no error.
fn learn_factors(plan: &Plan, last: Option<&RunReport>, threads: u32, path: Option<&Path>) {
    let (Some(last), Some(path)) = (last.filter(|last| last.faults.is_empty()), path) else {
        return;
    };
    let computations = last.computed().map(|Computed { chunk, device, ns }| Computation {
        chunk,
        device: device.index(),
        ns,
    });
    let mut factors = LearnedFactors::load(path);
    for (device, ratio) in device_ratios(plan, computations) {
        if let Some(on) = plan.devices.get(device) {
            factors.learn(&on.profile, threads, ratio);
        }
    }
    if let Err(error) = factors.save(path) {
        tracing::debug!(%error, "the learned factors could not be saved");
    }
}

impl<T: Kernels> Repeated for Bound<'_, '_, T> {
    fn apply(&mut self) -> Result<()> {
        Bound::apply(self)
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
