//! Products on vectors whose Y is checked: wrong chunks are computed again by the reference kernel.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

use super::check::{VectorCheck, indices};
use super::vector_product::VectorProduct;
use crate::device::Fence;
use crate::error::{Error, Result};
use crate::graph::DeviceId;
use crate::kernel::check::{Applied, Checksums, ColumnSums, Operator, Terms};
use crate::kernel::cpu::Kernels;
use crate::kernel::scaling::scaling as rounded;
use crate::matrix::MultiVector;
use crate::runtime::devices::OpenDevice;
use crate::runtime::job::{Scaling, still_wrong, wrong_chunk};
use crate::runtime::run::{FaultReport, RunReport};
use crate::runtime::spmm::compute_by_reference;
use crate::runtime::vectors::Vectors;
use crate::runtime::vectors::host_copy::view_rows_mut;
use crate::runtime::vectors::operations::SumOf;

/// The sums of a multivector that devices compute.
struct Started {
    of: SumOf,
    fences: Vec<Option<Fence>>,
    sums: ColumnSums,
}

impl<T: Kernels> VectorProduct<'_, T> {
    /// Applies the product and checks it.
    pub(crate) fn apply_checked(
        &mut self,
        scaling: Scaling,
        x: &Vectors<T>,
        y: &mut Vectors<T>,
    ) -> Result<(Option<RunReport>, Vec<FaultReport>)> {
        let (check, old, old_sums) = match self.before(scaling, x, y) {
            Ok(before) => before,
            // The loss of a device is reported as that of an unchecked product is.
            Err(_) if self.has_lost_device() => return self.apply_unchecked(scaling, x, y),
            Err(error) => return Err(error),
        };
        let (mut report, mut faults) = self.apply_unchecked(scaling, x, y)?;
        let start = Instant::now();
        match self.check(&check, scaling, x, (old.as_ref(), old_sums), y) {
            Ok(wrong) => {
                if let Some(report) = &mut report {
                    report.check_s = Some(start.elapsed().as_secs_f64());
                    report.faults.extend_from_slice(&wrong);
                }
                faults.extend(wrong);
                self.keep_check(check);
                Ok((report, faults))
            }
            // Its rows of Y are lost too, and the next use of Y reports it.
            Err(_) if self.has_lost_device() => Ok((report, faults)),
            Err(error) => Err(error),
        }
    }

    /// Whether a device that has rows was found lost, or was closed since.
    fn has_lost_device(&self) -> bool {
        let parts = self.x.parts.iter().chain(&self.y.parts);
        let is_lost = |device: &Arc<OpenDevice>| !device.is_open() || device.lock().is_lost();
        parts.filter_map(|part| part.planned.as_ref()).any(is_lost)
    }

    /// What a check needs before the product: the weights, and the old Y and its sums if it has an effect.
    #[allow(clippy::type_complexity)] // three things of one call
    fn before(
        &mut self,
        scaling: Scaling,
        x: &Vectors<T>,
        y: &Vectors<T>,
    ) -> Result<(VectorCheck, Option<MultiVector<T>>, Option<Started>)> {
        let kept = self.check_memory.take().filter(|check| check.on_devices == x.distribution.on_devices());
        let check = match kept {
            Some(check) => check,
            None => {
                let prepared = self.prepared()?;
                let matrix = prepared.matrix();
                let pool = self.runtime.pool();
                let checksums = pool.install(|| Checksums::of_whole(Operator::Sparse(matrix)))?;
                VectorCheck::new(Arc::new(checksums), x, y, &self.exchange.receivers)?
            }
        };
        if !Self::reads_y(scaling) {
            return Ok((check, None, None));
        }
        let old = y.host_values(&[])?;
        let mut started = self.start(&check, SumOf::OldY, y)?;
        check.add_on_host(SumOf::OldY, y, &mut started.sums)?;
        Ok((check, Some(old), Some(started)))
    }

    fn start(&self, check: &VectorCheck, of: SumOf, vectors: &Vectors<T>) -> Result<Started> {
        Ok(Started { of, fences: check.start(of, vectors)?, sums: ColumnSums::zeros(self.k)? })
    }

    /// Keeps the weights if the next product is checked too.
    fn keep_check(&mut self, check: VectorCheck) {
        self.check_memory = self.checks.is_due().then_some(check);
    }

    /// Checks a product. Chunks with wrong rows are computed again; returns their faults.
    fn check(
        &mut self,
        check: &VectorCheck,
        scaling: Scaling,
        x: &Vectors<T>,
        (old, old_sums): (Option<&MultiVector<T>>, Option<Started>),
        y: &mut Vectors<T>,
    ) -> Result<Vec<FaultReport>> {
        let _span = tracing::info_span!("check").entered();
        let factors = rounded::<T>(scaling.alpha, scaling.beta);
        let mut started = vec![self.start(check, SumOf::X, x)?, self.start(check, SumOf::Y, y)?];
        check.add_on_host(SumOf::X, x, &mut started[0].sums)?;
        check.add_on_host(SumOf::Y, y, &mut started[1].sums)?;
        started.extend(old_sums);
        for (index, device) in check.devices.iter().enumerate() {
            let mut terms = Vec::new();
            for started in &mut started {
                let fence = started.fences.get(index).copied().flatten();
                terms.extend(fence.map(|fence| (started.of, fence, &mut started.sums)));
            }
            device.iter().try_for_each(|device| device.finish(&mut terms))?;
            x.check_faults(index)?;
            y.check_faults(index)?;
        }
        let mut sums = started.into_iter().map(|started| started.sums);
        let missing = || Error::Internal("a check has no sums".into());
        let (x_sums, y_sums) = (sums.next().ok_or_else(missing)?, sums.next().ok_or_else(missing)?);
        let terms = Terms { x: x_sums, y: y_sums, old: sums.next() };
        if !terms.differ(factors) {
            self.checks.record_right();
            return Ok(Vec::new());
        }
        self.compare(check, scaling, x, old, y)
    }

    /// Compares X and Y on the host. Chunks with wrong rows are computed again; returns their faults.
    fn compare(
        &mut self,
        check: &VectorCheck,
        scaling: Scaling,
        x: &Vectors<T>,
        old: Option<&MultiVector<T>>,
        y: &mut Vectors<T>,
    ) -> Result<Vec<FaultReport>> {
        let pool = self.runtime.pool().clone();
        let factors = rounded::<T>(scaling.alpha, scaling.beta);
        let old = old.map(|old| y.own_of(old));
        let (x_values, mut y_values) = (x.host_values(&self.exchange.receivers)?, y.host_values(&[])?);
        let prepared = self.prepared()?;
        let matrix = prepared.matrix();
        let wrong_rows = |y_values: &MultiVector<T>| {
            let product = Applied { scaling: factors, x: x_values.view(), old, y: y.own_of(y_values) };
            pool.install(|| check.checksums.wrong_rows(Operator::Sparse(matrix), product))
        };
        let mut wrong = wrong_rows(&y_values)?;
        let (mut faults, mut computed) = (Vec::new(), BTreeSet::new());
        while !wrong.is_empty() {
            for (index, chunk) in self.chunks.iter().enumerate() {
                let rows = indices(&chunk.rows);
                if !wrong.iter().any(|row| rows.contains(row)) {
                    continue;
                }
                // Every round computes another chunk, or there is an error.
                if !computed.insert((rows.start, rows.end)) {
                    return Err(still_wrong(&wrong));
                }
                let mut part = view_rows_mut(&mut y_values, indices(&chunk.stored));
                if let Some(old) = old {
                    crate::kernel::vectors::rows::copy(old.rows_in(rows.clone()), part.reborrow())?;
                }
                pool.install(|| {
                    compute_by_reference(matrix.slice_rows(rows), scaling, x_values.view(), part)
                })?;
                let device = DeviceId(self.y.parts.get(chunk.owner).map_or(0, |part| part.index as u32));
                faults.push((device, wrong_chunk(prepared.plan(), index, device, &wrong)));
            }
            wrong = wrong_rows(&y_values)?;
        }
        if faults.is_empty() {
            self.checks.record_right();
        }
        for (begin, end) in computed {
            y.copy_rows_from(begin, &y.own_of(&y_values).rows_in(begin..end))?;
        }
        for (device, _) in &faults {
            self.checks.record_wrong(*device);
        }
        Ok(faults.into_iter().map(|(_, fault)| fault).collect())
    }
}
