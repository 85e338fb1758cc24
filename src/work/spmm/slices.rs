//! Sliced ELLPACK in device memory: rows sorted by length within windows, 32 rows per slice, one lane of a warp per row.
//!
//! Arrays, for slices of 32 lanes; the last slice of a chunk may have lanes without a row:
//!
//! ```text
//! slice_starts   u64, slices + 1     index of each slice's first slot in `columns` and `values`
//! lane_rows      u32, 32 per slice   the lane's row of the chunk; 0xffffffff for a lane without a row
//! lane_lengths   u32, 32 per slice   nonzeros of the lane's row
//! columns        u32                 slot s of lane l is at slice_starts + 32 s + l; 0xffffffff after the end of a row
//! values                             the same indices; zero after the end of a row
//! ```
//!
//! A slice is as wide as its longest row. A row's nonzeros keep their order. Chunks with a row longer than a canonical segment
//! are refused.

use std::ops::Range;

use rayon::prelude::*;

use super::storage::{Arrays, Storage, cast};
use crate::error::{Advice, Error, Result};
use crate::kernel::cuda::{Layout, Variant};
use crate::kernel::order::SEGMENT;
use crate::matrix::ell::PADDING;
use crate::matrix::{CsrView, Scalar};
use crate::work::HeldRows;

/// Lanes of a slice: those of a warp.
const LANES: usize = 32;

/// Rows of a window; rows are sorted by length within a window only, to keep accesses to X and Y local.
const WINDOW: usize = 1024;

/// Storage of `rows`; an error if a row is too long.
pub(super) fn storage<T: Scalar>(variant: &Variant, rows: CsrView<'_, T>) -> Result<Storage> {
    let lengths = rows.row_pointers().windows(2).map(|pair| pair[1] - pair[0]);
    let slots = count_slots(lengths)?;
    Ok(lay_out(variant, rows.rows() as u64, slots, size_of::<T>() as u64))
}

/// The storage of rows with these lengths, which does not depend on their columns; an error if a row is too long.
pub(super) fn upper_bound(
    variant: &Variant,
    lengths: impl Iterator<Item = u64>,
    rows: u64,
    value_bytes: u64,
) -> Result<Storage> {
    Ok(lay_out(variant, rows, count_slots(lengths)?, value_bytes))
}

fn lay_out(variant: &Variant, rows: u64, slots: u64, value_bytes: u64) -> Storage {
    // A window is a whole number of slices, so the number of slices does not depend on the windows.
    let slices = rows.div_ceil(LANES as u64);
    let lanes = slices * LANES as u64;
    let arrays = [
        ("slice_starts", slices + 1, 8),
        ("lane_rows", lanes, 4),
        ("lane_lengths", lanes, 4),
        ("columns", slots, 4),
        ("values", slots, value_bytes),
    ];
    Storage::lay_out((Layout::Slices, variant), rows, slices, &arrays)
}

/// The number of slots of all slices.
fn count_slots(lengths: impl Iterator<Item = u64>) -> Result<u64> {
    let mut slots = 0;
    let mut rows = 0;
    let mut with_length = [0u32; SEGMENT + 1];
    let mut close = |with_length: &mut [u32; SEGMENT + 1]| {
        let mut row = 0;
        for (length, count) in with_length.iter_mut().enumerate().rev() {
            for _ in 0..std::mem::take(count) {
                slots += if row % LANES == 0 { (length * LANES) as u64 } else { 0 };
                row += 1;
            }
        }
    };
    for length in lengths {
        let Some(count) = with_length.get_mut(length as usize) else {
            let reason =
                format!("sliced ELLPACK needs rows of at most {SEGMENT} nonzeros, and a row has {length}");
            return Err(Error::usage(reason).advise([Advice::OtherKernel]));
        };
        *count += 1;
        rows += 1;
        if rows % WINDOW == 0 {
            close(&mut with_length);
        }
    }
    close(&mut with_length);
    Ok(slots)
}

/// The rows of a window, longest first; rows of equal length keep their order.
fn sorted<T: Scalar>(rows: CsrView<'_, T>, window: Range<usize>) -> Vec<u32> {
    let mut order: Vec<u32> = window.map(|row| row as u32).collect();
    order.sort_by_key(|&row| std::cmp::Reverse(rows.row_length(row as usize)));
    order
}

/// Writes `rows` into the arrays of a slot.
pub(super) fn write<T: Scalar>(rows: CsrView<'_, T>, held: &HeldRows, arrays: Arrays<'_, 5>) -> Result<()> {
    let [slice_starts, lane_rows, lane_lengths, columns, values] = arrays;
    let slice_starts: &mut [u64] = cast(slice_starts)?;
    let (lane_rows, lane_lengths): (&mut [u32], &mut [u32]) = (cast(lane_rows)?, cast(lane_lengths)?);
    let (mut columns, mut values): (&mut [u32], &mut [T]) = (cast(columns)?, cast(values)?);
    lane_rows.par_chunks_mut(WINDOW).enumerate().for_each(|(window, lanes)| {
        let begin = window * WINDOW;
        let order = sorted(rows, begin..(begin + WINDOW).min(rows.rows()));
        let (own, none) = lanes.split_at_mut(order.len());
        own.copy_from_slice(&order);
        none.fill(PADDING);
    });
    let mut parts = Vec::new();
    let mut start = 0;
    slice_starts[0] = 0;
    let of_slices = lane_rows.chunks(LANES).zip(lane_lengths.chunks_mut(LANES)).zip(&mut slice_starts[1..]);
    for ((lane_rows, lane_lengths), end) in of_slices {
        for (length, &row) in lane_lengths.iter_mut().zip(lane_rows) {
            *length = if row == PADDING { 0 } else { rows.row_length(row as usize) as u32 };
        }
        let slots = lane_lengths[0] as usize * LANES;
        start += slots as u64;
        *end = start;
        let mismatch =
            || Error::Internal("the slices of a chunk have changed since its storage was computed".into());
        let (own_columns, rest_columns) = columns.split_at_mut_checked(slots).ok_or_else(mismatch)?;
        let (own_values, rest_values) = values.split_at_mut_checked(slots).ok_or_else(mismatch)?;
        (columns, values) = (rest_columns, rest_values);
        parts.push((lane_rows, own_columns, own_values));
    }
    parts.into_par_iter().try_for_each(|(lane_rows, columns, values)| {
        columns.fill(PADDING);
        values.fill(T::ZERO);
        for (lane, &row) in lane_rows.iter().enumerate().filter(|(_, row)| **row != PADDING) {
            let (from_columns, from_values) = rows.row(row as usize);
            for (slot, (&column, &value)) in from_columns.iter().zip(from_values).enumerate() {
                columns[slot * LANES + lane] = held.local_row(column)?;
                values[slot * LANES + lane] = value;
            }
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::storage::tests::{part, random_matrix, written};
    use super::*;

    fn check(lengths: &[usize], begin: usize) {
        let a = random_matrix(lengths, 80);
        let rows = a.view().slice_rows(begin.min(a.rows())..a.rows());
        let storage = storage(&Variant::PLAIN, rows).unwrap();
        let slot = written(&storage, rows);
        let starts: Vec<u64> = part(&slot, &storage, "slice_starts");
        let (lane_rows, lane_lengths): (Vec<u32>, Vec<u32>) =
            (part(&slot, &storage, "lane_rows"), part(&slot, &storage, "lane_lengths"));
        let (columns, values): (Vec<u32>, Vec<f64>) =
            (part(&slot, &storage, "columns"), part(&slot, &storage, "values"));
        let mut seen = vec![false; rows.rows()];
        for slice in 0..storage.items as usize {
            let own = starts[slice] as usize..starts[slice + 1] as usize;
            let longest = lane_lengths[slice * LANES..(slice + 1) * LANES].iter().max().unwrap();
            assert_eq!(own.len(), *longest as usize * LANES);
            for lane in 0..LANES {
                let slots = own.clone().skip(lane).step_by(LANES);
                let length = lane_lengths[slice * LANES + lane] as usize;
                let found: (Vec<u32>, Vec<f64>) =
                    slots.clone().take(length).map(|at| (columns[at], values[at])).unzip();
                assert!(slots.skip(length).all(|at| columns[at] == PADDING && values[at] == 0.0));
                let row = lane_rows[slice * LANES + lane];
                if row == PADDING {
                    assert_eq!(length, 0);
                    continue;
                }
                assert_eq!((&found.0[..], &found.1[..]), rows.row(row as usize));
                assert!(!std::mem::replace(&mut seen[row as usize], true), "row {row} is stored twice");
            }
        }
        assert!(seen.iter().all(|&seen| seen));
        let lengths = (0..rows.rows()).map(|row| rows.row_length(row) as u64);
        let planned = upper_bound(&Variant::PLAIN, lengths, rows.rows() as u64, 8).unwrap();
        assert_eq!(planned, storage);
    }

    proptest! {
        #[test]
        fn slices_store_every_row_once_in_the_planned_size(
            lengths in proptest::collection::vec(prop_oneof![Just(0usize), 0..9usize, 0..70usize], 0..90),
            begin in 0..5usize,
        ) {
            check(&lengths, begin);
        }
    }

    #[test]
    fn rows_are_sorted_within_windows_only() {
        let lengths: Vec<usize> = (0..2 * WINDOW + 100).map(|row| row * 7 % 60).collect();
        check(&lengths, 0);
    }

    #[test]
    fn a_row_longer_than_a_segment_is_refused_with_its_length() {
        let error = storage(&Variant::PLAIN, random_matrix(&[2, 300], 400).view()).unwrap_err().to_string();
        assert!(error.contains("300"), "{error}");
    }

    #[test]
    fn a_slice_has_the_slots_of_its_longest_row_for_each_lane() {
        // Sorted, the first 32 rows have up to 40 nonzeros and the other 8 rows up to 8.
        assert_eq!(count_slots(1..=40).unwrap(), 32 * 40 + 32 * 8);
        // The long row is in the second window, in a slice of its own.
        let lengths = std::iter::repeat_n(1, WINDOW).chain([5]);
        assert_eq!(count_slots(lengths).unwrap(), 1024 + 32 * 5);
        assert_eq!(count_slots(std::iter::empty()).unwrap(), 0);
    }
}
