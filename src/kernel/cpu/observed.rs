//! Products whose rows of Y are observed while they are in a cache: the check of a product.
//!
//! The rows of a piece are computed in tiles. With non-temporal stores, kernels store a tile to a buffer too, where it is observed, so that Y
//! is not read from memory. Observation changes no bit of Y.

use std::ops::Range;

use super::Kernels;
use super::piece::{Piece, Traversal, compute_window, run_piece};
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
    fn before(&mut self, _rows: Range<usize>, _y: MultiVectorView<'_, T>) {}
    /// Rows after the product.
    fn after(&mut self, rows: Range<usize>, y: MultiVectorView<'_, T>);
}

/// Computes a piece; `y` holds exactly its rows.
pub(super) fn run_observed<T: Kernels>(
    run: &Run<'_, T>,
    piece: &mut Piece<T>,
    mut y: MultiVectorViewMut<'_, T>,
    observer: &dyn RowsObserver<T>,
) -> Result<()> {
    let mut observer = observer.start()?;
    let rows = piece.rows.clone();
    if let Traversal::Segments(..) = piece.traversal {
        if run.stores.reads_old() {
            observer.before(rows.clone(), y.as_view());
        }
        run_piece(run, piece, y.reborrow());
        observer.after(rows, y.as_view());
        return Ok(());
    }
    let tile_rows = match &piece.traversal {
        Traversal::Grouped(grouping) => grouping.window,
        _ => (TILE_BYTES / (y.k() * size_of::<T>()).max(1)).max(FEWEST_TILE_ROWS),
    };
    let tile_rows = tile_rows.min(rows.len()).max(1);
    if run.stream && piece.tile.is_none() {
        // A row that no kernel stores is not taken for a row of zeros.
        let mut tile = MultiVector::zeros(tile_rows, y.k())?;
        tile.data_mut().fill(T::from_f64(f64::NAN));
        piece.tile = Some(tile);
    }
    for (window, begin) in rows.clone().step_by(tile_rows).enumerate() {
        let tile = begin..rows.end.min(begin + tile_rows);
        if run.stores.reads_old() {
            observer.before(tile.clone(), rows_of(&y, &rows, &tile));
        }
        let mut buffer = piece.tile.as_mut().filter(|_| run.stream).map(MultiVector::view_mut);
        for slab in run.slabs {
            let copy = buffer.as_mut().map(|buffer| (tile.start, buffer));
            match &piece.traversal {
                Traversal::Grouped(grouping) => {
                    compute_window(run, slab, rows.clone(), (grouping, window), &mut y, copy);
                }
                _ => {
                    let (_, behind) = y.reborrow().split_at_row(tile.start - rows.start);
                    let (mut own, _) = behind.split_at_row(tile.len());
                    run.compute_and_copy(slab, tile.clone(), Group::ALL, &mut own, copy);
                }
            }
        }
        match buffer {
            Some(buffer) => observer.after(tile.clone(), buffer.as_view().rows_in(0..tile.len())),
            None => observer.after(tile.clone(), rows_of(&y, &rows, &tile)),
        }
    }
    Ok(())
}

/// The rows `tile` of a view of the rows `rows`.
fn rows_of<'y, T: Kernels>(
    y: &'y MultiVectorViewMut<'_, T>,
    rows: &Range<usize>,
    tile: &Range<usize>,
) -> MultiVectorView<'y, T> {
    y.as_view().rows_in(tile.start - rows.start..tile.end - rows.start)
}
