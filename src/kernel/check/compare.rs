//! The wrong rows of columns that differ: their elements are compared in twice the precision.

use rayon::prelude::*;

use super::checksums::Checksums;
use super::observed::{Found, Observation};
use super::sums::{SumsOfX, Suspicious};
use super::{Applied, Operator};
use crate::error::Result;
use crate::kernel::cpu::Kernels;
use crate::kernel::{gemm, verify};
use crate::matrix::{MultiVector, MultiVectorView, Scalar};

/// Columns that are compared together.
const TOGETHER: usize = 4;

/// Multiply-adds of comparisons of rows or columns with infinite or NaN sums: about a second of one core. Such products say little.
pub(super) const MOST_COMPARED_WITHOUT_SUMS: usize = 1 << 26;

impl Checksums {
    /// Wrong rows of Y, in ascending order, or none if Y is right; computed in the rayon pool of the caller. There may be more wrong rows
    /// than these. `a` must be the matrix of the checksums.
    pub fn wrong_rows<T: Kernels>(&self, a: Operator<'_, T>, product: Applied<'_, T>) -> Result<Vec<usize>> {
        self.wrong_rows_after(a, product, self.sums_of_x(product.x)?)
    }

    /// The same with the sums of X.
    pub fn wrong_rows_after<T: Kernels>(
        &self,
        a: Operator<'_, T>,
        product: Applied<'_, T>,
        x: SumsOfX,
    ) -> Result<Vec<usize>> {
        self.compare(a, product, self.suspicious(a, product, x)?, self.wrong_empty_rows(product))
    }

    /// The same of a product that was observed while it was computed: X and Y are not read again if it is right.
    pub fn wrong_rows_observed<T: Kernels>(
        &self,
        a: Operator<'_, T>,
        product: Applied<'_, T>,
        observation: Observation<'_, T>,
    ) -> Result<Vec<usize>> {
        let Found { terms, wrong_empty } = observation.into_found();
        self.compare(a, product, self.differing(a, terms, product)?, wrong_empty)
    }

    fn compare<T: Kernels>(
        &self,
        a: Operator<'_, T>,
        product: Applied<'_, T>,
        suspicious: Vec<Suspicious>,
        mut wrong: Vec<usize>,
    ) -> Result<Vec<usize>> {
        let mut without_sums = 0usize;
        for suspicious in suspicious {
            let rows: Vec<usize> = self.blocks[suspicious.block].rows.clone().collect();
            let work: usize = rows.iter().map(|&row| length(a, row)).sum();
            for columns in suspicious.columns.chunks(TOGETHER) {
                if columns.iter().all(|(_, excess)| excess.is_nan()) {
                    if without_sums > MOST_COMPARED_WITHOUT_SUMS {
                        break;
                    }
                    without_sums = without_sums.saturating_add(work.saturating_mul(columns.len()));
                }
                let columns: Vec<usize> = columns.iter().map(|&(column, _)| column).collect();
                let found = wrong_in_columns(a, product, &columns, &rows)?;
                if !found.is_empty() {
                    wrong.extend(found);
                    break;
                }
            }
        }
        wrong.sort_unstable();
        wrong.dedup();
        Ok(wrong)
    }

    /// The rows without values that are not zero: their errors may be too small for any sum.
    fn wrong_empty_rows<T: Kernels>(&self, product: Applied<'_, T>) -> Vec<usize> {
        if product.old.is_some() {
            return Vec::new();
        }
        let is_wrong = |row: &usize| !is_zero(product.y.row(*row));
        self.empty.par_iter().copied().filter(is_wrong).collect()
    }
}

/// Whether all elements are zero. No element ends the loop early, so that several are compared at a time.
pub(super) fn is_zero<T: Scalar>(row: &[T]) -> bool {
    row.iter().fold(true, |is_zero, &element| is_zero & (element == T::ZERO))
}

fn length<T: Scalar>(a: Operator<'_, T>, row: usize) -> usize {
    match a {
        Operator::Sparse(a) => a.row_length(row),
        Operator::Dense(a) => a.k(),
    }
}

/// Those of `rows` that are wrong in one of `columns`.
fn wrong_in_columns<T: Kernels>(
    a: Operator<'_, T>,
    product: Applied<'_, T>,
    columns: &[usize],
    rows: &[usize],
) -> Result<Vec<usize>> {
    let old = product.old.map(|old| columns_of(old, columns)).transpose()?;
    let (x, y) = (columns_of(product.x, columns)?, columns_of(product.y, columns)?);
    let (x, old, y) = (x.view(), old.as_ref().map(MultiVector::view), y.view());
    match a {
        Operator::Sparse(a) => Ok(verify::wrong_rows(a, product.scaling, x, old, y, rows)),
        Operator::Dense(a) => {
            let is_wrong = |&row: &usize| match gemm::verify(product.scaling, a, x, old, y, &[row]) {
                Ok(verification) if verification.passed => None,
                Ok(_) => Some(Ok(row)),
                Err(error) => Some(Err(error)),
            };
            rows.iter().filter_map(is_wrong).collect()
        }
    }
}

fn columns_of<T: Scalar>(x: MultiVectorView<'_, T>, columns: &[usize]) -> Result<MultiVector<T>> {
    let mut copy = MultiVector::zeros(x.rows(), columns.len())?;
    let mut to = copy.view_mut();
    for row in 0..x.rows() {
        let from = x.row(row);
        for (to, &column) in to.row_mut(row).iter_mut().zip(columns) {
            *to = from[column];
        }
    }
    Ok(copy)
}
