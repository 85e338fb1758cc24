//! A whole solve as a case of a study: block power iteration or subspace iteration with a fixed number of iterations.

use super::options::Devices;
use super::planning;
use super::session::Session;
use super::study_run::{
    PLANNED_PRODUCTS, VERIFIED_MULTIPLICATIONS, chosen_kernels, planning, schedule, settings,
};
use super::x;
use crate::error::{Error, Result};
use crate::kernel::cpu::Kernels;
use crate::kernel::verify;
use crate::matrix::{Csr, CsrView, MultiVector};
use crate::runtime::{Product, ProductOptions, Vectors};
use crate::study::{
    Case, Checked, Measured, PowerSettings, Record, Sampler, SolverReport, SpectrumEnd, StudyConfig,
    StudySubject, SubspaceSettings, Times, doubts, power_iteration, start_vectors, subspace_iteration,
};
use crate::trace::Clock;

/// Iterations of block power iteration.
const POWER_ITERATIONS: u64 = 20;
/// Iterations of subspace iteration.
const SUBSPACE_ITERATIONS: u64 = 3;
/// Degree of its filter.
const DEGREE: u64 = 10;
/// Multivectors of a solve on the devices: the start, X, and three of the solver.
const MULTIVECTORS: usize = 5;

/// The number of products of a case.
pub fn products(subject: StudySubject) -> u64 {
    match subject {
        StudySubject::PowerIteration => POWER_ITERATIONS,
        StudySubject::SubspaceIteration => SUBSPACE_ITERATIONS * DEGREE + 1,
        _ => 1,
    }
}

/// Measures a case. `base` has the fields that all records of the case share.
pub fn measure<T: Kernels>(
    case: &Case,
    config: &StudyConfig,
    session: &Session,
    matrix: &Csr<T>,
    base: &Record,
) -> Result<Record> {
    let devices: Devices = case.devices.parse().map_err(Error::Usage)?;
    let planning = planning(case, devices)?;
    let (k, view) = (case.k.unwrap_or(1), matrix.view());
    let limit = session.memory_limit_bytes().saturating_sub(view.bytes());
    x::check_memory::<T>("the vectors of the solver", MULTIVECTORS * view.rows(), k, limit)?;
    let repeat = u64::from(config.measure.repeat.unwrap_or(PLANNED_PRODUCTS)) * products(case.subject);
    let options = ProductOptions {
        schedule: schedule(&case.schedule)?,
        host_memory_limit_bytes: Some(limit),
        ..planning::options(&planning, u32::try_from(repeat).unwrap_or(u32::MAX))?
    };
    let runtime = planning::runtime(&planning, session, Clock::start())?;
    let mut product = runtime.product(view).columns(k).options(options).build()?;
    let start = start_vectors(&mut product)?;
    let mut x = product.vectors()?;

    let settings = settings(config);
    let mut sampler = Sampler::new(settings, f64::INFINITY);
    let mut solved = 0;
    while !sampler.is_enough() && !session.interrupt.asked() {
        x.axpby(1.0, &start, 0.0)?;
        let report = solve(case.subject, &mut product, &mut x)?;
        if solved >= settings.warmup {
            sampler.push(report.total_s);
        }
        solved += 1;
    }
    session.interrupt.check()?;
    let times = Times::new(&sampler.into_seconds());
    let checked = match config.measure.verify && view.nnz().saturating_mul(k) <= VERIFIED_MULTIPLICATIONS {
        true => Some(check(session, view, &mut product, &x)?),
        false => None,
    };
    let plan = product.vector_plan()?;
    Ok(Record {
        measured: Measured::of(case.subject),
        schedule: Some(case.schedule.clone()),
        cpu_share: case.cpu_share,
        kernel: case.kernels.first().cloned().unwrap_or_default(),
        chosen: Some(chosen_kernels(plan)),
        chunks: Some(plan.chunks.len()),
        device_count: plan.computing().count(),
        k: case.k,
        dtype: Some(T::DTYPE),
        devices: case.devices.clone(),
        threads: session.pool.threads(),
        flops: Some(2.0 * (products(case.subject) * view.nnz() as u64) as f64 * k as f64),
        bytes: None,
        doubts: doubts(&times),
        times,
        checked,
        ..base.clone()
    })
}

/// One solve from the start vectors `x`, for all K Ritz values.
fn solve<T: Kernels>(
    subject: StudySubject,
    product: &mut Product<'_, T>,
    x: &mut Vectors<T>,
) -> Result<SolverReport> {
    // With a tolerance of zero the solvers use all iterations.
    let (wanted, tolerance) = (x.columns(), 0.0);
    if subject == StudySubject::PowerIteration {
        let settings = PowerSettings { wanted, tolerance, iterations: POWER_ITERATIONS };
        return power_iteration(product, x, &settings);
    }
    let (end, degree, iterations) = (SpectrumEnd::Largest, DEGREE, SUBSPACE_ITERATIONS);
    subspace_iteration(product, x, &SubspaceSettings { end, wanted, degree, tolerance, iterations })
}

/// Compares a product of the Ritz vectors with the reference.
fn check<T: Kernels>(
    session: &Session,
    matrix: CsrView<'_, T>,
    product: &mut Product<'_, T>,
    x: &Vectors<T>,
) -> Result<Checked> {
    let mut y = product.vectors()?;
    product.apply_into(x, &mut y)?;
    let on_host = |vectors: &Vectors<T>| -> Result<MultiVector<T>> {
        let mut host = MultiVector::zeros(vectors.rows(), vectors.columns())?;
        vectors.copy_to(&mut host)?;
        Ok(host)
    };
    let (x, y) = (on_host(x)?, on_host(&y)?);
    let verification = session.pool.install(|| verify(matrix, x.view(), y.view()))?;
    let (passed, max_bound_ratio) = (verification.passed, verification.max_bound_ratio);
    Ok(Checked { passed, bitwise: false, max_bound_ratio })
}
