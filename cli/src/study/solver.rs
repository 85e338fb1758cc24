//! A whole solve as a case of a study: block power iteration or subspace iteration with a fixed number of iterations.

use super::product::{PLANNED_PRODUCTS, chosen_kernels, planning, schedule, settings};
use crate::args::options::Devices;
use crate::measure::{Checked, check_product};
use crate::operands::session::Session;
use crate::operands::x;
use crate::request::planning;
use crate::results::{Case, Measured, Record, StudyConfig, StudySubject};
use crate::statistics::{Sampler, Times, doubts};
use rowloom::internal::error::{Error, Result};
use rowloom::internal::kernel::cpu::Kernels;
use rowloom::internal::matrix::{Csr, CsrView, MultiVector};
use rowloom::internal::runtime::{Product, ProductOptions, Vectors};
use rowloom::internal::solver::{
    PowerSettings, SolverReport, SpectrumEnd, SubspaceSettings, power_iteration, start_vectors,
    subspace_iteration,
};
use rowloom::internal::trace::Clock;

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
    let devices: Devices = case.devices.parse().map_err(Error::usage)?;
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
    let mut last = SolverReport::default();
    while !sampler.is_enough() && !session.interrupt.asked() {
        x.axpby(1.0, &start, 0.0)?;
        last = solve(case.subject, &mut product, &mut x)?;
        if solved >= settings.warmup {
            sampler.push(last.total_s);
        }
        solved += 1;
    }
    session.interrupt.check()?;
    let times = Times::new(&sampler.into_seconds());
    let checked = Some(check(session, view, &mut product, &x, &last, config.measure.verify)?);
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
        let settings = PowerSettings::new(wanted).tolerance(tolerance).iterations(POWER_ITERATIONS);
        return power_iteration(product, x, &settings);
    }
    let settings = SubspaceSettings::new(SpectrumEnd::Largest, wanted);
    subspace_iteration(
        product,
        x,
        &settings.degree(DEGREE).tolerance(tolerance).iterations(SUBSPACE_ITERATIONS),
    )
}

/// Checks a product of the Ritz vectors, and with its Y the eigenvalues and residuals of the last solve.
fn check<T: Kernels>(
    session: &Session,
    matrix: CsrView<'_, T>,
    product: &mut Product<'_, T>,
    x: &Vectors<T>,
    last: &SolverReport,
    verify: bool,
) -> Result<Checked> {
    let mut y = product.vectors()?;
    product.apply_into(x, &mut y)?;
    let on_host = |vectors: &Vectors<T>| -> Result<MultiVector<T>> {
        let mut host = MultiVector::zeros(vectors.rows(), vectors.columns())?;
        vectors.copy_to(&mut host)?;
        Ok(host)
    };
    let (x, y) = (on_host(x)?, on_host(&y)?);
    let checked = session.pool.install(|| check_product(matrix, x.view(), y.view(), verify))?;
    Ok(Checked { passed: checked.passed && has_residuals(&x, &y, last), ..checked })
}

/// Whether the columns of `x` have length 1, and those of `y` = A `x` the residuals of `report`.
fn has_residuals<T: Kernels>(x: &MultiVector<T>, y: &MultiVector<T>, report: &SolverReport) -> bool {
    let largest = report.eigenvalues.iter().fold(0.0f64, |largest, value| largest.max(value.abs()));
    // The vectors are orthonormal up to a few rounding errors of their precision.
    let tolerance = T::UNIT_ROUNDOFF.sqrt();
    let mut pairs = report.eigenvalues.iter().zip(&report.residuals).enumerate();
    let agrees = |(column, (&value, &residual)): (usize, (&f64, &f64))| {
        let (mut length, mut norm) = (0.0, 0.0);
        for row in 0..x.rows() {
            let (x, y) = (x.row(row)[column].to_f64(), y.row(row)[column].to_f64());
            length += x * x;
            norm += (y - value * x) * (y - value * x);
        }
        let difference = (norm.sqrt() - residual).abs();
        (length.sqrt() - 1.0).abs() <= tolerance && difference <= tolerance * largest
    };
    report.eigenvalues.len() == x.k() && report.residuals.len() == x.k() && pairs.all(agrees)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_solve_with_other_eigenvalues_or_vectors_is_wrong() {
        // A = diag(3, 1); the second vector is no eigenvector.
        let x = MultiVector::from_fn(2, 2, |row, k| [[1.0, 0.6], [0.0, 0.8]][row][k]).unwrap();
        let y = MultiVector::from_fn(2, 2, |row, k| [3.0, 1.0][row] * x.row(row)[k]).unwrap();
        let residual = (1.28f64 * 0.6).hypot(0.72 * 0.8);
        let report = |eigenvalues: [f64; 2], residuals: [f64; 2]| {
            let mut report = SolverReport::default();
            (report.eigenvalues, report.residuals) = (eigenvalues.to_vec(), residuals.to_vec());
            report
        };
        let right = report([3.0, 1.72], [0.0, residual]);
        assert!(has_residuals::<f64>(&x, &y, &right));
        let other_value = report([2.9, 1.72], [0.0, residual]);
        let other_residual = report([3.0, 1.72], [0.0, 0.0]);
        let none = SolverReport::default();
        assert!([other_value, other_residual, none].iter().all(|wrong| !has_residuals(&x, &y, wrong)));
        let twice = |vectors: &MultiVector<f64>| {
            MultiVector::from_fn(2, 2, |row, k| 2.0 * vectors.row(row)[k]).unwrap()
        };
        assert!(!has_residuals(&twice(&x), &twice(&y), &right), "not of length 1");
        let unwritten = MultiVector::from_fn(2, 2, |_, _| f64::NAN).unwrap();
        assert!(!has_residuals(&x, &unwritten, &right));
    }
}
