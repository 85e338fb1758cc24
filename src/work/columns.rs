//! The rows of X that a piece of A needs, determined exactly: a device must receive every row of X that its columns refer to.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use rayon::prelude::*;

use super::{ChunkRows, Work};

/// Columns per parallel task.
const COLUMNS_PER_TASK: usize = 1 << 18;

/// The smallest range that contains all columns of `pieces`; all columns if they are not known, an empty range if there are no
/// entries.
pub fn column_span(work: &Work<'_>, pieces: &[ChunkRows]) -> Range<usize> {
    let spans = column_spans(work, pieces).into_iter().filter(|span| !span.is_empty());
    spans.reduce(|a, b| a.start.min(b.start)..a.end.max(b.end)).unwrap_or(0..0)
}

/// For each piece the smallest range that contains all of its columns; all columns if they are not known, an empty range if it has
/// no entries. Computed in the rayon pool of the caller.
pub fn column_spans(work: &Work<'_>, pieces: &[ChunkRows]) -> Vec<Range<usize>> {
    let span = |piece: &ChunkRows| {
        let Some(columns) = work.piece_columns(piece) else { return 0..work.cols() };
        // One fold for both bounds, which the compiler vectorizes.
        let bounds = |columns: &[u32]| {
            columns.iter().fold((u32::MAX, 0), |(low, high), &column| (low.min(column), high.max(column)))
        };
        let both = |a: (u32, u32), b: (u32, u32)| (a.0.min(b.0), a.1.max(b.1));
        let (low, high) = columns.par_chunks(COLUMNS_PER_TASK).map(bounds).reduce(|| (u32::MAX, 0), both);
        if columns.is_empty() { 0..0 } else { low as usize..(high as usize + 1).min(work.cols()) }
    };
    pieces.par_iter().map(span).collect()
}

/// Whether columns ascend strictly within every row of a piece; false if they are not known.
pub fn columns_ascend(work: &Work<'_>, piece: &ChunkRows) -> bool {
    let Some(columns) = work.piece_columns(piece) else { return false };
    let mut begin = 0;
    work.lengths(piece).all(|length| {
        let row = columns.get(begin..begin + length as usize).unwrap_or(&[]);
        begin += length as usize;
        row.is_sorted_by(|a, b| a < b)
    })
}

/// The distinct columns of `pieces` in ascending order; all columns if they are not known.
pub fn distinct_columns(work: &Work<'_>, pieces: &[ChunkRows]) -> Vec<u32> {
    let words: Vec<AtomicU64> = (0..work.cols().div_ceil(64)).map(|_| AtomicU64::new(0)).collect();
    let known = pieces.par_iter().all(|piece| match work.piece_columns(piece) {
        None => false,
        Some(columns) => {
            for &column in columns {
                if let Some(word) = words.get(column as usize / 64) {
                    // Relaxed: bits are only set, and they are read after all threads have joined.
                    let bit = 1 << (column % 64);
                    if word.load(Ordering::Relaxed) & bit == 0 {
                        word.fetch_or(bit, Ordering::Relaxed);
                    }
                }
            }
            true
        }
    });
    if !known {
        return (0..work.cols() as u32).collect();
    }
    let mut found = Vec::new();
    for (index, word) in words.iter().enumerate() {
        let mut bits = word.load(Ordering::Relaxed);
        while bits != 0 {
            found.push(index as u32 * 64 + bits.trailing_zeros());
            bits &= bits - 1;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matrix::generate;

    #[test]
    fn column_span_and_distinct_columns_agree_with_sorting() {
        let matrix = generate::<f64>("rmat,scale=10,degree=4", 3, 1 << 30).unwrap().matrix;
        let work = Work::spmm(&matrix.view(), 2).unwrap();
        for (begin, end) in [(0, 1024), (100, 101), (500, 700)] {
            let pieces = [
                ChunkRows::Rows { begin, end: (begin + end) / 2 },
                ChunkRows::Rows { begin: (begin + end) / 2, end },
            ];
            let mut plain: Vec<u32> =
                (begin..end).flat_map(|row| matrix.view().row(row).0.to_vec()).collect();
            plain.sort();
            plain.dedup();
            assert_eq!(distinct_columns(&work, &pieces), plain);
            let span =
                plain.first().map_or(0..0, |&first| first as usize..plain[plain.len() - 1] as usize + 1);
            assert_eq!(column_span(&work, &pieces), span);
        }
    }

    #[test]
    fn without_columns_all_of_x_is_needed() {
        let work = Work::spmm_pattern(&[0, 2, 3], None, 7, 1, crate::matrix::Dtype::F64).unwrap();
        let piece = [ChunkRows::Rows { begin: 0, end: 1 }];
        assert_eq!(column_span(&work, &piece), 0..7);
        assert_eq!(distinct_columns(&work, &piece).len(), 7);
    }
}
