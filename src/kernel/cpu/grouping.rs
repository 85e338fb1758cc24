//! Groups of rows that are computed together: blocks with a common column pattern, then single rows by length or in storage
//! order.
//!
//! Grouping changes which chains of multiply-adds run concurrently and never the chains, so it cannot change the result.

use std::ops::Range;

use rowloom_cpu::{Block, SHIFTED_ROWS};

use super::Kernels;
use super::row_layout::RowLayout;
use super::run::{Slab, Stores};
use crate::error::{Error, Result};
use crate::kernel::order::{SEGMENT, SPAN};
use crate::matrix::sell::FIRST_OF_ROW;
use crate::matrix::{MultiVector, MultiVectorViewMut};

/// Which groups of rows are formed.
#[derive(Debug, Clone, Copy)]
pub(super) struct GroupingRules {
    /// Maximal number of rows of a block with identical columns; 1 forms no such blocks.
    pub most_identical_rows: usize,
    /// Whether rows whose columns differ by a constant shift form blocks.
    pub shifted: bool,
    /// Whether rows outside blocks are sorted by length, longest first.
    pub sort: bool,
    /// Rows per window. Rows are grouped within a window only, to keep their accesses to X and Y local.
    pub window: usize,
}

/// The groups of a piece, window by window. Row indices are relative to the piece's first row.
#[derive(Debug, Default)]
pub(super) struct Grouping {
    pub identical: Vec<Block>,
    pub shifted: Vec<Block>,
    pub singles: Vec<u32>,
    /// Rows of a window.
    pub window: usize,
    /// End of each window in the three lists.
    pub window_ends: Vec<[usize; 3]>,
}

impl Grouping {
    /// The groups of `rows`; none if they amount to storage order.
    pub fn collect<T: Copy>(
        layout: RowLayout<'_, T>,
        rows: Range<usize>,
        rules: GroupingRules,
    ) -> Option<Self> {
        let mut grouping = Self { window: rules.window, ..Self::default() };
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

    /// An error unless the groups have each of `rows` rows once, and every slab has a body for every block: a row would be
    /// without a value in Y.
    pub fn check<T: Kernels>(&self, rows: usize, slabs: &[Slab<T>]) -> Result<()> {
        let most = slabs.iter().map(Slab::most_identical_rows).min().unwrap_or(1);
        let takes_shifted = slabs.iter().all(Slab::takes_shifted);
        for block in &self.identical {
            if !(2..=most).contains(&(block.count as usize)) {
                return Err(Error::Internal(format!(
                    "rows form a block of {} identical rows, and compiled loops take at most {most}",
                    block.count
                )));
            }
        }
        for block in &self.shifted {
            if !takes_shifted || block.count as usize != SHIFTED_ROWS {
                return Err(Error::Internal(format!(
                    "{} shifted rows form a block that no compiled loop takes",
                    block.count
                )));
            }
        }
        let mut times = vec![0u8; rows];
        let of_blocks = self.identical.iter().chain(&self.shifted);
        let in_blocks = of_blocks.flat_map(|block| block.leader..block.leader.saturating_add(block.count));
        for row in in_blocks.chain(self.singles.iter().copied()) {
            if let Some(times) = times.get_mut(row as usize) {
                *times = times.saturating_add(1);
            }
        }
        match times.iter().position(|&times| times != 1) {
            None => Ok(()),
            Some(row) => Err(Error::Internal(format!(
                "row {row} of {rows} is in {} groups of rows, not in one",
                times[row]
            ))),
        }
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
            let identical =
                1 + (row + 1..limit).take_while(|&other| layout.shift(row, other) == Some(0)).count();
            if identical > 1 {
                let parts = identical.div_ceil(rules.most_identical_rows);
                for part in 0..parts {
                    let (begin, end) = (identical * part / parts, identical * (part + 1) / parts);
                    if end - begin == 1 {
                        self.singles.push(leader + begin as u32);
                    } else {
                        self.identical
                            .push(Block { leader: leader + begin as u32, count: (end - begin) as u32 });
                    }
                }
                row += identical;
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

/// The order in which the segments of rows are computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SegmentOrder {
    /// Row by row; consecutive segments are computed concurrently.
    Rows,
    /// By first column, so that X is read once from start to end.
    Columns,
}

/// The segments of a piece's rows, each with its target: the sum of the span that it belongs to.
#[derive(Debug)]
pub(super) struct Segments {
    pub starts: Vec<u64>,
    pub lengths: Vec<u32>,
    pub targets: Vec<u32>,
    /// Index of each row's first sum, followed by the number of sums; a row that is left out has no sum.
    first_sums: Vec<u32>,
}

impl Segments {
    /// The segments of those `rows` that have at most `longest` nonzeros.
    ///
    /// [`SegmentOrder::Columns`] improves the cache reuse of X. It needs ascending columns in every row, so that sorting by
    /// column keeps the order of a row's segments; the result is none if a row's columns do not ascend.
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

    /// Number of sums.
    pub fn sums(&self) -> usize {
        self.first_sums.last().map_or(0, |&sums| sums as usize)
    }

    /// Whether each row has exactly one sum, so that the rows of Y can hold the sums.
    pub fn has_one_sum_per_row(&self) -> bool {
        self.first_sums.windows(2).all(|pair| pair[1] - pair[0] == 1)
    }

    /// Stores the scaled sum of the spans, first to last, of each row in `y`; rows that are left out keep their values.
    pub fn store_rows<T: Kernels>(
        &self,
        stores: Stores<T>,
        sums: &mut MultiVector<T>,
        y: &mut MultiVectorViewMut<'_, T>,
    ) {
        let k = y.k();
        for (row, range) in self.first_sums.windows(2).enumerate() {
            let parts = range[0] as usize * k..range[1] as usize * k;
            stores.store_parts(&mut sums.data_mut()[parts], y.row_mut(row));
        }
    }
}

/// Start and length of each part of a row that is cut into parts of `most` nonzeros; the last part may be shorter.
pub(super) fn parts_of<T: Copy>(
    layout: RowLayout<'_, T>,
    row: usize,
    most: usize,
) -> impl Iterator<Item = (u64, u32)> {
    let (start, length) = (layout.starts[row], layout.length(row));
    (0..length).step_by(most).map(move |offset| (start + offset as u64, (length - offset).min(most) as u32))
}
