//! Checked products on vectors: devices project their rows of X and Y, the host compares the projections with A.
//!
//! A row has one number per 32 columns, so that little crosses the link. Only if a row looks wrong, X and Y are copied to the host and
//! compared element by element; chunks with wrong rows are computed again there, by the reference kernel.

use std::ops::Range;
use std::time::Instant;

use super::product::VectorProduct;
use super::{DevicePart, RowsOf, Vectors, lock, misuse, unaligned};
use crate::device::{DeviceRows, Fault, MemoryRange, Operation, PinnedRange, Transfer, VectorLaunch};
use crate::error::{Error, Result};
use crate::graph::DeviceId;
use crate::kernel::check::{
    Applied, CheckedY, Operator, Projections, compared, groups, suspicious_rows, weight_matrix,
};
use crate::kernel::cpu::Kernels;
use crate::kernel::scaling::scaling as rounded;
use crate::matrix::{MultiVector, MultiVectorView};
use crate::runtime::job::{Scaling, still_wrong, wrong_chunk};
use crate::runtime::operation_queue::{COMPUTE, DOWNLOAD};
use crate::runtime::report::{FaultReport, RunReport};
use crate::runtime::spmm::spmm_job::compute_by_reference;

/// Alignment of results behind the weights in scratch memory.
const ALIGNMENT_BYTES: u64 = 256;

impl<T: Kernels> Vectors<T> {
    /// The own rows of every owner, and the ghost rows that owners have received and have room for.
    fn valid_rows(&self, receivers: &[Vec<usize>]) -> Vec<(usize, Range<u64>)> {
        let own = self.layout.parts.iter().map(|part| part.own.clone()).enumerate();
        let arrivals = self.layout.ranks.iter().flat_map(|ranks| &ranks.arrivals);
        let ghosts = arrivals.zip(receivers).flat_map(|(arrival, owners)| {
            owners.iter().filter_map(|&owner| {
                let held = &self.layout.parts.get(owner)?.held;
                Some((owner, arrival.rows.start.max(held.start)..arrival.rows.end.min(held.end)))
            })
        });
        own.chain(ghosts).filter(|(_, rows)| !rows.is_empty()).collect()
    }

    /// The projections of all rows, and of the ghost rows that `receivers` have.
    fn projections(&self, receivers: &[Vec<usize>]) -> Result<Projections> {
        let mut all = Projections::zeros(self.layout.rows as usize, self.k)?;
        for (index, rows) in self.valid_rows(receivers) {
            self.project(index, rows, &mut all)?;
        }
        all.estimate_sizes();
        Ok(all)
    }

    fn project(&self, index: usize, rows: Range<u64>, all: &mut Projections) -> Result<()> {
        let range = rows.start as usize..rows.end as usize;
        match self.data(index)? {
            RowsOf::Host(data) => {
                let data = lock(data);
                self.pool.install(|| all.set_rows(range.start, data.view().rows_in(range)))
            }
            RowsOf::Device(device) => self.project_on_device(index, device, rows, all),
        }
    }

    /// Rows times the matrix of weights, in pieces of the scratch memory.
    fn project_on_device(
        &self,
        index: usize,
        device: &DevicePart<T>,
        rows: Range<u64>,
        all: &mut Projections,
    ) -> Result<()> {
        let value_bytes = size_of::<T>() as u64;
        let (k, groups) = (self.k as u64, groups(self.k) as u64);
        let weights = self.upload_numbers(index, &weight_matrix::<T>(self.k))?;
        let begin = weights.end.next_multiple_of(ALIGNMENT_BYTES);
        let piece_rows = device.scratch.end.saturating_sub(begin) / (groups * value_bytes);
        if piece_rows == 0 {
            let mut values = MultiVector::zeros((rows.end - rows.start) as usize, self.k)?;
            self.download(index, device, rows.clone(), values.view_mut())?;
            return self.pool.install(|| all.set_rows(rows.start as usize, values.view()));
        }
        let part = &self.layout.parts[index];
        let fault = |fault: Fault| fault.into_error(&part.name);
        let small = DeviceRows {
            dtype: T::DTYPE,
            memory: weights,
            rows: k,
            columns: groups,
            leading_dimension: groups,
        };
        for first in rows.clone().step_by(piece_rows as usize) {
            let piece = first..rows.end.min(first + piece_rows);
            let (x, count) = (self.own_rows(index, piece.clone())?, piece.end - piece.start);
            let bytes = count * groups * value_bytes;
            let memory = MemoryRange { begin, end: begin + bytes, ..device.scratch };
            let to = DeviceRows { memory, rows: count, ..small };
            let launch = Operation::VectorLaunch(VectorLaunch::times(x, small, 0.0, to)?);
            let host = PinnedRange { pinned: device.pinned.clone(), begin: 0, end: bytes };
            {
                let mut shared = device.allocations.device().lock();
                let predicted_s = part.predicted_s(x.memory.bytes());
                let computed = shared.submit("check", COMPUTE, launch, predicted_s, &[]).map_err(fault)?;
                let download = Operation::Download(Transfer::whole(host, memory));
                shared.submit("projections", DOWNLOAD, download, 1e-5, &[computed]).map_err(fault)?;
                shared.drain().map_err(fault)?;
            }
            let bytes_read = device.pinned.read().map_err(misuse)?;
            let values: &[T] = bytemuck::try_cast_slice(&bytes_read).map_err(unaligned)?;
            let values = values.get(..(count * groups) as usize).unwrap_or_default();
            all.set(piece.start as usize, values)?;
        }
        Ok(())
    }

    /// The same rows in host memory.
    fn host_values(&self, receivers: &[Vec<usize>]) -> Result<MultiVector<T>> {
        let mut all = MultiVector::zeros(self.layout.rows as usize, self.k)?;
        for (index, rows) in self.valid_rows(receivers) {
            let range = rows.start as usize..rows.end as usize;
            let to = super::view_rows_mut(&mut all, range.clone());
            match self.data(index)? {
                RowsOf::Host(data) => {
                    crate::kernel::vectors::rows::copy(lock(data).view().rows_in(range), to)?;
                }
                RowsOf::Device(device) => self.download(index, device, rows, to)?,
            }
        }
        Ok(all)
    }

    /// The own rows of values that [`Self::host_values`] returned.
    fn own_of<'v>(&self, values: &'v MultiVector<T>) -> MultiVectorView<'v, T> {
        let own = self.layout.own();
        values.view().rows_in(own.start as usize..own.end as usize)
    }
}

impl<T: Kernels> VectorProduct<'_, T> {
    /// Applies the product and checks it.
    pub(super) fn apply_checked(
        &mut self,
        scaling: Scaling,
        x: &Vectors<T>,
        y: &mut Vectors<T>,
    ) -> Result<(Option<RunReport>, Vec<FaultReport>)> {
        // The fault of a device is reported as that of an unchecked product is.
        let Ok(old) = self.old_values(scaling, y) else { return self.apply_unchecked(scaling, x, y) };
        let (mut report, mut faults) = self.apply_unchecked(scaling, x, y)?;
        let start = Instant::now();
        match self.check(scaling, x, old.as_ref(), y) {
            Ok(wrong) => {
                if let Some(report) = &mut report {
                    report.check_s = Some(start.elapsed().as_secs_f64());
                    report.faults.extend_from_slice(&wrong);
                }
                faults.extend(wrong);
                Ok((report, faults))
            }
            Err(Error::Device { .. }) => Ok((report, faults)),
            Err(error) => Err(error),
        }
    }

    /// The old Y of a product that will be checked; `None` if it has no effect.
    fn old_values(&self, scaling: Scaling, y: &Vectors<T>) -> Result<Option<MultiVector<T>>> {
        Self::reads_y(scaling).then(|| y.host_values(&[])).transpose()
    }

    /// Checks a product. Chunks with wrong rows are computed again; returns their faults.
    fn check(
        &mut self,
        scaling: Scaling,
        x: &Vectors<T>,
        old: Option<&MultiVector<T>>,
        y: &mut Vectors<T>,
    ) -> Result<Vec<FaultReport>> {
        let _span = tracing::info_span!("check").entered();
        let factors = rounded::<T>(scaling.alpha, scaling.beta);
        let own = y.layout.own();
        let own = own.start as usize..own.end as usize;
        let receivers = &self.exchange.receivers;
        let (projected_x, projected_y) =
            (x.projections(receivers)?, y.projections(&[])?.rows_in(own.clone()));
        let old = old.map(|old| y.own_of(old));
        let pool = self.runtime.pool().clone();
        let before = old.map(|old| pool.install(|| Projections::of(old))).transpose()?;
        let prepared = self.prepared()?;
        let a = Operator::Sparse(prepared.matrix());
        let suspicious = pool.install(|| {
            suspicious_rows(a, factors, &projected_x, before.as_ref(), CheckedY::Projections(&projected_y))
        });
        if suspicious.is_empty() {
            self.checks.record_right();
            return Ok(Vec::new());
        }
        let (x_values, mut y_values) = (x.host_values(receivers)?, y.host_values(&[])?);
        let applied = |y_values: &MultiVector<T>, suspicious| {
            let (x, y) = (x_values.view(), y.own_of(y_values));
            pool.install(|| compared(a, Applied { scaling: factors, x, old, y }, suspicious))
        };
        let wrong = applied(&y_values, suspicious)?;
        if wrong.is_empty() {
            self.checks.record_right();
            return Ok(Vec::new());
        }
        let mut faults = Vec::new();
        let mut written = Vec::new();
        for (index, chunk) in self.chunks.iter().enumerate() {
            let rows = chunk.rows.start as usize..chunk.rows.end as usize;
            if !wrong.iter().any(|row| rows.contains(row)) {
                continue;
            }
            let stored = chunk.stored.start as usize..chunk.stored.end as usize;
            let mut part = super::view_rows_mut(&mut y_values, stored);
            if let Some(old) = old {
                crate::kernel::vectors::rows::copy(old.rows_in(rows.clone()), part.reborrow())?;
            }
            let a = prepared.matrix().slice_rows(rows.clone());
            pool.install(|| compute_by_reference(a, scaling, x_values.view(), part))?;
            let device = DeviceId(self.y.parts.get(chunk.owner).map_or(0, |part| part.index as u32));
            faults.push((device, wrong_chunk(prepared.plan(), index, device, &wrong)));
            written.push(rows);
        }
        let still = applied(&y_values, wrong.clone())?;
        if !still.is_empty() {
            return Err(still_wrong(&still));
        }
        for rows in written {
            let values = y.own_of(&y_values).rows_in(rows.clone());
            y.copy_rows_from(rows.start, &values)?;
        }
        for (device, _) in &faults {
            self.checks.record_wrong(*device);
        }
        Ok(faults.into_iter().map(|(_, fault)| fault).collect())
    }
}
