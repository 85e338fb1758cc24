//! The sums of a check that are formed while a product is computed, from rows that are in a cache.
//!
//! With each tile of rows of Y, a part of the rows of X is added up: those at the same place of the block. In many matrices the product has
//! read these rows just before.

use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use super::checksums::Checksums;
use super::compare::is_zero;
use super::sums::Terms;
use crate::error::Result;
use crate::kernel::cpu::{Kernels, PieceObserver, RowsObserver};
use crate::matrix::MultiVectorView;

/// The sums of all blocks of a product that is computed.
pub struct Observation<'a, T> {
    checksums: &'a Checksums,
    x: MultiVectorView<'a, T>,
    found: Mutex<Found>,
}

/// What threads have found so far.
pub(super) struct Found {
    /// The sums of each block.
    pub terms: Vec<Terms>,
    /// Rows without values that are not zero.
    pub wrong_empty: Vec<usize>,
}

impl<'a, T: Kernels> Observation<'a, T> {
    /// Of a product with `x` that does not read the old Y.
    pub fn new(checksums: &'a Checksums, x: MultiVectorView<'a, T>) -> Result<Self> {
        let terms = checksums.blocks.iter().map(|_| Terms::zeros(x.k()));
        let found = Found { terms: terms.collect::<Result<_>>()?, wrong_empty: Vec::new() };
        Ok(Self { checksums, x, found: Mutex::new(found) })
    }

    pub(super) fn into_found(self) -> Found {
        self.found.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Kernels> RowsObserver<T> for Observation<'_, T> {
    fn start(&self) -> Result<Box<dyn PieceObserver<T> + '_>> {
        Ok(Box::new(Piece {
            of: self,
            block: None,
            terms: Terms::zeros(self.x.k())?,
            wrong_empty: Vec::new(),
        }))
    }
}

/// The sums of rows of one block.
struct Piece<'a, T> {
    of: &'a Observation<'a, T>,
    block: Option<usize>,
    terms: Terms,
    wrong_empty: Vec<usize>,
}

impl<T> Piece<'_, T> {
    /// Adds the sums so far to those of their block.
    fn flush(&mut self) {
        if let Some(block) = self.block.take() {
            let mut found = self.of.found.lock().unwrap_or_else(PoisonError::into_inner);
            found.terms[block].add(&self.terms);
            found.wrong_empty.append(&mut self.wrong_empty);
            self.terms.clear();
        }
    }
}

impl<T: Kernels> PieceObserver<T> for Piece<'_, T> {
    fn after(&mut self, rows: Range<usize>, y: MultiVectorView<'_, T>) {
        let Observation { checksums, x, .. } = *self.of;
        let mut begin = rows.start;
        while begin < rows.end {
            let index = checksums.blocks.partition_point(|block| block.rows.end <= begin);
            let block = &checksums.blocks[index];
            let end = rows.end.min(block.rows.end);
            if self.block != Some(index) {
                self.flush();
                self.block = Some(index);
            }
            let part = y.rows_in(begin - rows.start..end - rows.start);
            self.terms.y.add_weighted(part, &checksums.weights[begin..end]);
            let place = |row: usize| {
                let share = (row - block.rows.start) as u128 * block.sums.len() as u128;
                (share / block.rows.len().max(1) as u128) as usize
            };
            block.add_columns(x, place(begin)..place(end), &mut self.terms.x);
            begin = end;
        }
        let empty = checksums.empty_rows(rows.clone()).iter().copied();
        self.wrong_empty.extend(empty.filter(|row| !is_zero(y.row(row - rows.start))));
    }
}

impl<T> Drop for Piece<'_, T> {
    fn drop(&mut self) {
        self.flush();
    }
}
