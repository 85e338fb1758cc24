//! A product on vectors of simulated devices as a case of a study: from the pattern of A alone.

use super::product::{PLANNED_PRODUCTS, chosen_kernels, planning};
use crate::args::options::Devices;
use crate::measure::MatrixFacts;
use crate::operands::session::Session;
use crate::request::planning::{Requested, plan_request};
use crate::results::{Case, Measured, Record, StudyConfig};
use crate::statistics::Times;
use rowloom::internal::error::{Error, Result};
use rowloom::internal::matrix::{Csr, CsrView};
use rowloom::internal::plan::make_on_vectors;
use rowloom::internal::runtime::SimulatedVectors;
use rowloom::internal::work::Work;
use rowloom::internal::work::spmm::Spmm;

/// A matrix without values in results: it has no hash.
pub fn facts(name: &str, matrix: CsrView<'_, f64>) -> MatrixFacts {
    let (rows, cols, nnz) = (matrix.rows() as u64, matrix.cols() as u64, matrix.nnz() as u64);
    MatrixFacts { name: name.into(), hash: String::new(), rows, cols, nnz }
}

/// Simulates a case. `base` has the fields that all records of the case share; the values of the matrix are not used.
pub fn run(
    case: &Case,
    config: &StudyConfig,
    session: &Session,
    matrix: &Csr<f64>,
    base: &Record,
) -> Result<Record> {
    let devices: Devices = case.devices.parse().map_err(Error::usage)?;
    let (view, k) = (matrix.view(), case.k.unwrap_or(1));
    let pattern = Spmm::of_pattern(view.row_pointers(), Some(view.columns()), view.cols(), k, case.dtype)?;
    let work: Work<'_> = pattern.into();
    let repeat = config.measure.repeat.unwrap_or(PLANNED_PRODUCTS);
    let Requested { request, .. } =
        plan_request(&planning(case, devices)?, session, None, view, work, repeat)?;
    let (plan, parts) = session.pool.install(|| {
        let simulated = SimulatedVectors::new(make_on_vectors(&request)?, &request.work)?;
        let parts = simulated.parts(&simulated.run()?)?;
        Ok::<_, Error>((simulated.plan().clone(), parts))
    })?;
    session.interrupt.check()?;
    Ok(Record {
        measured: Measured::of(case.subject),
        kernel: case.kernels.first().cloned().unwrap_or_default(),
        chosen: Some(chosen_kernels(&plan)),
        chunks: Some(plan.chunks.len()),
        device_count: plan.computing().count(),
        k: case.k,
        devices: case.devices.clone(),
        threads: session.pool.threads(),
        simulated: true,
        times: Times::new(&[parts.product_s]),
        flops: Some(2.0 * view.nnz() as f64 * k as f64),
        time_parts: Some(parts),
        ..base.clone()
    })
}
