//! How well rows fill slices of 32 that are sorted by length within windows, from a few windows.

use std::ops::Range;

/// Rows of a slice, as many as a warp has lanes.
const SLICE: usize = 32;
/// Rows that are sorted among themselves.
const WINDOW: usize = 1024;
/// Windows looked at.
const MOST_WINDOWS: usize = 8;

/// Share of the places that hold a nonzero where `count` rows lie in slices, from a few windows of them. `window` writes the
/// lengths of a range of rows.
pub(super) fn fill(count: usize, mut window: impl FnMut(Range<usize>, &mut Vec<u64>)) -> f64 {
    let step = count.div_ceil(WINDOW).div_ceil(MOST_WINDOWS).max(1);
    let (mut nonzeros, mut slots, mut lengths) = (0, 0, Vec::with_capacity(WINDOW.min(count)));
    for begin in (0..count).step_by(step * WINDOW) {
        lengths.clear();
        window(begin..count.min(begin + WINDOW), &mut lengths);
        lengths.sort_unstable_by(|a, b| b.cmp(a));
        nonzeros += lengths.iter().sum::<u64>();
        slots += lengths.iter().step_by(SLICE).sum::<u64>() * SLICE as u64;
    }
    if slots == 0 { 1.0 } else { nonzeros as f64 / slots as f64 }
}

#[cfg(test)]
mod tests {
    fn fill(lengths: &[u64]) -> f64 {
        super::fill(lengths.len(), |rows, to| to.extend_from_slice(&lengths[rows]))
    }

    #[test]
    fn rows_of_one_length_fill_their_slices_and_one_long_row_does_not() {
        assert_eq!(fill(&[7; 64]), 1.0);
        assert_eq!(fill(&[7; 100_000]), 1.0);
        assert_eq!(fill(&[]), 1.0);
        let lengths: Vec<u64> = (0..64).map(|row| if row == 5 { 32 } else { 1 }).collect();
        assert_eq!(fill(&lengths), 95.0 / (32.0 * 33.0));
    }

    #[test]
    fn sorting_puts_like_lengths_together() {
        let lengths: Vec<u64> = (0..1024).map(|row| if row % 2 == 0 { 2 } else { 10 }).collect();
        assert_eq!(fill(&lengths), 1.0);
    }
}
