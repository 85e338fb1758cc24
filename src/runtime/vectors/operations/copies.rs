//! Copies between host memory and the rows of a multivector: in the memory of the host, and through page-locked memory on devices.

use std::ops::Range;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::device::{DeviceRows, Fault, HostTransfer, LaunchWithCopies, Operation, PinnedRange, RowBytes};
use crate::error::Result;
use crate::kernel::cpu::Kernels;
use crate::kernel::vectors::rows;
use crate::matrix::{MultiVectorView, MultiVectorViewMut};
use crate::runtime::devices::{DOWNLOAD, Submission, UPLOAD};
use crate::runtime::vectors::errors::{misuse, unaligned};
use crate::runtime::vectors::host_copy::{HostCopy, view_rows_mut};
use crate::runtime::vectors::lock;
use crate::runtime::vectors::operand::{Input, Output, host_input, host_output};
use crate::runtime::vectors::simulated_memory::no_values;
use crate::runtime::vectors::{DevicePart, RowsOf, Vectors};

/// The most bytes of a copy from host memory that is queued; a device copies as many without a wait for earlier operations.
const QUEUED_BYTES: u64 = 64 << 10;

impl<T: Kernels> Vectors<T> {
    /// Keeps a copy in host memory of the values that [`Self::copy_from`] and [`Self::copy_to`] copy, until an operation changes
    /// them. With it, or while all elements are equal, this multivector survives the loss of a device.
    pub fn keep_host_copy(&mut self) {
        self.keeps_copy = true;
    }

    /// Copies all rows of this rank from host memory.
    pub fn copy_from(&mut self, x: &(impl Input<T> + ?Sized)) -> Result<()> {
        let x = host_input(x, self.rows(), self.k)?;
        self.check_whole(x.rows())?;
        self.copy_rows_from(0, &x)
    }

    /// Copies rows from host memory to the rows from `first` on.
    pub fn copy_rows_from(&mut self, first: usize, x: &MultiVectorView<'_, T>) -> Result<()> {
        self.check_rows(first, x.rows(), x.k())?;
        self.exchanged.store(false, Ordering::Relaxed);
        if let Some(machine) = self.machine() {
            let rows = self.place(first) as u64..self.place(first + x.rows()) as u64;
            return machine.copy_in(&self.distribution, rows, self.row_bytes());
        }
        {
            // Before the copies to devices, so that the rows of a device that is lost meanwhile are there.
            let copy = &mut *lock(&self.host_copy);
            match self.keeps_copy {
                true => self.pool.install(|| copy.store(&self.distribution, self.place(first), *x))?,
                false => *copy = HostCopy::Nothing,
            }
        }
        self.surviving(|| self.copy_rows_in(first, x))
    }

    fn copy_rows_in(&self, first: usize, x: &MultiVectorView<'_, T>) -> Result<()> {
        let first = self.place(first);
        for (index, part) in self.distribution.parts.iter().enumerate() {
            let rows = common(&part.own, first, x.rows());
            if rows.is_empty() {
                continue;
            }
            let from = x.rows_in(rows.start as usize - first..rows.end as usize - first);
            if rows == part.own {
                self.overwrite(index)?;
            }
            match self.data(index)? {
                RowsOf::Host(data) => {
                    let mut data = lock(data);
                    let to = view_rows_mut(&mut data, rows.start as usize..rows.end as usize);
                    self.pool.install(|| rows::copy(from, to))?;
                }
                RowsOf::Device(device) => self.upload(index, device, from, rows)?,
            }
        }
        Ok(())
    }

    /// Copies all rows of this rank to host memory.
    pub fn copy_to(&self, y: &mut (impl Output<T> + ?Sized)) -> Result<()> {
        let (rows, k) = (self.rows(), self.k);
        let y = host_output(y, rows, k)?;
        self.check_whole(y.rows())?;
        self.copy_rows_to(0, y)
    }

    /// Copies the rows from `first` on to host memory.
    pub fn copy_rows_to(&self, first: usize, mut y: MultiVectorViewMut<'_, T>) -> Result<()> {
        self.check_rows(first, y.rows(), y.k())?;
        if self.machine().is_some() {
            return Err(no_values(&self.distribution));
        }
        let _reading = self.reading();
        self.surviving(|| self.copy_rows_out(first, y.reborrow()))?;
        if self.keeps_copy && y.rows() == self.rows() {
            let copy = &mut *lock(&self.host_copy);
            let (rows, leading_dimension) = (y.rows(), y.leading_dimension());
            let values = MultiVectorView::try_new(y.data_mut(), rows, self.k, leading_dimension)?;
            self.pool.install(|| copy.store(&self.distribution, self.place(first), values))?;
        }
        Ok(())
    }

    fn copy_rows_out(&self, first: usize, mut y: MultiVectorViewMut<'_, T>) -> Result<()> {
        let first = self.place(first);
        for (index, part) in self.distribution.parts.iter().enumerate() {
            let rows = common(&part.own, first, y.rows());
            if rows.is_empty() {
                continue;
            }
            let (_, behind) = y.reborrow().split_at_row(rows.start as usize - first);
            let (to, _) = behind.split_at_row((rows.end - rows.start) as usize);
            match self.data(index)? {
                RowsOf::Host(data) => {
                    let data = lock(data);
                    let from = data.view().rows_in(rows.start as usize..rows.end as usize);
                    self.pool.install(|| rows::copy(from, to))?;
                }
                RowsOf::Device(device) => self.download(index, device, rows, to)?,
            }
        }
        Ok(())
    }

    /// Waits until no other thread reads a multivector of this product to host memory.
    pub(crate) fn reading(&self) -> MutexGuard<'_, ()> {
        lock(&self.distribution.reading)
    }

    /// Runs an operation that may be run again, once more for each device that was lost during it.
    pub(crate) fn surviving<R>(&self, mut operation: impl FnMut() -> Result<R>) -> Result<R> {
        loop {
            match operation() {
                Err(_) if self.distribution.close_lost() => {}
                result => return result,
            }
        }
    }

    pub(crate) fn upload(
        &self,
        index: usize,
        device: &DevicePart<T>,
        from: MultiVectorView<'_, T>,
        rows: Range<u64>,
    ) -> Result<()> {
        if (rows.end - rows.start) * self.row_bytes() <= QUEUED_BYTES {
            return self.queue_upload(index, from, rows);
        }
        self.through_pinned(
            index,
            device,
            rows,
            |vectors, device, piece, done| {
                let (first, count) = (done as usize, piece.rows as usize);
                {
                    let mut bytes = device.pinned.write().map_err(misuse)?;
                    let values: &mut [T] = bytemuck::try_cast_slice_mut(&mut bytes).map_err(unaligned)?;
                    let to = MultiVectorViewMut::try_new(values, count, vectors.k, vectors.pitch as usize)?;
                    vectors.pool.install(|| rows::copy(from.rows_in(first..first + count), to))?;
                }
                let host = PinnedRange { pinned: device.pinned.clone(), begin: 0, end: piece.memory.bytes() };
                Ok((UPLOAD, Operation::upload(host, piece.memory)))
            },
            |_, _, _, _| Ok(()),
        )
    }

    /// Queues the copy of a few rows, whose values are copied before this returns.
    fn queue_upload(&self, index: usize, from: MultiVectorView<'_, T>, rows: Range<u64>) -> Result<()> {
        let to = self.own_rows(index, rows)?.memory;
        let mut padded = vec![T::ZERO; to.bytes() as usize / size_of::<T>()];
        for (row, to) in padded.chunks_exact_mut((self.pitch as usize).max(1)).enumerate() {
            to[..self.k].copy_from_slice(from.row(row));
        }
        let numbers = Some((bytemuck::cast_slice(&padded).to_vec(), to));
        let copy = LaunchWithCopies { numbers, launch: None, download: None };
        self.queue(index, "copy rows in", Operation::LaunchWithCopies(Box::new(copy)), to.bytes()).map(drop)
    }

    pub(crate) fn download(
        &self,
        index: usize,
        device: &DevicePart<T>,
        rows: Range<u64>,
        mut to: MultiVectorViewMut<'_, T>,
    ) -> Result<()> {
        let to = Mutex::new(&mut to);
        self.through_pinned(
            index,
            device,
            rows,
            |_, device, piece, _| {
                let host = PinnedRange { pinned: device.pinned.clone(), begin: 0, end: piece.memory.bytes() };
                Ok((
                    DOWNLOAD,
                    Operation::Download(HostTransfer { host, device: piece.memory, rows: RowBytes::ALL }),
                ))
            },
            |vectors, device, piece, done| {
                let bytes = device.pinned.read().map_err(misuse)?;
                let values: &[T] = bytemuck::try_cast_slice(&bytes).map_err(unaligned)?;
                let count = piece.rows as usize;
                let from = MultiVectorView::try_new(values, count, vectors.k, vectors.pitch as usize)?;
                let mut to = to.lock().unwrap_or_else(PoisonError::into_inner);
                let (_, behind) = to.reborrow().split_at_row(done as usize);
                let (to, _) = behind.split_at_row(count);
                vectors.pool.install(|| rows::copy(from, to))
            },
        )
    }

    /// Copies rows in pieces of the page-locked memory: `start` prepares a piece and its operation, `finish` takes its result. Both
    /// get the number of rows before the piece.
    fn through_pinned(
        &self,
        index: usize,
        device: &DevicePart<T>,
        rows: Range<u64>,
        start: impl Fn(&Self, &DevicePart<T>, DeviceRows, u64) -> Result<(usize, Operation<'static>)>,
        finish: impl Fn(&Self, &DevicePart<T>, DeviceRows, u64) -> Result<()>,
    ) -> Result<()> {
        let part = &self.distribution.parts[index];
        let row_bytes = self.pitch * size_of::<T>() as u64;
        let piece_rows = (device.pinned.bytes() as u64 / row_bytes).max(1);
        let fault = |fault: Fault| fault.into_error(&part.name);
        let shared = device.allocations.device();
        shared.lock().drain().map_err(fault)?;
        let mut begin = rows.start;
        while begin < rows.end {
            let end = (begin + piece_rows).min(rows.end);
            let piece = self.own_rows(index, begin..end)?;
            let (lane, operation) = start(self, device, piece, begin - rows.start)?;
            let mut locked = shared.lock();
            let name = if lane == UPLOAD { "copy rows in" } else { "copy rows out" };
            let predicted_s = piece.memory.bytes() as f64 * 2e-11;
            locked
                .submit(Submission::new(&part.operations, name, lane, predicted_s), operation, &[])
                .map_err(fault)?;
            locked.drain().map_err(fault)?;
            drop(locked);
            self.check_faults(index)?;
            finish(self, device, piece, begin - rows.start)?;
            begin = end;
        }
        Ok(())
    }
}

/// The rows from `first` on, `count` of them, that are in `own`.
fn common(own: &Range<u64>, first: usize, count: usize) -> Range<u64> {
    let (first, end) = (first as u64, (first + count) as u64);
    let begin = own.start.max(first);
    begin..own.end.min(end).max(begin)
}
