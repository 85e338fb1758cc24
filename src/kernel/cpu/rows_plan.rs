//! A product by rows, prepared: pieces of rows, the groups they are taken in, and the bodies that compute them.
//!
//! Preparing decides and allocates; running does neither. Whatever was decided, the result is the canonical one.

use std::ops::Range;

use rayon::prelude::*;

use super::Kernels;
use super::grouping::{Grouping, GroupingRules, Segments};
use super::hubs::Hubs;
use super::layout::RowLayout;
use super::running::{Group, Run, Slab};
use super::tuning::Tuning;
use crate::error::Result;
use crate::kernel::order::SEGMENT;
use crate::kernel::partition::{self, Schedule, Weights};
use crate::machine::Isa;
use crate::matrix::{MultiVector, MultiVectorView, MultiVectorViewMut, Scalar};

/// How a product on the CPU is to be carried out.
#[derive(Debug, Clone, Copy)]
pub struct CpuSettings {
    /// Columns of X.
    pub k: usize,
    /// Threads that pieces are made for.
    pub threads: usize,
    /// Instructions to use; the processor must have them.
    pub isa: Isa,
    /// How rows are shared out.
    pub schedule: Schedule,
}

/// Consecutive rows that one thread computes at a time.
struct Piece<T: Scalar> {
    rows: Range<usize>,
    taken: Taken<T>,
}

/// How the rows of a piece are taken.
enum Taken<T: Scalar> {
    /// As they come.
    Natural,
    /// In groups.
    Grouped(Grouping),
    /// As segments, with room for the sums of spans where some row has several.
    Segments(Segments, Option<MultiVector<T>>),
}

/// Which rows, in which order, with which bodies; made once for a layout and a K.
pub(super) struct RowsPlan<T: Scalar> {
    k: usize,
    tuning: Tuning,
    slabs: Vec<Slab<T>>,
    pieces: Vec<Piece<T>>,
    hubs: Option<Hubs<T>>,
    longest: usize,
}

/// Work below this is not worth waking another thread for.
const SMALLEST_PIECE_BYTES: usize = 1 << 16;
/// Hubs are at least this long: shorter rows are little work whatever their share.
const SHORTEST_HUB: usize = 32 * SEGMENT;
/// Rows of a block whose rows are all equal.
const UNIFORM_BLOCK_ROWS: usize = 64;

impl<T: Kernels> RowsPlan<T> {
    /// Decides everything for `layout`, in the rayon pool this is called in.
    pub fn new(
        layout: RowLayout<'_, T>,
        settings: CpuSettings,
        tuning: Tuning,
        uniform: bool,
    ) -> Result<Self> {
        let CpuSettings { k, threads, isa, schedule } = settings;
        let rows = layout.rows();
        let pointers = layout.row_pointers();
        let nnz = (pointers[rows] - pointers[0]) as usize;
        let slabs = Slab::all(isa, k, tuning.most_units, uniform);
        let nonzero_bytes = 12 + k * size_of::<T>();
        let most_pieces = (nnz.saturating_mul(nonzero_bytes) / SMALLEST_PIECE_BYTES)
            .clamp(1, threads.max(1) * tuning.pieces_per_thread);
        let (ranges, longest) = match schedule {
            Schedule::EqualRows => (partition::equal_rows(rows, threads), usize::MAX),
            Schedule::Balanced => {
                let per_row = 8 + 2 * k * size_of::<T>();
                let weights = Weights { per_nonzero: nonzero_bytes as u64, per_row: per_row as u64 };
                let alignment = partition::row_alignment(k * size_of::<T>());
                // A row heavier than half a piece cannot be balanced whole.
                let longest =
                    if threads > 1 { (nnz / most_pieces / 2).max(SHORTEST_HUB) } else { usize::MAX };
                (partition::balanced(&pointers, weights, most_pieces, alignment), longest)
            }
        };
        let hubs = Hubs::collect(layout, k, longest, most_pieces)?;
        let rules = GroupingRules {
            // Equal values make identical rows equal: any number of them costs one.
            most_identical_rows: if !tuning.identical {
                1
            } else if uniform {
                UNIFORM_BLOCK_ROWS
            } else {
                slabs.iter().map(Slab::most_identical_rows).min().unwrap_or(1)
            },
            shifted: tuning.shifted && slabs.iter().all(Slab::takes_shifted),
            sort: tuning.sort,
            window: tuning.window,
        };
        let pieces = ranges
            .into_par_iter()
            .map(|rows| {
                let segments =
                    tuning.segments.and_then(|order| Segments::collect(layout, rows.clone(), longest, order));
                let taken = match segments {
                    Some(segments) => {
                        let sums = segments.sums().map(|sums| MultiVector::zeros(sums, k)).transpose()?;
                        Taken::Segments(segments, sums)
                    }
                    None => {
                        Grouping::collect(layout, rows.clone(), rules).map_or(Taken::Natural, Taken::Grouped)
                    }
                };
                Ok(Piece { rows, taken })
            })
            .collect::<Result<_>>()?;
        Ok(Self { k, tuning, slabs, pieces, hubs, longest })
    }

    /// The row ranges that threads take.
    pub fn pieces(&self) -> Vec<Range<usize>> {
        self.pieces.iter().map(|piece| piece.rows.clone()).collect()
    }

    /// Rows whose segments are shared out among threads.
    pub fn hub_rows(&self) -> &[usize] {
        self.hubs.as_ref().map_or(&[], Hubs::rows)
    }

    /// Computes `y = layout x` on the rayon pool this is called in. `layout` is the one this was made for.
    pub fn run(
        &mut self,
        layout: RowLayout<'_, T>,
        x: MultiVectorView<'_, T>,
        mut y: MultiVectorViewMut<'_, T>,
    ) -> Result<()> {
        Run::check_shapes(layout.rows(), layout.cols, self.k, &x, &y)?;
        if self.k == 0 || layout.rows() == 0 {
            return Ok(());
        }
        let run = Run {
            layout,
            x,
            slabs: &self.slabs,
            longest: self.longest,
            stream: self.tuning.stream && Run::can_stream(&self.slabs, &mut y),
            prefetch: self.tuning.prefetch,
        };
        match &mut self.hubs {
            None => run_pieces(&run, &mut self.pieces, y),
            Some(hubs) => {
                let whole = y.reborrow();
                let pieces = &mut self.pieces;
                hubs.compute(&run, || run_pieces(&run, pieces, whole))?;
                hubs.finish(&mut y);
            }
        }
        Ok(())
    }
}

/// All pieces, halves of them in parallel; `y` holds their rows and no others.
fn run_pieces<T: Kernels>(run: &Run<'_, T>, pieces: &mut [Piece<T>], y: MultiVectorViewMut<'_, T>) {
    match pieces {
        [] => {}
        [piece] => run_piece(run, piece, y),
        _ => {
            let (left, right) = pieces.split_at_mut(pieces.len() / 2);
            let (top, bottom) = y.split_at_row(right[0].rows.start - left[0].rows.start);
            rayon::join(|| run_pieces(run, left, top), || run_pieces(run, right, bottom));
        }
    }
}

fn run_piece<T: Kernels>(run: &Run<'_, T>, piece: &mut Piece<T>, mut y: MultiVectorViewMut<'_, T>) {
    for slab in run.slabs {
        match &mut piece.taken {
            Taken::Natural => run.compute(slab, piece.rows.clone(), Group::ALL, &mut y),
            Taken::Segments(Segments { starts, lengths, targets, .. }, sums) => {
                let layout = RowLayout { starts, lengths: Some(lengths), ..run.layout };
                let group = Group::Rows { order: None, targets: Some(targets) };
                let run = Run { layout, stream: false, ..*run };
                match sums {
                    Some(sums) => run.compute(slab, 0..lengths.len(), group, &mut sums.view_mut()),
                    None => run.compute(slab, 0..lengths.len(), group, &mut y),
                }
            }
            Taken::Grouped(grouping) => {
                let mut begin = [0; 3];
                for &end in &grouping.window_ends {
                    let identical = Group::Identical(&grouping.identical[begin[0]..end[0]]);
                    let shifted = Group::Shifted(&grouping.shifted[begin[1]..end[1]]);
                    let singles =
                        Group::Rows { order: Some(&grouping.singles[begin[2]..end[2]]), targets: None };
                    for group in [identical, shifted, singles] {
                        run.compute(slab, piece.rows.clone(), group, &mut y);
                    }
                    begin = end;
                }
            }
        }
    }
    if let Taken::Segments(segments, Some(sums)) = &piece.taken {
        segments.add_spans(sums.view(), &mut y);
    }
}
