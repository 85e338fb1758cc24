//! CSR with a list of row blocks: runs of consecutive rows with a limited number of nonzeros.
//!
//! Arrays: `row_blocks` (u64), and `row_pointers`, `columns`, `values` of CSR. Block b has the rows from `row_blocks[b]` up to
//! `row_blocks[b + 1]`. The limit is the mean row length, at most [`MAX_BLOCK_NONZEROS`]; a row above the limit is a block by
//! itself.

use super::storage::{Arrays, Storage, cast, write_entries};
use crate::error::{Error, Result};
use crate::kernel::cuda::{Layout, Variant};
use crate::matrix::{CsrView, Scalar};
use crate::work::HeldRows;

/// Maximal nonzeros of a block with several rows: as many as the kernels' shared memory holds.
pub const MAX_BLOCK_NONZEROS: u64 = 1024;

/// Calls `visit` with the end row of each block.
fn for_each_end(row_pointers: &[u64], mut visit: impl FnMut(u64)) {
    let (&[first, ..], &[.., last]) = (row_pointers, row_pointers) else { return };
    let rows = row_pointers.len() as u64 - 1;
    let limit = (last - first).div_ceil(rows.max(1)).clamp(1, MAX_BLOCK_NONZEROS);
    let mut begin = 0;
    for row in 0..rows {
        let end = row_pointers[row as usize + 1];
        if end - row_pointers[begin as usize] > limit {
            if row > begin {
                visit(row);
                begin = row;
            }
            if end - row_pointers[begin as usize] > limit {
                visit(row + 1);
                begin = row + 1;
            }
        }
    }
    if begin < rows {
        visit(rows);
    }
}

/// Storage of `rows`.
pub(super) fn storage<T: Scalar>(variant: &Variant, rows: CsrView<'_, T>) -> Storage {
    let mut blocks = 0;
    for_each_end(rows.row_pointers(), |_| blocks += 1);
    lay_out(variant, blocks, (rows.rows() as u64, rows.nnz() as u64), size_of::<T>() as u64)
}

/// An upper bound on the storage of any chunk with this number of rows and nonzeros.
pub(super) fn upper_bound(variant: &Variant, (rows, nnz): (u64, u64), value_bytes: u64) -> Storage {
    lay_out(variant, rows, (rows, nnz), value_bytes)
}

fn lay_out(variant: &Variant, blocks: u64, (rows, nnz): (u64, u64), value_bytes: u64) -> Storage {
    let arrays = [
        ("row_blocks", blocks + 1, 8),
        ("row_pointers", rows + 1, 8),
        ("columns", nnz, 4),
        ("values", nnz, value_bytes),
    ];
    Storage::lay_out((Layout::RowBlocks, variant), rows, blocks, &arrays)
}

/// Writes `rows` into the arrays of a slot.
pub(super) fn write<T: Scalar>(rows: CsrView<'_, T>, held: &HeldRows, arrays: Arrays<'_, 4>) -> Result<()> {
    let [row_blocks, pointers, columns, values] = arrays;
    let row_blocks: &mut [u64] = cast(row_blocks)?;
    let mut ends = Vec::with_capacity(row_blocks.len());
    ends.push(0);
    for_each_end(rows.row_pointers(), |end| ends.push(end));
    if ends.len() != row_blocks.len() {
        return Err(Error::Internal(
            "the number of row blocks of a chunk has changed since its storage was computed".into(),
        ));
    }
    row_blocks.copy_from_slice(&ends);
    cast(pointers)?.copy_from_slice(rows.row_pointers());
    write_entries(rows, held, cast(columns)?, cast(values)?)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::storage::tests::{part, random_matrix, written};
    use super::*;

    proptest! {
        #[test]
        fn blocks_cover_all_rows_and_respect_the_limit_of_nonzeros(
            lengths in proptest::collection::vec(prop_oneof![Just(0usize), 0..9usize, 0..70usize], 0..40),
            begin in 0..5usize,
        ) {
            let a = random_matrix(&lengths, 80);
            let rows = a.view().slice_rows(begin.min(a.rows())..a.rows());
            let storage = storage(&Variant::PLAIN, rows);
            let slot = written(&storage, rows);
            let blocks: Vec<u64> = part(&slot, &storage, "row_blocks");
            prop_assert_eq!((blocks[0], blocks[blocks.len() - 1]), (0, rows.rows() as u64));
            let limit = rows.nnz().div_ceil(rows.rows().max(1)).clamp(1, MAX_BLOCK_NONZEROS as usize);
            for pair in blocks.windows(2) {
                let nonzeros: usize = (pair[0]..pair[1]).map(|row| rows.row_length(row as usize)).sum();
                prop_assert!(pair[0] < pair[1]);
                prop_assert!(pair[1] - pair[0] == 1 || nonzeros <= limit, "{pair:?} {nonzeros} {limit}");
            }
            let bound = upper_bound(&Variant::PLAIN, (rows.rows() as u64, rows.nnz() as u64), 8);
            prop_assert!(storage.bytes() <= bound.bytes());
        }
    }
}
