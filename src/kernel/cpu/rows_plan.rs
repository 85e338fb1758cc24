//! The execution plan of a product by rows: pieces of rows, the groups of rows in each piece, and the compiled bodies.
//!
//! Preparation makes all decisions and allocations; a run makes none, except that the first scaled run may allocate a buffer of
//! sums. Every plan gives the same canonical result.

use std::ops::Range;
use std::time::Instant;

use rayon::prelude::*;

use super::Kernels;
use super::grouping::{Grouping, GroupingRules, Segments};
use super::hub_rows::HubRows;
use super::observed::{RowsObserver, run_observed};
use super::piece::{Piece, Traversal, run_piece};
use super::row_layout::RowLayout;
use super::run::{Run, Slab, Stores};
use super::store_choice::StoreChoice;
use super::tuning::Tuning;
use crate::error::Result;
use crate::kernel::order::SEGMENT;
use crate::kernel::partition::{self, Schedule, Weights};
use crate::kernel::scaling::Scaling;
use crate::machine::Isa;
use crate::matrix::{MultiVector, MultiVectorView, MultiVectorViewMut, Scalar};

/// The settings of a product on the CPU.
#[derive(Debug, Clone, Copy)]
pub struct CpuSettings {
    /// Columns of X.
    pub k: usize,
    /// Number of threads that the rows are divided for.
    pub threads: usize,
    /// Instruction set to use; the processor must have it.
    pub isa: Isa,
    /// How rows are divided among threads.
    pub schedule: Schedule,
}

/// Rows, their order and their bodies, decided once for a layout and a number of columns.
pub(crate) struct RowsPlan<T: Scalar> {
    k: usize,
    isa: Isa,
    tuning: Tuning,
    store_choice: StoreChoice,
    slabs: Vec<Slab<T>>,
    pieces: Vec<Piece<T>>,
    hubs: Option<HubRows<T>>,
    longest: usize,
}

/// Pieces read at least this many bytes: below, starting another thread costs more than it saves.
const SMALLEST_PIECE_BYTES: usize = 1 << 16;
/// Hub rows have at least this many nonzeros: dividing shorter rows does not pay.
const MIN_HUB_NONZEROS: usize = 32 * SEGMENT;

impl<T: Kernels> RowsPlan<T> {
    /// The plan for `layout`, made in the rayon pool of the caller.
    pub(super) fn new(
        layout: RowLayout<'_, T>,
        settings: CpuSettings,
        tuning: Tuning,
        uniform: bool,
    ) -> Result<Self> {
        let CpuSettings { k, threads, isa, schedule } = settings;
        let rows = layout.rows();
        let pointers = layout.row_pointers();
        let nnz = (pointers[rows] - pointers[0]) as usize;
        let slabs = Slab::all(isa, k, tuning.most_units, uniform)?;
        let nonzero_bytes = 12 + k * size_of::<T>();
        let most_pieces = (nnz.saturating_mul(nonzero_bytes) / SMALLEST_PIECE_BYTES)
            .clamp(1, threads.max(1) * tuning.pieces_per_thread);
        let (ranges, longest) = match schedule {
            Schedule::EqualRows => (partition::equal_rows(rows, threads), usize::MAX),
            Schedule::Balanced => {
                let per_row = 8 + 2 * k * size_of::<T>();
                let weights = Weights { per_nonzero: nonzero_bytes as u64, per_row: per_row as u64 };
                let alignment = partition::row_alignment(k * size_of::<T>());
                // A row with more than half the nonzeros of a piece would unbalance the pieces.
                let longest =
                    if threads > 1 { (nnz / most_pieces / 2).max(MIN_HUB_NONZEROS) } else { usize::MAX };
                (partition::balanced(&pointers, weights, most_pieces, alignment), longest)
            }
        };
        let hubs = HubRows::collect(layout, k, longest, most_pieces)?;
        // Only blocks that every slab has a body for.
        let rules = GroupingRules {
            most_identical_rows: match tuning.identical {
                true => slabs.iter().map(Slab::most_identical_rows).min().unwrap_or(1),
                false => 1,
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
                let traversal = match segments {
                    Some(segments) => {
                        let sums = match segments.has_one_sum_per_row() {
                            true => None,
                            false => Some(MultiVector::zeros(segments.sums(), k)?),
                        };
                        Traversal::Segments(segments, sums)
                    }
                    None => match Grouping::collect(layout, rows.clone(), rules) {
                        Some(grouping) => {
                            grouping.check(rows.len(), &slabs)?;
                            Traversal::Grouped(grouping)
                        }
                        None => Traversal::Natural,
                    },
                };
                Ok(Piece { rows, traversal, tile: None })
            })
            .collect::<Result<_>>()?;
        let store_choice = StoreChoice::new(tuning.stores);
        Ok(Self { k, isa, tuning, store_choice, slabs, pieces, hubs, longest })
    }

    /// The row ranges that are the units of scheduling among threads.
    pub fn pieces(&self) -> Vec<Range<usize>> {
        self.pieces.iter().map(|piece| piece.rows.clone()).collect()
    }

    /// Whether a run uses one thread only.
    pub fn is_serial(&self) -> bool {
        self.pieces.len() <= 1 && self.hubs.is_none()
    }

    /// Rows that are too long for one thread; their spans are divided among threads.
    pub fn hub_rows(&self) -> &[usize] {
        self.hubs.as_ref().map_or(&[], HubRows::rows)
    }

    /// Computes the scaled product of `layout` and `x` in the rayon pool of the caller. `layout` must be the one given to
    /// [`Self::new`]. Returns whether `observer` has seen all rows: it sees none if there are hub rows.
    pub fn run(
        &mut self,
        layout: RowLayout<'_, T>,
        scaling: Scaling<T>,
        x: MultiVectorView<'_, T>,
        mut y: MultiVectorViewMut<'_, T>,
        observer: Option<&dyn RowsObserver<T>>,
    ) -> Result<bool> {
        Run::check_shapes(layout.rows(), layout.cols, self.k, &x, &y)?;
        if self.k == 0 || layout.rows() == 0 {
            return Ok(false);
        }
        let stores = Stores::new(self.isa, scaling);
        if !stores.is_plain() {
            self.pieces.iter_mut().try_for_each(|piece| piece.separate_sums(self.k))?;
        }
        // A row of the old Y that was read is in the cache: a non-temporal store would evict it first.
        let may_stream = !scaling.reads_old() && Run::can_stream(&self.slabs, &mut y);
        let stream = may_stream && self.store_choice.is_non_temporal();
        let begin = (may_stream && self.store_choice.is_timed()).then(Instant::now);
        let run = Run {
            layout,
            x,
            slabs: &self.slabs,
            stores,
            longest: self.longest,
            stream,
            prefetch: self.tuning.prefetch,
        };
        let seen = match &mut self.hubs {
            None => run_pieces(&run, &mut self.pieces, y, observer).map(|()| observer.is_some()),
            Some(hubs) => {
                let whole = y.reborrow();
                let pieces = &mut self.pieces;
                let mut computed = Ok(());
                hubs.compute(&run, || computed = run_pieces(&run, pieces, whole, None))?;
                hubs.finish(stores, &mut y);
                computed.map(|()| false)
            }
        };
        if let Some(begin) = begin {
            self.store_choice.record(begin.elapsed().as_secs_f64());
        }
        seen
    }
}

/// Computes `pieces` by parallel recursive halving; `y` holds exactly their rows.
fn run_pieces<T: Kernels>(
    run: &Run<'_, T>,
    pieces: &mut [Piece<T>],
    y: MultiVectorViewMut<'_, T>,
    observer: Option<&dyn RowsObserver<T>>,
) -> Result<()> {
    match (pieces, observer) {
        ([], _) => Ok(()),
        ([piece], None) => {
            run_piece(run, piece, y);
            Ok(())
        }
        ([piece], Some(observer)) => run_observed(run, piece, y, observer),
        (pieces, _) => {
            let (left, right) = pieces.split_at_mut(pieces.len() / 2);
            let (top, bottom) = y.split_at_row(right[0].rows.start - left[0].rows.start);
            let (first, second) = rayon::join(
                || run_pieces(run, left, top, observer),
                || run_pieces(run, right, bottom, observer),
            );
            first.and(second)
        }
    }
}
