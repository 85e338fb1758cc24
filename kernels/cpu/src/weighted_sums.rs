//! Weighted sums of the rows of a multivector, in f64: the check of a product.
//!
//! `Σ w_i x_i` is a row of k sums. Rounding must not hide errors of the product, so chains of additions are short, and the results of
//! blocks of rows are added without losing the rounding error.
//!
//! The loops share no code with the kernels whose results they check.

#![allow(unsafe_code)]
// functions for an instruction set
// Loops over constant numbers of chains and registers are written with indices, so that they unroll.
#![allow(clippy::needless_range_loop)]

use crate::isa::{Isa, by_isa};
use crate::lanes::{LANES, LaneValue, Lanes};
use crate::number::Number;

/// Rows that are added in one chain.
const CHAIN_ROWS: usize = 32;
/// Rows whose chains are added before the sum joins the total.
const BLOCK_ROWS: usize = 8 * CHAIN_ROWS;
/// Registers of lanes that are summed together.
const REGISTERS: usize = 4;
/// The same of wide rows, with an instruction set of 32 registers.
const WIDE_REGISTERS: usize = 16;

/// Rows with weights.
#[derive(Clone, Copy)]
pub struct WeightedRows<'a, T> {
    /// The rows, from the first column on.
    pub x: &'a [T],
    /// Distance between rows.
    pub leading_dimension: usize,
    /// Number of columns.
    pub k: usize,
    /// The weight of each row.
    pub weights: &'a [f64],
}

/// The totals of weighted sums: each sum is `sums[k] + errors[k]`.
pub struct Totals<'a> {
    /// The sums of the columns.
    pub sums: &'a mut [f64],
    /// The rounding errors of the sums.
    pub errors: &'a mut [f64],
}

/// The compiled loops for an instruction set. Calling one is unsafe: the processor must have the instruction set.
#[derive(Clone, Copy)]
pub struct WeightedSumBodies<T> {
    /// Adds the weighted sums of rows to totals.
    pub add: unsafe fn(WeightedRows<'_, T>, &mut Totals<'_>),
    /// Adds `Σ (f w_i x_i)²` of every `stride`-th row, the first included, to the sizes: rows, stride, f, sizes.
    pub add_squares: unsafe fn(WeightedRows<'_, T>, usize, f64, &mut [f64]),
}

impl<T: Number> WeightedRows<'_, T> {
    fn rows(&self, begin: usize, end: usize) -> Self {
        let first = (begin * self.leading_dimension).min(self.x.len());
        Self { x: &self.x[first..], weights: &self.weights[begin..end], ..*self }
    }
}

/// Adds `value` to a sum, and what the sum loses by rounding to `error`.
#[inline(always)]
fn add_exactly(sum: &mut f64, error: &mut f64, value: f64) {
    let total = *sum + value;
    let added = total - *sum;
    *error += (*sum - (total - added)) + (value - added);
    *sum = total;
}

/// The sums of `R` registers of columns from `column` on. Rows are added in `P` chains, whose multiply-adds overlap.
#[inline(always)]
unsafe fn block<T: Number + LaneValue, L: Lanes, const R: usize, const P: usize>(
    rows: &WeightedRows<'_, T>,
    column: usize,
) -> [[f64; LANES]; R] {
    let (count, distance) = (rows.weights.len(), rows.leading_dimension);
    let last = count.saturating_sub(1) * distance + column + R * LANES;
    assert!(count == 0 || last <= rows.x.len());
    // SAFETY: the caller ensures the instruction set of `L`; the last row is inside X, hence all are.
    unsafe {
        let x = rows.x.as_ptr().add(column);
        let load = |row: usize, register: usize| {
            T::load::<L>(&*x.add(row * distance + register * LANES).cast::<[T; LANES]>())
        };
        let mut totals = [L::zero(); R];
        for chain in (0..count).step_by(CHAIN_ROWS) {
            let end = count.min(chain + CHAIN_ROWS);
            let mut sums = [[L::zero(); R]; P];
            let mut row = chain;
            while row + P <= end {
                for part in 0..P {
                    let weight = L::splat(*rows.weights.get_unchecked(row + part));
                    for register in 0..R {
                        let sum = sums[part][register];
                        sums[part][register] = load(row + part, register).multiply_add(weight, sum);
                    }
                }
                row += P;
            }
            for row in row..end {
                let weight = L::splat(*rows.weights.get_unchecked(row));
                for register in 0..R {
                    sums[0][register] = load(row, register).multiply_add(weight, sums[0][register]);
                }
            }
            for part in sums {
                for register in 0..R {
                    totals[register] = totals[register].add(part[register]);
                }
            }
        }
        totals.map(|total| total.store())
    }
}

/// The same of one column.
#[inline(always)]
fn narrow_block<T: Number>(rows: &WeightedRows<'_, T>, column: usize) -> f64 {
    let mut total = 0.0;
    for (chain, weights) in rows.weights.chunks(CHAIN_ROWS).enumerate() {
        let first = chain * CHAIN_ROWS;
        let value = |row: usize| rows.x[(first + row) * rows.leading_dimension + column].widened();
        total += weights.iter().enumerate().fold(0.0, |sum, (row, weight)| weight.mul_add(value(row), sum));
    }
    total
}

/// The sum of one column whose rows are contiguous: lanes of rows.
#[inline(always)]
unsafe fn contiguous_block<T: Number + LaneValue, L: Lanes>(x: &[T], weights: &[f64]) -> f64 {
    // SAFETY: the caller ensures the instruction set of `L`.
    unsafe {
        let (wide, tail) = x.as_chunks::<LANES>();
        let (wide_weights, tail_weights) = weights.as_chunks::<LANES>();
        let mut sums = L::zero();
        for (values, weights) in wide.iter().zip(wide_weights) {
            sums = T::load::<L>(values).multiply_add(L::load(weights), sums);
        }
        let tail = tail.iter().zip(tail_weights);
        let tail = tail.fold(0.0, |sum, (value, weight)| weight.mul_add(value.widened(), sum));
        tail + sums.total()
    }
}

#[inline(always)]
unsafe fn add<T: Number + LaneValue, L: Lanes>(rows: WeightedRows<'_, T>, totals: &mut Totals<'_>) {
    let (k, count) = (rows.k, rows.weights.len());
    for begin in (0..count).step_by(BLOCK_ROWS) {
        let block_rows = rows.rows(begin, count.min(begin + BLOCK_ROWS));
        // SAFETY: the caller ensures the instruction set of `L`.
        unsafe {
            if k == 1 && rows.leading_dimension == 1 {
                let x = &block_rows.x[..block_rows.weights.len()];
                let sum = contiguous_block::<T, L>(x, block_rows.weights);
                add_exactly(&mut totals.sums[0], &mut totals.errors[0], sum);
                continue;
            }
            let mut column = 0;
            // Whole rows, if registers suffice: rows of X come from memory in one pass.
            while L::HAS_MANY_REGISTERS && column + WIDE_REGISTERS * LANES <= k {
                add_registers(&block::<T, L, WIDE_REGISTERS, 1>(&block_rows, column), column, totals);
                column += WIDE_REGISTERS * LANES;
            }
            while column + REGISTERS * LANES <= k {
                add_registers(&block::<T, L, REGISTERS, 2>(&block_rows, column), column, totals);
                column += REGISTERS * LANES;
            }
            while column + LANES <= k {
                add_registers(&block::<T, L, 1, 4>(&block_rows, column), column, totals);
                column += LANES;
            }
            for column in column..k {
                let sum = narrow_block(&block_rows, column);
                add_exactly(&mut totals.sums[column], &mut totals.errors[column], sum);
            }
        }
    }
}

#[inline(always)]
fn add_registers<const R: usize>(registers: &[[f64; LANES]; R], column: usize, totals: &mut Totals<'_>) {
    let columns = column..column + R * LANES;
    let sums = totals.sums[columns.clone()].iter_mut().zip(&mut totals.errors[columns]);
    for ((sum, error), &value) in sums.zip(registers.as_flattened()) {
        add_exactly(sum, error, value);
    }
}

#[inline(always)]
fn add_squares<T: Number>(rows: WeightedRows<'_, T>, stride: usize, factor: f64, sizes: &mut [f64]) {
    for (row, &weight) in rows.weights.iter().enumerate().step_by(stride.max(1)) {
        let values = &rows.x[row * rows.leading_dimension..][..rows.k];
        for (size, value) in sizes.iter_mut().zip(values) {
            let value = factor * weight * value.widened();
            *size = value.mul_add(value, *size);
        }
    }
}

/// Defines the entry points of an instruction set; the inlined loops are compiled for it.
macro_rules! entry_points {
    ($module:ident, $lanes:ty, $(#[$attribute:meta])*) => {
        mod $module {
            use super::*;

            pub(super) fn bodies<T: Number + LaneValue>() -> WeightedSumBodies<T> {
                WeightedSumBodies { add: add_entry::<T>, add_squares: add_squares_entry::<T> }
            }

            $(#[$attribute])*
            unsafe fn add_entry<T: Number + LaneValue>(rows: WeightedRows<'_, T>, totals: &mut Totals<'_>) {
                // SAFETY: the caller ensures the instruction set.
                unsafe { add::<T, $lanes>(rows, totals) }
            }

            $(#[$attribute])*
            unsafe fn add_squares_entry<T: Number>(rows: WeightedRows<'_, T>, stride: usize, factor: f64, sizes: &mut [f64]) {
                add_squares(rows, stride, factor, sizes);
            }
        }
    };
}

entry_points!(portable, [f64; LANES],);
#[cfg(simd)]
entry_points!(avx2, crate::lanes::Halves, #[target_feature(enable = "avx2,fma")]);
#[cfg(simd)]
entry_points!(avx512, std::arch::x86_64::__m512d, #[target_feature(enable = "avx512f,avx512vl,avx2,fma")]);

/// Value types with compiled weighted sums: `f64` and `f32`.
pub trait WeightedSumKernels: Number {
    /// The loops for an instruction set.
    fn weighted_sum_bodies(isa: Isa) -> WeightedSumBodies<Self>;
}

macro_rules! kernels {
    ($scalar:ty) => {
        impl WeightedSumKernels for $scalar {
            #[inline(never)]
            fn weighted_sum_bodies(isa: Isa) -> WeightedSumBodies<$scalar> {
                by_isa!(isa, portable::bodies(), avx2::bodies(), avx512::bodies())
            }
        }
    };
}

kernels!(f64);
kernels!(f32);
