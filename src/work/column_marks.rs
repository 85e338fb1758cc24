//! A mark for each of a few columns, found by the column's number.

/// Marks of columns, in slots that are probed one after the other.
#[derive(Debug)]
pub(super) struct ColumnMarks {
    /// Columns and their marks; a power of two of them.
    slots: Vec<(u32, u32)>,
}

impl ColumnMarks {
    /// Room for the marks of so many columns; all are 0.
    pub fn with_room(columns: usize) -> Self {
        Self { slots: vec![(0, 0); (2 * columns).next_power_of_two().max(2)] }
    }

    /// The mark of a column. Marks below `since`, which is at least 1, are forgotten: they read as 0 and leave room for
    /// others.
    pub fn of(&mut self, column: u32, since: u32) -> &mut u32 {
        let last = self.slots.len() - 1;
        // Columns that follow each other lie far apart, those that are equal in their low bits as well.
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
    fn marks_are_those_of_a_map_until_they_are_forgotten() {
        let mut marks = ColumnMarks::with_room(300);
        for since in [1, 2000, 4000] {
            let mut plain = HashMap::new();
            for step in 0..1000u32 {
                let column = (step * step) % 257 * 4096;
                let (found, known) = (marks.of(column, since), plain.entry(column).or_insert(0));
                assert_eq!(found, known, "{column} since {since}");
                (*found, *known) = (since + step, since + step);
            }
        }
    }

    #[test]
    fn as_many_columns_as_were_announced_find_room() {
        for count in [0, 1, 2, 1000] {
            let mut marks = ColumnMarks::with_room(count);
            for column in 0..count as u32 {
                *marks.of(column, 1) = column + 1;
            }
            assert!((0..count as u32).all(|column| *marks.of(column, 1) == column + 1));
        }
    }
}
