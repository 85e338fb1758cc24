//! Hybrid format: ELLPACK of width 4 for short rows, read without row pointers; other rows are stored separately.
//!
//! ```text
//! columns        4 per row                u16 distances from the row's base (0xffff after the end of a row, 0xfffe for a separate
//!                                         row), or u32 columns (0xffffffff and 0xfffffffe)
//! bases          u32, one per 32 rows     empty if columns are u32
//! values         4 per row                undefined after the end of a row, but the first one is a value of the matrix, if any
//! long_rows      u32, 4 per separate row  first index in `long_columns`, low word first; nonzeros; row
//! long_columns   u32                      separate rows one after the other, each from a multiple of 4 on, padded with 0xffffffff
//! long_values                             the same indices
//! ```
//!
//! Separate rows are those longer than 4, and short rows with a column that 16 bits do not reach from the base. If there are
//! many of the latter, columns are u32 and only rows longer than 4 are separate.
//!
//! The first work items are groups of `variant.rows` short rows, in thread blocks of their own; the separate rows follow. Chunks
//! with a row longer than a canonical segment are refused.

use std::ops::{Range, RangeInclusive};

use rayon::prelude::*;

use super::storage::{Arrays, Storage, cast, padded_entries};
use crate::error::{Advice, Error, Result};
use crate::kernel::cuda::{Layout, Variant};
use crate::kernel::order::SEGMENT;
use crate::matrix::ell::PADDING;
use crate::matrix::{CsrView, Scalar};
use crate::work::HeldRows;

/// Entries per row of the ELLPACK part; longer rows are separate.
const WIDTH: usize = 4;

/// The column that marks a separate row. Its lower half marks one among 16-bit distances, as with `PADDING`.
const SEPARATE_ROW: u32 = PADDING - 1;

/// Rows with a common base.
const TILE_ROWS: usize = 32;

/// The largest 16-bit distance from a base; larger ones are marks.
const MAX_DISTANCE: u32 = 0xfffd;

/// 16-bit distances are used if at most one in so many short rows is out of reach of its base: a separate row loses more time
/// than another row gains.
const SHORT_ROWS_PER_FAR_ROW: u64 = 16;

/// Rows per parallel task, a multiple of `TILE_ROWS`.
const ROWS_PER_TASK: usize = 128 * TILE_ROWS;

/// The local rows of X for the columns of a short row.
type LocalRows = [u32; WIDTH];

/// The number of separate rows, and of their entries in `long_columns`.
#[derive(Clone, Copy)]
struct SeparateRows {
    rows: u64,
    entries: u64,
}

/// Storage of `rows`; an error if a row is too long or there are too many columns.
pub(super) fn storage<T: Scalar>(variant: &Variant, rows: CsrView<'_, T>) -> Result<Storage> {
    if rows.cols() > SEPARATE_ROW as usize {
        let cols = rows.cols();
        let reason =
            format!("the hybrid format supports at most {SEPARATE_ROW} columns, and the matrix has {cols}");
        return Err(Error::usage(reason).advise([Advice::OtherKernel]));
    }
    let (count, value_bytes) = (rows.rows() as u64, size_of::<T>() as u64);
    let long = long_rows(rows.row_pointers().windows(2).map(|pair| pair[1] - pair[0]))?;
    let wide = lay_out(variant, count, long, false, value_bytes);
    let far = count_far_rows(rows);
    if far * SHORT_ROWS_PER_FAR_ROW > count - long.rows {
        return Ok(wide);
    }
    let separate =
        SeparateRows { rows: long.rows + far, entries: long.entries + far * padded_entries(WIDTH as u64) };
    let narrow = lay_out(variant, count, separate, true, value_bytes);
    // For few rows, the alignment of the arrays can make the narrow form larger.
    Ok(if narrow.bytes() <= wide.bytes() { narrow } else { wide })
}

/// An upper bound on the storage of rows with these lengths: the size with 32-bit columns, since `storage` uses 16 bits only if
/// that is not larger. An error if a row is too long.
pub(super) fn upper_bound(
    variant: &Variant,
    lengths: impl Iterator<Item = u64>,
    rows: u64,
    value_bytes: u64,
) -> Result<Storage> {
    Ok(lay_out(variant, rows, long_rows(lengths)?, false, value_bytes))
}

/// The rows that are separate because of their lengths.
fn long_rows(lengths: impl Iterator<Item = u64>) -> Result<SeparateRows> {
    let mut separate = SeparateRows { rows: 0, entries: 0 };
    for length in lengths.filter(|&length| length > WIDTH as u64) {
        if length > SEGMENT as u64 {
            let reason =
                format!("the hybrid format needs rows of at most {SEGMENT} nonzeros, and a row has {length}");
            return Err(Error::usage(reason).advise([Advice::OtherKernel]));
        }
        separate.rows += 1;
        separate.entries += padded_entries(length);
    }
    Ok(separate)
}

fn lay_out(variant: &Variant, rows: u64, separate: SeparateRows, narrow: bool, value_bytes: u64) -> Storage {
    let entries = rows.saturating_mul(WIDTH as u64);
    let (column_bytes, bases) = if narrow { (2, rows.div_ceil(TILE_ROWS as u64)) } else { (4, 0) };
    let arrays = [
        ("columns", entries, column_bytes),
        ("bases", bases, 4),
        ("values", entries, value_bytes),
        ("long_rows", 4 * separate.rows, 4),
        ("long_columns", separate.entries, 4),
        ("long_values", separate.entries, value_bytes),
    ];
    let short_items = rows.div_ceil(u64::from(variant.rows.max(1)));
    let storage = Storage::lay_out((Layout::Hybrid, variant), rows, short_items + separate.rows, &arrays);
    Storage { heavy: short_items, ..storage }
}

/// The range of columns that rows with a common base may have: centred on the median of the short rows' first columns.
///
/// Local rows of X are in column order and no farther apart than the columns, so 16 bits suffice for any part of X that a
/// device holds.
fn reach<T: Scalar>(rows: CsrView<'_, T>, tile: Range<usize>) -> RangeInclusive<u32> {
    let mut firsts = [0; TILE_ROWS];
    let mut count = 0;
    let short = tile.map(|row| rows.row(row).0).filter(|columns| columns.len() <= WIDTH);
    for (to, &first) in firsts.iter_mut().zip(short.filter_map(<[u32]>::first)) {
        *to = first;
        count += 1;
    }
    let firsts = &mut firsts[..count];
    firsts.sort_unstable();
    let median = firsts.get(count / 2).copied().unwrap_or(0);
    let first = median.saturating_sub(MAX_DISTANCE / 2);
    first..=first.saturating_add(MAX_DISTANCE)
}

/// The number of short rows with a column that their base does not reach.
fn count_far_rows<T: Scalar>(rows: CsrView<'_, T>) -> u64 {
    let tiles = (0..rows.rows()).into_par_iter().step_by(TILE_ROWS);
    let far = tiles.map(|begin| {
        let tile = begin..rows.rows().min(begin + TILE_ROWS);
        let reach = reach(rows, tile.clone());
        let short = tile.map(|row| rows.row(row).0).filter(|columns| columns.len() <= WIDTH);
        short.filter(|columns| !columns.iter().all(|column| reach.contains(column))).count() as u64
    });
    far.sum()
}

/// Writes `rows` into the arrays of a slot.
pub(super) fn write<T: Scalar>(rows: CsrView<'_, T>, held: &HeldRows, arrays: Arrays<'_, 6>) -> Result<()> {
    let [columns, bases, values, long_rows, long_columns, long_values] = arrays;
    let (bases, values): (&mut [u32], &mut [[T; WIDTH]]) = (cast(bases)?, cast(values)?);
    let separate = if bases.is_empty() {
        write_wide(rows, held, cast(columns)?, values)?
    } else {
        write_narrow(rows, held, cast(columns)?, bases, values)?
    };
    let long_rows: &mut [u32] = cast(long_rows)?;
    let (mut long_columns, mut long_values): (&mut [u32], &mut [T]) =
        (cast(long_columns)?, cast(long_values)?);
    let mismatch =
        || Error::Internal("the separate rows of a chunk have changed since its storage was computed".into());
    let mut begin = 0u64;
    let mut headers = long_rows.chunks_exact_mut(4);
    for row in separate.into_iter().flatten() {
        let (from_columns, from_values) = rows.row(row);
        let length = from_columns.len();
        let padded = length.next_multiple_of(4);
        let header = headers.next().ok_or_else(mismatch)?;
        header.copy_from_slice(&[begin as u32, (begin >> 32) as u32, length as u32, row as u32]);
        let (own_columns, rest_columns) = long_columns.split_at_mut_checked(padded).ok_or_else(mismatch)?;
        let (own_values, rest_values) = long_values.split_at_mut_checked(padded).ok_or_else(mismatch)?;
        (long_columns, long_values) = (rest_columns, rest_values);
        own_columns[length..].fill(PADDING);
        own_values[length..].fill(T::ZERO);
        held.local_rows(from_columns, &mut own_columns[..length])?;
        own_values[..length].copy_from_slice(from_values);
        begin += padded as u64;
    }
    if headers.next().is_some() { Err(mismatch()) } else { Ok(()) }
}

/// Writes the short rows with 32-bit columns; returns the separate rows of each task.
fn write_wide<T: Scalar>(
    rows: CsrView<'_, T>,
    held: &HeldRows,
    columns: &mut [LocalRows],
    values: &mut [[T; WIDTH]],
) -> Result<Vec<Vec<usize>>> {
    let first = first_value(rows);
    let tasks = columns.par_chunks_mut(ROWS_PER_TASK).zip(values.par_chunks_mut(ROWS_PER_TASK)).enumerate();
    tasks
        .map(|(task, (columns, values))| {
            let (begin, mut separate) = (task * ROWS_PER_TASK, Vec::new());
            values.fill([first; WIDTH]);
            let own = begin..begin + columns.len();
            write_short_rows(rows, held, own, &(0..=u32::MAX), (columns, values), &mut separate)?;
            Ok(separate)
        })
        .collect()
}

/// Writes the short rows with 16-bit columns; returns the separate rows of each task.
fn write_narrow<T: Scalar>(
    rows: CsrView<'_, T>,
    held: &HeldRows,
    columns: &mut [[u16; WIDTH]],
    bases: &mut [u32],
    values: &mut [[T; WIDTH]],
) -> Result<Vec<Vec<usize>>> {
    let first = first_value(rows);
    let tasks = columns.par_chunks_mut(ROWS_PER_TASK).zip(values.par_chunks_mut(ROWS_PER_TASK));
    tasks
        .zip(bases.par_chunks_mut(ROWS_PER_TASK / TILE_ROWS))
        .enumerate()
        .map(|(task, ((columns, values), bases))| {
            let (mut begin, mut separate) = (task * ROWS_PER_TASK, Vec::new());
            values.fill([first; WIDTH]);
            let tiles = columns.chunks_mut(TILE_ROWS).zip(values.chunks_mut(TILE_ROWS));
            for ((columns, values), base) in tiles.zip(bases) {
                let own = begin..begin + columns.len();
                begin = own.end;
                let mut local_rows = [[PADDING; WIDTH]; TILE_ROWS];
                let local_rows = &mut local_rows[..columns.len()];
                let reach = reach(rows, own.clone());
                write_short_rows(rows, held, own, &reach, (&mut *local_rows, values), &mut separate)?;
                let all = local_rows.as_flattened();
                *base = all.iter().copied().filter(|&local_row| local_row < SEPARATE_ROW).min().unwrap_or(0);
                for (to, &local_row) in columns.as_flattened_mut().iter_mut().zip(all) {
                    *to =
                        if local_row < SEPARATE_ROW { distance(*base, local_row)? } else { local_row as u16 };
                }
            }
            Ok(separate)
        })
        .collect()
}

/// The 16-bit distance of a local row from its base.
fn distance(base: u32, local_row: u32) -> Result<u16> {
    let distance = (local_row - base).try_into().ok().filter(|&distance| u32::from(distance) <= MAX_DISTANCE);
    distance.ok_or_else(|| {
        Error::Internal(
            "a column is out of reach of its base, although the storage was computed for it".into(),
        )
    })
}

/// Writes the local rows and values of those rows `own` that are short and have all columns in `reach`; appends the others to
/// `separate`.
fn write_short_rows<T: Scalar>(
    rows: CsrView<'_, T>,
    held: &HeldRows,
    own: Range<usize>,
    reach: &RangeInclusive<u32>,
    (local_rows, values): (&mut [LocalRows], &mut [[T; WIDTH]]),
    separate: &mut Vec<usize>,
) -> Result<()> {
    for (row, (local_rows, values)) in own.zip(local_rows.iter_mut().zip(values)) {
        let (from_columns, from_values) = rows.row(row);
        let length = from_columns.len();
        if length <= WIDTH && from_columns.iter().all(|column| reach.contains(column)) {
            held.local_rows(from_columns, &mut local_rows[..length])?;
            local_rows[length..].fill(PADDING);
            values[..length].copy_from_slice(from_values);
        } else {
            *local_rows = [SEPARATE_ROW; WIDTH];
            separate.push(row);
        }
    }
    Ok(())
}

/// The first value of `rows`, or zero. Kernels for equal values read only the first element of `values`, even if the first row
/// is empty.
fn first_value<T: Scalar>(rows: CsrView<'_, T>) -> T {
    let first = rows.row_pointers().first().and_then(|&at| rows.values().get(at as usize).copied());
    first.unwrap_or(T::ZERO)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::storage::tests::{part, random_matrix};
    use super::*;
    use crate::matrix::{AlignedBuffer, Csr};

    const VARIANT: Variant = Variant { rows: 2, ..Variant::PLAIN };
    const COLS: usize = 400_000;

    fn matrix(rows: &[Vec<u32>]) -> Csr<f64> {
        let mut pointers = vec![0u64];
        pointers.extend(rows.iter().scan(0, |end, row| {
            *end += row.len() as u64;
            Some(*end)
        }));
        let columns = rows.concat();
        let values: Vec<f64> = (0..columns.len()).map(|at| at as f64 + 0.5).collect();
        Csr::try_new(rows.len(), COLS, pointers, columns, values).unwrap()
    }

    /// Rows of these lengths around column `center + row`; rows with a flag have one column elsewhere.
    fn rows_around(center: u32, lengths: &[(usize, bool)], anywhere: u32) -> Vec<Vec<u32>> {
        let own = |(row, &(length, is_far)): (usize, &(usize, bool))| {
            let near = (0..length as u32).map(|at| center + row as u32 + 3 * at);
            let mut columns: Vec<u32> = near.collect();
            if let Some(last) = columns.last_mut().filter(|_| is_far) {
                *last = (anywhere + 7919 * row as u32) % COLS as u32;
            }
            columns.sort_unstable();
            columns.dedup();
            columns
        };
        lengths.iter().enumerate().map(own).collect()
    }

    fn written(storage: &Storage, rows: CsrView<'_, f64>, held: &HeldRows) -> AlignedBuffer<u8> {
        let mut slot = AlignedBuffer::<u8>::zeroed(storage.bytes() as usize).unwrap();
        slot.fill(0xa5);
        storage.write(rows, held, &mut slot).unwrap();
        slot
    }

    /// The four columns of every row, with the 32-bit marks for padding and separate rows in both forms.
    fn ellpack_columns(slot: &[u8], storage: &Storage) -> Vec<u32> {
        if !storage.is_narrow() {
            return part(slot, storage, "columns");
        }
        let bases: Vec<u32> = part(slot, storage, "bases");
        let distances: Vec<u16> = part(slot, storage, "columns");
        let column = |(at, distance): (usize, u16)| match distance {
            0xffff => PADDING,
            0xfffe => SEPARATE_ROW,
            _ => bases[at / 128] + u32::from(distance),
        };
        distances.into_iter().enumerate().map(column).collect()
    }

    fn check(rows: CsrView<'_, f64>, held: &HeldRows) {
        let storage = storage(&VARIANT, rows).unwrap();
        let lengths = (0..rows.rows()).map(|row| rows.row_length(row) as u64);
        let bound = upper_bound(&VARIANT, lengths, rows.rows() as u64, 8).unwrap();
        assert!(storage.bytes() <= bound.bytes(), "{} bytes, bound {}", storage.bytes(), bound.bytes());
        let slot = written(&storage, rows, held);
        let (columns, values): (_, Vec<f64>) =
            (ellpack_columns(&slot, &storage), part(&slot, &storage, "values"));
        let long_rows: Vec<u32> = part(&slot, &storage, "long_rows");
        let (long_columns, long_values): (Vec<u32>, Vec<f64>) =
            (part(&slot, &storage, "long_columns"), part(&slot, &storage, "long_values"));
        assert_eq!(storage.items as usize, rows.rows().div_ceil(2) + long_rows.len() / 4);
        let mut separate = 0;
        for row in 0..rows.rows() {
            let own = 4 * row..4 * row + 4;
            let found: (Vec<u32>, Vec<f64>) = if columns[own.start] == SEPARATE_ROW {
                separate += 1;
                let header = long_rows.chunks_exact(4).find(|header| header[3] as usize == row).unwrap();
                let first = header[0] as usize | (header[1] as usize) << 32;
                assert!(first.is_multiple_of(4) && (storage.is_narrow() || header[2] > 4));
                let own = first..first + header[2] as usize;
                let behind = &long_columns[own.end..own.end.next_multiple_of(4)];
                assert!(behind.iter().all(|&column| column == PADDING));
                (long_columns[own.clone()].to_vec(), long_values[own].to_vec())
            } else {
                own.filter(|&at| columns[at] != PADDING).map(|at| (columns[at], values[at])).unzip()
            };
            let (own_columns, own_values) = rows.row(row);
            let own_local_rows: Vec<u32> =
                own_columns.iter().map(|&column| held.local_row(column).unwrap()).collect();
            assert_eq!((&found.0, &found.1[..]), (&own_local_rows, own_values), "row {row}");
        }
        assert_eq!(separate, long_rows.len() / 4);
        if rows.nnz() > 0 {
            assert_eq!(values[0], rows.values()[rows.row_pointers()[0] as usize]);
        }
    }

    proptest! {
        #[test]
        fn every_row_is_stored_in_the_ellpack_part_or_separately(
            lengths in proptest::collection::vec(
                (prop_oneof![Just(0usize), 0..6usize, 0..5usize, 0..70usize], proptest::bool::weighted(0.05)), 0..150),
            (center, anywhere) in (prop_oneof![0..50u32, 60_000..70_000u32, 150_000..390_000u32], 0..COLS as u32),
            begin in 0..5usize,
        ) {
            let a = matrix(&rows_around(center, &lengths, anywhere));
            let rows = a.view().slice_rows(begin.min(a.rows())..a.rows());
            check(rows, &HeldRows::Whole { cols: COLS });
            check(rows, &HeldRows::gather(COLS, &[a.view()]));
            let pointers = rows.row_pointers();
            let own = &rows.columns()[pointers[0] as usize..pointers[rows.rows()] as usize];
            if let (Some(&first), Some(&last)) = (own.iter().min(), own.iter().max()) {
                check(rows, &HeldRows::Range { first, end: last + 1 });
            }
        }
    }

    #[test]
    fn columns_have_16_bits_unless_many_rows_are_out_of_reach_or_there_are_few_rows() {
        let of = |count: usize, every: usize| {
            let column = |row: usize| if row % every == 7 { 1_000 } else { 300_000 + row as u32 };
            let a = matrix(&(0..count).map(|row| vec![column(row)]).collect::<Vec<_>>());
            let storage = storage(&VARIANT, a.view()).unwrap();
            (storage.is_narrow(), storage.items - storage.heavy)
        };
        assert_eq!(of(320, 1000), (true, 1));
        assert_eq!(of(320, 16), (true, 20));
        assert_eq!(of(320, 15), (false, 0));
        assert_eq!(of(3, 16), (false, 0));
    }

    #[test]
    fn a_base_reaches_all_16_bit_distances_except_the_two_marks() {
        let mut rows = vec![vec![40_000]; 160];
        (rows[5], rows[9]) = (vec![7_234, 40_000, 72_767], vec![7_234]);
        (rows[6], rows[7]) = (vec![7_233, 40_000], vec![72_768]);
        let a = matrix(&rows);
        check(a.view(), &HeldRows::Whole { cols: COLS });
        let storage = storage(&VARIANT, a.view()).unwrap();
        let slot = written(&storage, a.view(), &HeldRows::Whole { cols: COLS });
        let distances: Vec<u16> = part(&slot, &storage, "columns");
        assert_eq!(part::<u32>(&slot, &storage, "bases"), [7_234, 40_000, 40_000, 40_000, 40_000]);
        assert_eq!(distances[20..32], [[0, 32_766, 0xfffd, 0xffff], [0xfffe; 4], [0xfffe; 4]].concat());
        assert_eq!(distances[36..40], [0, 0xffff, 0xffff, 0xffff]);
    }

    #[test]
    fn a_row_longer_than_a_segment_is_refused_with_its_length() {
        let error = storage(&VARIANT, random_matrix(&[2, 300], 400).view()).unwrap_err().to_string();
        assert!(error.contains("300"), "{error}");
    }
}
