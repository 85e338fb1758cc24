//! Sums over the rows of multivectors on several owners, in the canonical order.

use std::ops::Range;

use super::{DevicePart, RowsOf, Vectors, lock, misuse, no_values, unaligned};
use crate::device::{Fault, MemoryRange, Operation, PinnedRange, Transfer, VectorLaunch};
use crate::error::Result;
use crate::kernel::cpu::Kernels;
use crate::kernel::vectors::{PartialResults, Sum, rows, sums};
use crate::matrix::MultiVector;
use crate::runtime::operation_queue::{COMPUTE, DOWNLOAD};

impl<T: Kernels> Vectors<T> {
    pub(super) fn sum(&self, sum: Sum, other: &Self) -> Result<Vec<T>> {
        self.check_same(other)?;
        if self.machine().is_some() {
            return Err(no_values(&self.layout));
        }
        self.surviving(|| self.partial_sums(sum, other))
    }

    fn partial_sums(&self, sum: Sum, other: &Self) -> Result<Vec<T>> {
        let total = self.layout.rows;
        let length = sum.length(self.k as u64, self.k as u64) as usize;
        // All devices compute their partial results at the same time; the host computes its own meanwhile.
        let mut downloads = Vec::new();
        for (index, part) in self.layout.parts.iter().enumerate() {
            let owned = sum.owned(part.own.clone(), total);
            downloads.push(match self.data(index)? {
                RowsOf::Device(device) if !owned.blocks.is_empty() => {
                    Some(self.start_sum(sum, index, device, other, owned.rows.clone())?)
                }
                _ => None,
            });
        }
        let mut results = PartialResults::new(sum, total as usize, (self.k, self.k));
        for (index, part) in self.layout.parts.iter().enumerate() {
            let owned = sum.owned(part.own.clone(), total);
            let blocks = (owned.blocks.end - owned.blocks.start) as usize;
            let rows = owned.rows.start as usize..owned.rows.end as usize;
            let mut on_device = Vec::new();
            if let (RowsOf::Device(device), Some(fence)) = (self.data(index)?, downloads[index]) {
                let shared = device.allocations.device();
                shared.lock().wait(fence).map_err(|fault| fault.into_error(&part.name))?;
                let bytes = device.pinned.read().map_err(misuse)?;
                let numbers: &[T] = bytemuck::try_cast_slice(&bytes).map_err(unaligned)?;
                // Copied, since the rows of an edge arrive in the same memory.
                on_device.extend_from_slice(numbers.get(..blocks * length).unwrap_or_default());
            }
            self.add_edge(&mut results, index, other, owned.head)?;
            match self.data(index)? {
                RowsOf::Device(_) if blocks > 0 => results.add_blocks(rows.len(), &on_device)?,
                RowsOf::Host(data) if blocks > 0 => {
                    let mut partials = vec![T::ZERO; blocks * length];
                    let x = lock(data);
                    let x = x.view().rows_in(rows.clone());
                    // A multivector with itself is locked once.
                    let same = std::ptr::eq(self, other);
                    let y = if same { None } else { Some(other.host_part(index)?) };
                    let y = y.as_ref().map_or(x, |y| y.view().rows_in(rows.clone()));
                    self.pool.install(|| sums::partial_results(sum, x, y, &mut partials))?;
                    results.add_blocks(rows.len(), &partials)?;
                }
                _ => {}
            }
            self.add_edge(&mut results, index, other, owned.tail)?;
        }
        results.finish()
    }

    /// Starts the partial results of the whole blocks of a device and their download.
    fn start_sum(
        &self,
        sum: Sum,
        index: usize,
        device: &DevicePart<T>,
        other: &Self,
        rows: Range<u64>,
    ) -> Result<crate::device::Fence> {
        let part = &self.layout.parts[index];
        let (x, y) = (self.own_rows(index, rows.clone())?, other.own_rows(index, rows)?);
        let launch = match sum {
            Sum::Dot => VectorLaunch::dot(x, y, device.scratch)?,
            Sum::Gram => VectorLaunch::gram(x, y, device.scratch)?,
        };
        let name = if sum == Sum::Dot { "dot" } else { "gram" };
        let blocks = x.rows.div_ceil(sum.block_rows());
        let bytes = blocks * sum.length(self.k as u64, self.k as u64) * size_of::<T>() as u64;
        let host = PinnedRange { pinned: device.pinned.clone(), begin: 0, end: bytes };
        let from = MemoryRange { end: device.scratch.begin + bytes, ..device.scratch };
        let fault = |fault: Fault| fault.into_error(&part.name);
        let predicted_s = part.predicted_s(2 * x.memory.bytes());
        let mut shared = device.allocations.device().lock();
        let launch = Operation::VectorLaunch(launch);
        let computed = shared.submit(name, COMPUTE, launch, predicted_s, &[]).map_err(fault)?;
        let download = Operation::Download(Transfer::whole(host, from));
        shared.submit("partial sums", DOWNLOAD, download, 1e-5, &[computed]).map_err(fault)
    }

    /// Adds the rows of an owner that belong to blocks with rows of several owners.
    fn add_edge(
        &self,
        results: &mut PartialResults<T>,
        index: usize,
        other: &Self,
        rows: Range<u64>,
    ) -> Result<()> {
        if rows.is_empty() {
            return Ok(());
        }
        let count = (rows.end - rows.start) as usize;
        let read = |vectors: &Self| -> Result<MultiVector<T>> {
            let mut packed = MultiVector::zeros(count, vectors.k)?;
            match vectors.data(index)? {
                RowsOf::Host(data) => {
                    let data = lock(data);
                    let from = data.view().rows_in(rows.start as usize..rows.end as usize);
                    rows::copy(from, packed.view_mut())?;
                }
                RowsOf::Device(device) => vectors.download(index, device, rows.clone(), packed.view_mut())?,
            }
            Ok(packed)
        };
        results.add_rows(read(self)?.view(), read(other)?.view())
    }
}
