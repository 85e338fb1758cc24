//! In which groups the rows of a piece are taken: blocks that share a pattern, the rest by length or as they come.
//!
//! Grouping changes which chains run side by side and never a chain, so it cannot change the result.

use std::ops::Range;

use rowloom_cpu::{Block, SHIFTED_ROWS};

use super::layout::RowLayout;
use crate::kernel::order::{SEGMENT, SPAN};
use crate::matrix::sell::FIRST_OF_ROW;
use crate::matrix::{MultiVectorView, MultiVectorViewMut, Scalar};

/// What may be grouped.
#[derive(Debug, Clone, Copy)]
pub(super) struct GroupingRules {
    /// Most rows of a block with the same columns; one for no such blocks.
    pub most_identical_rows: usize,
    /// Blocks of rows whose columns move along.
    pub shifted: bool,
    /// Rows outside blocks are taken longest first.
    pub sort: bool,
    /// Rows are grouped within windows of this many, so that what they touch stays near.
    pub window: usize,
}

/// Rows of a piece in groups, window by window. Rows are relative to the piece's first.
#[derive(Debug, Default)]
pub(super) struct Grouping {
    pub identical: Vec<Block>,
    pub shifted: Vec<Block>,
    pub singles: Vec<u32>,
    /// Where each window ends in the three lists.
    pub window_ends: Vec<[usize; 3]>,
}

impl Grouping {
    /// The groups of `rows`, or none where taking them as they come is the same.
    pub fn collect<T: Copy>(
        layout: RowLayout<'_, T>,
        rows: Range<usize>,
        rules: GroupingRules,
    ) -> Option<Self> {
        let mut grouping = Self::default();
        let mut begin = rows.start;
        while begin < rows.end {
            let end = (begin + rules.window).min(rows.end);
            let singles_before = grouping.singles.len();
            grouping.add_window(layout, rows.start, begin..end, rules);
            if rules.sort {
                grouping.singles[singles_before..]
                    .sort_by_key(|&row| std::cmp::Reverse(layout.length(rows.start + row as usize)));
            }
            grouping.window_ends.push([
                grouping.identical.len(),
                grouping.shifted.len(),
                grouping.singles.len(),
            ]);
            begin = end;
        }
        let natural =
            grouping.identical.is_empty() && grouping.shifted.is_empty() && grouping.singles.is_sorted();
        (!natural).then_some(grouping)
    }

    fn add_window<T: Copy>(
        &mut self,
        layout: RowLayout<'_, T>,
        first_row: usize,
        window: Range<usize>,
        rules: GroupingRules,
    ) {
        let mut row = window.start;
        while row < window.end {
            let leader = (row - first_row) as u32;
            let limit = if rules.most_identical_rows > 1 { window.end } else { row + 1 };
            let alike = 1 + (row + 1..limit).take_while(|&other| layout.shift(row, other) == Some(0)).count();
            if alike > 1 {
                let parts = alike.div_ceil(rules.most_identical_rows);
                for part in 0..parts {
                    let (begin, end) = (alike * part / parts, alike * (part + 1) / parts);
                    if end - begin == 1 {
                        self.singles.push(leader + begin as u32);
                    } else {
                        self.identical
                            .push(Block { leader: leader + begin as u32, count: (end - begin) as u32 });
                    }
                }
                row += alike;
            } else if rules.shifted
                && row + SHIFTED_ROWS <= window.end
                && (row + 1..row + SHIFTED_ROWS).all(|other| layout.shift(row, other).is_some())
            {
                self.shifted.push(Block { leader, count: SHIFTED_ROWS as u32 });
                row += SHIFTED_ROWS;
            } else {
                self.singles.push(leader);
                row += 1;
            }
        }
    }
}

/// In which order the segments of rows are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SegmentOrder {
    /// Row by row: segments of long rows run side by side with those of the next.
    Rows,
    /// By first column: X is walked through once.
    Columns,
}

/// Segments of a piece's rows as rows of their own, with the sums they are added to: one for each span of a row.
#[derive(Debug)]
pub(super) struct Segments {
    pub starts: Vec<u64>,
    pub lengths: Vec<u32>,
    pub targets: Vec<u32>,
    /// First sum of each row, and the number of all sums; none for rows that are left out.
    first_sums: Vec<u32>,
}

impl Segments {
    /// The segments of `rows` but those longer than `longest`.
    ///
    /// In the order of columns, X is walked through once, and what few rows read of it together stays near. That
    /// needs rows whose columns ascend, so that a row's segments keep their order; without them there is no result.
    pub fn collect<T: Copy>(
        layout: RowLayout<'_, T>,
        rows: Range<usize>,
        longest: usize,
        order: SegmentOrder,
    ) -> Option<Self> {
        let mut entries: Vec<(u32, u64, u32, u32)> = Vec::new();
        let (mut first_sums, mut sums) = (Vec::with_capacity(rows.len() + 1), 0);
        for row in rows {
            first_sums.push(sums);
            let length = layout.length(row);
            if length > longest {
                continue;
            }
            let start = layout.starts[row] as usize;
            let columns = &layout.columns[start..start + length];
            if order == SegmentOrder::Columns && !columns.is_sorted() {
                return None;
            }
            if length == 0 {
                entries.push((0, start as u64, 0, sums | FIRST_OF_ROW));
            }
            for (segment, (start, length)) in parts_of(layout, row, SEGMENT).enumerate() {
                let target = sums + (segment * SEGMENT / SPAN) as u32;
                let is_first = (segment * SEGMENT).is_multiple_of(SPAN);
                let target = if is_first { target | FIRST_OF_ROW } else { target };
                entries.push((layout.columns[start as usize], start, length, target));
            }
            sums += length.div_ceil(SPAN).max(1) as u32;
        }
        first_sums.push(sums);
        if order == SegmentOrder::Columns {
            entries.sort_by_key(|&(column, start, ..)| (column, start));
        }
        Some(Self {
            starts: entries.iter().map(|entry| entry.1).collect(),
            lengths: entries.iter().map(|entry| entry.2).collect(),
            targets: entries.iter().map(|entry| entry.3).collect(),
            first_sums,
        })
    }

    /// Sums that segments are added to where they are not rows of Y themselves: some row has several spans, or none at all.
    pub fn sums(&self) -> Option<usize> {
        let is_one = |pair: &[u32]| pair[1] - pair[0] == 1;
        let all = *self.first_sums.last()? as usize;
        (!self.first_sums.windows(2).all(is_one)).then_some(all)
    }

    /// Adds the spans of each row, first to last; rows that are left out stay as they are.
    pub fn add_spans<T: Scalar>(&self, sums: MultiVectorView<'_, T>, y: &mut MultiVectorViewMut<'_, T>) {
        for (row, range) in self.first_sums.windows(2).enumerate() {
            add_parts((range[0]..range[1]).map(|sum| sums.row(sum as usize)), y.row_mut(row));
        }
    }
}

/// Writes the sum of `parts`, first to last; where there is none, nothing.
pub(super) fn add_parts<'a, T: Scalar>(mut parts: impl Iterator<Item = &'a [T]>, row: &mut [T]) {
    let Some(first) = parts.next() else { return };
    row.copy_from_slice(first);
    for part in parts {
        row.iter_mut().zip(part).for_each(|(sum, &value)| *sum = sum.plus(value));
    }
}

/// Start and length of each part of a row that is cut at every `most` nonzeros.
pub(super) fn parts_of<T: Copy>(
    layout: RowLayout<'_, T>,
    row: usize,
    most: usize,
) -> impl Iterator<Item = (u64, u32)> {
    let (start, length) = (layout.starts[row], layout.length(row));
    (0..length).step_by(most).map(move |offset| (start + offset as u64, (length - offset).min(most) as u32))
}
