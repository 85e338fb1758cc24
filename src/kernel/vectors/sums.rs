//! The CPU bodies of sums over rows, and the addition of partial results. The order is that of [`super::order`].

use rayon::prelude::*;
use rowloom_cpu::{Accumulation, Isa, Multiplication, MultivectorBodies};

use super::order::{DOT_BLOCK_ROWS, DOT_LANES, GRAM_BLOCK_ROWS, GRAM_STRAND_ROWS, Sum};
use super::rows::same_rows;
use crate::error::{Error, Result};
use crate::kernel::cpu::Kernels;
use crate::matrix::MultiVectorView;

/// The partial results of all blocks of X and Y, whose first row is the first row of a block. `partials` has room for exactly
/// one result per block.
pub fn partial_results<T: Kernels>(
    sum: Sum,
    x: MultiVectorView<'_, T>,
    y: MultiVectorView<'_, T>,
    partials: &mut [T],
) -> Result<()> {
    same_rows(x.rows(), y.rows())?;
    if sum == Sum::Dot && x.k() != y.k() {
        return Err(Error::usage(format!(
            "the products of columns need equally many columns; X has {} and Y has {}",
            x.k(),
            y.k()
        )));
    }
    let length = sum.length(x.k() as u64, y.k() as u64) as usize;
    let block_rows = sum.block_rows() as usize;
    let blocks = x.rows().div_ceil(block_rows);
    if partials.len() != blocks * length {
        return Err(Error::Internal(format!(
            "{} numbers cannot hold {blocks} partial results of {length} numbers",
            partials.len()
        )));
    }
    if length == 0 {
        return Ok(());
    }
    let bodies = T::multivector_bodies(Isa::detect());
    partials.par_chunks_mut(length).enumerate().for_each(|(block, partial)| {
        let rows = block * block_rows..((block + 1) * block_rows).min(x.rows());
        match sum {
            Sum::Dot => dot_block(&bodies, x.rows_in(rows.clone()), y.rows_in(rows), partial),
            Sum::Gram => gram_block(&bodies, x.rows_in(rows.clone()), y.rows_in(rows), partial),
        }
    });
    Ok(())
}

/// The partial result of one block of at most [`DOT_BLOCK_ROWS`] rows.
#[allow(unsafe_code)] // calls SIMD leaves
fn dot_block<T: Kernels>(
    bodies: &MultivectorBodies<T>,
    x: MultiVectorView<'_, T>,
    y: MultiVectorView<'_, T>,
    partial: &mut [T],
) {
    let k = partial.len();
    debug_assert!(x.rows() <= DOT_BLOCK_ROWS);
    let mut sums = vec![T::ZERO; DOT_LANES * k];
    let (ldx, ldy) = (x.leading_dimension(), y.leading_dimension());
    let mut run = |first: usize, rows: usize, columns: usize, (ldx, ldy): (usize, usize), lanes: usize| {
        let job = Accumulation {
            rows,
            columns,
            x: x.data()[first * x.leading_dimension()..].as_ptr(),
            ldx,
            y: y.data()[first * y.leading_dimension()..].as_ptr(),
            ldy,
            sums: sums.as_mut_ptr(),
            lanes,
        };
        // SAFETY: the views hold the rows, `sums` has the lanes' rows, and the bodies are for this processor.
        unsafe { (bodies.accumulate)(&job) }
    };
    if ldx == k && ldy == k {
        // With contiguous rows, the rows of all lanes are one long row.
        let (whole, rest) = (x.rows() / DOT_LANES, x.rows() % DOT_LANES);
        if whole > 0 {
            run(0, whole, DOT_LANES * k, (DOT_LANES * k, DOT_LANES * k), 1);
        }
        if rest > 0 {
            run(whole * DOT_LANES, 1, rest * k, (0, 0), 1);
        }
    } else if x.rows() > 0 {
        run(0, x.rows(), k, (ldx, ldy), DOT_LANES);
    }
    let mut half = DOT_LANES / 2;
    while half > 0 {
        let (low, high) = sums[..2 * half * k].split_at_mut(half * k);
        add(low, high);
        half /= 2;
    }
    partial.copy_from_slice(&sums[..k]);
}

/// The partial result of one block of at most [`GRAM_BLOCK_ROWS`] rows.
#[allow(unsafe_code)] // calls SIMD leaves
fn gram_block<T: Kernels>(
    bodies: &MultivectorBodies<T>,
    x: MultiVectorView<'_, T>,
    y: MultiVectorView<'_, T>,
    partial: &mut [T],
) {
    let (k, k2) = (x.k(), y.k());
    let mut strand = vec![T::ZERO; partial.len()];
    for begin in (0..GRAM_BLOCK_ROWS).step_by(GRAM_STRAND_ROWS) {
        let rows = begin.min(x.rows())..(begin + GRAM_STRAND_ROWS).min(x.rows());
        strand.fill(T::ZERO);
        if !rows.is_empty() {
            let job = Multiplication {
                rows: k,
                columns: k2,
                depth: rows.len(),
                a: x.data()[rows.start * x.leading_dimension()..].as_ptr(),
                row_stride: 1,
                depth_stride: x.leading_dimension(),
                b: y.data()[rows.start * y.leading_dimension()..].as_ptr(),
                ldb: y.leading_dimension(),
                c: strand.as_mut_ptr(),
                ldc: k2,
                beta: None,
            };
            // SAFETY: the views hold the rows, `strand` has K × K2 elements, and the bodies are for this processor.
            unsafe { (bodies.multiply)(&job) };
        }
        if begin == 0 {
            partial.copy_from_slice(&strand);
        } else {
            add(partial, &strand);
        }
    }
}

fn add<T: Kernels>(to: &mut [T], from: &[T]) {
    for (to, &from) in to.iter_mut().zip(from) {
        *to = to.plus(from);
    }
}

/// Collects the partial results of a [`Sum`] from the owners of rows, in the order of rows, and adds them.
///
/// Each owner gives its rows before its first whole block, the partial results of its whole blocks, and its rows after them (see
/// [`super::order::OwnedBlocks`]). Blocks with rows of several owners are computed here.
#[derive(Debug)]
pub struct PartialResults<T> {
    sum: Sum,
    total_rows: usize,
    columns: (usize, usize),
    /// Rows received so far.
    rows: usize,
    /// The rows of X and of Y of a block with several owners, received so far.
    edge: (Vec<T>, Vec<T>),
    result: Vec<T>,
}

impl<T: Kernels> PartialResults<T> {
    /// No partial results yet of multivectors with `total_rows` rows, and `columns.0` and `columns.1` columns.
    pub fn new(sum: Sum, total_rows: usize, columns: (usize, usize)) -> Self {
        Self { sum, total_rows, columns, rows: 0, edge: (Vec::new(), Vec::new()), result: Vec::new() }
    }

    fn length(&self) -> usize {
        self.sum.length(self.columns.0 as u64, self.columns.1 as u64) as usize
    }

    /// Adds the partial results of the next blocks, which have `rows` rows.
    pub fn add_blocks(&mut self, rows: usize, partials: &[T]) -> Result<()> {
        if rows == 0 && partials.is_empty() {
            return Ok(());
        }
        let (length, block_rows) = (self.length(), self.sum.block_rows() as usize);
        let blocks = rows.div_ceil(block_rows);
        let end = self.rows.saturating_add(rows);
        let is_whole = self.edge.0.is_empty() && self.rows.is_multiple_of(block_rows);
        let ends_block = end == self.total_rows || end.is_multiple_of(block_rows);
        if !(is_whole && ends_block && end <= self.total_rows && partials.len() == blocks * length) {
            return Err(Error::Internal(format!(
                "{} numbers are not the partial results of the {rows} rows after row {}",
                partials.len(),
                self.rows
            )));
        }
        self.rows = end;
        for partial in partials.chunks(length.max(1)) {
            self.add(partial);
        }
        Ok(())
    }

    /// Adds the next rows of X and Y, which belong to blocks with rows of several owners.
    pub fn add_rows(&mut self, x: MultiVectorView<'_, T>, y: MultiVectorView<'_, T>) -> Result<()> {
        same_rows(x.rows(), y.rows())?;
        if (x.k(), y.k()) != self.columns || self.rows + x.rows() > self.total_rows {
            return Err(Error::Internal(format!(
                "{} rows of {} and {} columns do not continue multivectors of {} rows",
                x.rows(),
                x.k(),
                y.k(),
                self.total_rows
            )));
        }
        for row in 0..x.rows() {
            self.edge.0.extend_from_slice(x.row(row));
            self.edge.1.extend_from_slice(y.row(row));
            self.rows += 1;
            if self.rows == self.total_rows || self.rows.is_multiple_of(self.sum.block_rows() as usize) {
                self.end_block()?;
            }
        }
        Ok(())
    }

    fn end_block(&mut self) -> Result<()> {
        let (k, k2) = self.columns;
        let (x, y) = std::mem::take(&mut self.edge);
        let rows = (self.rows - 1) % self.sum.block_rows() as usize + 1;
        let mut partial = vec![T::ZERO; self.length()];
        let (x, y) = (MultiVectorView::try_new(&x, rows, k, k)?, MultiVectorView::try_new(&y, rows, k2, k2)?);
        partial_results(self.sum, x, y, &mut partial)?;
        self.add(&partial);
        Ok(())
    }

    fn add(&mut self, partial: &[T]) {
        if self.result.is_empty() {
            self.result.extend_from_slice(partial);
        } else {
            add(&mut self.result, partial);
        }
    }

    /// The sum of all partial results; +0 without rows. An error if rows are missing.
    pub fn finish(mut self) -> Result<Vec<T>> {
        if self.rows != self.total_rows {
            return Err(Error::Internal(format!(
                "partial results of {} rows are missing",
                self.total_rows - self.rows
            )));
        }
        self.result.resize(self.length(), T::ZERO);
        Ok(self.result)
    }
}

/// The sum over all rows of X and Y in host memory.
pub fn sum<T: Kernels>(sum: Sum, x: MultiVectorView<'_, T>, y: MultiVectorView<'_, T>) -> Result<Vec<T>> {
    let length = sum.length(x.k() as u64, y.k() as u64) as usize;
    let mut partials = vec![T::ZERO; x.rows().div_ceil(sum.block_rows() as usize) * length];
    partial_results(sum, x, y, &mut partials)?;
    let mut results = PartialResults::new(sum, x.rows(), (x.k(), y.k()));
    results.add_blocks(x.rows(), &partials)?;
    results.finish()
}
