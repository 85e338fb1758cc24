//! Splits rows into pieces for threads: balanced by cost, or by equal row counts like a static OpenMP schedule.

use std::ops::Range;

/// Bytes of a cache line. Pieces are cut at line boundaries of Y, so that no two threads write to the same line.
const CACHE_LINE_BYTES: usize = 64;

/// How rows are divided among threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Schedule {
    /// Several pieces per thread, each of about equal cost; idle threads steal remaining pieces.
    #[default]
    Balanced,
    /// One piece per thread with an equal number of rows, rounded down to a multiple of 16, regardless of nonzeros; the
    /// remaining rows form one more piece.
    EqualRows,
}

impl Schedule {
    /// `balanced` or `equal-rows`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Balanced => "balanced",
            Self::EqualRows => "equal-rows",
        }
    }
}

/// The cost model of a row: a cost per nonzero plus a constant.
#[derive(Debug, Clone, Copy)]
pub struct Weights {
    /// Cost of a nonzero.
    pub per_nonzero: u64,
    /// Cost of a row in addition to its nonzeros.
    pub per_row: u64,
}

/// The smallest number of rows of `row_bytes` bytes that is a whole number of cache lines of Y.
pub fn row_alignment(row_bytes: usize) -> usize {
    if row_bytes == 0 {
        return 1;
    }
    let common = 1 << row_bytes.trailing_zeros().min(CACHE_LINE_BYTES.trailing_zeros());
    CACHE_LINE_BYTES / common
}

/// At most `pieces` consecutive ranges of about equal cost that cover all rows, cut at multiples of `alignment`.
///
/// The cost of all rows before a row increases with the row, so a binary search finds every cut.
pub fn balanced(
    row_pointers: &[u64],
    weights: Weights,
    pieces: usize,
    alignment: usize,
) -> Vec<Range<usize>> {
    let rows = row_pointers.len().saturating_sub(1);
    let Some(&origin) = row_pointers.first() else { return Vec::new() };
    let cost_before = |row: usize| {
        u128::from(row_pointers[row] - origin) * u128::from(weights.per_nonzero)
            + row as u128 * u128::from(weights.per_row)
    };
    let total = cost_before(rows);
    let pieces = pieces.max(1);
    let alignment = alignment.max(1);
    let mut ranges = Vec::with_capacity(pieces);
    let mut begin = 0;
    for piece in 1..=pieces {
        let end = if piece == pieces {
            rows
        } else {
            let target = total * piece as u128 / pieces as u128;
            let above = first_row_where(rows, |row| cost_before(row) >= target);
            let below = above.saturating_sub(1);
            let nearest = if target.abs_diff(cost_before(below)) < cost_before(above).abs_diff(target) {
                below
            } else {
                above
            };
            ((nearest + alignment / 2) / alignment * alignment).min(rows)
        };
        if end > begin {
            ranges.push(begin..end);
            begin = end;
        }
    }
    ranges
}

fn first_row_where(rows: usize, holds: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut high) = (0, rows);
    while low < high {
        let middle = low + (high - low) / 2;
        if holds(middle) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    low
}

/// Ranges of `rows / threads` rows, rounded down to a multiple of 16; the remaining rows form one more range.
pub fn equal_rows(rows: usize, threads: usize) -> Vec<Range<usize>> {
    let chunk = (rows / threads.max(1) / 16 * 16).max(16);
    (0..rows).step_by(chunk).map(|begin| begin..(begin + chunk).min(rows)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pointers(lengths: &[u64]) -> Vec<u64> {
        std::iter::once(0)
            .chain(lengths.iter().scan(0, |sum, length| {
                *sum += length;
                Some(*sum)
            }))
            .collect()
    }

    #[test]
    fn equal_row_ranges_are_multiples_of_sixteen() {
        assert_eq!(equal_rows(100, 2), vec![0..48, 48..96, 96..100]);
        assert_eq!(equal_rows(10, 4), vec![0..10]);
        assert!(equal_rows(0, 4).is_empty());
    }

    #[test]
    fn row_alignment_is_a_whole_number_of_cache_lines() {
        assert_eq!(row_alignment(8), 8);
        assert_eq!(row_alignment(24), 8);
        assert_eq!(row_alignment(64), 1);
        assert_eq!(row_alignment(4 * 5), 16);
        assert_eq!(row_alignment(0), 1);
    }

    #[test]
    fn a_heavy_row_is_a_piece_of_its_own() {
        let mut lengths = vec![1; 100];
        lengths[50] = 1000;
        let ranges = balanced(&pointers(&lengths), Weights { per_nonzero: 1, per_row: 0 }, 4, 1);
        assert!(ranges.contains(&(50..51)), "{ranges:?}");
    }

    proptest! {
        #[test]
        fn balanced_ranges_cover_each_row_once_within_the_cost_bound(
            lengths in prop::collection::vec(0u64..20, 0..400), pieces in 1usize..40, alignment in 1usize..9,
        ) {
            let weights = Weights { per_nonzero: 3, per_row: 2 };
            let ranges = balanced(&pointers(&lengths), weights, pieces, alignment);
            let mut next = 0;
            for range in &ranges {
                prop_assert_eq!(range.start, next);
                prop_assert!(range.end > range.start);
                prop_assert!(range.end % alignment == 0 || range.end == lengths.len());
                next = range.end;
            }
            prop_assert_eq!(next, lengths.len());
            prop_assert!(ranges.len() <= pieces);
            let cost = |range: &Range<usize>| lengths[range.clone()].iter().map(|l| 3 * l + 2).sum::<u64>();
            let total: u64 = lengths.iter().map(|l| 3 * l + 2).sum();
            let heaviest_row = lengths.iter().map(|l| 3 * l + 2).max().unwrap_or(0);
            for range in &ranges {
                prop_assert!(cost(range) <= total / pieces as u64 + (alignment as u64 + 1) * heaviest_row);
            }
        }
    }
}
