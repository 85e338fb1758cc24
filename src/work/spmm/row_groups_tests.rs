//! Row groups store every row once, in the planned size; rows without ascending columns are refused.

use proptest::prelude::*;

use super::super::storage::tests::{part, random_matrix, written};
use super::*;
use crate::matrix::Csr;

/// Nonzeros of a row; 0 for rows after the last.
fn lengths_of(rows: CsrView<'_, f64>, row: usize) -> usize {
    if row < rows.rows() { rows.row_length(row) } else { 0 }
}

proptest! {
    #[test]
    fn groups_store_every_row_in_order_within_the_storage_bound(
        lengths in proptest::collection::vec(
            prop_oneof![Just(0usize), 0..9usize, 0..70usize, 250..600usize, 1000..2200usize, 7000..10000usize], 0..12),
        which in 0..GROUP_ROWS.len(),
        piece in prop_oneof![Just(0u32), Just(8), Just(24)],
        begin in 0..5usize,
    ) {
        let a = random_matrix(&lengths, 10100);
        let rows = a.view().slice_rows(begin.min(a.rows())..a.rows());
        let variant = Variant { rows: GROUP_ROWS[which], piece, ..Variant::PLAIN };
        let storage = storage(&variant, rows).unwrap();
        let slot = written(&storage, rows);
        let items: Vec<Item> = part(&slot, &storage, "groups");
        prop_assert_eq!(items.len() as u64, storage.items);
        let (columns, masks, offsets): (Vec<u32>, Vec<u64>, Vec<u32>) = (
            part(&slot, &storage, "columns"),
            part(&slot, &storage, "masks"),
            part(&slot, &storage, "offsets"),
        );
        let values: Vec<f64> = part(&slot, &storage, "values");
        let cuts: Vec<Cut> = part(&slot, &storage, "cuts");
        let mut found = vec![(Vec::new(), Vec::new()); rows.rows()];
        for item in &items {
            prop_assert!(piece == 0 || item.octets * 8 <= piece);
            prop_assert!(item.cut == NO_CUT || item.part < cuts[item.cut as usize].parts & !SPANS);
            let mut lengths = [0; MAX_ROWS];
            for octet in item.first_octet..item.first_octet + item.octets {
                let mut value_at = (item.first_value + u64::from(offsets[octet as usize])) as usize;
                for at in 0..8 {
                    let mask = masks[octet as usize] >> (8 * at) & 0xff;
                    for row in (0..8).filter(|row| mask & 1 << row != 0) {
                        lengths[row] += 1;
                        let row = &mut found[(item.group * variant.rows) as usize + row];
                        row.0.push(columns[octet as usize * 8 + at]);
                        row.1.push(values[value_at]);
                        value_at += 1;
                    }
                }
            }
            if piece == 0 {
                for (row, &length) in lengths.iter().enumerate().take(variant.rows as usize) {
                    let row_length = lengths_of(rows, (item.group * variant.rows) as usize + row);
                    let span = if item.cut == NO_CUT || cuts[item.cut as usize].above == 0 {
                        0
                    } else {
                        cuts[item.cut as usize].part_above as usize
                    };
                    let before = span * SPAN + item.part as usize * SEGMENT;
                    prop_assert_eq!(length, row_length.saturating_sub(before).min(SEGMENT));
                    prop_assert_eq!(item.rows >> row & 1 == 1, before == 0 || length > 0);
                }
            }
        }
        for (row, found) in found.iter().enumerate() {
            prop_assert_eq!((&found.0[..], &found.1[..]), rows.row(row));
        }
        let slots: u32 = cuts.iter().map(|cut| cut.parts & !SPANS).sum();
        prop_assert_eq!(storage.scratch_rows, u64::from(slots * variant.rows));
        let longest = (0..rows.rows()).map(|row| rows.row_length(row)).max().unwrap_or(0) as u64;
        let bound = upper_bound(&variant, (rows.rows() as u64, rows.nnz() as u64, longest), 8).unwrap();
        prop_assert!(storage.bytes() <= bound.bytes() && storage.scratch_rows <= bound.scratch_rows);
    }
}

#[test]
fn a_row_without_ascending_columns_is_refused_with_a_reason() {
    let variant = Variant { rows: 2, ..Variant::PLAIN };
    for columns in [vec![3, 1], vec![3, 3]] {
        let a = Csr::try_new(1, 9, vec![0, 2], columns, vec![1.0, 2.0]).unwrap();
        let error = storage(&variant, a.view()).unwrap_err().to_string();
        assert!(error.contains("ascending"), "{error}");
    }
}

#[test]
fn the_storage_bound_has_an_octet_for_the_rest_of_each_segment() {
    // 64 groups of two rows without common columns. Sections of 129 columns and 1 column fill 17 octets and 1 octet.
    let (groups, variant) = (64u32, Variant { rows: 2, ..Variant::PLAIN });
    let columns: Vec<u32> = (0..groups).flat_map(|_| (0..129).chain([300])).collect();
    let ends = (0..groups).flat_map(|group| [130 * group + 129, 130 * group + 130]).map(u64::from);
    let pointers: Vec<u64> = std::iter::once(0).chain(ends).collect();
    let values = vec![1.0; columns.len()];
    let a = Csr::try_new(2 * groups as usize, 400, pointers, columns, values).unwrap();
    let storage = storage(&variant, a.view()).unwrap();
    let bound = upper_bound(&variant, (128, 64 * 130, 129), 8).unwrap();
    let octets = |storage: &Storage| storage.array("offsets").map(|range| (range.end - range.start) / 4);
    assert_eq!((octets(&storage), octets(&bound)), (Some(64 * 18), Some(1040 + 64 + 65)));
    assert!(storage.bytes() <= bound.bytes() && storage.scratch_rows <= bound.scratch_rows);
}
