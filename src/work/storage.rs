//! How a chunk of A lies in a slot of a device's memory: the arrays of its format, one after the other.

use std::ops::Range;

use super::held::HeldColumns;
use super::{ChunkRows, Work};
use crate::error::{Error, Result};
use crate::kernel::Format;
use crate::matrix::ell::PADDING;
use crate::matrix::{CsrView, Scalar};

/// Every array starts at a multiple of this, which suits the widest load of any device; so does what lies behind them.
const ALIGNMENT: u64 = 256;

/// Where the arrays of a chunk lie, in bytes from the start of its slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Storage {
    /// Rows, or segments, of the chunk.
    pub rows: u64,
    /// Entries of a row for padded ELLPACK; none for CSR.
    pub width: Option<u64>,
    /// Row pointers, counting from the whole matrix's start; empty for ELLPACK.
    pub row_pointers: Range<u64>,
    /// Columns, as places in what the device holds of X.
    pub columns: Range<u64>,
    /// Values.
    pub values: Range<u64>,
}

impl Storage {
    /// CSR of `rows` rows with `nnz` nonzeros together.
    pub fn csr(rows: u64, nnz: u64, value_bytes: u64) -> Self {
        Self::lay_out(rows, None, rows + 1, nnz, value_bytes)
    }

    /// ELLPACK of `rows` rows padded to `width`.
    pub fn ell(rows: u64, width: u64, value_bytes: u64) -> Self {
        Self::lay_out(rows, Some(width), 0, rows.saturating_mul(width), value_bytes)
    }

    /// The format that a kernel reads, for rows with `row_pointers`.
    pub fn of(format: Format, row_pointers: &[u64], value_bytes: u64) -> Result<Self> {
        let (&[first, ..], &[.., last]) = (row_pointers, row_pointers) else {
            return Err(Error::Internal("a chunk without row pointers".into()));
        };
        let rows = row_pointers.len() as u64 - 1;
        match format {
            Format::Csr => Ok(Self::csr(rows, last - first, value_bytes)),
            Format::EllPadded => {
                let width = row_pointers.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or(0);
                Ok(Self::ell(rows, width, value_bytes))
            }
            Format::EllUnpadded | Format::Sell => Err(Error::Usage(format!(
                "no kernel of a device reads {}; take --format csr or ell",
                format.name()
            ))),
        }
    }

    fn lay_out(rows: u64, width: Option<u64>, pointers: u64, entries: u64, value_bytes: u64) -> Self {
        let behind =
            |begin: u64, count: u64, size: u64| begin..begin.saturating_add(count.saturating_mul(size));
        let row_pointers = behind(0, pointers, 8);
        let columns = behind(aligned(row_pointers.end), entries, 4);
        let values = behind(aligned(columns.end), entries, value_bytes);
        Self { rows, width, row_pointers, columns, values }
    }

    /// Bytes of all arrays, those between and behind them included.
    pub fn bytes(&self) -> u64 {
        aligned(self.values.end)
    }

    /// Writes `rows` into `slot`; columns become places in `held`.
    pub fn write<T: Scalar>(&self, rows: CsrView<'_, T>, held: &HeldColumns, slot: &mut [u8]) -> Result<()> {
        let room = slot.len() as u64;
        let Some(slot) = slot.get_mut(..self.bytes() as usize) else {
            let needed = self.bytes();
            return Err(Error::Internal(format!("a chunk of {needed} bytes in a slot of {room}")));
        };
        let (front, values) = slot.split_at_mut(self.values.start as usize);
        let (front, columns) = front.split_at_mut(self.columns.start as usize);
        let length = |range: &Range<u64>| (range.end - range.start) as usize;
        let columns: &mut [u32] = cast(&mut columns[..length(&self.columns)])?;
        let values: &mut [T] = cast(&mut values[..length(&self.values)])?;
        match self.width {
            None => {
                let pointers: &mut [u64] = cast(&mut front[..self.row_pointers.end as usize])?;
                pointers.copy_from_slice(rows.row_pointers());
                let range = pointers[0] as usize..pointers[pointers.len() - 1] as usize;
                values.copy_from_slice(&rows.values()[range.clone()]);
                place_all(&rows.columns()[range], held, columns)
            }
            Some(width) => {
                columns.fill(PADDING);
                values.fill(T::ZERO);
                for row in 0..rows.rows() {
                    let (from_columns, from_values) = rows.row(row);
                    let begin = row * width as usize;
                    place_all(from_columns, held, &mut columns[begin..begin + from_columns.len()])?;
                    values[begin..begin + from_values.len()].copy_from_slice(from_values);
                }
                Ok(())
            }
        }
    }
}

impl Work<'_> {
    /// How `piece` lies in a slot in `format`; `longest` is its longest row, which padded formats need.
    pub fn storage(&self, piece: &ChunkRows, format: Format, longest: u64) -> Storage {
        let (rows, value_bytes) = (self.slice_rows(piece) as u64, self.dtype().bytes() as u64);
        match format {
            Format::EllPadded => Storage::ell(rows, longest, value_bytes),
            _ => Storage::csr(rows, self.piece_nnz(piece), value_bytes),
        }
    }
}

/// The next multiple of the alignment.
fn aligned(bytes: u64) -> u64 {
    bytes.checked_next_multiple_of(ALIGNMENT).unwrap_or(u64::MAX)
}

fn place_all(from: &[u32], held: &HeldColumns, to: &mut [u32]) -> Result<()> {
    if matches!(held, HeldColumns::Whole { .. }) {
        to.copy_from_slice(from);
        return Ok(());
    }
    for (to, &column) in to.iter_mut().zip(from) {
        *to = held.place(column)?;
    }
    Ok(())
}

fn cast<T: bytemuck::Pod>(bytes: &mut [u8]) -> Result<&mut [T]> {
    bytemuck::try_cast_slice_mut(bytes)
        .map_err(|error| Error::Internal(format!("a slot is not aligned for its arrays: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matrix::{AlignedBuffer, Csr};

    fn matrix() -> Csr<f64> {
        Csr::try_new(3, 9, vec![0, 2, 2, 5], vec![2, 7, 3, 4, 5], vec![1.0, 2.0, 3.0, 4.0, 5.0]).unwrap()
    }

    fn part<T: bytemuck::Pod>(slot: &[u8], range: &Range<u64>) -> Vec<T> {
        bytemuck::cast_slice(&slot[range.start as usize..range.end as usize]).to_vec()
    }

    #[test]
    fn csr_keeps_its_entries_and_moves_its_columns() {
        let a = matrix();
        let rows = a.view().slice_rows(1..3);
        let storage = Storage::of(Format::Csr, rows.row_pointers(), 8).unwrap();
        let mut slot = AlignedBuffer::<u8>::zeroed(storage.bytes() as usize).unwrap();
        storage.write(rows, &HeldColumns::Range { first: 3, end: 6 }, &mut slot).unwrap();
        assert_eq!(part::<u64>(&slot, &storage.row_pointers), [2, 2, 5]);
        assert_eq!(part::<u32>(&slot, &storage.columns), [0, 1, 2]);
        assert_eq!(part::<f64>(&slot, &storage.values), [3.0, 4.0, 5.0]);
    }

    #[test]
    fn ell_pads_every_row_to_the_longest() {
        let a = matrix();
        let storage = Storage::of(Format::EllPadded, a.view().row_pointers(), 8).unwrap();
        let mut slot = AlignedBuffer::<u8>::zeroed(storage.bytes() as usize).unwrap();
        storage.write(a.view(), &HeldColumns::Whole { cols: 9 }, &mut slot).unwrap();
        let p = PADDING;
        assert_eq!(part::<u32>(&slot, &storage.columns), [2, 7, p, p, p, p, 3, 4, 5]);
        assert_eq!(part::<f64>(&slot, &storage.values), [1.0, 2.0, 0.0, 0.0, 0.0, 0.0, 3.0, 4.0, 5.0]);
    }

    #[test]
    fn a_slot_that_is_too_small_is_an_error() {
        let a = matrix();
        let storage = Storage::of(Format::Csr, a.view().row_pointers(), 8).unwrap();
        let mut slot = AlignedBuffer::<u8>::zeroed(storage.bytes() as usize - 1).unwrap();
        assert!(storage.write(a.view(), &HeldColumns::Whole { cols: 9 }, &mut slot).is_err());
    }

    #[test]
    fn sizes_beyond_memory_do_not_wrap_around() {
        assert_eq!(Storage::ell(1 << 40, 1 << 40, 8).bytes(), u64::MAX);
    }
}
