//! Compares a computed Y with the reference.

use std::ops::Range;

use rowloom::internal::kernel::cpu::Kernels;
use rowloom::internal::kernel::gemm::PackedProduct;
use rowloom::{Csr, Error};

use crate::grid::{Grid, Placement};
use crate::reference::{Real, Reference, same, scaled};
use crate::sparse::Sparse;

/// A value type of the library, with the arithmetic of the oracle.
pub trait Value: Real + Kernels + PackedProduct {}
impl<T: Real + Kernels + PackedProduct> Value for T {}

/// The operands of a product: A, the `k` columns from `first` on of X and of the old Y, and the reference for all columns. After the last
/// column comes the first one.
#[derive(Clone, Copy)]
pub struct Operands<'a, T: Value> {
    pub a: &'a Sparse,
    pub csr: &'a Csr<T>,
    pub x: &'a [f64],
    pub old: &'a [f64],
    /// Columns of `x`, `old` and the reference.
    pub all: usize,
    pub first: usize,
    pub k: usize,
    pub reference: &'a Reference<T>,
}

/// What a request led to, if nothing was wrong.
#[derive(Debug)]
pub enum Outcome {
    /// The number of products that were compared.
    Compared(u64),
    /// The library refused the request with a typed error.
    Refused(String),
}

/// The factors as kernels get them.
pub fn rounded<T: Value>((alpha, beta): (f64, f64)) -> (T, T) {
    (<T as Real>::rounded(alpha), <T as Real>::rounded(beta))
}

impl<T: Value> Operands<'_, T> {
    /// The column of all columns that column `column` of the product is.
    fn column(&self, column: usize) -> usize {
        let place = self.first + column;
        if place < self.all { place } else { place - self.all }
    }

    fn x_at(&self, row: usize, column: usize) -> T {
        <T as Real>::rounded(self.x[row * self.all + self.column(column)])
    }

    pub fn x_grid(&self, at: Placement) -> Grid<T> {
        Grid::new(self.a.cols, self.k, at, |row, column| self.x_at(row, column))
    }

    /// Y before a product of these rows: the old values if they are read, otherwise NaN.
    pub fn y_grid(&self, rows: Range<usize>, at: Placement, factors: (f64, f64)) -> Grid<T> {
        let reads_old = rounded::<T>(factors).1 != <T as Real>::rounded(0.0);
        Grid::new(rows.len(), self.k, at, |row, column| match reads_old {
            true => self.old_at(rows.start + row, column),
            false => T::UNWRITTEN,
        })
    }

    /// The rounding bounds of the elements of a row; none if some are not finite.
    pub fn row_bounds(&self, row: usize) -> Option<Vec<f64>> {
        let bounds = self.reference.bounds(row)?;
        Some((0..self.k).map(|column| bounds[self.column(column)]).collect())
    }

    fn old_at(&self, row: usize, column: usize) -> T {
        <T as Real>::rounded(self.old[row * self.all + self.column(column)])
    }

    /// An error unless `x` still has its values and guards.
    pub fn check_x(&self, x: &Grid<T>) -> Result<(), String> {
        x.check_guards("X")?;
        for row in 0..self.a.cols {
            for (column, value) in x.row(row).iter().enumerate() {
                let original = self.x_at(row, column);
                if !same(*value, original) {
                    return Err(format!("X({row}, {column}) was changed from {original:?} to {value:?}"));
                }
            }
        }
        Ok(())
    }

    /// Compares Y, which has the given rows of the product, and its guards.
    pub fn check_y(
        &self,
        y: &Grid<T>,
        rows: Range<usize>,
        factors: (f64, f64),
        canonical: bool,
    ) -> Result<(), String> {
        for (at, row) in rows.enumerate() {
            self.check_row(y.row(at), row, factors, canonical)?;
        }
        y.check_guards("Y")
    }

    fn check_row(&self, found: &[T], row: usize, factors: (f64, f64), canonical: bool) -> Result<(), String> {
        let (alpha, beta) = rounded::<T>(factors);
        let (one, zero) = (<T as Real>::rounded(1.0), <T as Real>::rounded(0.0));
        let sums = self.reference.canonical_row(row);
        let is_plain = alpha == one && beta == zero;
        if is_plain && canonical {
            // The canonical sums themselves are within the bound, as was checked once for the matrix.
            let equal = |(column, found): (usize, &T)| {
                let expected = sums[self.column(column)];
                found.word() == expected.word()
                    || (same(*found, expected) && found.word() != T::UNWRITTEN.word())
            };
            if found.iter().enumerate().all(equal) {
                return Ok(());
            }
        }
        for (column, &found) in found.iter().enumerate() {
            let sum = sums[self.column(column)];
            let old = if beta == zero { zero } else { self.old_at(row, column) };
            let place = format_args!("Y({row}, {column})");
            if beta == zero && found.word() == T::UNWRITTEN.word() {
                return Err(format!("{place} was not written"));
            }
            let exact = scaled(sum, (alpha, beta), old);
            if !self.reference.admits((row, self.column(column)), (alpha, beta), old, found) {
                return Err(format!("{place} is {found:?}, outside the rounding bound of {exact:?}"));
            }
            if canonical && !same(found, exact) {
                return Err(format!("{place} is {found:?} and not {exact:?} as in canonical order"));
            }
        }
        Ok(())
    }
}

/// A refusal is part of the contract; any other error is a failure.
pub fn refused(error: Error) -> Result<Outcome, String> {
    match error {
        Error::Usage(_) | Error::DoesNotFit { .. } => Ok(Outcome::Refused(shape_of(&error.to_string()))),
        error => Err(format!("error: {error}")),
    }
}

/// A message without its numbers and names in quotes, so that equal refusals are counted together.
fn shape_of(message: &str) -> String {
    let mut shape = String::new();
    for character in message.chars().take(160) {
        match character {
            '0'..='9' => {
                if !shape.ends_with('#') {
                    shape.push('#');
                }
            }
            character => shape.push(character),
        }
    }
    shape
}
