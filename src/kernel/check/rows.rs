//! The check of a single product, row by row: `Y r = A (X r)`, with a weight in r for each column.
//!
//! Nothing is made for A beforehand, so the check of one product is cheaper than with sums of the columns of A. It reads A once more, from a
//! cache if the product has just read it. An error is compared with the rounding of its own row, so nearly none hides.

use std::ops::Range;
use std::sync::atomic::AtomicU64;
use std::sync::{Mutex, PoisonError};

use rayon::prelude::*;
use rowloom_cpu::{MOST_SUMMED_ROWS, RowRounding, RowSum, RowSumBodies, RowsOfProduct};

use super::Applied;
use super::checksums::{OLD_ROUNDINGS, ROOT_ROUNDINGS, no_memory, roundings, weight, zeros};
use super::compare::MOST_COMPARED_WITHOUT_SUMS;
use crate::error::Result;
use crate::kernel::cpu::{Kernels, PieceObserver, RowsObserver};
use crate::kernel::scaling::Scaling;
use crate::kernel::verify;
use crate::machine::Isa;
use crate::matrix::{CsrView, MultiVectorView};

/// Rows of X from which the size of a column is estimated.
const SAMPLED_ROWS: usize = 64;
/// Rows whose sums are formed together.
const TILE_ROWS: usize = MOST_SUMMED_ROWS;
/// Fewest numbers that a thread sets to zero.
const ZEROED_TOGETHER: usize = 1 << 14;
/// Roundings of the sums over the columns, relative to the size of the row.
const DOT_ROUNDINGS: f64 = 4.0;
/// Suspicious rows that are compared at a time: if one is wrong, the others wait for the next check.
const COMPARED_ROWS: usize = 1024;

/// The check of one product.
pub struct RowCheck<'a, T> {
    a: CsrView<'a, T>,
    scaling: Scaling<T>,
    x: MultiVectorView<'a, T>,
    bodies: RowSumBodies<T>,
    /// The weight of each column.
    weights: Vec<f64>,
    /// The bits of the weighted sum of each row of X, 0 until it is formed.
    sums_of_x: Vec<AtomicU64>,
    suspicious: Mutex<Suspicious>,
}

/// Rows of Y that rounding may not explain.
#[derive(Default)]
struct Suspicious {
    rows: Vec<usize>,
    /// Rows whose sums are not finite.
    without_sums: Vec<usize>,
}

impl<'a, T: Kernels> RowCheck<'a, T> {
    /// The check of a product with `x`.
    pub fn new(a: CsrView<'a, T>, scaling: Scaling<T>, x: MultiVectorView<'a, T>) -> Result<Self> {
        let mut sums_of_x = Vec::new();
        sums_of_x.try_reserve_exact(x.rows()).map_err(|_| no_memory(x.rows() * size_of::<AtomicU64>()))?;
        // Each thread gets the memory of its part from the system, which takes longer than to write it.
        let zeros = (0..x.rows()).into_par_iter().with_min_len(ZEROED_TOGETHER);
        sums_of_x.par_extend(zeros.map(|_| AtomicU64::default()));
        let bodies = T::row_sum_bodies(Isa::detect());
        let (weights, suspicious) = (weights_of_columns(x)?, Mutex::default());
        Ok(Self { a, scaling, x, bodies, weights, sums_of_x, suspicious })
    }

    /// Wrong rows of Y, in ascending order, or none if Y is right. There may be more wrong rows than these. Computed in the
    /// rayon pool of the caller.
    pub fn wrong_rows(self, product: Applied<'_, T>) -> Result<Vec<usize>> {
        let tiles = (0..product.y.rows().div_ceil(TILE_ROWS)).into_par_iter();
        tiles.for_each_init(Piece::of(&self), |piece, tile| {
            let rows = tile * TILE_ROWS..product.y.rows().min((tile + 1) * TILE_ROWS);
            if let Some(old) = product.old {
                piece.before(rows.clone(), old.rows_in(rows.clone()));
            }
            piece.after(rows.clone(), product.y.rows_in(rows));
        });
        self.wrong_observed_rows(product)
    }

    /// The same of a product that was observed while it was computed.
    pub fn wrong_observed_rows(self, product: Applied<'_, T>) -> Result<Vec<usize>> {
        let Suspicious { mut rows, mut without_sums } =
            self.suspicious.into_inner().unwrap_or_else(PoisonError::into_inner);
        rows.sort_unstable();
        without_sums.sort_unstable();
        let compared = |rows: &[usize]| {
            verify::wrong_rows(self.a, self.scaling, product.x, product.old, product.y, rows)
        };
        for rows in rows.chunks(COMPARED_ROWS) {
            let wrong = compared(rows);
            if !wrong.is_empty() {
                return Ok(wrong);
            }
        }
        let mut work = 0usize;
        for rows in without_sums.chunks(COMPARED_ROWS) {
            let wrong = compared(rows);
            work += rows
                .iter()
                .map(|&row| (1 + self.a.row_length(row)).saturating_mul(self.x.k()))
                .sum::<usize>();
            if !wrong.is_empty() || work > MOST_COMPARED_WITHOUT_SUMS {
                return Ok(wrong);
            }
        }
        Ok(Vec::new())
    }

    #[allow(unsafe_code)] // calls compiled loops
    fn unexplained(
        &self,
        rows: Range<usize>,
        y: MultiVectorView<'_, T>,
        rounding: RowRounding,
        to: &mut [RowSum],
    ) -> u64 {
        let of = RowsOfProduct {
            row_pointers: &self.a.row_pointers()[rows.start..=rows.end],
            columns: self.a.columns(),
            values: self.a.values(),
            x: self.x.data(),
            x_distance: self.x.leading_dimension(),
            y: y.data(),
            y_distance: y.leading_dimension(),
            weights: &self.weights,
            sums_of_x: &self.sums_of_x,
            rounding,
        };
        // SAFETY: the body is for the instruction set of this processor.
        unsafe { (self.bodies.unexplained)(of, to) }
    }

    #[allow(unsafe_code)] // calls a compiled loop
    fn dot(&self, values: &[T]) -> f64 {
        // SAFETY: the body is for the instruction set of this processor.
        unsafe { (self.bodies.dot)(values, &self.weights) }
    }

    /// The rounding that [`Self::explains`] expects of a row without an old Y; none if there is one.
    fn usual_rounding(&self, reads_old: bool) -> RowRounding {
        let alpha = self.scaling.alpha.to_f64();
        RowRounding {
            alpha,
            factor: if reads_old { 0.0 } else { T::UNIT_ROUNDOFF * alpha.abs() },
            per_root: ROOT_ROUNDINGS,
            constant: OLD_ROUNDINGS + DOT_ROUNDINGS,
        }
    }

    /// The Euclidean length of weighted values.
    #[allow(unsafe_code)] // calls a compiled loop
    fn length(&self, values: &[T]) -> f64 {
        // SAFETY: the body is for the instruction set of this processor.
        unsafe { (self.bodies.squares)(values, &self.weights) }.sqrt()
    }

    /// Whether rounding explains the sums of a row. `old` is the weighted sum of the old row, if it counts.
    fn explains(&self, row: usize, sum: &RowSum, old: Option<&OldRow>, y: &[T]) -> Verdict {
        let (alpha, beta) = (self.scaling.alpha.to_f64(), self.scaling.beta.to_f64());
        let old_sum = old.map_or(0.0, |old| beta * old.sum);
        let difference = (sum.y - alpha * sum.product - old_sum).abs();
        let count = roundings(self.a.row_length(row)) + DOT_ROUNDINGS;
        let bound = |size: f64, old: f64| {
            T::UNIT_ROUNDOFF * (count * (alpha * size).abs() + (OLD_ROUNDINGS + DOT_ROUNDINGS) * old)
        };
        // The sums of X have about the size of its rows.
        let usual = bound(sum.size, old_sum.abs());
        if difference <= usual && usual > 0.0 && usual.is_finite() {
            return Verdict::Right;
        }
        // An infinite bound explains any difference.
        if !difference.is_finite() || !usual.is_finite() {
            return Verdict::WithoutSums;
        }
        let (columns, values) = self.a.row(row);
        let places = columns.iter().zip(values);
        let size = places.fold(0.0, |size, (&column, value)| {
            value.to_f64().abs().mul_add(self.length(self.x.row(column as usize)), size)
        });
        let old_size = old.map_or(0.0, |old| beta.abs() * old.length);
        if size == 0.0 && old_size == 0.0 {
            // Every term is zero: so is every element.
            return if y.iter().all(|&element| element == T::ZERO) {
                Verdict::Right
            } else {
                Verdict::Suspicious
            };
        }
        let most = bound(size, old_size) + self.smallest(columns.len());
        if difference <= most { Verdict::Right } else { Verdict::Suspicious }
    }

    /// What a row of so many values may lose below the smallest normal number.
    fn smallest(&self, values: usize) -> f64 {
        let weights: f64 = self.weights.iter().map(|weight| weight.abs()).sum();
        let alpha = self.scaling.alpha.to_f64().abs();
        (values as f64 + 3.0) * (1.0 + alpha) * T::SMALLEST * weights
    }
}

enum Verdict {
    Right,
    Suspicious,
    WithoutSums,
}

/// The weights of columns: of size 1 to 1.5, over the size of the column, so that no column hides behind another.
fn weights_of_columns<T: Kernels>(x: MultiVectorView<'_, T>) -> Result<Vec<f64>> {
    let mut squares = zeros(x.k(), 0.0)?;
    let stride = (x.rows() / SAMPLED_ROWS).max(1);
    for row in (0..x.rows()).step_by(stride) {
        for (square, value) in squares.iter_mut().zip(x.row(row)) {
            let value = value.to_f64();
            *square += if value.is_finite() { value * value } else { 0.0 };
        }
    }
    let is_size = |square: &f64| square.is_normal();
    let sizes: Vec<f64> = squares.iter().copied().filter(is_size).map(f64::sqrt).collect();
    let mean = if sizes.is_empty() { 1.0 } else { sizes.iter().sum::<f64>() / sizes.len() as f64 };
    let weight_of =
        |(column, square): (usize, &f64)| weight(column) / if is_size(square) { square.sqrt() } else { mean };
    Ok(squares.iter().enumerate().map(weight_of).collect())
}

impl<T: Kernels> RowsObserver<T> for RowCheck<'_, T> {
    fn start(&self) -> Result<Box<dyn PieceObserver<T> + '_>> {
        Ok(Box::new(Piece::of(self)()))
    }
}

/// A row of Y before the product.
#[derive(Clone, Copy, Default)]
struct OldRow {
    sum: f64,
    length: f64,
}

/// The rows of one thread.
struct Piece<'a, T: Kernels> {
    of: &'a RowCheck<'a, T>,
    old: Vec<OldRow>,
    suspicious: Suspicious,
}

impl<'a, T: Kernels> Piece<'a, T> {
    fn of(check: &'a RowCheck<'a, T>) -> impl Fn() -> Self {
        move || Self { of: check, old: Vec::new(), suspicious: Suspicious::default() }
    }
}

impl<T: Kernels> PieceObserver<T> for Piece<'_, T> {
    fn before(&mut self, rows: Range<usize>, y: MultiVectorView<'_, T>) {
        let old = (0..rows.len()).map(|row| y.row(row));
        self.old = old.map(|row| OldRow { sum: self.of.dot(row), length: self.of.length(row) }).collect();
    }

    fn after(&mut self, rows: Range<usize>, y: MultiVectorView<'_, T>) {
        let rounding = self.of.usual_rounding(!self.old.is_empty());
        for first in (0..rows.len()).step_by(TILE_ROWS) {
            let part = first..rows.len().min(first + TILE_ROWS);
            let mut sums = [RowSum::default(); TILE_ROWS];
            let of_part = rows.start + part.start..rows.start + part.end;
            let part_of_y = y.rows_in(part.clone());
            let mut unexplained = self.of.unexplained(of_part, part_of_y, rounding, &mut sums[..part.len()]);
            while unexplained != 0 {
                let place = unexplained.trailing_zeros() as usize;
                unexplained &= unexplained - 1;
                let index = first + place;
                let row = rows.start + index;
                match self.of.explains(row, &sums[place], self.old.get(index), y.row(index)) {
                    Verdict::Right => {}
                    Verdict::Suspicious => self.suspicious.rows.push(row),
                    Verdict::WithoutSums => self.suspicious.without_sums.push(row),
                }
            }
        }
    }
}

impl<T: Kernels> Drop for Piece<'_, T> {
    fn drop(&mut self) {
        let Suspicious { rows, without_sums } = &mut self.suspicious;
        if rows.is_empty() && without_sums.is_empty() {
            return;
        }
        let mut all = self.of.suspicious.lock().unwrap_or_else(PoisonError::into_inner);
        all.rows.append(rows);
        all.without_sums.append(without_sums);
    }
}
