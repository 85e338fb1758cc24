//! The rows of X that a piece of A needs, determined exactly: a device must receive every row of X that its columns refer to.

use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use rayon::prelude::*;

use super::{ChunkRows, Spmm};

/// Columns per parallel task.
const COLUMNS_PER_TASK: usize = 1 << 18;

/// The smallest range that contains all columns of `pieces`; all columns if they are not known, an empty range if there are no
/// entries.
pub fn column_span(work: &Spmm<'_>, pieces: &[ChunkRows]) -> Range<usize> {
    let spans = column_spans(work, pieces).into_iter().filter(|span| !span.is_empty());
    spans.reduce(|a, b| a.start.min(b.start)..a.end.max(b.end)).unwrap_or(0..0)
}

/// For each piece the smallest range that contains all of its columns; all columns if they are not known, an empty range if it has
/// no entries. Computed in the rayon pool of the caller.
pub fn column_spans(work: &Spmm<'_>, pieces: &[ChunkRows]) -> Vec<Range<usize>> {
    // The table is made before the parallel loop: the thread that makes it runs other tasks meanwhile, and one of them could wait
    // for the table.
    // It is not made for a small part of the rows, whose columns are read faster.
    let rows: usize = pieces.iter().map(|piece| piece.slice_rows()).sum();
    let is_worth = |ranges: &&ColumnRanges| ranges.0.get().is_some() || 2 * rows >= work.rows();
    let table = work.ranges.as_deref().filter(is_worth).map(|ranges| ranges.blocks(work)).unwrap_or_default();
    let span = |piece: &ChunkRows| {
        if work.columns.is_none() {
            return 0..work.cols();
        }
        let Bounds { low, high } = bounds(work, table, piece);
        if low > high { 0..0 } else { low as usize..(high as usize + 1).min(work.cols()) }
    };
    pieces.par_iter().map(span).collect()
}

/// The smallest and the largest column; the smallest is larger where there are no columns.
#[derive(Debug, Clone, Copy)]
struct Bounds {
    low: u32,
    high: u32,
}

impl Bounds {
    const NONE: Self = Self { low: u32::MAX, high: 0 };

    /// One fold for both bounds, which the compiler vectorizes.
    fn of(columns: &[u32]) -> Self {
        let (low, high) =
            columns.iter().fold((u32::MAX, 0), |(low, high), &column| (low.min(column), high.max(column)));
        Self { low, high }
    }

    fn with(self, other: Self) -> Self {
        Self { low: self.low.min(other.low), high: self.high.max(other.high) }
    }
}

/// Rows per block of [`ColumnRanges`].
const BLOCK_ROWS: usize = 1 << 11;

/// The column ranges of blocks of rows of one matrix. A planner asks for the ranges of many divisions of the same rows.
#[derive(Debug, Default)]
pub struct ColumnRanges(OnceLock<Vec<Bounds>>);

impl ColumnRanges {
    fn blocks(&self, work: &Spmm<'_>) -> &[Bounds] {
        self.0.get_or_init(|| {
            let blocks = (0..work.rows().div_ceil(BLOCK_ROWS)).into_par_iter();
            blocks.map(|block| scanned(work, block * BLOCK_ROWS, (block + 1) * BLOCK_ROWS)).collect()
        })
    }
}

/// The bounds of rows `begin..end`, as far as they exist, from their columns.
fn scanned(work: &Spmm<'_>, begin: usize, end: usize) -> Bounds {
    let rows = ChunkRows::Rows { begin, end: end.min(work.rows()) };
    work.piece_columns(&rows).map_or(Bounds::NONE, Bounds::of)
}

/// The bounds of a piece: from the table for whole blocks of rows, from the columns for the rest.
fn bounds(work: &Spmm<'_>, table: &[Bounds], piece: &ChunkRows) -> Bounds {
    if let &ChunkRows::Rows { begin, end } = piece {
        let (first, last) = (begin.div_ceil(BLOCK_ROWS), end / BLOCK_ROWS);
        if let Some(whole) = table.get(first..last.max(first)).filter(|whole| !whole.is_empty()) {
            let inner = whole.iter().copied().fold(Bounds::NONE, Bounds::with);
            let ends = [scanned(work, begin, first * BLOCK_ROWS), scanned(work, last * BLOCK_ROWS, end)];
            return ends.into_iter().fold(inner, Bounds::with);
        }
    }
    let columns = work.piece_columns(piece).unwrap_or(&[]);
    columns.par_chunks(COLUMNS_PER_TASK).map(Bounds::of).reduce(|| Bounds::NONE, Bounds::with)
}

/// Whether columns ascend strictly within every row of a piece; false if they are not known.
pub fn columns_ascend(work: &Spmm<'_>, piece: &ChunkRows) -> bool {
    let Some(columns) = work.piece_columns(piece) else { return false };
    let mut begin = 0;
    work.lengths(piece).all(|length| {
        let row = columns.get(begin..begin + length as usize).unwrap_or(&[]);
        begin += length as usize;
        row.is_sorted_by(|a, b| a < b)
    })
}

/// The distinct columns of `pieces` in ascending order; all columns if they are not known.
pub fn distinct_columns(work: &Spmm<'_>, pieces: &[ChunkRows]) -> Vec<u32> {
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
    use std::sync::Arc;

    use super::*;
    use crate::matrix::generate;

    #[test]
    fn column_span_and_distinct_columns_agree_with_sorting() {
        let matrix = generate::<f64>("rmat,scale=10,degree=4", 3, 1 << 30).unwrap().matrix;
        let work = Spmm::new(&matrix.view(), 2).unwrap();
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
    fn a_table_of_column_ranges_gives_the_ranges_of_a_scan() {
        for spec in ["rmat,scale=14,degree=3", "stencil5,n=90", "diagonal,rows=2048", "diagonal,rows=5"] {
            let matrix = generate::<f64>(spec, 3, 1 << 30).unwrap().matrix;
            let work = Spmm::new(&matrix.view(), 2).unwrap();
            let tabled = Spmm { ranges: Some(Arc::default()), ..work.clone() };
            let rows = matrix.rows();
            let ends = [0, 1, 2047, 2048, 2049, 4096, 5000, 6144, rows / 2, rows];
            for begin in ends.map(|end| end.min(rows)) {
                let pieces = ends.map(|end| ChunkRows::Rows { begin, end: end.clamp(begin, rows) });
                assert_eq!(column_spans(&tabled, &pieces), column_spans(&work, &pieces), "{spec}, {begin}");
            }
        }
    }

    #[test]
    fn without_columns_all_of_x_is_needed() {
        let work = Spmm::of_pattern(&[0, 2, 3], None, 7, 1, crate::matrix::Dtype::F64).unwrap();
        let piece = [ChunkRows::Rows { begin: 0, end: 1 }];
        assert_eq!(column_span(&work, &piece), 0..7);
        assert_eq!(distinct_columns(&work, &piece).len(), 7);
    }
}
