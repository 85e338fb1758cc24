//! A piece: consecutive rows that one thread computes at a time, and their order.

use std::ops::Range;

use super::Kernels;
use super::grouping::{Grouping, Segments};
use super::row_layout::RowLayout;
use super::run::{Group, Run, Slab};
use crate::error::Result;
use crate::matrix::{MultiVector, MultiVectorViewMut, Scalar};

/// Consecutive rows that one thread computes at a time.
pub(super) struct Piece<T: Scalar> {
    pub rows: Range<usize>,
    pub traversal: Traversal<T>,
    /// A buffer for rows of Y that are observed; made when it is first needed.
    pub tile: Option<MultiVector<T>>,
}

/// The order in which the rows of a piece are computed.
pub(super) enum Traversal<T: Scalar> {
    /// In storage order.
    Natural,
    /// Group by group.
    Grouped(Grouping),
    /// Segment by segment, with a buffer for the sums of spans if a row has several spans, or if Y was scaled.
    Segments(Segments, Option<MultiVector<T>>),
}

impl<T: Kernels> Piece<T> {
    /// Allocates the buffer of sums of a piece that adds segments in Y: a scaled run needs the old Y until all are added.
    pub(super) fn separate_sums(&mut self, k: usize) -> Result<()> {
        if let Traversal::Segments(segments, sums @ None) = &mut self.traversal {
            *sums = Some(MultiVector::zeros(segments.sums(), k)?);
        }
        Ok(())
    }
}

/// Computes a piece; `y` holds exactly its rows.
pub(super) fn run_piece<T: Kernels>(
    run: &Run<'_, T>,
    piece: &mut Piece<T>,
    mut y: MultiVectorViewMut<'_, T>,
) {
    for slab in run.slabs {
        match &mut piece.traversal {
            Traversal::Natural => run.compute(slab, piece.rows.clone(), Group::ALL, &mut y),
            Traversal::Segments(Segments { starts, lengths, targets, .. }, sums) => {
                let layout = RowLayout { starts, lengths: Some(lengths), ..run.layout };
                let group = Group::Rows { order: None, targets: Some(targets) };
                let run = Run { layout, ..run.unscaled() };
                match sums {
                    Some(sums) => run.compute(slab, 0..lengths.len(), group, &mut sums.view_mut()),
                    None => run.compute(slab, 0..lengths.len(), group, &mut y),
                }
            }
            Traversal::Grouped(grouping) => {
                for window in 0..grouping.window_ends.len() {
                    let rows = piece.rows.clone();
                    compute_window(run, slab, rows, (grouping, window), &mut y, None);
                }
            }
        }
    }
    if let Traversal::Segments(segments, Some(sums)) = &mut piece.traversal {
        segments.store_rows(run.stores, sums, &mut y);
    }
}

/// Computes one slab of a window of a piece with the rows `rows`, and copies its rows to `copy`.
pub(super) fn compute_window<T: Kernels>(
    run: &Run<'_, T>,
    slab: &Slab<T>,
    rows: Range<usize>,
    (grouping, window): (&Grouping, usize),
    y: &mut MultiVectorViewMut<'_, T>,
    mut copy: Option<(usize, &mut MultiVectorViewMut<'_, T>)>,
) {
    let begin = window.checked_sub(1).map_or([0; 3], |before| grouping.window_ends[before]);
    let end = grouping.window_ends[window];
    let identical = Group::Identical(&grouping.identical[begin[0]..end[0]]);
    let shifted = Group::Shifted(&grouping.shifted[begin[1]..end[1]]);
    let singles = Group::Rows { order: Some(&grouping.singles[begin[2]..end[2]]), targets: None };
    for group in [identical, shifted, singles] {
        let copy = copy.as_mut().map(|(first_row, copy)| (*first_row, &mut **copy));
        run.compute_and_copy(slab, rows.clone(), group, y, copy);
    }
}
