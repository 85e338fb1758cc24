//! ELLPACK of width four with longer rows beside it, for kernels that read a short row's columns without a row pointer.
//!
//! ```text
//! columns        u32, 4 a row           0xffffffff behind a row's end; 0xfffffffe in place of a longer row
//! values         4 a row                whatever behind a row's end, but the first is a value of the matrix if there is any
//! long_rows      u32, 4 a longer row    its first place in `long_columns`, low word first, its nonzeros, and the row
//! long_columns   u32                    longer rows one after the other, each from a multiple of four on, 0xffffffff between
//! long_values                           the same places
//! ```
//!
//! Items are as many short rows together as the variant says, in blocks of their own, and after them the longer rows. Rows are at most one canonical
//! segment long; longer ones are refused.

use rayon::prelude::*;

use super::held::HeldColumns;
use super::storage::{Arrays, Storage, cast, padded_entries};
use crate::error::{Error, Result};
use crate::kernel::cuda::{Layout, Variant};
use crate::kernel::order::SEGMENT;
use crate::matrix::ell::PADDING;
use crate::matrix::{CsrView, Scalar};

/// Places of a row; longer rows lie apart.
const WIDTH: usize = 4;

/// What a longer row has as columns.
const LONG: u32 = PADDING - 1;

/// Rows that one task writes.
const TOGETHER: usize = 4096;

/// Storage of `rows`; an error that says why where there can be none.
pub(super) fn storage<T: Scalar>(variant: &Variant, rows: CsrView<'_, T>) -> Result<Storage> {
    if rows.cols() > LONG as usize {
        let cols = rows.cols();
        return Err(Error::Usage(format!(
            "{cols} columns leave no number to mark long rows; take another --kernel"
        )));
    }
    let lengths = rows.row_pointers().windows(2).map(|pair| pair[1] - pair[0]);
    most(variant, lengths, rows.rows() as u64, size_of::<T>() as u64)
}

/// What rows of those lengths take.
pub(super) fn most(
    variant: &Variant,
    lengths: impl Iterator<Item = u64>,
    rows: u64,
    value_bytes: u64,
) -> Result<Storage> {
    let (mut long_rows, mut long_entries) = (0u64, 0u64);
    for length in lengths.filter(|&length| length > WIDTH as u64) {
        if length > SEGMENT as u64 {
            return Err(Error::Usage(format!(
                "rows lie beside each other and long ones apart only if none has more than {SEGMENT} nonzeros, and one has \
                 {length}; take another --kernel"
            )));
        }
        long_rows += 1;
        long_entries += padded_entries(length);
    }
    let entries = rows.saturating_mul(WIDTH as u64);
    let arrays = [
        ("columns", entries, 4),
        ("values", entries, value_bytes),
        ("long_rows", 4 * long_rows, 4),
        ("long_columns", long_entries, 4),
        ("long_values", long_entries, value_bytes),
    ];
    let short_items = rows.div_ceil(u64::from(variant.rows.max(1)));
    let storage = Storage::lay_out((Layout::Hybrid, variant), rows, short_items + long_rows, &arrays);
    Ok(Storage { heavy: short_items, ..storage })
}

/// Writes the chunk.
pub(super) fn write<T: Scalar>(
    rows: CsrView<'_, T>,
    held: &HeldColumns,
    arrays: Arrays<'_, 5>,
) -> Result<()> {
    let [columns, values, long_rows, long_columns, long_values] = arrays;
    let (columns, values): (&mut [u32], &mut [T]) = (cast(columns)?, cast(values)?);
    let long_rows: &mut [u32] = cast(long_rows)?;
    let (mut long_columns, mut long_values): (&mut [u32], &mut [T]) =
        (cast(long_columns)?, cast(long_values)?);
    // A kernel for equal values reads the first one only, be it in a row or behind its end.
    let first = rows.row_pointers().first().and_then(|&at| rows.values().get(at as usize).copied());
    let first = first.unwrap_or(T::ZERO);
    let blocks = columns.par_chunks_mut(TOGETHER * WIDTH).zip(values.par_chunks_mut(TOGETHER * WIDTH));
    blocks.enumerate().try_for_each(|(block, (columns, values))| {
        columns.fill(PADDING);
        values.fill(first);
        let places = columns.chunks_exact_mut(WIDTH).zip(values.chunks_exact_mut(WIDTH));
        for (row, (columns, values)) in (block * TOGETHER..).zip(places) {
            let (from_columns, from_values) = rows.row(row);
            if let Some(places) = columns.get_mut(..from_columns.len()) {
                held.place_all(from_columns, places)?;
                values[..from_values.len()].copy_from_slice(from_values);
            } else {
                columns.fill(LONG);
            }
        }
        Ok::<(), Error>(())
    })?;
    let room = || Error::Internal("a chunk has other long rows than when it was laid out".into());
    let mut begin = 0u64;
    let mut about = long_rows.chunks_exact_mut(4);
    for row in (0..rows.rows()).filter(|&row| rows.row_length(row) > WIDTH) {
        let (from_columns, from_values) = rows.row(row);
        let length = from_columns.len();
        let padded = length.next_multiple_of(4);
        let about = about.next().ok_or_else(room)?;
        about.copy_from_slice(&[begin as u32, (begin >> 32) as u32, length as u32, row as u32]);
        let (own_columns, rest_columns) = long_columns.split_at_mut_checked(padded).ok_or_else(room)?;
        let (own_values, rest_values) = long_values.split_at_mut_checked(padded).ok_or_else(room)?;
        (long_columns, long_values) = (rest_columns, rest_values);
        own_columns[length..].fill(PADDING);
        own_values[length..].fill(T::ZERO);
        held.place_all(from_columns, &mut own_columns[..length])?;
        own_values[..length].copy_from_slice(from_values);
        begin += padded as u64;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::storage::tests::{part, random_matrix, written};
    use super::*;

    const VARIANT: Variant = Variant { rows: 2, ..Variant::PLAIN };

    proptest! {
        #[test]
        fn every_row_is_found_in_its_places_or_beside_them(
            lengths in proptest::collection::vec(prop_oneof![Just(0usize), 0..6usize, 0..70usize], 0..90),
            begin in 0..5usize,
        ) {
            let a = random_matrix(&lengths, 80);
            let rows = a.view().slice_rows(begin.min(a.rows())..a.rows());
            let storage = storage(&VARIANT, rows).unwrap();
            let slot = written(&storage, rows);
            let (columns, values): (Vec<u32>, Vec<f64>) =
                (part(&slot, &storage, "columns"), part(&slot, &storage, "values"));
            let long_rows: Vec<u32> = part(&slot, &storage, "long_rows");
            let (long_columns, long_values): (Vec<u32>, Vec<f64>) =
                (part(&slot, &storage, "long_columns"), part(&slot, &storage, "long_values"));
            prop_assert_eq!(storage.items as usize, rows.rows().div_ceil(2) + long_rows.len() / 4);
            for row in 0..rows.rows() {
                let own = 4 * row..4 * row + 4;
                let found = if columns[own.start] == LONG {
                    let about = long_rows.chunks_exact(4).find(|about| about[3] as usize == row).unwrap();
                    let first = about[0] as usize | (about[1] as usize) << 32;
                    prop_assert!(first.is_multiple_of(4) && about[2] > 4);
                    let own = first..first + about[2] as usize;
                    let behind = &long_columns[own.end..own.end.next_multiple_of(4)];
                    prop_assert!(behind.iter().all(|&column| column == PADDING));
                    (long_columns[own.clone()].to_vec(), long_values[own].to_vec())
                } else {
                    own.filter(|&at| columns[at] != PADDING).map(|at| (columns[at], values[at])).unzip()
                };
                prop_assert_eq!((&found.0[..], &found.1[..]), rows.row(row));
            }
            if rows.nnz() > 0 {
                prop_assert_eq!(values[0], rows.values()[rows.row_pointers()[0] as usize]);
            }
        }
    }

    #[test]
    fn rows_that_are_too_long_are_refused_with_a_reason() {
        let error = storage(&VARIANT, random_matrix(&[2, 300], 400).view()).unwrap_err().to_string();
        assert!(error.contains("300"), "{error}");
    }
}
