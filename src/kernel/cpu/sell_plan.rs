//! The execution plan of a product with sliced ELLPACK: which thread computes which windows of rows.
//!
//! A lane is a canonical segment, or a span if its row has several spans, so adding the lanes of a row in order gives the
//! canonical sum.

use std::ops::Range;

use super::Kernels;
use super::row_layout::RowLayout;
use super::rows_plan::CpuSettings;
use super::run::{Group, Run, Slab, Stores};
use crate::error::Result;
use crate::kernel::order::{SEGMENT, SPAN};
use crate::kernel::partition::{self, Schedule, Weights};
use crate::kernel::scaling::Scaling;
use crate::machine::Isa;
use crate::matrix::{MultiVector, MultiVectorView, MultiVectorViewMut, Scalar, SlicedEll, Slicing};

/// Rows of a window; rows are sorted by length within a window.
const WINDOW: usize = 1024;

/// The slicing with canonical lanes, and as many lanes per slice as an AVX-512 register has.
pub fn slicing<T>() -> Slicing {
    Slicing { height: 64 / size_of::<T>(), window: WINDOW, longest: SEGMENT, span: SPAN }
}

/// The division of windows into pieces, and the compiled bodies for `k` columns.
pub(super) struct SellPlan<T: Scalar> {
    k: usize,
    isa: Isa,
    slabs: Vec<Slab<T>>,
    pieces: Vec<Piece<T>>,
}

/// Consecutive windows that one thread computes.
struct Piece<T: Scalar> {
    windows: Range<usize>,
    /// The sums of one window, allocated by the first scaled run: it needs the old Y until the lanes of a row are added. The
    /// buffer is small enough for a cache.
    sums: Option<MultiVector<T>>,
}

impl<T: Kernels> SellPlan<T> {
    /// Divides the windows of `matrix` into pieces.
    pub fn new(matrix: &SlicedEll<T>, settings: CpuSettings) -> Result<Self> {
        let CpuSettings { k, threads, isa, schedule } = settings;
        let lanes = matrix.window_lanes();
        let windows = lanes.len() - 1;
        let pieces: Vec<Range<usize>> = match schedule {
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
        let pieces = pieces.into_iter().map(|windows| Piece { windows, sums: None }).collect();
        Ok(Self { k, isa, slabs: Slab::all(isa, k, 16, false)?, pieces })
    }

    /// The row ranges that are the units of scheduling among threads.
    pub fn pieces(&self, rows: usize) -> Vec<Range<usize>> {
        let rows_of = |windows: &Range<usize>| windows.start * WINDOW..(windows.end * WINDOW).min(rows);
        self.pieces.iter().map(|piece| rows_of(&piece.windows)).collect()
    }

    /// Whether a run uses one thread only.
    pub fn is_serial(&self) -> bool {
        self.pieces.len() <= 1
    }

    /// Computes the scaled product of `matrix` and `x` in the rayon pool of the caller. `matrix` must be the one given to
    /// [`Self::new`].
    pub fn run(
        &mut self,
        matrix: &SlicedEll<T>,
        scaling: Scaling<T>,
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
        let stores = Stores::new(self.isa, scaling);
        if !stores.is_plain() {
            for piece in self.pieces.iter_mut().filter(|piece| piece.sums.is_none()) {
                piece.sums = Some(MultiVector::zeros(WINDOW.min(matrix.rows()), self.k)?);
            }
        }
        let (slabs, longest) = (&self.slabs[..], usize::MAX);
        let run = Run { layout, x, slabs, stores, longest, stream: false, prefetch: 0 };
        run_pieces(&run, matrix, &mut self.pieces, y);
        Ok(())
    }
}

/// Computes `pieces` by parallel recursive halving; `y` holds exactly their rows.
fn run_pieces<T: Kernels>(
    run: &Run<'_, T>,
    matrix: &SlicedEll<T>,
    pieces: &mut [Piece<T>],
    mut y: MultiVectorViewMut<'_, T>,
) {
    match pieces {
        [] => {}
        [Piece { windows, sums }] => {
            let mut sums = sums.as_mut().filter(|_| !run.stores.is_plain());
            for window in windows.clone() {
                let (mut own, rest) = y.split_at_row(WINDOW.min(matrix.rows() - window * WINDOW));
                y = rest;
                let lanes = matrix.window_lanes()[window]..matrix.window_lanes()[window + 1];
                for slab in run.slabs {
                    let group = Group::Rows { order: None, targets: Some(matrix.lane_rows()) };
                    match &mut sums {
                        Some(sums) => {
                            run.unscaled().compute(slab, lanes.clone(), group, &mut sums.view_mut())
                        }
                        None => run.compute(slab, lanes.clone(), group, &mut own),
                    }
                }
                if let Some(sums) = &sums {
                    for row in 0..own.rows() {
                        run.stores.store(sums.row(row), own.row_mut(row));
                    }
                }
            }
        }
        _ => {
            let (left, right) = pieces.split_at_mut(pieces.len() / 2);
            let (top, bottom) = y.split_at_row((right[0].windows.start - left[0].windows.start) * WINDOW);
            rayon::join(|| run_pieces(run, matrix, left, top), || run_pieces(run, matrix, right, bottom));
        }
    }
}
