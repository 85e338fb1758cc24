//! Splits a product into chunks by cost: whole rows, or segments of a row that costs more than a chunk.
//!
//! Pieces cover every row, or every segment of a cut row, exactly once and in order. A piece of whole rows exceeds the target
//! cost by at most its heaviest row. Rows that cost more than a piece are cut, which makes more pieces than requested.

use super::{ChunkRows, Spmm};
use crate::kernel::order::SEGMENT;
use crate::kernel::partition::{Weights, balanced};
use crate::work::{Kind, Position, PositionRange};

/// Cost of all rows and segments before a position. The constant cost of a row counts at its start.
pub(super) fn weight_before(work: &Spmm<'_>, position: Position) -> u128 {
    if position.segment == 0 {
        return work.cost_before(position.row);
    }
    let head = ChunkRows::Segments { row: position.row, begin: 0, end: position.segment };
    work.cost_before(position.row) + work.piece_cost_in_row(&head)
}

impl Spmm<'_> {
    /// Cost of segments without the additional cost of their carries.
    fn piece_cost_in_row(&self, piece: &ChunkRows) -> u128 {
        u128::from(self.piece_nnz(piece)) * u128::from(self.weights.per_nonzero)
    }

    fn row_cost(&self, row: usize) -> u128 {
        self.cost_before(row + 1) - self.cost_before(row)
    }
}

/// The position with a cost of about `cost` before it. It is inside a row only if that row costs more than `grain`.
pub(super) fn position_at(work: &Spmm<'_>, cost: u128, grain: u128) -> Position {
    let rows = work.rows();
    let row = partition_point(rows, |row| work.cost_before(row + 1) <= cost);
    if row >= rows {
        return Position { row: rows, segment: 0 };
    }
    let inside = cost - work.cost_before(row).min(cost);
    if work.row_cost(row) <= grain || work.row_segments(row) < 2 {
        let is_nearer_to_end = 2 * inside > work.row_cost(row);
        return Position { row: row + usize::from(is_nearer_to_end), segment: 0 };
    }
    let entries = inside / u128::from(work.weights.per_nonzero.max(1));
    let segment = (entries as usize + SEGMENT / 2) / SEGMENT;
    if segment >= work.row_segments(row) {
        return Position { row: row + 1, segment: 0 };
    }
    Position { row, segment }
}

/// The smallest index below `count` for which `holds` is false, or `count`; `holds` must be true up to it and false after.
fn partition_point(count: usize, holds: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut high) = (0, count);
    while low < high {
        let middle = low + (high - low) / 2;
        if holds(middle) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}

/// Cuts a range into about `pieces` pieces of about equal cost: exactly `pieces` if there are enough rows and none costs more
/// than a piece, more if rows must be cut.
pub(super) fn split(work: &Spmm<'_>, span: PositionRange, pieces: usize) -> Vec<ChunkRows> {
    let mut found = Vec::new();
    if span.is_empty() {
        return found;
    }
    let most = (work.weight(span) / pieces.max(1) as u128).max(1);
    let PositionRange { begin, end } = span;
    if begin.row == end.row {
        cut_row(work, begin.row, begin.segment, end.segment, most, &mut found);
        return found;
    }
    let first_whole = if begin.segment > 0 {
        cut_row(work, begin.row, begin.segment, work.row_segments(begin.row), most, &mut found);
        begin.row + 1
    } else {
        begin.row
    };
    let heavy = if pieces > 1 { heavy_rows(work, first_whole, end.row, most) } else { Vec::new() };
    let only_light = heavy.is_empty() && begin.segment == 0 && end.segment == 0;
    let mut next = first_whole;
    for row in heavy.into_iter().chain([end.row]) {
        if next < row {
            let cost = work.cost_before(row) - work.cost_before(next);
            let count =
                if only_light { pieces } else { cost.div_ceil(most).min(usize::MAX as u128) as usize };
            let pointers = work.row_pointers.get(next..=row).unwrap_or(&[]);
            let ranges = balanced(pointers, work.weights, count.min(row - next), 1);
            found.extend(
                ranges
                    .into_iter()
                    .map(|range| ChunkRows::Rows { begin: next + range.start, end: next + range.end }),
            );
        }
        if row < end.row {
            cut_row(work, row, 0, work.row_segments(row), most, &mut found);
        }
        next = row + 1;
    }
    if end.segment > 0 {
        cut_row(work, end.row, 0, end.segment, most, &mut found);
    }
    found
}

/// Rows of which a look at their first and last row pointer may exclude a heavy row.
const HEAVY_BLOCK_ROWS: usize = 256;

/// Rows `begin..end` that cost more than `most` and have more than one segment.
fn heavy_rows(work: &Spmm<'_>, begin: usize, end: usize, most: u128) -> Vec<usize> {
    let Weights { per_nonzero, per_row } = work.weights;
    let nonzeros = most.saturating_sub(u128::from(per_row)) / u128::from(per_nonzero.max(1));
    // The cost limit as a row length, so that one comparison per row is enough.
    let longest = u64::try_from(nonzeros).unwrap_or(u64::MAX).max(SEGMENT as u64);
    let pointers = work.row_pointers.get(begin..=end).unwrap_or(&[]);
    let mut heavy = Vec::new();
    for first in (0..pointers.len().saturating_sub(1)).step_by(HEAVY_BLOCK_ROWS) {
        let block = &pointers[first..pointers.len().min(first + HEAVY_BLOCK_ROWS + 1)];
        // Most blocks have fewer nonzeros than one heavy row.
        if let [start, .., last] = block
            && last - start > longest
        {
            let lengths = block.windows(2).map(|pair| pair[1] - pair[0]).enumerate();
            heavy.extend(lengths.filter(|&(_, length)| length > longest).map(|(row, _)| begin + first + row));
        }
    }
    heavy
}

/// Cuts segments `begin..end` of a row into equal pieces of a cost of at most about `most`. If all of a row is one piece, it is
/// a piece of whole rows.
fn cut_row(work: &Spmm<'_>, row: usize, begin: usize, end: usize, most: u128, found: &mut Vec<ChunkRows>) {
    let whole = ChunkRows::Segments { row, begin, end };
    let wanted = work.piece_cost_in_row(&whole).div_ceil(most).min((end - begin) as u128).max(1) as usize;
    if wanted == 1 && begin == 0 && end == work.row_segments(row) {
        found.push(ChunkRows::Rows { begin: row, end: row + 1 });
        return;
    }
    let count = end - begin;
    let at = |piece: usize| begin + (count as u128 * piece as u128 / wanted as u128) as usize;
    found.extend((0..wanted).map(|piece| ChunkRows::Segments { row, begin: at(piece), end: at(piece + 1) }));
}

#[cfg(test)]
#[path = "partition_tests.rs"]
mod tests;
