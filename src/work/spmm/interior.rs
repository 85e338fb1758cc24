//! Interior rows: rows whose columns all refer to rows of X that the owner of the rows has too.

use std::ops::Range;

use rayon::prelude::*;

use super::Spmm;
use crate::work::{ChunkRows, owned_rows_of_x};

/// Rows per parallel task.
const BLOCK_ROWS: usize = 1 << 12;

/// The longest range of interior rows among `rows`. Computed in the rayon pool of the caller.
pub(super) fn longest_interior(work: &Spmm<'_>, rows: Range<usize>) -> Range<usize> {
    let own = work.own_columns.clone().unwrap_or(0..work.cols() as u64);
    let of_y = rows.start as u64..rows.end as u64;
    let owned = owned_rows_of_x(of_y, work.rows() as u64, own.end - own.start);
    let owned = owned.start + own.start..owned.end + own.start;
    let is_interior = |row: usize| {
        let columns = work.piece_columns(&ChunkRows::Rows { begin: row, end: row + 1 });
        columns.is_some_and(|columns| columns.iter().all(|&column| owned.contains(&u64::from(column))))
    };
    longest_run(rows, is_interior)
}

/// Runs of a block of rows: the end of the run at its begin, the begin of the run at its end, and the longest one inside.
struct Runs {
    rows: Range<usize>,
    head_end: usize,
    tail_begin: usize,
    longest: Range<usize>,
}

/// The longest range of consecutive rows that all fulfil `is_in`; the first one of several.
fn longest_run(rows: Range<usize>, is_in: impl Fn(usize) -> bool + Sync) -> Range<usize> {
    let longer = |a: Range<usize>, b: Range<usize>| if b.len() > a.len() { b } else { a };
    let blocks: Vec<Range<usize>> = rows
        .clone()
        .step_by(BLOCK_ROWS)
        .map(|begin| begin..rows.end.min(begin.saturating_add(BLOCK_ROWS)))
        .collect();
    let runs = blocks.into_par_iter().map(|rows| {
        let (mut begin, mut head_end, mut longest) = (rows.start, None, rows.start..rows.start);
        for row in rows.clone().filter(|&row| !is_in(row)) {
            head_end = head_end.or(Some(row));
            longest = longer(longest, begin..row);
            begin = row + 1;
        }
        Runs { head_end: head_end.unwrap_or(rows.end), tail_begin: begin, longest, rows }
    });
    let (mut open, mut longest) = (rows.start, rows.start..rows.start);
    for block in runs.collect::<Vec<_>>() {
        if block.head_end < block.rows.end {
            longest = longer(longer(longest, open..block.head_end), block.longest);
            open = block.tail_begin;
        }
    }
    longer(longest, open..rows.end)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_longest_run_equals_that_of_a_plain_search(
            begin in 0usize..20, marks in prop::collection::vec(prop::bool::weighted(0.9), 0..300), stretch in 1usize..60,
        ) {
            let rows = begin..begin + marks.len() * stretch;
            let is_in = |row: usize| marks[(row - begin) / stretch];
            let mut want = begin..begin;
            for first in rows.clone() {
                if first > begin && is_in(first - 1) {
                    continue;
                }
                let end = (first..rows.end).find(|&row| !is_in(row)).unwrap_or(rows.end);
                if end - first > want.len() {
                    want = first..end;
                }
            }
            prop_assert_eq!(longest_run(rows, is_in), want);
        }
    }
}
