//! How a piece of A lies in a slot: its arrays one behind the other, each where a device may want it aligned.

use super::{ChunkRows, Work};
use crate::kernel::Format;

/// Every array of a slot begins at a multiple of this.
pub const SLOT_ALIGNMENT_BYTES: u64 = 256;

/// Where the arrays of a staged piece begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StagedLayout {
    /// Row pointers, eight bytes each, one more than rows; they begin the slot. None in padded ELLPACK.
    pub row_pointers: u64,
    /// First byte of the columns, four bytes each.
    pub columns_at: u64,
    /// First byte of the values.
    pub values_at: u64,
    /// Places for entries, padding included.
    pub places: u64,
    /// Bytes of the whole slot.
    pub bytes: u64,
}

impl Work<'_> {
    /// How `piece` lies in a slot in `format`; `longest` is its longest row, which padded formats need.
    pub fn staged(&self, piece: &ChunkRows, format: Format, longest: u64) -> StagedLayout {
        let rows = self.slice_rows(piece) as u64;
        let (row_pointers, places) = match format {
            Format::EllPadded => (0, rows.saturating_mul(longest)),
            _ => (rows + 1, self.piece_nnz(piece)),
        };
        let columns_at = aligned(row_pointers * 8);
        let values_at = columns_at.saturating_add(aligned(places.saturating_mul(4)));
        let value_bytes = places.saturating_mul(self.dtype().bytes() as u64);
        let bytes = values_at.saturating_add(aligned(value_bytes));
        StagedLayout { row_pointers, columns_at, values_at, places, bytes }
    }
}

/// The next multiple of the alignment.
fn aligned(bytes: u64) -> u64 {
    bytes.saturating_add(SLOT_ALIGNMENT_BYTES - 1) / SLOT_ALIGNMENT_BYTES * SLOT_ALIGNMENT_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matrix::generate;

    #[test]
    fn arrays_of_a_slot_are_aligned_and_apart() {
        let arrow = generate::<f32>("arrow,rows=1000", 1, 1 << 30).unwrap().matrix;
        let work = Work::spmm(&arrow.view(), 4).unwrap();
        let piece = ChunkRows::Rows { begin: 1, end: 11 };
        let csr = work.staged(&piece, Format::Csr, 2);
        assert_eq!((csr.row_pointers, csr.columns_at, csr.places), (11, 256, 20));
        assert_eq!((csr.values_at, csr.bytes), (512, 768));
        let ell = work.staged(&piece, Format::EllPadded, 2);
        assert_eq!((ell.columns_at, ell.values_at, ell.bytes), (0, 256, 512));
    }
}
