//! Runs whose Y is checked: wrong chunks are computed again by the reference kernel, and their devices are named.
//!
//! The reference kernel shares no code with the others. A device whose chunks were wrong twice is not used again, if another one is left.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use super::Job;
use super::check::{CheckedProduct, rows_of_chunk, still_wrong, wrong_chunk};
use super::prepared::Prepared;
use super::scaling::Scaling;
use crate::error::{Error, Result};
use crate::graph::DeviceId;
use crate::kernel::check::{Method, SumsOfX};
use crate::matrix::{MultiVector, MultiVectorView, MultiVectorViewMut, Scalar};
use crate::runtime::run::{FaultReport, RunReport};

impl<J: Job> Prepared<J> {
    /// Runs a product and checks Y, if the check is due. Wrong chunks are computed again.
    pub(super) fn checked(
        &mut self,
        scaling: Scaling,
        x: MultiVectorView<'_, J::Value>,
        mut y: MultiVectorViewMut<'_, J::Value>,
        run: impl FnOnce(&mut Self, MultiVectorViewMut<'_, J::Value>) -> Result<RunReport>,
    ) -> Result<RunReport> {
        let Some(method) = self.check_method()? else { return run(self, y) };
        let old = match scaling.reads_y() {
            true => Some(copy(y.as_view())?),
            false => None,
        };
        let observed = |prepared: &mut Self, y: &mut MultiVectorViewMut<'_, J::Value>| {
            let old = old.as_ref().map(MultiVector::view);
            prepared.run_direct_checked(&method, CheckedProduct { scaling, x, old, y })
        };
        let mut x_sums = None;
        let (mut report, found) = match self.is_direct() {
            true => observed(self, &mut y)?,
            // Sums of columns, which need those of X, are for products that do not read Y.
            false if old.is_some() => (run(self, y.reborrow())?, None),
            false => {
                let (report, sums) =
                    self.beside_sums_of_x(&method, x, |prepared| run(prepared, y.reborrow()));
                x_sums = sums?;
                (report?, None)
            }
        };
        if report.cancelled {
            return Ok(report);
        }
        let start = Instant::now();
        let pool = self.pool.clone();
        let find = |prepared: &Self, y: &mut MultiVectorViewMut<'_, J::Value>, x_sums| {
            let _span = tracing::info_span!("check").entered();
            let old = old.as_ref().map(MultiVector::view);
            let product = CheckedProduct { scaling, x, old, y: y.as_view() };
            pool.install(|| prepared.job.wrong_rows(&method, &product, x_sums))
        };
        let mut wrong = match found {
            Some(wrong) => wrong,
            None => find(self, &mut y, x_sums)?,
        };
        if wrong.is_empty() {
            self.checks.record_right();
        }
        let mut computed = BTreeSet::new();
        while !wrong.is_empty() {
            let chunks = self.chunks_of(&wrong);
            // Every round computes another chunk, or there is an error.
            if chunks.iter().any(|chunk| !computed.insert(*chunk)) {
                return Err(still_wrong(&wrong));
            }
            let of = CheckedProduct { scaling, x, old: old.as_ref().map(MultiVector::view), y: () };
            report.faults.extend(self.compute_wrong_chunks(&report, &of, &mut y, &chunks, &wrong)?);
            wrong = find(self, &mut y, None)?;
        }
        report.check_s = Some(start.elapsed().as_secs_f64());
        if self.checks.is_always() {
            report.end_ns = self.clock().now_ns();
        }
        Ok(report)
    }

    /// How the next product is checked, if it is.
    pub(super) fn check_method(&mut self) -> Result<Option<Arc<Method>>> {
        let (pool, job) = (&self.pool, &self.job);
        self.checks.method(|check| pool.install(|| job.check_method(check)))
    }

    /// Calls `run` while threads of the pool form the sums of X.
    fn beside_sums_of_x<R>(
        &mut self,
        method: &Method,
        x: MultiVectorView<'_, J::Value>,
        run: impl FnOnce(&mut Self) -> R,
    ) -> (R, Result<Option<SumsOfX>>) {
        if matches!(method, Method::Rows) {
            return (run(self), Ok(None));
        }
        let pool = self.pool.clone();
        std::thread::scope(|scope| {
            let sum = move || pool.install(|| J::sums_of_x(method, x));
            // If no thread can be started, the sums are formed after the product.
            let sums = std::thread::Builder::new().spawn_scoped(scope, sum).ok();
            let result = run(self);
            let failed = || Error::Internal("the thread of a check has panicked".into());
            let joined = sums.map(|sums| sums.join().unwrap_or_else(|_| Err(failed())));
            (result, joined.unwrap_or(Ok(None)))
        })
    }

    /// The chunks with wrong rows.
    fn chunks_of(&self, wrong: &[usize]) -> Vec<usize> {
        let has_wrong_row = |rows: Range<usize>| {
            let from = wrong.partition_point(|&row| row < rows.start);
            wrong.get(from).is_some_and(|row| rows.contains(row))
        };
        let chunks = self.plan().chunks.iter().enumerate();
        let wrong = chunks.filter(|(_, chunk)| has_wrong_row(rows_of_chunk(&chunk.rows)));
        wrong.map(|(index, _)| index).collect()
    }

    /// Computes chunks with wrong rows again, by the reference kernel, and returns their faults.
    fn compute_wrong_chunks(
        &mut self,
        report: &RunReport,
        product: &CheckedProduct<'_, J::Value, ()>,
        y: &mut MultiVectorViewMut<'_, J::Value>,
        chunks: &[usize],
        wrong: &[usize],
    ) -> Result<Vec<FaultReport>> {
        let CheckedProduct { scaling, x, old, .. } = *product;
        let rows_of = |&chunk: &usize| self.plan().chunks.get(chunk).map(|chunk| rows_of_chunk(&chunk.rows));
        let ranges: BTreeSet<(usize, usize)> =
            chunks.iter().filter_map(rows_of).map(|rows| (rows.start, rows.end)).collect();
        for (begin, end) in ranges {
            let (_, behind) = y.reborrow().split_at_row(begin);
            let (mut part, _) = behind.split_at_row(end - begin);
            if let Some(old) = old {
                (begin..end).for_each(|row| part.row_mut(row - begin).copy_from_slice(old.row(row)));
            }
            self.pool.install(|| self.job.compute_by_reference(begin..end, scaling, x, part))?;
        }
        let mut faults = Vec::new();
        for &chunk in chunks {
            // A chunk that was moved after a fault was computed last by another device.
            let device = report.computed().filter(|of| of.chunk == chunk).last();
            let device = device.map_or(DeviceId::HOST, |of| of.device);
            faults.push(wrong_chunk(self.plan(), chunk, device, wrong));
            if self.checks.record_wrong(device) {
                match device == DeviceId::HOST {
                    true => self.job.prefer_reference(chunk)?,
                    false => self.exclude_wrong_device(device)?,
                }
            }
        }
        Ok(faults)
    }
}

fn copy<T: Scalar>(y: MultiVectorView<'_, T>) -> Result<MultiVector<T>> {
    let mut copy = MultiVector::zeros(y.rows(), y.k())?;
    for row in 0..y.rows() {
        copy.view_mut().row_mut(row).copy_from_slice(y.row(row));
    }
    Ok(copy)
}
