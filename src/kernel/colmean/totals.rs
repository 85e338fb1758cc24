//! The sums of whole columns from the partial results of blocks.

use rayon::prelude::*;

use super::reference::Moments;
use crate::error::{Error, Result};
use crate::matrix::{Dtype, Scalar};
use crate::threads::SERIAL_BYTES;

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
    #[doc(hidden)]
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
    #[doc(hidden)]
    pub fn none(columns: usize) -> Self {
        Self { columns: vec![Moments::NONE; columns] }
    }

    /// Adds the partial results of the next `rows` rows, which are whole blocks and at most one shorter one at the end. Without
    /// `deviations` only the sums and the numbers of rows are added. Many numbers are added on the threads of the current pool.
    #[doc(hidden)]
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
                "there are {} partial sums, but {blocks} blocks of {columns} columns need another number",
                sums.len()
            )));
        }
        let add = |(task, totals): (usize, &mut [Moments<f64>])| {
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
        };
        let bytes = (size_of_val(sums) + deviations.map_or(0, size_of_val)) as u64;
        if bytes <= SERIAL_BYTES {
            self.columns.chunks_mut(COLUMNS_PER_TASK).enumerate().for_each(add);
        } else {
            self.columns.par_chunks_mut(COLUMNS_PER_TASK).enumerate().for_each(add);
        }
        Ok(())
    }

    /// The results of the first `rows` rows of a matrix, which [`Self::store`] or `colmean_totals.cu` have stored.
    #[doc(hidden)]
    pub fn load<T: Scalar>(rows: usize, columns: usize, deviations: bool, from: &[T]) -> Result<Self> {
        let numbers = stored_numbers::<T>(columns, deviations);
        let from = from.get(..numbers).ok_or_else(|| too_short(from.len(), columns))?;
        let number = |part: usize, column: usize| match T::DTYPE {
            Dtype::F64 => from[part * columns + column].to_f64(),
            Dtype::F32 => {
                let words: &[u32] = bytemuck::cast_slice(from);
                let [high, low] = [0, 1].map(|word| words[(2 * part + word) * columns + column]);
                f64::from_bits(u64::from(high) << 32 | u64::from(low))
            }
        };
        let of_column = |column| {
            let deviations = if deviations { number(1, column) } else { 0.0 };
            Moments { sum: number(0, column), deviations, rows }
        };
        Ok(Self { columns: (0..columns).map(of_column).collect() })
    }

    /// Stores the results in double precision: the sums of all columns, then the deviations if they are wanted. In single precision each
    /// row of results takes two rows of numbers: the high words of all columns, then the low words.
    #[doc(hidden)]
    pub fn store<T: Scalar>(&self, deviations: bool, to: &mut [T]) -> Result<()> {
        let columns = self.columns.len();
        let (numbers, given) = (stored_numbers::<T>(columns, deviations), to.len());
        let to = to.get_mut(..numbers).ok_or_else(|| too_short(given, columns))?;
        let parts: &[fn(&Moments<f64>) -> f64] = &[|column| column.sum, |column| column.deviations];
        for (part, value) in parts[..1 + usize::from(deviations)].iter().enumerate() {
            for (at, column) in self.columns.iter().enumerate() {
                let value = value(column);
                match T::DTYPE {
                    Dtype::F64 => to[part * columns + at] = T::from_f64(value),
                    Dtype::F32 => {
                        let words: &mut [u32] = bytemuck::cast_slice_mut(to);
                        words[2 * part * columns + at] = (value.to_bits() >> 32) as u32;
                        words[(2 * part + 1) * columns + at] = value.to_bits() as u32;
                    }
                }
            }
        }
        Ok(())
    }

    /// The results of all columns.
    #[doc(hidden)]
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

/// Numbers that the stored results of `columns` columns take.
fn stored_numbers<T>(columns: usize, deviations: bool) -> usize {
    columns * if deviations { 2 } else { 1 } * (size_of::<f64>() / size_of::<T>())
}

fn too_short(numbers: usize, columns: usize) -> Error {
    Error::Internal(format!("{numbers} numbers cannot hold the results of {columns} columns"))
}
