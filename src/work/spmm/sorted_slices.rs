//! An estimate of how full sliced ELLPACK would be, with slices of 32 rows sorted by length within windows.

use std::ops::Range;

/// Rows of a slice: one per lane of a warp.
const SLICE_ROWS: usize = 32;
/// Rows of a window; rows are sorted within a window.
const WINDOW: usize = 1024;
/// Maximal number of sampled windows.
const MAX_SAMPLED_WINDOWS: usize = 8;
/// Rows shorter than this are sorted by counting.
const COUNTED_LENGTHS: usize = 256;

/// The share of stored entries of sliced ELLPACK that are nonzeros and not padding, for `count` rows; estimated from a few
/// windows. `window` appends the lengths of a range of rows.
pub(super) fn fill(count: usize, mut window: impl FnMut(Range<usize>, &mut Vec<u64>)) -> f64 {
    let step = count.div_ceil(WINDOW).div_ceil(MAX_SAMPLED_WINDOWS).max(1);
    let (mut nonzeros, mut slots, mut lengths) = (0, 0, Vec::with_capacity(WINDOW.min(count)));
    for begin in (0..count).step_by(step * WINDOW) {
        lengths.clear();
        window(begin..count.min(begin + WINDOW), &mut lengths);
        nonzeros += lengths.iter().sum::<u64>();
        slots += stored_entries(&mut lengths);
    }
    if slots == 0 { 1.0 } else { nonzeros as f64 / slots as f64 }
}

/// Entries that the slices of a window store, padding included: 32 times the length of the longest row of each. Changes `lengths`.
fn stored_entries(lengths: &mut Vec<u64>) -> u64 {
    let mut counts = [0usize; COUNTED_LENGTHS];
    lengths.retain(|&length| match counts.get_mut(length as usize) {
        Some(count) => {
            *count += 1;
            false
        }
        None => true,
    });
    // Few rows are longer.
    lengths.sort_unstable_by(|a, b| b.cmp(a));
    let long = lengths.iter().map(|&length| (length, 1));
    let counted = (0..COUNTED_LENGTHS as u64).rev().zip(counts.into_iter().rev());
    // A row that is the first of a slice is its longest.
    let (mut row, mut slots) = (0, 0);
    for (length, count) in long.chain(counted) {
        let slices = usize::div_ceil(row + count, SLICE_ROWS) - row.div_ceil(SLICE_ROWS);
        slots += length * (slices * SLICE_ROWS) as u64;
        row += count;
    }
    slots
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    fn fill(lengths: &[u64]) -> f64 {
        super::fill(lengths.len(), |rows, to| to.extend_from_slice(&lengths[rows]))
    }

    #[test]
    fn rows_of_equal_length_need_no_padding_and_one_long_row_does() {
        assert_eq!(fill(&[7; 64]), 1.0);
        assert_eq!(fill(&[7; 100_000]), 1.0);
        assert_eq!(fill(&[]), 1.0);
        let lengths: Vec<u64> = (0..64).map(|row| if row == 5 { 32 } else { 1 }).collect();
        assert_eq!(fill(&lengths), 95.0 / (32.0 * 33.0));
    }

    proptest! {
        #[test]
        fn counting_gives_the_fill_of_sorting(
            lengths in prop::collection::vec(prop_oneof![4 => 0u64..40, 1 => 200u64..3000], 0..1024),
        ) {
            let mut sorted = lengths.clone();
            sorted.sort();
            let slots: u64 = sorted.rchunks(32).map(|slice| 32 * slice.last().unwrap()).sum();
            let nonzeros: u64 = lengths.iter().sum();
            let want = if slots == 0 { 1.0 } else { nonzeros as f64 / slots as f64 };
            prop_assert_eq!(fill(&lengths), want);
        }
    }

    #[test]
    fn sorting_removes_the_padding_of_alternating_lengths() {
        let lengths: Vec<u64> = (0..1024).map(|row| if row % 2 == 0 { 2 } else { 10 }).collect();
        assert_eq!(fill(&lengths), 1.0);
    }
}
