//! Y and the carries of split rows, divided into the slices that chunks write.
//!
//! Every slice belongs to one chunk, so jobs and copies of different chunks never overlap. Slices are borrowed, so that a
//! device can copy to them in place. After a fault another device may compute a chunk again; the graph then orders it
//! after the previous use of the slice.

use std::marker::PhantomData;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::scaling::Scaling;
use crate::device::{
    BorrowScope, HostTransfer, MemoryRange, Operation, Pinned, PinnedRange, PinnedWrite, RowBytes,
};
use crate::error::{Error, Result};
use crate::kernel::order::SegmentSums;
use crate::matrix::{MultiVector, MultiVectorViewMut, Scalar};
use crate::plan::SplitRow;
use crate::work::ChunkRows;

/// A chunk's rows of Y or of carries.
pub struct Slice {
    pinned: Pinned,
    rows: usize,
    k: usize,
    leading_dimension: usize,
}

/// A write access to a slice.
pub struct SliceWrite<T> {
    bytes: PinnedWrite,
    rows: usize,
    k: usize,
    leading_dimension: usize,
    values: PhantomData<T>,
}

impl<T: Scalar> SliceWrite<T> {
    /// The rows of the slice.
    pub fn view(&mut self) -> Result<MultiVectorViewMut<'_, T>> {
        let values = bytemuck::try_cast_slice_mut(&mut self.bytes).map_err(|error| {
            Error::Internal(format!("a slice of Y is not aligned for its values: {error}"))
        })?;
        MultiVectorViewMut::try_new(values, self.rows, self.k, self.leading_dimension)
    }
}

impl Slice {
    fn borrow<'run, T: Scalar>(view: MultiVectorViewMut<'run, T>, scope: &BorrowScope<'run>) -> Self {
        let (rows, k, leading_dimension) = (view.rows(), view.k(), view.leading_dimension());
        let pinned = scope.writable(bytemuck::cast_slice_mut(view.into_data()));
        Self { pinned, rows, k, leading_dimension }
    }

    /// The download of all rows from `device`, where they are contiguous.
    pub fn download<T: Scalar>(&self, device: MemoryRange) -> Operation<'static> {
        let row_bytes = (self.k * size_of::<T>()) as u64;
        let pitch_bytes = (self.leading_dimension * size_of::<T>()) as u64;
        let strided = pitch_bytes != row_bytes && self.rows > 1;
        let rows = match strided {
            true => RowBytes { bytes: row_bytes, pitch_bytes: row_bytes, host_pitch_bytes: pitch_bytes },
            false => RowBytes::ALL,
        };
        let end = if strided { self.pinned.bytes() as u64 } else { device.bytes() };
        let host = PinnedRange { pinned: self.pinned.clone(), begin: 0, end };
        Operation::Download(HostTransfer { host, device, rows })
    }
}

/// The slices of one run.
pub struct Outputs<'run, T: Scalar> {
    chunks: Vec<Slice>,
    split_rows: Vec<Mutex<MultiVectorViewMut<'run, T>>>,
}

impl<'run, T: Scalar> Outputs<'run, T> {
    /// Divides `y`, and the carries of each split row, by `chunks`.
    pub fn cut(
        y: MultiVectorViewMut<'run, T>,
        carries: &'run mut [MultiVector<T>],
        chunks: &[ChunkRows],
        scope: &BorrowScope<'run>,
    ) -> Result<Self> {
        let mut y = RemainingRows { rows: y, begin: 0 };
        let mut carries = carries.iter_mut();
        let mut sums: Option<(usize, RemainingRows<'run, T>)> = None;
        let mut outputs = Self { chunks: Vec::with_capacity(chunks.len()), split_rows: Vec::new() };
        for chunk in chunks {
            let slice = match *chunk {
                ChunkRows::Rows { begin, end } => y.take(begin, end)?,
                ChunkRows::Segments { row, begin, end } => {
                    if sums.as_ref().is_none_or(|(of, _)| *of != row) {
                        let carry = carries.next().ok_or_else(|| lacking("carries"))?;
                        outputs.split_rows.push(Mutex::new(y.take(row, row + 1)?));
                        sums = Some((row, RemainingRows { rows: carry.view_mut(), begin: 0 }));
                    }
                    let (_, rest) = sums.as_mut().ok_or_else(|| lacking("carries"))?;
                    rest.take(begin, end)?
                }
            };
            outputs.chunks.push(Slice::borrow(slice, scope));
        }
        Ok(outputs)
    }

    /// The slice of a chunk.
    pub fn slice(&self, index: usize) -> Result<&Slice> {
        self.chunks.get(index).ok_or_else(|| lacking("slices"))
    }

    /// A write access to the slice of a chunk.
    pub fn chunk(&self, index: usize) -> Result<SliceWrite<T>> {
        let Slice { pinned, rows, k, leading_dimension } = self.slice(index)?;
        let bytes = pinned.write().map_err(|fault| Error::Internal(fault.message))?;
        let (rows, k, leading_dimension) = (*rows, *k, *leading_dimension);
        Ok(SliceWrite { bytes, rows, k, leading_dimension, values: PhantomData })
    }

    /// Sums the carries of a split row, first to last, into its row of Y.
    pub fn merge_split_row(&self, index: usize, split: &SplitRow, scaling: Scaling) -> Result<()> {
        let mut row = lock(self.split_rows.get(index))?;
        let mut sums = SegmentSums::new(row.row_mut(0));
        for &chunk in &split.chunks {
            let mut slice = self.chunk(chunk as usize)?;
            let mut carries = slice.view()?;
            for segment in 0..carries.rows() {
                sums.add(carries.row_mut(segment));
            }
        }
        sums.finish_scaled(scaling.alpha, scaling.beta);
        Ok(())
    }
}

/// The rows that are not yet assigned to a chunk.
struct RemainingRows<'run, T: Scalar> {
    rows: MultiVectorViewMut<'run, T>,
    begin: usize,
}

impl<'run, T: Scalar> RemainingRows<'run, T> {
    /// Takes rows `begin..end` and drops the rows before them.
    fn take(&mut self, begin: usize, end: usize) -> Result<MultiVectorViewMut<'run, T>> {
        let all = std::mem::replace(&mut self.rows, MultiVectorViewMut::try_new(&mut [], 0, 0, 0)?);
        if begin < self.begin || end < begin || end - self.begin > all.rows() {
            return Err(lacking("rows of Y"));
        }
        let (_, behind) = all.split_at_row(begin - self.begin);
        let (taken, rest) = behind.split_at_row(end - begin);
        *self = Self { rows: rest, begin: end };
        Ok(taken)
    }
}

fn lacking(what: &str) -> Error {
    Error::Internal(format!("the plan's chunks do not match its {what}"))
}

fn lock<'a, T>(slice: Option<&'a Mutex<T>>) -> Result<MutexGuard<'a, T>> {
    // After a panic the whole slice is written again, so a poisoned lock is harmless.
    slice.map(|slice| slice.lock().unwrap_or_else(PoisonError::into_inner)).ok_or_else(|| lacking("slices"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::borrow_scope;

    #[test]
    fn writes_to_a_slice_reach_its_rows_of_y() {
        let chunks = [
            ChunkRows::Rows { begin: 0, end: 2 },
            ChunkRows::Segments { row: 2, begin: 0, end: 1 },
            ChunkRows::Segments { row: 2, begin: 1, end: 3 },
            ChunkRows::Rows { begin: 3, end: 4 },
        ];
        let split = SplitRow { row: 2, chunks: vec![1, 2], segments: 3 };
        let mut y = MultiVector::<f64>::zeros_with_leading_dimension(4, 2, 3).unwrap();
        let mut carries = [MultiVector::<f64>::zeros(3, 2).unwrap()];
        borrow_scope(|scope| {
            let outputs = Outputs::cut(y.view_mut(), &mut carries, &chunks, scope).unwrap();
            let fill = |chunk, row, value| {
                outputs.chunk(chunk).unwrap().view().unwrap().row_mut(row).fill(value);
            };
            fill(0, 1, 1.0);
            fill(3, 0, 4.0);
            fill(1, 0, 10.0);
            fill(2, 0, 20.0);
            fill(2, 1, 30.0);
            outputs.merge_split_row(0, &split, Scaling::NONE).unwrap();
        });
        let rows: Vec<f64> = (0..4).map(|row| y.row(row)[1]).collect();
        assert_eq!(rows, [0.0, 1.0, 60.0, 4.0]);
    }

    #[test]
    fn chunks_beyond_y_are_an_error() {
        let chunks = [ChunkRows::Rows { begin: 0, end: 5 }];
        let mut y = MultiVector::<f64>::zeros(4, 1).unwrap();
        borrow_scope(|scope| assert!(Outputs::cut(y.view_mut(), &mut [], &chunks, scope).is_err()));
        let segments = [ChunkRows::Segments { row: 0, begin: 0, end: 1 }];
        borrow_scope(|scope| assert!(Outputs::cut(y.view_mut(), &mut [], &segments, scope).is_err()));
    }
}
