//! Interior rows of vectors that stay on devices: rows whose columns all refer to rows of X that their own device owns.
//!
//! They can be computed before any row of X arrives from another device. The longest range of them becomes a chunk of its own. The
//! order of each row's sum does not change.

use std::ops::Range;

use rayon::prelude::*;

use crate::work::{ChunkRows, Work};

/// Smallest share of a device's rows that is computed apart: a smaller one hides too little of the exchange.
const MIN_INTERIOR: f64 = 0.25;
/// Rows per parallel task.
const BLOCK_ROWS: usize = 1 << 12;

/// The rows of X that the owner of `rows` of Y has: the same rows for a square matrix, else a range in proportion.
pub fn owned_rows_of_x(rows: Range<u64>, all_rows: u64, cols: u64) -> Range<u64> {
    let scale = |row: u64| (u128::from(row) * u128::from(cols) / u128::from(all_rows.max(1))) as u64;
    scale(rows.start)..scale(rows.end)
}

/// The chunks of a device that owns the rows of `pieces`, with its interior rows apart. Computed in the rayon pool of the caller.
pub(super) fn interior_apart(work: &Work<'_>, pieces: Vec<ChunkRows>) -> Vec<ChunkRows> {
    let &[ChunkRows::Rows { begin, end }] = &pieces[..] else { return pieces };
    let owned = owned_rows_of_x(begin as u64..end as u64, work.rows() as u64, work.cols() as u64);
    let is_interior = |row: usize| {
        let columns = work.piece_columns(&ChunkRows::Rows { begin: row, end: row + 1 });
        columns.is_some_and(|columns| columns.iter().all(|&column| owned.contains(&u64::from(column))))
    };
    let interior = longest_run(begin..end, is_interior);
    if (interior.len() as f64) < MIN_INTERIOR * (end - begin) as f64 {
        return pieces;
    }
    let ranges = [begin..interior.start, interior.clone(), interior.end..end];
    let chunk = |rows: &Range<usize>| ChunkRows::Rows { begin: rows.start, end: rows.end };
    ranges.iter().filter(|rows| !rows.is_empty()).map(chunk).collect()
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
    use crate::matrix::generate;

    #[test]
    fn a_stencil_has_interior_rows_between_its_boundaries() {
        let matrix = generate::<f64>("stencil5,n=30", 1, 1 << 30).unwrap().matrix;
        let work = Work::spmm(&matrix.view(), 4).unwrap();
        let cut = |begin, end| interior_apart(&work, vec![ChunkRows::Rows { begin, end }]);
        let rows = |begin, end| ChunkRows::Rows { begin, end };
        assert_eq!(cut(0, 450), [rows(0, 420), rows(420, 450)]);
        assert_eq!(cut(300, 600), [rows(300, 330), rows(330, 570), rows(570, 600)]);
        assert_eq!(cut(0, 900), [rows(0, 900)]);
        assert_eq!(cut(300, 360), [rows(300, 360)], "no row of two lines is interior");
    }

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
