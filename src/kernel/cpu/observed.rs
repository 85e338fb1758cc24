//! Products whose rows of Y are observed while they are in a cache: the check of a product.
//!
//! The rows of a piece are computed in tiles. With non-temporal stores, a tile is computed to a buffer, observed there and copied to Y, so
//! that Y is not read from memory. Observation changes no bit of Y.

use std::ops::Range;

use rowloom_cpu::{StreamCopy, fence_streams};

use super::Kernels;
use super::rows_plan::{Piece, Traversal, compute_window, run_piece};
use super::run::{Group, Run};
use crate::error::Result;
use crate::matrix::{MultiVector, MultiVectorView, MultiVectorViewMut};

/// Bytes of a tile: its rows of X and Y stay in the caches of a core.
const TILE_BYTES: usize = 32 << 10;
/// Fewest rows of a tile, so that the start of a tile costs little.
const FEWEST_TILE_ROWS: usize = 64;

/// Sees all rows of Y before and after a product, from several threads.
pub trait RowsObserver<T>: Sync {
    /// The observer of consecutive rows that one thread computes.
    fn start(&self) -> Result<Box<dyn PieceObserver<T> + '_>>;
}

/// Sees rows of Y in ascending order.
pub trait PieceObserver<T> {
    /// Rows before the product, if they have an effect on it.
    fn before(&mut self, rows: Range<usize>, y: MultiVectorView<'_, T>);
    /// Rows after the product.
    fn after(&mut self, rows: Range<usize>, y: MultiVectorView<'_, T>);
    /// The last row was seen.
    fn end(self: Box<Self>);
}

/// Copies rows past the caches.
fn stream<T: Kernels>(
    copy: StreamCopy,
    mut from: MultiVectorViewMut<'_, T>,
    mut to: MultiVectorViewMut<'_, T>,
) {
    let (rows, k) = (to.rows(), to.k());
    if from.leading_dimension() == k && to.leading_dimension() == k {
        let (from, to) = (&from.data_mut()[..rows * k], &mut to.data_mut()[..rows * k]);
        return copy.copy(bytemuck::cast_slice(from), bytemuck::cast_slice_mut(to));
    }
    for row in 0..rows {
        copy.copy(bytemuck::cast_slice(from.row_mut(row)), bytemuck::cast_slice_mut(to.row_mut(row)));
    }
}

/// Computes a piece; `y` holds exactly its rows.
pub(super) fn run_observed<T: Kernels>(
    run: &Run<'_, T>,
    piece: &mut Piece<T>,
    mut y: MultiVectorViewMut<'_, T>,
    observer: &dyn RowsObserver<T>,
) -> Result<()> {
    let mut observer = observer.start()?;
    let copy = StreamCopy::detect();
    let (rows, reads_old) = (piece.rows.clone(), run.stores.reads_old());
    let tile_rows = match &piece.traversal {
        Traversal::Segments(..) => rows.len(),
        Traversal::Grouped(grouping) => grouping.window,
        Traversal::Natural => {
            (TILE_BYTES / (y.k() * size_of::<T>()).max(1)).max(FEWEST_TILE_ROWS).min(rows.len())
        }
    };
    if run.stream && piece.tile.is_none() && !matches!(piece.traversal, Traversal::Segments(..)) {
        piece.tile = Some(MultiVector::zeros(tile_rows.min(rows.len()), y.k())?);
    }
    for (window, begin) in rows.clone().step_by(tile_rows.max(1)).enumerate() {
        let tile = begin..rows.end.min(begin + tile_rows);
        let (mut own, rest) = y.split_at_row(tile.len());
        y = rest;
        if reads_old {
            observer.before(tile.clone(), own.as_view());
        }
        let direct = Run { stream: false, ..*run };
        let compute = |to: &mut MultiVectorViewMut<'_, T>| match &piece.traversal {
            Traversal::Natural => {
                run.slabs.iter().for_each(|slab| direct.compute(slab, tile.clone(), Group::ALL, to))
            }
            Traversal::Grouped(grouping) => {
                for slab in run.slabs {
                    compute_window(&direct, slab, rows.clone(), grouping, window, (tile.start, &mut *to));
                }
            }
            Traversal::Segments(..) => {}
        };
        match (&mut piece.tile, run.stream) {
            _ if matches!(piece.traversal, Traversal::Segments(..)) => {
                run_piece(run, piece, own.reborrow());
                observer.after(tile, own.as_view());
            }
            (Some(buffer), true) => {
                let (mut to, _) = buffer.view_mut().split_at_row(tile.len());
                compute(&mut to);
                observer.after(tile.clone(), to.as_view());
                stream(copy, to, own);
            }
            _ => {
                compute(&mut own);
                observer.after(tile, own.as_view());
            }
        }
    }
    if run.stream {
        fence_streams();
    }
    observer.end();
    Ok(())
}
