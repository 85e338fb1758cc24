//! Checked products on vectors: owners add up their rows of X and Y with the weights of the check, and the host compares the sums.
//!
//! An owner sums the rows that it owns, not its copies of rows of other owners on this rank, so a row that was exchanged wrongly between
//! them is found too; rows of other ranks are summed where they arrived. Only if a sum differs, X and Y are copied to the host and
//! compared element by element; chunks with wrong rows are computed again there, by the reference kernel.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use super::vector_product::VectorProduct;
use crate::device::Fence;
use crate::error::{Error, Result};
use crate::graph::DeviceId;
use crate::kernel::check::{Applied, Checksums, ColumnSums, Operator, Terms};
use crate::kernel::cpu::Kernels;
use crate::kernel::scaling::scaling as rounded;
use crate::matrix::{MultiVector, MultiVectorView};
use crate::runtime::devices::SharedDevice;
use crate::runtime::job::{Scaling, still_wrong, wrong_chunk};
use crate::runtime::run::{FaultReport, RunReport};
use crate::runtime::spmm::compute_by_reference;
use crate::runtime::vectors::operations::{DeviceSums, SumOf, WeightedRange};
use crate::runtime::vectors::{RowsOf, Vectors, lock};

/// The weights of the rows of X and Y, and their copies on devices.
pub(crate) struct VectorCheck {
    checksums: Arc<Checksums>,
    /// For each owner its rows of X, and its rows of Y.
    owners: Vec<OwnerRows>,
    /// For each owner its sums, if it is a device.
    devices: Vec<Option<DeviceSums>>,
    /// For each owner whether it is a device, as the sums assume.
    on_devices: Vec<bool>,
}

struct OwnerRows {
    x: Vec<Range<u64>>,
    y: Vec<Range<u64>>,
}

fn indices(rows: &Range<u64>) -> Range<usize> {
    rows.start as usize..rows.end as usize
}

impl<T: Kernels> Vectors<T> {
    /// The rows of each owner: its own, and the ghost rows that it received, has room for, and that no owner before it has.
    fn rows_of_owners(&self, receivers: &[Vec<usize>]) -> Vec<Vec<Range<u64>>> {
        let own = |part: &crate::runtime::vectors::layout::Part| std::iter::once(part.own.clone()).collect();
        let mut rows: Vec<Vec<Range<u64>>> = self.layout.parts.iter().map(own).collect();
        let arrivals = self.layout.ranks.iter().flat_map(|ranks| &ranks.arrivals);
        for (arrival, owners) in arrivals.zip(receivers) {
            let held = owners.iter().filter_map(|&owner| Some((owner, &self.layout.parts.get(owner)?.held)));
            let mut held: Vec<(usize, &Range<u64>)> = held.collect();
            held.sort_by_key(|(_, held)| held.start);
            let mut begin = arrival.rows.start;
            for (owner, held) in held {
                let own = begin.max(held.start)..arrival.rows.end.min(held.end);
                begin = begin.max(own.end);
                rows[owner].push(own);
            }
        }
        rows.iter_mut().for_each(|rows| rows.retain(|rows| !rows.is_empty()));
        rows
    }

    /// The same rows in host memory.
    fn host_values(&self, receivers: &[Vec<usize>]) -> Result<MultiVector<T>> {
        let _reading = self.reading();
        let mut all = MultiVector::zeros(self.layout.rows as usize, self.k)?;
        for (index, ranges) in self.rows_of_owners(receivers).into_iter().enumerate() {
            for rows in ranges {
                let to = crate::runtime::vectors::view_rows_mut(&mut all, indices(&rows));
                match self.data(index)? {
                    RowsOf::Host(data) => {
                        crate::kernel::vectors::rows::copy(lock(data).view().rows_in(indices(&rows)), to)?;
                    }
                    RowsOf::Device(device) => self.download(index, device, rows, to)?,
                }
            }
        }
        Ok(all)
    }

    /// The own rows of values that [`Self::host_values`] returned.
    fn own_of<'v>(&self, values: &'v MultiVector<T>) -> MultiVectorView<'v, T> {
        values.view().rows_in(indices(&self.layout.own()))
    }
}

impl VectorCheck {
    fn new<T: Kernels>(
        checksums: Arc<Checksums>,
        x: &Vectors<T>,
        y: &Vectors<T>,
        receivers: &[Vec<usize>],
    ) -> Result<Self> {
        let owners = x.rows_of_owners(receivers).into_iter().zip(y.rows_of_owners(&[]));
        let owners: Vec<OwnerRows> = owners.map(|(x, y)| OwnerRows { x, y }).collect();
        let (columns, factor) = checksums.columns();
        let first = y.layout.own().start;
        let of_x =
            |rows: &Range<u64>| -> WeightedRange<'_> { (rows.clone(), &columns[indices(rows)], factor) };
        let of_y = |rows: &Range<u64>| -> WeightedRange<'_> {
            let weights = &checksums.weights()[indices(&(rows.start - first..rows.end - first))];
            (rows.clone(), weights, 1.0)
        };
        let sums_of = |(index, owner): (usize, &OwnerRows)| {
            let part = &x.layout.parts[index];
            let (x_rows, y_rows): (Vec<_>, Vec<_>) =
                (owner.x.iter().map(of_x).collect(), owner.y.iter().map(of_y).collect());
            let make = |device| DeviceSums::new(device, &part.operations, x.k, &x_rows, &y_rows);
            part.device().map(make).transpose().map_err(|fault| fault.into_error(&part.name))
        };
        let devices = owners.iter().enumerate().map(sums_of).collect::<Result<_>>()?;
        Ok(Self { checksums, owners, devices, on_devices: x.layout.on_devices() })
    }

    fn rows(&self, of: SumOf, owner: usize) -> &[Range<u64>] {
        match of {
            SumOf::X => &self.owners[owner].x,
            SumOf::OldY | SumOf::Y => &self.owners[owner].y,
        }
    }

    /// Queues the sums of a multivector on all devices. Returns the fence of each.
    fn start<T: Kernels>(&self, of: SumOf, vectors: &Vectors<T>) -> Result<Vec<Option<Fence>>> {
        let start = |(index, device): (usize, &Option<DeviceSums>)| {
            let wanted = device.as_ref().filter(|_| !self.rows(of, index).is_empty());
            wanted.map(|device| device.start(of, vectors, index)).transpose()
        };
        self.devices.iter().enumerate().map(start).collect()
    }

    /// Adds the sums of the rows that the host has.
    fn add_on_host<T: Kernels>(&self, of: SumOf, vectors: &Vectors<T>, sums: &mut ColumnSums) -> Result<()> {
        let (columns, factor) = self.checksums.columns();
        let first = vectors.layout.own().start;
        for (index, _) in self.devices.iter().enumerate().filter(|(_, device)| device.is_none()) {
            for rows in self.rows(of, index) {
                let data = vectors.host_part(index)?;
                let data = data.view().rows_in(indices(rows));
                let added = vectors.pool.install(|| match of {
                    SumOf::X => ColumnSums::of_rows(data, &columns[indices(rows)], factor),
                    SumOf::OldY | SumOf::Y => {
                        let own = indices(&(rows.start - first..rows.end - first));
                        let weights = &self.checksums.weights()[own];
                        ColumnSums::of_rows(data, weights, 1.0)
                    }
                });
                sums.add(&added?);
            }
        }
        Ok(())
    }
}

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
        let is_lost = |device: &Arc<SharedDevice>| !device.is_open() || device.lock().is_lost();
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
        let kept = self.check_memory.take().filter(|check| check.on_devices == x.layout.on_devices());
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
                let mut part = crate::runtime::vectors::view_rows_mut(&mut y_values, indices(&chunk.stored));
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
