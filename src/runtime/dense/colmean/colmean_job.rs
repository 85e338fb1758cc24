//! Planned sums of columns. Each chunk has partial results of its blocks of rows: the sums of all blocks, then their deviations. The chunk
//! with the first block adds them up and has totals instead.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use crate::device::{BorrowScope, EntryLaunch, HostTransfer, MemoryRange, Operation, Pinned};
use crate::error::{Error, Result};
use crate::kernel::colmean::{Totals, partial_sums};
use crate::kernel::cpu::Kernels;
use crate::matrix::{MultiVector, MultiVectorView, MultiVectorViewMut};
use crate::plan::{Plan, SplitRow};
use crate::runtime::dense::operand::DenseOperand;
use crate::runtime::dense::planned_work::DenseJob;
use crate::runtime::dense::rows::{DenseA, bytes_of, rows_of_device};
use crate::runtime::job::{Accelerator, BorrowsA, Job, Outputs, Scaling};
use crate::work::HeldRows;
use crate::work::colmean::Colmean;

/// A matrix and a plan for the sums of its columns.
pub struct ColmeanJob<'a, T: Kernels> {
    a: DenseA<'a, T>,
    work: Colmean,
    plan: Plan,
    /// The result of a run.
    totals: Mutex<Option<Totals>>,
}

impl<T: Kernels> ColmeanJob<'_, T> {
    fn rows(&self, chunk: usize) -> Result<Range<usize>> {
        Ok(self.work.rows_of(&self.chunk(chunk)?.rows))
    }

    /// The rows that contain the chunks of a device.
    fn device_rows(&self, device: usize) -> Range<usize> {
        rows_of_device(&self.plan, device, |rows| self.work.rows_of(rows))
    }

    /// The number of sums of a chunk.
    fn sums(&self, chunk: usize) -> Result<usize> {
        Ok(self.chunk(chunk)?.rows.slice_rows() * self.work.columns)
    }

    /// Whether the slice of a chunk has the totals of its blocks, not the partial results of each.
    fn adds_up(&self, chunk: usize) -> Result<bool> {
        Ok(self.plan.output.adds_up(&self.chunk(chunk)?.rows))
    }

    /// Takes the result of the last run; none if it was not complete.
    pub fn take_totals(&self) -> Option<Totals> {
        self.totals.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl<'a, T: Kernels> DenseJob<'a> for ColmeanJob<'a, T> {
    type Work = Colmean;

    fn of(a: DenseOperand<'a, T>, work: Colmean, plan: Plan) -> Self {
        Self { a: DenseA::new(a), work, plan, totals: Mutex::default() }
    }
}

impl<T: Kernels> Job for ColmeanJob<'_, T> {
    type Value = T;
    type Shared = MultiVector<T>;
    type Borrowed = Pinned;

    fn plan(&self) -> &Plan {
        &self.plan
    }

    fn shared(&self) -> Option<Arc<MultiVector<T>>> {
        self.a.shared()
    }

    fn shared_arrays<'m>(&self, shared: &'m MultiVector<T>, device: usize) -> Vec<&'m [u8]> {
        bytes_of(shared.view(), self.device_rows(device))
    }

    fn borrow<'env>(&'env self, scope: &BorrowScope<'env>) -> Result<Pinned> {
        Ok(self.a.borrow(scope))
    }

    fn chunk_bytes(&self, chunk: usize) -> Result<u64> {
        Ok(self.a.device_bytes(self.rows(chunk)?.len()))
    }

    fn stage(&self, chunk: usize, _held: &HeldRows, to: &mut [u8]) -> Result<()> {
        self.a.stage(self.rows(chunk)?, to)
    }

    fn stage_part(&self, chunk: usize, part: Range<u64>, to: &mut [u8]) -> Result<()> {
        self.a.stage_part(self.rows(chunk)?, part, to)
    }

    fn copies_in_place(&self, chunk: usize, a: &Pinned, to: MemoryRange) -> Result<Vec<HostTransfer>> {
        Ok(self.a.copies_in_place(self.rows(chunk)?, a, to))
    }

    fn launch(
        &self,
        chunk: usize,
        _accelerator: &Accelerator,
        a: MemoryRange,
        y: MemoryRange,
        _alpha: f64,
    ) -> Result<Operation<'static>> {
        let x = self.a.on_device(self.rows(chunk)?.len(), a);
        let bytes = (self.sums(chunk)? * size_of::<T>()) as u64;
        let part = |number: u64| MemoryRange {
            begin: y.begin + number * bytes,
            end: y.begin + (number + 1) * bytes,
            ..y
        };
        let deviations = self.work.deviations.then(|| part(1));
        let (kernel, block_rows) = (self.chunk(chunk)?.gpu_kernel, self.work.block_rows() as u64);
        let mut launches = vec![EntryLaunch::column_sums(kernel, x, block_rows, part(0), deviations)?];
        if self.adds_up(chunk)? {
            let partials = MemoryRange { end: deviations.unwrap_or(part(0)).end, ..y };
            let (size, deviations) = ((x.rows, x.columns), self.work.deviations);
            launches.push(EntryLaunch::column_totals(T::DTYPE, size, block_rows, deviations, partials)?);
        }
        Ok(Operation::EntryLaunches(launches))
    }

    fn packs_slices(&self) -> bool {
        true
    }

    fn compute(
        &self,
        chunk: usize,
        _scaling: Scaling,
        _x: MultiVectorView<'_, T>,
        mut y: MultiVectorViewMut<'_, T>,
    ) -> Result<()> {
        let (rows, block_rows) = (self.rows(chunk)?, self.work.block_rows());
        let (sums, mut deviations) = self.parts(chunk, y.data_mut())?;
        partial_sums(self.a.rows(rows.clone()), block_rows, sums, deviations.as_deref_mut())?;
        if self.adds_up(chunk)? {
            let mut totals = Totals::none(self.work.columns);
            totals.add_blocks(rows.len(), block_rows, sums, deviations.as_deref())?;
            totals.store(self.work.deviations, y.data_mut())?;
        }
        Ok(())
    }

    fn merge_split_row(
        &self,
        _index: usize,
        split: &SplitRow,
        outputs: &Outputs<'_, T>,
        _scaling: Scaling,
    ) -> Result<()> {
        let mut totals = None;
        for &chunk in &split.chunks {
            let chunk = chunk as usize;
            let mut slice = outputs.chunk(chunk)?;
            let mut slice = slice.view()?;
            let (rows, block_rows) = (self.rows(chunk)?.len(), self.work.block_rows());
            if self.adds_up(chunk)? {
                totals = Some(Totals::load(rows, self.work.columns, self.work.deviations, slice.data_mut())?);
                continue;
            }
            let (sums, deviations) = self.parts(chunk, slice.data_mut())?;
            let totals = totals.get_or_insert_with(|| Totals::none(self.work.columns));
            totals.add_blocks(rows, block_rows, sums, deviations.as_deref())?;
        }
        *self.totals.lock().unwrap_or_else(PoisonError::into_inner) = totals;
        Ok(())
    }
}

impl<T: Kernels> ColmeanJob<'_, T> {
    /// The sums and the deviations of a chunk in the numbers of its slice.
    fn parts<'s>(&self, chunk: usize, slice: &'s mut [T]) -> Result<(&'s mut [T], Option<&'s mut [T]>)> {
        let sums = self.sums(chunk)?;
        let all = sums * if self.work.deviations { 2 } else { 1 };
        let slice =
            slice.get_mut(..all).ok_or_else(|| Error::Internal("a slice of sums is too short".into()))?;
        let (sums, deviations) = slice.split_at_mut(sums);
        Ok((sums, self.work.deviations.then_some(deviations)))
    }
}

impl<'m, 'a: 'm, T: Kernels> BorrowsA<'m> for ColmeanJob<'a, T> {
    fn borrowed_arrays(&self, device: usize) -> Vec<&'m [u8]> {
        self.a.borrowed_bytes(self.device_rows(device))
    }
}
