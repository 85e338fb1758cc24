//! The sums of whole columns from the partial results of blocks.

use rayon::prelude::*;

use super::reference::Moments;
use crate::error::{Error, Result};
use crate::matrix::Scalar;

/// Columns that one task merges.
const COLUMNS_PER_TASK: usize = 256;

/// The sums of all columns, in double precision.
#[derive(Debug, Clone, PartialEq)]
pub struct Totals {
    columns: Vec<Moments<f64>>,
}

impl Totals {
    /// Merges the partial results of all blocks of a matrix of `rows` rows in the order of blocks. `sums`, and `deviations` if they were
    /// computed, have one row of `columns` numbers per block.
    pub fn merge<T: Scalar>(
        rows: usize,
        columns: usize,
        block_rows: usize,
        sums: &[T],
        deviations: Option<&[T]>,
    ) -> Result<Self> {
        let mut totals = Self::none(columns);
        totals.add_blocks(rows, block_rows, sums, deviations)?;
        Ok(totals)
    }

    /// No rows.
    pub fn none(columns: usize) -> Self {
        Self { columns: vec![Moments::NONE; columns] }
    }

    /// Adds the partial results of the next `rows` rows, which are whole blocks and at most one shorter one at the end. Without
    /// `deviations` only the sums and the numbers of rows are added. Runs on the threads of the current pool.
    pub fn add_blocks<T: Scalar>(
        &mut self,
        rows: usize,
        block_rows: usize,
        sums: &[T],
        deviations: Option<&[T]>,
    ) -> Result<()> {
        let columns = self.columns.len();
        let blocks = rows.div_ceil(block_rows.max(1));
        let expected = blocks.checked_mul(columns);
        let fits = |numbers: &[T]| expected == Some(numbers.len());
        if !fits(sums) || !deviations.is_none_or(fits) {
            return Err(Error::Internal(format!(
                "{} partial sums are not those of {blocks} blocks of {columns} columns",
                sums.len()
            )));
        }
        self.columns.par_chunks_mut(COLUMNS_PER_TASK).enumerate().for_each(|(task, totals)| {
            for block in 0..blocks {
                let rows = block_rows.min(rows - block * block_rows);
                let own = block * columns + task * COLUMNS_PER_TASK..;
                let sums = sums[own.clone()].iter().map(|sum| sum.to_f64());
                let Some(deviations) = deviations else {
                    // Without the divisions of a merge.
                    totals.iter_mut().zip(sums).for_each(|(total, sum)| {
                        total.sum += sum;
                        total.rows += rows;
                    });
                    continue;
                };
                let deviations = deviations[own].iter().map(|deviations| deviations.to_f64());
                for (total, (sum, deviations)) in totals.iter_mut().zip(sums.zip(deviations)) {
                    *total = total.merge(Moments { sum, deviations, rows });
                }
            }
        });
        Ok(())
    }

    /// The results of all columns.
    pub fn columns(&self) -> &[Moments<f64>] {
        &self.columns
    }

    /// The sum of each column.
    pub fn sums(&self) -> Vec<f64> {
        self.columns.iter().map(|column| column.sum).collect()
    }

    /// The mean of each column; NaN if there are no rows.
    pub fn means(&self) -> Vec<f64> {
        self.columns.iter().map(|column| column.sum / column.rows as f64).collect()
    }

    /// The variance of each column: the squared deviations divided by the number of rows less `freedom` (0 for the rows as a population, 1
    /// for an unbiased estimate). NaN if there are not more rows than that.
    pub fn variances(&self, freedom: usize) -> Vec<f64> {
        let variance = |column: &Moments<f64>| match column.rows.checked_sub(freedom) {
            None | Some(0) => f64::NAN,
            Some(rows) => column.deviations / rows as f64,
        };
        self.columns.iter().map(variance).collect()
    }
}
