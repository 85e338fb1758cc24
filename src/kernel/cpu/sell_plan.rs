//! A product with sliced ELLPACK, prepared: windows of lanes shared out among threads.
//!
//! Lanes are canonical segments, or spans of rows that have several, so adding the parts of a row in lane order gives the canonical sum.

use std::ops::Range;

use super::Kernels;
use super::layout::RowLayout;
use super::rows_plan::CpuSettings;
use super::running::{Group, Run, Slab};
use crate::error::Result;
use crate::kernel::order::{SEGMENT, SPAN};
use crate::kernel::partition::{self, Schedule, Weights};
use crate::matrix::{MultiVectorView, MultiVectorViewMut, SlicedEll, Slicing};

/// Rows sorted by length among themselves.
const WINDOW: usize = 1024;

/// The slicing whose lanes are canonical: as many lanes as a vector register has.
pub fn slicing<T>() -> Slicing {
    Slicing { height: 64 / size_of::<T>(), window: WINDOW, longest: SEGMENT, span: SPAN }
}

/// Which windows each thread takes.
pub(super) struct SellPlan<T> {
    k: usize,
    slabs: Vec<Slab<T>>,
    pieces: Vec<Range<usize>>,
}

impl<T: Kernels> SellPlan<T> {
    /// Shares the windows of `matrix` out.
    pub fn new(matrix: &SlicedEll<T>, settings: CpuSettings) -> Self {
        let CpuSettings { k, threads, isa, schedule } = settings;
        let lanes = matrix.window_lanes();
        let windows = lanes.len() - 1;
        let pieces = match schedule {
            Schedule::EqualRows => partition::equal_rows(matrix.rows(), threads)
                .into_iter()
                .map(|range| range.start.div_ceil(WINDOW)..range.end.div_ceil(WINDOW))
                .filter(|range| !range.is_empty())
                .collect(),
            Schedule::Balanced => {
                let mut sum = 0;
                let mut pointers = vec![0];
                for window in 0..windows {
                    let lengths = &matrix.lane_lengths()[lanes[window]..lanes[window + 1]];
                    sum += lengths.iter().map(|&length| u64::from(length) + 1).sum::<u64>();
                    pointers.push(sum);
                }
                partition::balanced(&pointers, Weights { per_nonzero: 1, per_row: 0 }, threads * 8, 1)
            }
        };
        Self { k, slabs: Slab::all(isa, k, 16, false), pieces }
    }

    /// The row ranges that threads take.
    pub fn pieces(&self, rows: usize) -> Vec<Range<usize>> {
        self.pieces.iter().map(|range| range.start * WINDOW..(range.end * WINDOW).min(rows)).collect()
    }

    /// Computes `y = matrix x` on the rayon pool this is called in. `matrix` is the one this was made for.
    pub fn run(
        &self,
        matrix: &SlicedEll<T>,
        x: MultiVectorView<'_, T>,
        y: MultiVectorViewMut<'_, T>,
    ) -> Result<()> {
        Run::check_shapes(matrix.rows(), matrix.cols(), self.k, &x, &y)?;
        if self.k == 0 || matrix.rows() == 0 {
            return Ok(());
        }
        let layout = RowLayout {
            cols: matrix.cols(),
            starts: matrix.lane_starts(),
            lengths: Some(matrix.lane_lengths()),
            columns: matrix.columns(),
            values: matrix.values(),
            stride: matrix.slicing().height,
        };
        let run = Run { layout, x, slabs: &self.slabs, longest: usize::MAX, stream: false, prefetch: 0 };
        run_pieces(&run, matrix, &self.pieces, y);
        Ok(())
    }
}

/// All pieces, halves of them in parallel; `y` holds their rows and no others.
fn run_pieces<T: Kernels>(
    run: &Run<'_, T>,
    matrix: &SlicedEll<T>,
    pieces: &[Range<usize>],
    mut y: MultiVectorViewMut<'_, T>,
) {
    match pieces {
        [] => {}
        [windows] => {
            for window in windows.clone() {
                let (mut own, rest) = y.split_at_row(WINDOW.min(matrix.rows() - window * WINDOW));
                y = rest;
                let lanes = matrix.window_lanes()[window]..matrix.window_lanes()[window + 1];
                for slab in run.slabs {
                    let group = Group::Rows { order: None, targets: Some(matrix.lane_rows()) };
                    run.compute(slab, lanes.clone(), group, &mut own);
                }
            }
        }
        _ => {
            let (left, right) = pieces.split_at(pieces.len() / 2);
            let (top, bottom) = y.split_at_row((right[0].start - left[0].start) * WINDOW);
            rayon::join(|| run_pieces(run, matrix, left, top), || run_pieces(run, matrix, right, bottom));
        }
    }
}
