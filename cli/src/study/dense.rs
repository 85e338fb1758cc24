//! Dense products, sums of columns and copies as cases of a study.

use xxhash_rust::xxh3::xxh3_64;

use super::product::{CaseRun, PLANNED_PRODUCTS, Repetitions, execution, repeat_until_known};
use crate::args::ExecutionArguments;
use crate::args::options::{Devices, parse_bytes};
use crate::console::Console;
use crate::measure::{Checked, Direction, MatrixFacts, TransferBench, TransferKind, TransferTime, weighed};
use crate::operands::dense::DenseInput;
use crate::operands::session::Session;
use crate::operands::x;
use crate::request::planning;
use crate::results::{Case, Measured, Record, StudyConfig, StudySubject};
use crate::run::colmean::Pass;
use crate::run::gemm::{Product, verified_rows};
use crate::statistics::Times;
use rowloom::internal::error::{Error, Result};
use rowloom::internal::kernel::check::Operator;
use rowloom::internal::kernel::cpu::Kernels;
use rowloom::internal::kernel::gemm::PackedProduct;
use rowloom::internal::kernel::scaling::scaling;
use rowloom::internal::kernel::{KindOfWork, colmean, gemm};
use rowloom::internal::matrix::MultiVector;
use rowloom::internal::plan::make;
use rowloom::internal::runtime::{ProductOptions, Runtime};
use rowloom::internal::trace::Clock;
use rowloom::internal::work::Work;
use rowloom::internal::work::colmean::Colmean;
use rowloom::internal::work::gemm::Gemm;

/// Bytes of a copy where the study does not give them.
const COPIED_BYTES: u64 = 64 << 20;

/// The kind of work of a subject; none for subjects of other kinds.
pub fn kind_of(subject: StudySubject) -> Option<KindOfWork> {
    match subject {
        StudySubject::Gemm => Some(KindOfWork::Gemm),
        StudySubject::Colmean => Some(KindOfWork::Colmean),
        _ => None,
    }
}

/// Runs a case of a dense product or of sums of columns.
pub fn run<T: Kernels + PackedProduct>(
    case: &Case,
    config: &StudyConfig,
    session: &Session,
    console: &Console,
) -> Result<CaseRun> {
    let limit = session.memory_limit_bytes();
    let a = DenseInput::<T>::load(case.matrix.as_ref(), session.seed, false, limit, session, console)?;
    let limit = limit.saturating_sub(a.bytes());
    let (rows, depth, columns) = (a.values.rows(), a.values.k(), case.k.unwrap_or(0));
    let is_gemm = case.subject == StudySubject::Gemm;
    let work = match is_gemm {
        true => Work::from(Gemm { rows, depth, columns, dtype: T::DTYPE, updated: false }),
        false => Work::from(Colmean { rows, columns: depth, dtype: T::DTYPE, deviations: false }),
    };
    let devices: Devices = case.devices.parse().map_err(Error::usage)?;
    let execution = execution(case, devices)?;
    let kernel = case.kernels.first().map_or("auto", String::as_str);
    let repeat = config.measure.repeat.unwrap_or(PLANNED_PRODUCTS);
    let options = ProductOptions {
        kernel: match (kernel, kind_of(case.subject)) {
            ("auto", _) | (_, None) => None,
            (name, Some(kind)) => Some(kind.kernel(name)?),
        },
        host_memory_limit_bytes: Some(limit),
        fixed: true,
        ..planning::execution_options(&execution, repeat)
    };
    let runtime = planning::runtime(&execution, session, Clock::start())?;
    let resolved = runtime.resolve(&options)?;
    let single = resolved.devices.len() == 1;
    let memory_gb_per_s = resolved.devices.first().map(|device| device.profile.stream_gb_per_s);
    let elements = (rows as u64).saturating_mul(depth as u64);
    let value_bytes = T::DTYPE.bytes() as u64;
    let (others, operations) = match is_gemm {
        true => ((rows + depth) as u64 * columns as u64, 2.0 * elements as f64 * columns as f64),
        false => (depth as u64, elements as f64),
    };
    let record = Record {
        sweep: case.sweep.clone(),
        measured: Measured::of(case.subject),
        matrix: facts(&a),
        dtype: Some(T::DTYPE),
        k: case.k,
        devices: case.devices.clone(),
        device_count: 1,
        threads: session.pool.threads(),
        kernel: kernel.to_owned(),
        mode: Some(case.mode.clone()),
        transfer: Some(case.transfer.clone()),
        chunk_bytes: execution.chunk_bytes,
        cpu_share: case.cpu_share,
        flops: Some(operations),
        bytes: Some((elements + others).saturating_mul(value_bytes)),
        memory_gb_per_s: memory_gb_per_s.filter(|_| single && !is_gemm),
        ..Record::default()
    };
    if case.devices.contains("sim:") {
        let request = options.request(&resolved, work, u64::from(repeat));
        let plan = session.pool.install(|| make(&request))?;
        return CaseRun::simulated(case, record, &plan);
    }
    let measured = match is_gemm {
        true => product(&runtime, options, &a, columns, limit, (config, session)),
        false => sums(&runtime, options, &a, (config, session)),
    }?;
    CaseRun::measured(case, record, measured)
}

fn facts<T: Kernels>(a: &DenseInput<T>) -> MatrixFacts {
    let (rows, cols) = (a.values.rows() as u64, a.values.k() as u64);
    let hash = format!("{:016x}", xxh3_64(bytemuck::cast_slice(a.values.data())));
    MatrixFacts { name: a.name.clone(), hash, rows, cols, nnz: rows * cols }
}

fn product<T: PackedProduct>(
    runtime: &Runtime,
    options: ProductOptions,
    a: &DenseInput<T>,
    columns: usize,
    limit: u64,
    (config, session): (&StudyConfig, &Session),
) -> Result<Repetitions> {
    let (rows, depth) = (a.values.rows(), a.values.k());
    x::check_memory::<T>("B and C", rows + depth, columns, limit)?;
    let b = session.pool.install(|| MultiVector::<T>::random(depth, columns, session.seed + 1))?;
    let mut c = MultiVector::<T>::zeros(rows, columns)?;
    let mut gemm = runtime.gemm(a.values.clone(), columns).options(options).build()?;
    let (times, report) = gemm.bind(&b, &mut c, |bound| {
        repeat_until_known(config, session, &mut Product { bound, factors: (1.0, 0.0), old: None })
    })?;
    let compared = match config.measure.verify {
        true => verified_rows(rows, depth, columns),
        false => Vec::new(),
    };
    let check = || {
        // The reference is too slow for all rows of a large product.
        let others = match compared.len() < rows {
            true => weighed(Operator::Dense(a.values.view()), b.view(), c.view())?,
            false => Checked::weighed(0),
        };
        if compared.is_empty() {
            return Ok(others);
        }
        let factors = scaling::<T>(1.0, 0.0);
        let verified = gemm::verify(factors, a.values.view(), b.view(), None, c.view(), &compared)?;
        let verified = Checked::verified(&verified);
        Ok::<_, Error>(Checked { passed: verified.passed && others.passed, ..verified })
    };
    let checked = session.pool.install(check)?;
    let (plan, descriptions, faults) = (gemm.plan().clone(), gemm.descriptions(), gemm.faults());
    Ok(Repetitions { times, report, plan, descriptions, faults, checked })
}

fn sums<T: Kernels>(
    runtime: &Runtime,
    options: ProductOptions,
    a: &DenseInput<T>,
    (config, session): (&StudyConfig, &Session),
) -> Result<Repetitions> {
    let mut sums = runtime.column_sums(a.values.clone()).options(options).build()?;
    let mut pass = Pass { sums: &mut sums, totals: None };
    let (times, report) = repeat_until_known(config, session, &mut pass)?;
    let totals = pass.totals.ok_or_else(|| Error::Internal("no sums were computed".into()))?;
    // One pass over the table, whatever `verify` says.
    let verification = session.pool.install(|| colmean::verify(a.values.view(), &totals, false))?;
    let checked = Checked::verified(&verification);
    let (plan, descriptions, faults) = (sums.plan().clone(), sums.descriptions(), sums.faults());
    Ok(Repetitions { times, report, plan, descriptions, faults, checked })
}

/// Measures the copies of a case: a record for each kind of memory and direction.
pub fn transfers(case: &Case, session: &Session) -> Result<Vec<Record>> {
    let devices: Devices = case.devices.parse().map_err(Error::usage)?;
    let execution = ExecutionArguments { model: "none".into(), ..ExecutionArguments::of(devices) };
    let runtime = planning::runtime(&execution, session, Clock::start())?;
    let size = case.chunk_bytes.as_deref().map(parse_bytes).transpose().map_err(Error::usage)?;
    let mut records = Vec::new();
    for device in runtime.resolve(&ProductOptions::default())?.devices {
        let mut bench = TransferBench::open(&runtime, &device.name)?;
        for kind in TransferKind::ALL {
            bench.measure(kind, &[size.unwrap_or(COPIED_BYTES)], |time| {
                records.push(copied(case, &device.name, &time));
                !session.interrupt.asked()
            })?;
            session.interrupt.check()?;
        }
    }
    Ok(records)
}

fn copied(case: &Case, device: &str, time: &TransferTime) -> Record {
    let direction = match time.direction {
        Direction::Up => "to the device",
        Direction::Down => "from the device",
        Direction::Both => "both directions",
    };
    let bytes = time.bytes * if time.direction == Direction::Both { 2 } else { 1 };
    Record {
        sweep: case.sweep.clone(),
        measured: Measured::Transfers,
        matrix: MatrixFacts { name: direction.into(), ..MatrixFacts::default() },
        devices: device.into(),
        device_count: 1,
        threads: case.threads,
        kernel: time.kind.name().into(),
        chunk_bytes: Some(time.bytes),
        bytes: Some(bytes),
        times: Times { n: time.repeats as usize, min: Some(time.shortest_s), ..Times::new(&[time.median_s]) },
        ..Record::default()
    }
}
