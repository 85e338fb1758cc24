//! Checked products on vectors: owners add up their rows of X and Y with the weights of the check, and the host compares the sums.
//!
//! An owner sums the rows that it owns, not its copies of rows of other owners on this rank, so a row that was exchanged wrongly between
//! them is found too; rows of other ranks are summed where they arrived. Only if a sum differs, X and Y are copied to the host and
//! compared element by element; chunks with wrong rows are computed again there, by the reference kernel.

use std::ops::Range;
use std::sync::Arc;

use crate::device::Fence;
use crate::error::Result;
use crate::kernel::check::{Checksums, ColumnSums};
use crate::kernel::cpu::Kernels;
use crate::matrix::{MultiVector, MultiVectorView};
use crate::runtime::vectors::operations::{DeviceSums, SumOf, WeightedRange};
use crate::runtime::vectors::{RowsOf, Vectors, lock};

/// The weights of the rows of X and Y, and their copies on devices.
pub(crate) struct VectorCheck {
    pub(super) checksums: Arc<Checksums>,
    /// For each owner its rows of X, and its rows of Y.
    owners: Vec<OwnerRows>,
    /// For each owner its sums, if it is a device.
    pub(super) devices: Vec<Option<DeviceSums>>,
    /// For each owner whether it is a device, as the sums assume.
    pub(super) on_devices: Vec<bool>,
}

struct OwnerRows {
    x: Vec<Range<u64>>,
    y: Vec<Range<u64>>,
}

pub(super) fn indices(rows: &Range<u64>) -> Range<usize> {
    rows.start as usize..rows.end as usize
}

impl<T: Kernels> Vectors<T> {
    /// The rows of each owner: its own, and the ghost rows that it received, has room for, and that no owner before it has.
    fn rows_of_owners(&self, receivers: &[Vec<usize>]) -> Vec<Vec<Range<u64>>> {
        let own = |part: &crate::runtime::vectors::row_distribution::Part| {
            std::iter::once(part.own.clone()).collect()
        };
        let mut rows: Vec<Vec<Range<u64>>> = self.distribution.parts.iter().map(own).collect();
        let arrivals = self.distribution.ranks.iter().flat_map(|ranks| &ranks.arrivals);
        for (arrival, owners) in arrivals.zip(receivers) {
            let held =
                owners.iter().filter_map(|&owner| Some((owner, &self.distribution.parts.get(owner)?.held)));
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
    pub(super) fn host_values(&self, receivers: &[Vec<usize>]) -> Result<MultiVector<T>> {
        let _reading = self.reading();
        let mut all = MultiVector::zeros(self.distribution.rows as usize, self.k)?;
        for (index, ranges) in self.rows_of_owners(receivers).into_iter().enumerate() {
            for rows in ranges {
                let to = crate::runtime::vectors::host_copy::view_rows_mut(&mut all, indices(&rows));
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
    pub(super) fn own_of<'v>(&self, values: &'v MultiVector<T>) -> MultiVectorView<'v, T> {
        values.view().rows_in(indices(&self.distribution.own()))
    }
}

impl VectorCheck {
    pub(super) fn new<T: Kernels>(
        checksums: Arc<Checksums>,
        x: &Vectors<T>,
        y: &Vectors<T>,
        receivers: &[Vec<usize>],
    ) -> Result<Self> {
        let owners = x.rows_of_owners(receivers).into_iter().zip(y.rows_of_owners(&[]));
        let owners: Vec<OwnerRows> = owners.map(|(x, y)| OwnerRows { x, y }).collect();
        let (columns, factor) = checksums.columns();
        let first = y.distribution.own().start;
        let of_x =
            |rows: &Range<u64>| -> WeightedRange<'_> { (rows.clone(), &columns[indices(rows)], factor) };
        let of_y = |rows: &Range<u64>| -> WeightedRange<'_> {
            let weights = &checksums.weights()[indices(&(rows.start - first..rows.end - first))];
            (rows.clone(), weights, 1.0)
        };
        let sums_of = |(index, owner): (usize, &OwnerRows)| {
            let part = &x.distribution.parts[index];
            let (x_rows, y_rows): (Vec<_>, Vec<_>) =
                (owner.x.iter().map(of_x).collect(), owner.y.iter().map(of_y).collect());
            let make = |device| DeviceSums::new(device, &part.operations, x.k, &x_rows, &y_rows);
            part.device().map(make).transpose().map_err(|fault| fault.into_error(&part.name))
        };
        let devices = owners.iter().enumerate().map(sums_of).collect::<Result<_>>()?;
        Ok(Self { checksums, owners, devices, on_devices: x.distribution.on_devices() })
    }

    fn rows(&self, of: SumOf, owner: usize) -> &[Range<u64>] {
        match of {
            SumOf::X => &self.owners[owner].x,
            SumOf::OldY | SumOf::Y => &self.owners[owner].y,
        }
    }

    /// Queues the sums of a multivector on all devices. Returns the fence of each.
    pub(super) fn start<T: Kernels>(&self, of: SumOf, vectors: &Vectors<T>) -> Result<Vec<Option<Fence>>> {
        let start = |(index, device): (usize, &Option<DeviceSums>)| {
            let wanted = device.as_ref().filter(|_| !self.rows(of, index).is_empty());
            wanted.map(|device| device.start(of, vectors, index)).transpose()
        };
        self.devices.iter().enumerate().map(start).collect()
    }

    /// Adds the sums of the rows that the host has.
    pub(super) fn add_on_host<T: Kernels>(
        &self,
        of: SumOf,
        vectors: &Vectors<T>,
        sums: &mut ColumnSums,
    ) -> Result<()> {
        let (columns, factor) = self.checksums.columns();
        let first = vectors.distribution.own().start;
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
