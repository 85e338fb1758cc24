//! Columns of nonzeros that are checked: all are below the number of columns. Copies are checked while a part is still in a cache.

use rayon::prelude::*;

use super::array::AlignedBuffer;
use crate::error::Result;

/// Elements of a parallel task of a check.
pub(super) const CHECK_STEP: usize = 1 << 17;

/// Elements of a parallel task of a copy; they stay in the cache of a core.
const COPY_STEP: usize = 1 << 15;

/// Whether all columns are below `end`.
pub(super) fn are_below(columns: &[u32], end: u32) -> bool {
    let Some(last) = end.checked_sub(1) else { return columns.is_empty() };
    columns.par_chunks(CHECK_STEP).all(|part| are_at_most(part, last))
}

/// Whether no column is larger than `last`.
fn are_at_most(columns: &[u32], last: u32) -> bool {
    if last > i32::MAX as u32 {
        return columns.iter().all(|&column| column <= last);
    }
    // The sign bit is that of a column beyond the last, or of one beyond 2^31. Sums of bits instead of comparisons, so that the loop has
    // vector instructions on every processor.
    columns.iter().fold(0, |bits, &column| bits | column | last.wrapping_sub(column)) >> 31 == 0
}

/// A copy of columns, which were checked while they were copied.
#[derive(Debug)]
pub struct CopiedColumns {
    columns: AlignedBuffer<u32>,
    end: u32,
    are_below: bool,
    are_increasing: bool,
}

impl CopiedColumns {
    /// A converted copy, for a matrix of `end` columns. The row pointers need not be valid: whether the columns increase has no meaning for
    /// those that decrease or are outside.
    pub fn of<F: Copy + Sync>(
        from: &[F],
        row_pointers: &[u64],
        end: u32,
        convert: impl Fn(F) -> u32 + Sync,
    ) -> Result<Self> {
        let mut columns = AlignedBuffer::<u32>::zeroed(from.len())?;
        let steps = columns.par_chunks_mut(COPY_STEP).zip(from.par_chunks(COPY_STEP)).enumerate();
        let inside_steps = steps.map(|(step, (to, from))| {
            to.iter_mut().zip(from).for_each(|(to, &from)| *to = convert(from));
            let are_below = end.checked_sub(1).is_some_and(|last| are_at_most(to, last));
            (are_below, are_increasing(to, step * COPY_STEP, row_pointers))
        });
        let (are_below, inside_steps) =
            inside_steps.reduce(|| (true, true), |one, other| (one.0 & other.0, one.1 & other.1));
        let between_steps = columns
            .windows(2)
            .skip(COPY_STEP - 1)
            .step_by(COPY_STEP)
            .zip((COPY_STEP as u64..).step_by(COPY_STEP))
            .all(|(pair, start)| pair[0] < pair[1] || row_pointers.binary_search(&start).is_ok());
        Ok(Self { columns, end, are_below, are_increasing: inside_steps && between_steps })
    }

    /// Whether the columns of every row increase.
    pub fn are_increasing(&self) -> bool {
        self.are_increasing
    }

    /// The columns, and whether all are below `end`.
    pub(super) fn checked(self, end: u32) -> (AlignedBuffer<u32>, bool) {
        let are_below = self.are_below && self.end <= end;
        (self.columns, are_below)
    }
}

/// Whether the columns from position `start` on increase, other than from one row to the next.
fn are_increasing(columns: &[u32], start: usize, row_pointers: &[u64]) -> bool {
    // Counted without a branch, for vector instructions.
    let decreases = |pair: (&u32, &u32)| u32::from(pair.0 >= pair.1);
    let all = columns.iter().zip(columns.iter().skip(1)).map(decreases).sum::<u32>();
    let (start, end) = (start as u64, (start + columns.len()) as u64);
    let first_row = row_pointers.partition_point(|&pointer| pointer <= start);
    let starts = row_pointers[first_row..].iter().take_while(|&&pointer| pointer < end);
    let mut last = start;
    let mut between_rows = 0;
    for &pointer in starts {
        // Empty rows start where the next row does.
        if pointer > last {
            let position = (pointer - start) as usize;
            between_rows += decreases((&columns[position - 1], &columns[position]));
            last = pointer;
        }
    }
    all == between_rows
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn checks_of_columns_equal_comparisons(
            columns in prop::collection::vec(prop_oneof![0u32..9, Just(i32::MAX as u32), Just(1 << 31), Just(u32::MAX)], 0..6),
            end in prop_oneof![0u32..9, Just(i32::MAX as u32), Just(1 << 31), Just(u32::MAX)],
        ) {
            prop_assert_eq!(are_below(&columns, end), columns.iter().all(|&column| column < end));
        }

        #[test]
        fn a_copy_has_the_columns_and_knows_whether_they_fit_and_increase(
            lengths in prop::collection::vec(prop_oneof![4 => 0..5usize, 1 => 20_000..40_000usize], 1..12),
            wrong in prop::option::of(any::<prop::sample::Index>()),
            end in 40_000u32..40_003,
        ) {
            let (mut pointers, mut columns) = (vec![0], Vec::new());
            for &length in &lengths {
                columns.extend(0..length as i64);
                pointers.push(columns.len() as u64);
            }
            if let Some(wrong) = wrong.filter(|_| !columns.is_empty()) {
                let at = wrong.index(columns.len());
                columns[at] = 40_001;
            }
            let rows = pointers.windows(2).map(|row| &columns[row[0] as usize..row[1] as usize]);
            let increase = rows.clone().all(|row| row.is_sorted_by(|one, next| one < next));
            let copy = CopiedColumns::of(&columns, &pointers, end, |column| column as u32).unwrap();
            prop_assert_eq!(copy.are_increasing(), increase);
            let (copied, are_below) = copy.checked(end);
            prop_assert!(copied.iter().zip(&columns).all(|(&to, &from)| i64::from(to) == from));
            prop_assert_eq!(are_below, columns.iter().all(|&column| column < i64::from(end)));
        }
    }

    #[test]
    fn columns_that_were_checked_for_more_columns_are_not_checked() {
        let copy = || CopiedColumns::of(&[1u32, 2], &[0, 2], 5, |column| column).unwrap();
        assert!(copy().checked(5).1 && copy().checked(6).1 && !copy().checked(4).1);
        assert!(CopiedColumns::of(&[0u32; 0], &[0], 0, |column| column).unwrap().checked(0).1);
    }
}
