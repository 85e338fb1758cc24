//! ELLPACK of width four with longer rows beside it, for kernels that read a short row's columns without a row pointer.
//!
//! ```text
//! columns        4 a row                u16, distance from the row's base: 0xffff behind a row's end, 0xfffe in place of a row that
//!                                       lies apart; or u32, no distance: 0xffffffff and 0xfffffffe
//! bases          u32, one for 32 rows   none where columns are u32
//! values         4 a row                whatever behind a row's end, but the first is a value of the matrix if there is any
//! long_rows      u32, 4 a row apart     its first place in `long_columns`, low word first, its nonzeros, and the row
//! long_columns   u32                    rows apart one after the other, each from a multiple of four on, 0xffffffff between
//! long_values                           the same places
//! ```
//!
//! Longer rows lie apart, and so do short ones with a column that 16 bits do not reach. Where those are many, columns are u32
//! and only longer rows lie apart.
//!
//! Items are as many short rows together as the variant says, in blocks of their own, and after them the rows apart. Rows are at most one canonical
//! segment long; longer ones are refused.

use std::ops::{Range, RangeInclusive};

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

/// What a row that lies apart has as columns; its lower half is what it has as distances, as with `PADDING`.
const LONG: u32 = PADDING - 1;

/// Rows that share a base.
const TILE: usize = 32;

/// The largest distance from a base.
const FARTHEST: u32 = 0xfffd;

/// One in so many short rows may be out of reach of its base: to lie apart costs it more than the others gain each.
const FEW: u64 = 16;

/// Rows that one task writes, a multiple of those that share a base.
const TOGETHER: usize = 128 * TILE;

/// The places of a short row in what a device holds of X.
type Places = [u32; WIDTH];

/// Rows that lie apart, and their places in `long_columns`.
#[derive(Clone, Copy)]
struct Apart {
    rows: u64,
    entries: u64,
}

/// Storage of `rows`; an error that says why where there can be none.
pub(super) fn storage<T: Scalar>(variant: &Variant, rows: CsrView<'_, T>) -> Result<Storage> {
    if rows.cols() > LONG as usize {
        let cols = rows.cols();
        return Err(Error::Usage(format!(
            "{cols} columns leave no number to mark long rows; take another --kernel"
        )));
    }
    let (count, value_bytes) = (rows.rows() as u64, size_of::<T>() as u64);
    let long = longer(rows.row_pointers().windows(2).map(|pair| pair[1] - pair[0]))?;
    let wide = lay_out(variant, count, long, false, value_bytes);
    let far = out_of_reach(rows);
    if far * FEW > count - long.rows {
        return Ok(wide);
    }
    let apart = Apart { rows: long.rows + far, entries: long.entries + far * padded_entries(WIDTH as u64) };
    let narrow = lay_out(variant, count, apart, true, value_bytes);
    // Few rows may take more, as every array begins at a multiple of some bytes.
    Ok(if narrow.bytes() <= wide.bytes() { narrow } else { wide })
}

/// What rows of those lengths take at most, whatever their columns: as much as with columns of 32 bits, since `storage` takes
/// 16 bits only where that is no more.
pub(super) fn most(
    variant: &Variant,
    lengths: impl Iterator<Item = u64>,
    rows: u64,
    value_bytes: u64,
) -> Result<Storage> {
    Ok(lay_out(variant, rows, longer(lengths)?, false, value_bytes))
}

/// The rows that lie apart for their lengths.
fn longer(lengths: impl Iterator<Item = u64>) -> Result<Apart> {
    let mut apart = Apart { rows: 0, entries: 0 };
    for length in lengths.filter(|&length| length > WIDTH as u64) {
        if length > SEGMENT as u64 {
            return Err(Error::Usage(format!(
                "rows lie beside each other and long ones apart only if none has more than {SEGMENT} nonzeros, and one has \
                 {length}; take another --kernel"
            )));
        }
        apart.rows += 1;
        apart.entries += padded_entries(length);
    }
    Ok(apart)
}

fn lay_out(variant: &Variant, rows: u64, apart: Apart, narrow: bool, value_bytes: u64) -> Storage {
    let entries = rows.saturating_mul(WIDTH as u64);
    let (column_bytes, bases) = if narrow { (2, rows.div_ceil(TILE as u64)) } else { (4, 0) };
    let arrays = [
        ("columns", entries, column_bytes),
        ("bases", bases, 4),
        ("values", entries, value_bytes),
        ("long_rows", 4 * apart.rows, 4),
        ("long_columns", apart.entries, 4),
        ("long_values", apart.entries, value_bytes),
    ];
    let short_items = rows.div_ceil(u64::from(variant.rows.max(1)));
    let storage = Storage::lay_out((Layout::Hybrid, variant), rows, short_items + apart.rows, &arrays);
    Storage { heavy: short_items, ..storage }
}

/// The columns that rows which share a base may have: as many on either side of where short ones begin. Places in what is
/// held of X are in the order of columns and no farther from each other, so that 16 bits hold their distances too,
/// whatever is held.
fn reach<T: Scalar>(rows: CsrView<'_, T>, tile: Range<usize>) -> RangeInclusive<u32> {
    let mut firsts = [0; TILE];
    let mut count = 0;
    let short = tile.map(|row| rows.row(row).0).filter(|columns| columns.len() <= WIDTH);
    for (to, &first) in firsts.iter_mut().zip(short.filter_map(<[u32]>::first)) {
        *to = first;
        count += 1;
    }
    let firsts = &mut firsts[..count];
    firsts.sort_unstable();
    let middle = firsts.get(count / 2).copied().unwrap_or(0);
    let first = middle.saturating_sub(FARTHEST / 2);
    first..=first.saturating_add(FARTHEST)
}

/// How many short rows have a column that their base does not reach.
fn out_of_reach<T: Scalar>(rows: CsrView<'_, T>) -> u64 {
    let tiles = (0..rows.rows()).into_par_iter().step_by(TILE);
    let far = tiles.map(|begin| {
        let tile = begin..rows.rows().min(begin + TILE);
        let reach = reach(rows, tile.clone());
        let short = tile.map(|row| rows.row(row).0).filter(|columns| columns.len() <= WIDTH);
        short.filter(|columns| !columns.iter().all(|column| reach.contains(column))).count() as u64
    });
    far.sum()
}

/// Writes the chunk.
pub(super) fn write<T: Scalar>(
    rows: CsrView<'_, T>,
    held: &HeldColumns,
    arrays: Arrays<'_, 6>,
) -> Result<()> {
    let [columns, bases, values, long_rows, long_columns, long_values] = arrays;
    let (bases, values): (&mut [u32], &mut [[T; WIDTH]]) = (cast(bases)?, cast(values)?);
    let apart = if bases.is_empty() {
        write_wide(rows, held, cast(columns)?, values)?
    } else {
        write_narrow(rows, held, cast(columns)?, bases, values)?
    };
    let long_rows: &mut [u32] = cast(long_rows)?;
    let (mut long_columns, mut long_values): (&mut [u32], &mut [T]) =
        (cast(long_columns)?, cast(long_values)?);
    let room = || Error::Internal("a chunk has other long rows than when it was laid out".into());
    let mut begin = 0u64;
    let mut about = long_rows.chunks_exact_mut(4);
    for row in apart.into_iter().flatten() {
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
    if about.next().is_some() { Err(room()) } else { Ok(()) }
}

/// Writes the short rows with columns of 32 bits, and gives those that lie apart, in parts.
fn write_wide<T: Scalar>(
    rows: CsrView<'_, T>,
    held: &HeldColumns,
    columns: &mut [Places],
    values: &mut [[T; WIDTH]],
) -> Result<Vec<Vec<usize>>> {
    let first = first_value(rows);
    let tasks = columns.par_chunks_mut(TOGETHER).zip(values.par_chunks_mut(TOGETHER)).enumerate();
    tasks
        .map(|(task, (columns, values))| {
            let (begin, mut apart) = (task * TOGETHER, Vec::new());
            values.fill([first; WIDTH]);
            let own = begin..begin + columns.len();
            place(rows, held, own, &(0..=u32::MAX), columns, values, &mut apart)?;
            Ok(apart)
        })
        .collect()
}

/// The same with columns of 16 bits.
fn write_narrow<T: Scalar>(
    rows: CsrView<'_, T>,
    held: &HeldColumns,
    columns: &mut [[u16; WIDTH]],
    bases: &mut [u32],
    values: &mut [[T; WIDTH]],
) -> Result<Vec<Vec<usize>>> {
    let first = first_value(rows);
    let tasks = columns.par_chunks_mut(TOGETHER).zip(values.par_chunks_mut(TOGETHER));
    tasks
        .zip(bases.par_chunks_mut(TOGETHER / TILE))
        .enumerate()
        .map(|(task, ((columns, values), bases))| {
            let (mut begin, mut apart) = (task * TOGETHER, Vec::new());
            values.fill([first; WIDTH]);
            let tiles = columns.chunks_mut(TILE).zip(values.chunks_mut(TILE));
            for ((columns, values), base) in tiles.zip(bases) {
                let own = begin..begin + columns.len();
                begin = own.end;
                let mut places = [[PADDING; WIDTH]; TILE];
                let places = &mut places[..columns.len()];
                let reach = reach(rows, own.clone());
                place(rows, held, own, &reach, places, values, &mut apart)?;
                let all = places.as_flattened();
                *base = all.iter().copied().filter(|&place| place < LONG).min().unwrap_or(0);
                for (to, &place) in columns.as_flattened_mut().iter_mut().zip(all) {
                    *to = if place < LONG { distance(*base, place)? } else { place as u16 };
                }
            }
            Ok(apart)
        })
        .collect()
}

fn distance(base: u32, place: u32) -> Result<u16> {
    let distance = (place - base).try_into().ok().filter(|&distance| u32::from(distance) <= FARTHEST);
    distance
        .ok_or_else(|| Error::Internal("a column is farther from its base than when it was laid out".into()))
}

/// The places and values of short rows, as many as `places` has, whose columns all lie in `reach`; the others are noted in
/// `apart`.
fn place<T: Scalar>(
    rows: CsrView<'_, T>,
    held: &HeldColumns,
    own: Range<usize>,
    reach: &RangeInclusive<u32>,
    places: &mut [Places],
    values: &mut [[T; WIDTH]],
    apart: &mut Vec<usize>,
) -> Result<()> {
    for (row, (places, values)) in own.zip(places.iter_mut().zip(values)) {
        let (from_columns, from_values) = rows.row(row);
        let length = from_columns.len();
        if length <= WIDTH && from_columns.iter().all(|column| reach.contains(column)) {
            held.place_all(from_columns, &mut places[..length])?;
            places[length..].fill(PADDING);
            values[..length].copy_from_slice(from_values);
        } else {
            *places = [LONG; WIDTH];
            apart.push(row);
        }
    }
    Ok(())
}

/// A kernel for equal values reads the first one only, be it in a row or behind its end.
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

    /// Rows of those lengths around column `center + row`; those that say so have a column anywhere.
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

    fn written(storage: &Storage, rows: CsrView<'_, f64>, held: &HeldColumns) -> AlignedBuffer<u8> {
        let mut slot = AlignedBuffer::<u8>::zeroed(storage.bytes() as usize).unwrap();
        slot.fill(0xa5);
        storage.write(rows, held, &mut slot).unwrap();
        slot
    }

    /// The columns of every row's four places, and of what lies apart the same mark in both kinds.
    fn places(slot: &[u8], storage: &Storage) -> Vec<u32> {
        if !storage.is_narrow() {
            return part(slot, storage, "columns");
        }
        let bases: Vec<u32> = part(slot, storage, "bases");
        let distances: Vec<u16> = part(slot, storage, "columns");
        let place = |(at, distance): (usize, u16)| match distance {
            0xffff => PADDING,
            0xfffe => LONG,
            _ => bases[at / 128] + u32::from(distance),
        };
        distances.into_iter().enumerate().map(place).collect()
    }

    fn check(rows: CsrView<'_, f64>, held: &HeldColumns) {
        let storage = storage(&VARIANT, rows).unwrap();
        let lengths = (0..rows.rows()).map(|row| rows.row_length(row) as u64);
        let most = most(&VARIANT, lengths, rows.rows() as u64, 8).unwrap();
        assert!(storage.bytes() <= most.bytes(), "{} bytes, and {} at most", storage.bytes(), most.bytes());
        let slot = written(&storage, rows, held);
        let (columns, values): (_, Vec<f64>) = (places(&slot, &storage), part(&slot, &storage, "values"));
        let long_rows: Vec<u32> = part(&slot, &storage, "long_rows");
        let (long_columns, long_values): (Vec<u32>, Vec<f64>) =
            (part(&slot, &storage, "long_columns"), part(&slot, &storage, "long_values"));
        assert_eq!(storage.items as usize, rows.rows().div_ceil(2) + long_rows.len() / 4);
        let mut apart = 0;
        for row in 0..rows.rows() {
            let own = 4 * row..4 * row + 4;
            let found: (Vec<u32>, Vec<f64>) = if columns[own.start] == LONG {
                apart += 1;
                let about = long_rows.chunks_exact(4).find(|about| about[3] as usize == row).unwrap();
                let first = about[0] as usize | (about[1] as usize) << 32;
                assert!(first.is_multiple_of(4) && (storage.is_narrow() || about[2] > 4));
                let own = first..first + about[2] as usize;
                let behind = &long_columns[own.end..own.end.next_multiple_of(4)];
                assert!(behind.iter().all(|&column| column == PADDING));
                (long_columns[own.clone()].to_vec(), long_values[own].to_vec())
            } else {
                own.filter(|&at| columns[at] != PADDING).map(|at| (columns[at], values[at])).unzip()
            };
            let (own_columns, own_values) = rows.row(row);
            let own_places: Vec<u32> =
                own_columns.iter().map(|&column| held.place(column).unwrap()).collect();
            assert_eq!((&found.0, &found.1[..]), (&own_places, own_values), "row {row}");
        }
        assert_eq!(apart, long_rows.len() / 4);
        if rows.nnz() > 0 {
            assert_eq!(values[0], rows.values()[rows.row_pointers()[0] as usize]);
        }
    }

    proptest! {
        #[test]
        fn every_row_is_found_in_its_places_or_beside_them(
            lengths in proptest::collection::vec(
                (prop_oneof![Just(0usize), 0..6usize, 0..5usize, 0..70usize], proptest::bool::weighted(0.05)), 0..150),
            (center, anywhere) in (prop_oneof![0..50u32, 60_000..70_000u32, 150_000..390_000u32], 0..COLS as u32),
            begin in 0..5usize,
        ) {
            let a = matrix(&rows_around(center, &lengths, anywhere));
            let rows = a.view().slice_rows(begin.min(a.rows())..a.rows());
            check(rows, &HeldColumns::Whole { cols: COLS });
            check(rows, &HeldColumns::gather(COLS, &[a.view()]));
            let pointers = rows.row_pointers();
            let own = &rows.columns()[pointers[0] as usize..pointers[rows.rows()] as usize];
            if let (Some(&first), Some(&last)) = (own.iter().min(), own.iter().max()) {
                check(rows, &HeldColumns::Range { first, end: last + 1 });
            }
        }
    }

    #[test]
    fn columns_have_16_bits_unless_too_many_rows_are_far_or_too_few_rows_are_there() {
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
    fn a_base_reaches_as_many_columns_as_distances_of_16_bits_without_the_marks() {
        let mut rows = vec![vec![40_000]; 160];
        (rows[5], rows[9]) = (vec![7_234, 40_000, 72_767], vec![7_234]);
        (rows[6], rows[7]) = (vec![7_233, 40_000], vec![72_768]);
        let a = matrix(&rows);
        check(a.view(), &HeldColumns::Whole { cols: COLS });
        let storage = storage(&VARIANT, a.view()).unwrap();
        let slot = written(&storage, a.view(), &HeldColumns::Whole { cols: COLS });
        let distances: Vec<u16> = part(&slot, &storage, "columns");
        assert_eq!(part::<u32>(&slot, &storage, "bases"), [7_234, 40_000, 40_000, 40_000, 40_000]);
        assert_eq!(distances[20..32], [[0, 32_766, 0xfffd, 0xffff], [0xfffe; 4], [0xfffe; 4]].concat());
        assert_eq!(distances[36..40], [0, 0xffff, 0xffff, 0xffff]);
    }

    #[test]
    fn rows_that_are_too_long_are_refused_with_a_reason() {
        let error = storage(&VARIANT, random_matrix(&[2, 300], 400).view()).unwrap_err().to_string();
        assert!(error.contains("300"), "{error}");
    }
}
