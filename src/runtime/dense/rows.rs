//! Rows of a dense A: where they are in host memory, and their copies to devices, where rows have the pitch of X and Y.

use std::ops::Range;
use std::sync::Arc;

use rayon::prelude::*;

use super::operand::DenseOperand;
use crate::device::{BorrowScope, DeviceRows, HostTransfer, MemoryRange, Pinned, PinnedRange, RowBytes};
use crate::error::{Error, Result};
use crate::matrix::{MultiVector, MultiVectorView, Scalar};
use crate::plan::Plan;
use crate::work::{ChunkRows, pitch_bytes};

/// Bytes that one task copies: large enough that starting it costs little.
const BYTES_PER_TASK: usize = 1 << 20;

/// A dense A.
pub struct DenseA<'a, T: Scalar>(DenseOperand<'a, T>);

impl<'a, T: Scalar> DenseA<'a, T> {
    /// The matrix.
    pub fn new(matrix: DenseOperand<'a, T>) -> Self {
        Self(matrix)
    }

    /// Rows of it.
    pub fn rows(&self, rows: Range<usize>) -> MultiVectorView<'_, T> {
        self.0.view().rows_in(rows)
    }

    /// Its owner; `None` if it is borrowed.
    pub fn shared(&self) -> Option<Arc<MultiVector<T>>> {
        match &self.0 {
            DenseOperand::Shared(matrix) => Some(matrix.clone()),
            DenseOperand::Borrowed(_) => None,
        }
    }

    /// The bytes of some rows of a borrowed matrix; none if it is shared.
    pub fn borrowed_bytes(&self, rows: Range<usize>) -> Vec<&'a [u8]> {
        match self.0 {
            DenseOperand::Borrowed(view) => bytes_of(view, rows),
            DenseOperand::Shared(_) => Vec::new(),
        }
    }

    /// The whole matrix as pinned memory for the duration of `scope`.
    pub fn borrow<'env>(&'env self, scope: &BorrowScope<'env>) -> Pinned {
        scope.read_only(bytemuck::cast_slice(self.0.view().data()))
    }

    /// Bytes from one row to the next on a device.
    fn pitch_bytes(&self) -> u64 {
        pitch_bytes((self.0.view().k() * size_of::<T>()) as u64)
    }

    /// Bytes of `rows` rows on a device.
    pub fn device_bytes(&self, rows: usize) -> u64 {
        rows as u64 * self.pitch_bytes()
    }

    /// Rows on a device.
    pub fn on_device(&self, rows: usize, memory: MemoryRange) -> DeviceRows {
        DeviceRows {
            dtype: T::DTYPE,
            memory,
            rows: rows as u64,
            columns: self.0.view().k() as u64,
            leading_dimension: self.pitch_bytes() / size_of::<T>() as u64,
        }
    }

    /// Writes rows as devices store them, on the current rayon pool. The padding is zero.
    pub fn stage(&self, rows: Range<usize>, to: &mut [u8]) -> Result<()> {
        let all = self.device_bytes(rows.len());
        self.stage_part(rows, 0..all, to)
    }

    /// Writes the bytes `part` of rows as devices store them.
    pub fn stage_part(&self, rows: Range<usize>, part: Range<u64>, to: &mut [u8]) -> Result<()> {
        let (a, pitch) = (self.rows(rows), self.pitch_bytes() as usize);
        let part = part.start as usize..(part.end as usize).min(a.rows() * pitch);
        let given = to.len();
        let to = to.get_mut(..part.len()).ok_or_else(|| {
            Error::Internal(format!("{given} bytes of pinned memory are too few for {}", part.len()))
        })?;
        to.par_chunks_mut(BYTES_PER_TASK).enumerate().for_each(|(task, mut to)| {
            let mut at = part.start + task * BYTES_PER_TASK;
            while !to.is_empty() {
                let (row, inside) = (at / pitch, at % pitch);
                let (own, rest) = to.split_at_mut(to.len().min(pitch - inside));
                let values: &[u8] = bytemuck::cast_slice(a.row(row));
                let values = values.get(inside..).unwrap_or_default();
                let (copied, padding) = own.split_at_mut(own.len().min(values.len()));
                copied.copy_from_slice(&values[..copied.len()]);
                padding.fill(0);
                at += own.len();
                to = rest;
            }
        });
        Ok(())
    }

    /// The copies of rows from `a`, the whole matrix, to `to`.
    pub fn copies_in_place(&self, rows: Range<usize>, a: &Pinned, to: MemoryRange) -> Vec<HostTransfer> {
        let view = self.0.view();
        let (row_bytes, pitch_bytes) = ((view.k() * size_of::<T>()) as u64, self.pitch_bytes());
        let host_pitch_bytes = (view.leading_dimension() * size_of::<T>()) as u64;
        let (first, count) = (rows.start as u64, rows.len() as u64);
        if count == 0 || row_bytes == 0 {
            return Vec::new();
        }
        let begin = first * host_pitch_bytes;
        let host = |bytes: u64| PinnedRange { pinned: a.clone(), begin, end: begin + bytes };
        let up_to_last = |pitch: u64| (count - 1) * pitch + row_bytes;
        if host_pitch_bytes == pitch_bytes || count == 1 {
            let bytes = up_to_last(pitch_bytes);
            return vec![HostTransfer::whole(host(bytes), MemoryRange { end: to.begin + bytes, ..to })];
        }
        let rows = RowBytes { bytes: row_bytes, pitch_bytes, host_pitch_bytes };
        vec![HostTransfer { host: host(up_to_last(host_pitch_bytes)), device: to, rows }]
    }
}

/// The bytes of some rows, from the first element of the first to the last element of the last.
pub fn bytes_of<T: Scalar>(a: MultiVectorView<'_, T>, rows: Range<usize>) -> Vec<&[u8]> {
    let (pitch, columns) = (a.leading_dimension(), a.k());
    let end = (rows.end.max(1) - 1) * pitch + columns;
    let values = a.data().get(rows.start * pitch..end.max(rows.start * pitch)).unwrap_or_default();
    if rows.is_empty() || values.is_empty() { Vec::new() } else { vec![bytemuck::cast_slice(values)] }
}

/// The smallest range of rows that contains the chunks of device number `device`; `rows_of` gives those of a chunk.
pub fn rows_of_device(
    plan: &Plan,
    device: usize,
    rows_of: impl Fn(&ChunkRows) -> Range<usize>,
) -> Range<usize> {
    let number = device as u32;
    let own = plan.chunks.iter().filter(|chunk| chunk.home == number || chunk.also.contains(&number));
    let rows = own.map(|chunk| rows_of(&chunk.rows));
    rows.reduce(|all, rows| all.start.min(rows.start)..all.end.max(rows.end)).unwrap_or_default()
}
