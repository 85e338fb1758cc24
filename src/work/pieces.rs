//! Compressed rows with a list of pieces beside them: the nonzeros of long rows are cut, so that no item of a launch has
//! more than a given number of them.
//!
//! Arrays: `pieces`, `counters`, `columns`, `values`. Columns and values are those of compressed rows. A piece is a record
//! of 32 bytes:
//!
//! ```text
//! u64 begin        its first nonzero, counted from the chunk's first
//! u32 length       its nonzeros; 0 for a row without any
//! u32 row          its row of the chunk
//! u32 slot         0xffffffff: it is a whole row, whose sum goes to Y; else its place in `scratch`
//! u32 first_slot   place in `scratch` of the row's first piece
//! u32 count        pieces of the row
//! u32 counter      which of `counters` is the row's
//! ```
//!
//! `scratch` has one row of Y's pitch for each piece of a cut row, in the order of the row's nonzeros. `counters` are u32,
//! one for each cut row, and zero before every launch: whoever finishes a row's last piece adds its slots first to last,
//! writes the sum to Y and sets the counter back to zero.
//!
//! Pieces of [`SEGMENT`](crate::kernel::order::SEGMENT) nonzeros are canonical segments.

use rayon::prelude::*;

use super::held::HeldColumns;
use super::storage::{Arrays, Storage, cast, write_entries};
use crate::error::{Error, Result};
use crate::kernel::cuda::{Layout, Variant};
use crate::matrix::{CsrView, Scalar};

/// The slot of a piece that is a whole row.
pub const WHOLE_ROW: u32 = u32::MAX;

/// A piece of a row, as it lies in a device's memory.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, bytemuck::Pod, bytemuck::Zeroable)]
pub struct Piece {
    /// Its first nonzero, counted from the chunk's first.
    pub begin: u64,
    /// Its nonzeros.
    pub length: u32,
    /// Its row of the chunk.
    pub row: u32,
    /// Its place in the scratch, or [`WHOLE_ROW`].
    pub slot: u32,
    /// Place of the row's first piece.
    pub first_slot: u32,
    /// Pieces of the row.
    pub count: u32,
    /// Which counter is the row's.
    pub counter: u32,
}

/// How many there are of everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Counts {
    pieces: u64,
    cut_rows: u64,
    slots: u64,
}

/// Pieces of a row with `length` nonzeros.
fn pieces_of(length: u64, most: u64) -> u64 {
    if most == 0 { 1 } else { length.div_ceil(most).max(1) }
}

/// Storage of `rows`; pieces are in the order of their first columns if `by_column`, else of their rows.
pub(super) fn storage<T: Scalar>(
    variant: &Variant,
    rows: CsrView<'_, T>,
    by_column: bool,
) -> Result<Storage> {
    let most = u64::from(variant.piece);
    let mut counts = Counts::default();
    for pair in rows.row_pointers().windows(2) {
        let length = pair[1] - pair[0];
        let pieces = pieces_of(length, most);
        counts.pieces += pieces;
        if pieces > 1 {
            counts.cut_rows += 1;
            counts.slots += pieces;
        }
        if most == 0 && length > u64::from(u32::MAX) {
            return Err(too_large());
        }
    }
    if counts.pieces >= u64::from(WHOLE_ROW) {
        return Err(too_large());
    }
    let (nnz, value_bytes) = (rows.nnz() as u64, size_of::<T>() as u64);
    let storage = lay_out(variant, counts, (rows.rows() as u64, nnz), value_bytes);
    Ok(Storage { by_column, ..storage })
}

/// The most that chunks of so many rows and nonzeros take, whichever rows have them.
pub(super) fn most(variant: &Variant, (rows, nnz, longest): (u64, u64, u64), value_bytes: u64) -> Storage {
    let most = u64::from(variant.piece);
    let counts = if most == 0 || longest <= most {
        Counts { pieces: rows, ..Counts::default() }
    } else {
        let cut_rows = rows.min(nnz / (most + 1));
        Counts { pieces: rows.saturating_add(nnz / most), cut_rows, slots: nnz / most + cut_rows }
    };
    lay_out(variant, counts, (rows, nnz), value_bytes)
}

fn lay_out(variant: &Variant, counts: Counts, (rows, nnz): (u64, u64), value_bytes: u64) -> Storage {
    let arrays = [
        ("pieces", counts.pieces, size_of::<Piece>() as u64),
        ("counters", counts.cut_rows, 4),
        ("columns", nnz, 4),
        ("values", nnz, value_bytes),
    ];
    let storage = Storage::lay_out((Layout::Pieces, variant), rows, counts.pieces, &arrays);
    Storage { scratch_rows: counts.slots, ..storage }
}

/// Writes the chunk.
pub(super) fn write<T: Scalar>(
    storage: &Storage,
    rows: CsrView<'_, T>,
    held: &HeldColumns,
    arrays: Arrays<'_, 4>,
) -> Result<()> {
    let [pieces, counters, columns, values] = arrays;
    let pieces: &mut [Piece] = cast(pieces)?;
    counters.fill(0);
    let columns: &mut [u32] = cast(columns)?;
    write_entries(rows, held, columns, cast(values)?)?;
    let most = u64::from(storage.variant.piece);
    let (mut at, mut slots, mut cut_rows) = (0, 0, 0);
    let first = rows.row_pointers().first().copied().unwrap_or(0);
    for (row, pair) in rows.row_pointers().windows(2).enumerate() {
        let (begin, length) = (pair[0] - first, pair[1] - pair[0]);
        let count = pieces_of(length, most);
        let of_row = pieces.get_mut(at..at + count as usize).ok_or_else(too_large)?;
        let is_cut = count > 1;
        for (index, piece) in of_row.iter_mut().enumerate() {
            let offset = index as u64 * most;
            let rest = length - offset;
            *piece = Piece {
                begin: begin + offset,
                length: if is_cut { rest.min(most) } else { rest } as u32,
                row: row as u32,
                slot: if is_cut { slots + index as u32 } else { WHOLE_ROW },
                first_slot: slots,
                count: count as u32,
                counter: cut_rows,
            };
        }
        at += count as usize;
        if is_cut {
            slots += count as u32;
            cut_rows += 1;
        }
    }
    if storage.by_column {
        // Pieces that begin at the same column stay in the order of their rows.
        pieces.par_sort_by_key(|piece| columns.get(piece.begin as usize).copied());
    }
    Ok(())
}

fn too_large() -> Error {
    Error::Usage("a chunk has more rows or longer ones than pieces can count; take more --chunks".into())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::storage::tests::{part, random_matrix, written};
    use super::*;

    proptest! {
        #[test]
        fn pieces_give_back_every_row_and_fit_their_bound(
            lengths in proptest::collection::vec(prop_oneof![Just(0usize), 0..9usize, 0..70usize], 0..40),
            piece in prop_oneof![Just(0u32), 1..20u32],
            by_column: bool,
            begin in 0..5usize,
        ) {
            let a = random_matrix(&lengths, 80);
            let rows = a.view().slice_rows(begin.min(a.rows())..a.rows());
            let variant = Variant { piece, ..Variant::PLAIN };
            let storage = storage(&variant, rows, by_column).unwrap();
            let slot = written(&storage, rows);
            let pieces: Vec<Piece> = part(&slot, &storage, "pieces");
            prop_assert_eq!(pieces.len() as u64, storage.items);
            prop_assert!(part::<u32>(&slot, &storage, "counters").iter().all(|&count| count == 0));
            let (columns, values): (Vec<u32>, Vec<f64>) =
                (part(&slot, &storage, "columns"), part(&slot, &storage, "values"));
            let mut in_order = pieces.clone();
            in_order.sort_by_key(|piece| (piece.row, piece.begin));
            let first_column = |piece: &Piece| columns.get(piece.begin as usize).copied();
            prop_assert!(!by_column || pieces.is_sorted_by_key(first_column));
            prop_assert!(by_column || pieces == in_order);

            let counters = storage.array("counters").unwrap();
            let (mut slots_seen, mut counters_seen) = (0, 0);
            for row in 0..rows.rows() {
                let own: Vec<&Piece> = in_order.iter().filter(|piece| piece.row as usize == row).collect();
                let entries: Vec<usize> =
                    own.iter().flat_map(|p| p.begin as usize..p.begin as usize + p.length as usize).collect();
                let found: (Vec<u32>, Vec<f64>) =
                    entries.iter().map(|&at| (columns[at], values[at])).unzip();
                prop_assert_eq!((&found.0[..], &found.1[..]), rows.row(row));
                prop_assert!(own.iter().all(|p| piece == 0 || p.length <= piece));
                if own.len() == 1 {
                    prop_assert_eq!(own[0].slot, WHOLE_ROW);
                    continue;
                }
                for (index, p) in own.iter().enumerate() {
                    prop_assert_eq!((p.slot, p.first_slot), (slots_seen + index as u32, slots_seen));
                    prop_assert_eq!((p.count as usize, p.counter), (own.len(), counters_seen));
                }
                slots_seen += own.len() as u32;
                counters_seen += 1;
            }
            prop_assert_eq!(storage.scratch_rows, u64::from(slots_seen));
            prop_assert_eq!((counters.end - counters.start) / 4, u64::from(counters_seen));
            let longest = (0..rows.rows()).map(|row| rows.row_length(row)).max().unwrap_or(0) as u64;
            let bound = most(&variant, (rows.rows() as u64, rows.nnz() as u64, longest), 8);
            prop_assert!(storage.bytes() <= bound.bytes() && storage.scratch_rows <= bound.scratch_rows);
        }
    }
}
