//! Dispatch from storage layouts to the files that implement them.

use super::storage::{Storage, cast, write_entries};
use super::{ChunkRows, Spmm, cuts, hybrid, items, row_blocks, row_groups, slices};
use crate::error::{Error, Result};
use crate::kernel::cuda::{Layout, Variant};
use crate::matrix::ell::PADDING;
use crate::matrix::{CsrView, Scalar};
use crate::work::Footprint;
use crate::work::HeldRows;

impl Storage {
    /// The storage of `rows` for a kernel's layout and form, computed in the rayon pool of the caller.
    ///
    /// An error if the layout cannot store such rows.
    pub fn of<T: Scalar>(layout: Layout, variant: &Variant, rows: CsrView<'_, T>) -> Result<Self> {
        let (count, value_bytes) = (rows.rows() as u64, size_of::<T>() as u64);
        let lengths = rows.row_pointers().windows(2).map(|pair| pair[1] - pair[0]);
        match layout {
            Layout::Csr => Ok(Self::csr(count, rows.nnz() as u64, value_bytes)),
            Layout::Ellpack => Ok(Self::ell(count, lengths.max().unwrap_or(0), value_bytes)),
            Layout::Cuts | Layout::Pattern => {
                let size = (count, rows.nnz() as u64);
                let storage = cuts::storage((layout, variant), lengths, size, value_bytes);
                Ok(Self { one_value: cuts::first_value(rows), ..storage })
            }
            Layout::Packed => {
                let chunk = ChunkRows::Rows { begin: 0, end: rows.rows() };
                Self::of_packed(variant, rows, rows.packable().packing(), chunk)
            }
            Layout::Runs | Layout::Pieces => items::storage(layout, variant, rows),
            Layout::RowBlocks => Ok(row_blocks::storage(variant, rows)),
            Layout::RowGroups => row_groups::storage(variant, rows),
            Layout::Slices => slices::storage(variant, rows),
            Layout::Hybrid => hybrid::storage(variant, rows),
        }
    }

    /// Writes `rows` into `slot`, with columns translated to row indices of the device's part of X.
    pub fn write<T: Scalar>(&self, rows: CsrView<'_, T>, held: &HeldRows, slot: &mut [u8]) -> Result<()> {
        let (available, needed) = (slot.len() as u64, self.bytes());
        let Some(slot) = slot.get_mut(..needed as usize) else {
            return Err(Error::Internal(format!(
                "a chunk of {needed} bytes does not fit a slot of {available} bytes"
            )));
        };
        match self.layout {
            Layout::Csr => {
                let [pointers, columns, values] = self.split(slot)?;
                cast(pointers)?.copy_from_slice(rows.row_pointers());
                write_entries(rows, held, cast(columns)?, cast(values)?)
            }
            Layout::Ellpack => {
                let [columns, values] = self.split(slot)?;
                let (columns, values): (&mut [u32], &mut [T]) = (cast(columns)?, cast(values)?);
                columns.fill(PADDING);
                values.fill(T::ZERO);
                for row in 0..rows.rows() {
                    let (from_columns, from_values) = rows.row(row);
                    let begin = row * self.width as usize;
                    held.local_rows(from_columns, &mut columns[begin..begin + from_columns.len()])?;
                    values[begin..begin + from_values.len()].copy_from_slice(from_values);
                }
                Ok(())
            }
            Layout::Cuts | Layout::Pattern | Layout::Packed => {
                let list_bytes = self.list_bytes() as usize;
                self.write_list(rows, slot.get_mut(..list_bytes).unwrap_or_default())?;
                self.write_after_list(rows, held, slot)
            }
            Layout::Runs | Layout::Pieces => items::write(self, rows, held, self.split(slot)?),
            Layout::RowBlocks => row_blocks::write(rows, held, self.split(slot)?),
            Layout::RowGroups => row_groups::write(self, rows, held, self.split(slot)?),
            Layout::Slices => slices::write(rows, held, self.split(slot)?),
            Layout::Hybrid => hybrid::write(rows, held, self.split(slot)?),
        }
    }
}

impl Spmm<'_> {
    /// An upper bound on the device memory of `piece`; `longest` is the length of its longest row.
    ///
    /// It follows from the row lengths alone, so that a plan needs no columns. An error if the layout cannot store rows of such
    /// lengths.
    pub fn footprint(
        &self,
        piece: &ChunkRows,
        layout: Layout,
        variant: &Variant,
        longest: u64,
    ) -> Result<Footprint> {
        let (rows, nnz) = (piece.slice_rows() as u64, self.piece_nnz(piece));
        let value_bytes = self.dtype().bytes() as u64;
        let bound = match layout {
            Layout::Csr => Storage::csr(rows, nnz, value_bytes),
            Layout::Ellpack => Storage::ell(rows, longest, value_bytes),
            Layout::Cuts | Layout::Pattern => {
                cuts::storage((layout, variant), self.lengths(piece), (rows, nnz), value_bytes)
            }
            Layout::Packed => self.packed_storage(piece, variant)?,
            Layout::Runs | Layout::Pieces => {
                items::upper_bound(layout, variant, (rows, nnz, longest), value_bytes)
            }
            Layout::RowBlocks => row_blocks::upper_bound(variant, (rows, nnz), value_bytes),
            Layout::RowGroups => row_groups::upper_bound(variant, (rows, nnz, longest), value_bytes)?,
            Layout::Slices => slices::upper_bound(variant, self.lengths(piece), rows, value_bytes)?,
            Layout::Hybrid => hybrid::upper_bound(variant, self.lengths(piece), rows, value_bytes)?,
        };
        Ok(bound.footprint(self.pitch_bytes()))
    }
}
