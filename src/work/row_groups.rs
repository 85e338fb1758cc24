//! Groups of consecutive rows that share the columns they name: a column of X is read once for all rows of its group.
//!
//! Arrays, for groups of R = [`Variant::rows`](crate::kernel::cuda::Variant) rows, the last with what is left:
//!
//! ```text
//! group_columns   u64, groups + 1   place of each group's first column in `columns` and `masks`
//! group_values    u64, groups + 1   place of each group's first value in `values`
//! columns         u32               for each group the columns that any of its rows names, rising
//! masks           u8                for each of those, bit r: row r of the group names it
//! values                            column by column, and for each the rows that name it from first to last
//! ```
//!
//! Each row's nonzeros keep their order, so a kernel that adds them as they come adds canonically. That needs columns that
//! rise strictly within every row, and rows of one canonical segment at most; other rows are refused.

use rayon::prelude::*;

use super::held::HeldColumns;
use super::storage::{Arrays, Storage, cast};
use crate::error::{Error, Result};
use crate::kernel::cuda::{Layout, Variant};
use crate::kernel::order::SEGMENT;
use crate::matrix::{CsrView, Scalar};

/// Rows that a group may have.
pub const GROUP_ROWS: [u32; 5] = [2, 3, 4, 6, 8];

/// Most rows of a group.
const MOST_ROWS: usize = 8;

/// Groups that one piece of work looks at.
const GROUPS_TOGETHER: usize = 2048;

/// Storage of `rows`; an error that says why where they cannot be grouped.
pub(super) fn storage<T: Scalar>(variant: &Variant, rows: CsrView<'_, T>) -> Result<Storage> {
    let longest = (0..rows.rows()).map(|row| rows.row_length(row)).max().unwrap_or(0) as u64;
    let group_rows = check(variant, longest)?;
    let groups = rows.rows().div_ceil(group_rows);
    let columns = blocks(groups)
        .into_par_iter()
        .map(|block| {
            let mut count = 0;
            for group in block {
                for_each_column(rows, group, group_rows, |_, _, _| count += 1)?;
            }
            Ok(count)
        })
        .sum::<Result<u64>>()?;
    let counts = (rows.rows() as u64, columns, rows.nnz() as u64);
    Ok(lay_out(variant, counts, size_of::<T>() as u64))
}

/// The most that chunks of so many rows and nonzeros take.
pub(super) fn most(
    variant: &Variant,
    (rows, nnz, longest): (u64, u64, u64),
    value_bytes: u64,
) -> Result<Storage> {
    check(variant, longest)?;
    Ok(lay_out(variant, (rows, nnz, nnz), value_bytes))
}

fn check(variant: &Variant, longest: u64) -> Result<usize> {
    if !GROUP_ROWS.contains(&variant.rows) {
        return Err(Error::Internal(format!("groups of {} rows", variant.rows)));
    }
    if longest > SEGMENT as u64 {
        return Err(Error::Usage(format!(
            "rows are grouped only if none has more than {SEGMENT} nonzeros, and one has {longest}; take another --kernel"
        )));
    }
    Ok(variant.rows as usize)
}

fn lay_out(variant: &Variant, (rows, columns, nnz): (u64, u64, u64), value_bytes: u64) -> Storage {
    let groups = rows.div_ceil(u64::from(variant.rows.max(1)));
    let arrays = [
        ("group_columns", groups + 1, 8),
        ("group_values", groups + 1, 8),
        ("columns", columns, 4),
        ("masks", columns, 1),
        ("values", nnz, value_bytes),
    ];
    Storage::lay_out((Layout::RowGroups, variant), rows, groups, &arrays)
}

fn blocks(groups: usize) -> Vec<std::ops::Range<usize>> {
    (0..groups).step_by(GROUPS_TOGETHER).map(|at| at..(at + GROUPS_TOGETHER).min(groups)).collect()
}

/// Calls `seen` for every column of a group with the rows that name it, one bit each, and where each has its value.
fn for_each_column<T: Scalar>(
    rows: CsrView<'_, T>,
    group: usize,
    group_rows: usize,
    mut seen: impl FnMut(u32, u8, &[usize; MOST_ROWS]),
) -> Result<()> {
    let first = group * group_rows;
    let count = group_rows.min(rows.rows() - first);
    let mut ends = [0; MOST_ROWS];
    let mut at = [0; MOST_ROWS];
    for row in 0..count {
        let range = rows.row_range(first + row);
        (at[row], ends[row]) = (range.start, range.end);
    }
    let columns = rows.columns();
    let mut before = None;
    loop {
        let unread = (0..count).filter(|&row| at[row] < ends[row]);
        let Some(column) = unread.map(|row| columns[at[row]]).min() else { return Ok(()) };
        if before.is_some_and(|before| column <= before) {
            return Err(Error::Usage(
                "rows are grouped only if the columns of each rise, and some do not; take another --kernel"
                    .into(),
            ));
        }
        before = Some(column);
        let mut mask = 0;
        for row in 0..count {
            if at[row] < ends[row] && columns[at[row]] == column {
                mask |= 1 << row;
            }
        }
        seen(column, mask, &at);
        (0..count).filter(|row| mask & 1 << row != 0).for_each(|row| at[row] += 1);
    }
}

/// Writes the chunk.
pub(super) fn write<T: Scalar>(
    storage: &Storage,
    rows: CsrView<'_, T>,
    held: &HeldColumns,
    arrays: Arrays<'_, 5>,
) -> Result<()> {
    let [group_columns, group_values, columns, masks, values] = arrays;
    let (group_columns, group_values): (&mut [u64], &mut [u64]) = (cast(group_columns)?, cast(group_values)?);
    let (columns, values): (&mut [u32], &mut [T]) = (cast(columns)?, cast(values)?);
    let group_rows = storage.variant.rows as usize;
    let (groups, pointers) = (storage.items as usize, rows.row_pointers());
    let first = pointers[0];
    for (group, value) in group_values.iter_mut().enumerate() {
        *value = pointers[(group * group_rows).min(rows.rows())] - first;
    }
    // The columns of each group are counted first, so that all blocks of groups can be written at once.
    group_columns[0] = 0;
    group_columns[1..].par_iter_mut().enumerate().try_for_each(|(group, count)| {
        *count = 0;
        for_each_column(rows, group, group_rows, |_, _, _| *count += 1)
    })?;
    let mut sum = 0;
    for count in group_columns.iter_mut() {
        sum += *count;
        *count = sum;
    }
    if sum != columns.len() as u64 {
        return Err(Error::Internal("a chunk has other columns than when it was laid out".into()));
    }
    let (mut columns, mut masks, mut values) = (columns, masks, values);
    let mut parts = Vec::new();
    for block in blocks(groups) {
        let of = |places: &[u64]| (places[block.end] - places[block.start]) as usize;
        let (own_columns, rest_columns) = columns.split_at_mut(of(group_columns));
        let (own_masks, rest_masks) = masks.split_at_mut(own_columns.len());
        let (own_values, rest_values) = values.split_at_mut(of(group_values));
        (columns, masks, values) = (rest_columns, rest_masks, rest_values);
        parts.push((block, own_columns, own_masks, own_values));
    }
    parts.into_par_iter().try_for_each(|(block, columns, masks, values)| {
        let (mut at, mut value_at) = (0, 0);
        for group in block {
            for_each_column(rows, group, group_rows, |column, mask, places| {
                columns[at] = column;
                masks[at] = mask;
                at += 1;
                for row in (0..group_rows).filter(|row| mask & 1 << row != 0) {
                    values[value_at] = rows.values()[places[row]];
                    value_at += 1;
                }
            })?;
        }
        columns.iter_mut().try_for_each(|column| {
            *column = held.place(*column)?;
            Ok(())
        })
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::storage::tests::{part, random_matrix, written};
    use super::*;
    use crate::matrix::Csr;

    proptest! {
        #[test]
        fn groups_give_back_every_row_in_its_order_and_fit_their_bound(
            lengths in proptest::collection::vec(prop_oneof![Just(0usize), 0..9usize, 0..70usize], 0..40),
            which in 0..GROUP_ROWS.len(),
            begin in 0..5usize,
        ) {
            let a = random_matrix(&lengths, 80);
            let rows = a.view().slice_rows(begin.min(a.rows())..a.rows());
            let variant = Variant { rows: GROUP_ROWS[which], ..Variant::PLAIN };
            let storage = storage(&variant, rows).unwrap();
            let slot = written(&storage, rows);
            let starts: Vec<u64> = part(&slot, &storage, "group_columns");
            let value_starts: Vec<u64> = part(&slot, &storage, "group_values");
            let (columns, masks, values): (Vec<u32>, Vec<u8>, Vec<f64>) = (
                part(&slot, &storage, "columns"),
                part(&slot, &storage, "masks"),
                part(&slot, &storage, "values"),
            );
            let mut found = vec![(Vec::new(), Vec::new()); rows.rows()];
            for group in 0..storage.items as usize {
                let mut value_at = value_starts[group] as usize;
                let own = starts[group] as usize..starts[group + 1] as usize;
                prop_assert!(columns[own.clone()].windows(2).all(|pair| pair[0] < pair[1]));
                for at in own {
                    prop_assert!(masks[at] != 0 && u32::from(masks[at]) < 1 << variant.rows);
                    for row in (0..8).filter(|row| masks[at] & 1 << row != 0) {
                        let row = &mut found[group * variant.rows as usize + row];
                        row.0.push(columns[at]);
                        row.1.push(values[value_at]);
                        value_at += 1;
                    }
                }
                prop_assert_eq!(value_at as u64, value_starts[group + 1]);
            }
            for (row, found) in found.iter().enumerate() {
                prop_assert_eq!((&found.0[..], &found.1[..]), rows.row(row));
            }
            let bound = most(&variant, (rows.rows() as u64, rows.nnz() as u64, 70), 8).unwrap();
            prop_assert!(storage.bytes() <= bound.bytes());
        }
    }

    #[test]
    fn rows_that_are_too_long_or_not_in_order_are_refused_with_a_reason() {
        let variant = Variant { rows: 2, ..Variant::PLAIN };
        let long = random_matrix(&[300], 400);
        let error = storage(&variant, long.view()).unwrap_err().to_string();
        assert!(error.contains("300") && most(&variant, (1, 300, 300), 8).is_err(), "{error}");
        for columns in [vec![3, 1], vec![3, 3]] {
            let a = Csr::try_new(1, 9, vec![0, 2], columns, vec![1.0, 2.0]).unwrap();
            let error = storage(&variant, a.view()).unwrap_err().to_string();
            assert!(error.contains("rise"), "{error}");
        }
    }
}
