//! Copies between host memory and the rows of a multivector on a device, through page-locked memory.

use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use crate::device::{DeviceRows, Fault, MemoryRange, Operation, PinnedRange, RowBytes, Transfer};
use crate::error::Result;
use crate::kernel::cpu::Kernels;
use crate::kernel::vectors::rows;
use crate::matrix::{MultiVectorView, MultiVectorViewMut};
use crate::runtime::devices::{DOWNLOAD, UPLOAD};
use crate::runtime::vectors::{DevicePart, RowsOf, Vectors, missing_part, misuse, unaligned};

impl<T: Kernels> Vectors<T> {
    /// Brings a few numbers to the scratch memory of a part's device, for the operation that is queued next.
    pub(crate) fn upload_numbers(&self, index: usize, numbers: &[T]) -> Result<MemoryRange> {
        let RowsOf::Device(device) = self.data(index)? else { return Err(missing_part()) };
        let part = &self.layout.parts[index];
        let bytes: &[u8] = bytemuck::cast_slice(numbers);
        let end = bytes.len() as u64;
        let fault = |fault: Fault| fault.into_error(&part.name);
        let mut shared = device.allocations.device().lock();
        // An operation in flight may still read the numbers of the call before this one.
        shared.drain().map_err(fault)?;
        device.pinned.write().map_err(misuse)?[..bytes.len()].copy_from_slice(bytes);
        let host = PinnedRange { pinned: device.pinned.clone(), begin: 0, end };
        let to = MemoryRange { end, ..device.scratch };
        let upload = Operation::upload(host, to);
        shared.submit(&part.operations, "numbers", UPLOAD, upload, 1e-5, &[]).map_err(fault)?;
        shared.drain().map_err(fault)?;
        drop(shared);
        self.check_faults(index)?;
        Ok(to)
    }

    pub(crate) fn upload(
        &self,
        index: usize,
        device: &DevicePart<T>,
        from: MultiVectorView<'_, T>,
        rows: Range<u64>,
    ) -> Result<()> {
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
                    Operation::Download(Transfer { host, device: piece.memory, rows: RowBytes::ALL }),
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
        let part = &self.layout.parts[index];
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
            locked.submit(&part.operations, name, lane, operation, predicted_s, &[]).map_err(fault)?;
            locked.drain().map_err(fault)?;
            drop(locked);
            self.check_faults(index)?;
            finish(self, device, piece, begin - rows.start)?;
            begin = end;
        }
        Ok(())
    }
}
