//! A hash table from columns to marks (integers), which can be cleared in constant time.

/// Marks of columns, in a hash table with linear probing.
#[derive(Debug)]
pub(super) struct ColumnMarks {
    /// Columns and their marks; the number of slots is a power of two.
    slots: Vec<(u32, u32)>,
}

impl ColumnMarks {
    /// A table for up to `columns` columns, all with mark 0.
    pub fn with_capacity(columns: usize) -> Self {
        Self { slots: vec![(0, 0); (2 * columns).next_power_of_two().max(2)] }
    }

    /// The mark of `column`, for reading and writing. Marks below `since` count as deleted: they read as 0, and their slots
    /// are reused. `since` must be at least 1 and must not decrease between calls.
    pub fn get_mut(&mut self, column: u32, since: u32) -> &mut u32 {
        let last = self.slots.len() - 1;
        // Spreads consecutive columns, and columns with equal low bits, over the table.
        let hash = u64::from(column).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut at = (hash >> 32) as usize & last;
        loop {
            let (own, mark) = self.slots[at];
            if mark < since {
                self.slots[at] = (column, 0);
                break;
            }
            if own == column {
                break;
            }
            at = (at + 1) & last;
        }
        &mut self.slots[at].1
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    #[test]
    fn marks_equal_those_of_a_hash_map_until_they_are_deleted() {
        let mut marks = ColumnMarks::with_capacity(300);
        for since in [1, 2000, 4000] {
            let mut plain = HashMap::new();
            for step in 0..1000u32 {
                let column = (step * step) % 257 * 4096;
                let (found, known) = (marks.get_mut(column, since), plain.entry(column).or_insert(0));
                assert_eq!(found, known, "{column} since {since}");
                (*found, *known) = (since + step, since + step);
            }
        }
    }

    #[test]
    fn a_table_holds_as_many_columns_as_its_capacity() {
        for count in [0, 1, 2, 1000] {
            let mut marks = ColumnMarks::with_capacity(count);
            for column in 0..count as u32 {
                *marks.get_mut(column, 1) = column + 1;
            }
            assert!((0..count as u32).all(|column| *marks.get_mut(column, 1) == column + 1));
        }
    }
}
