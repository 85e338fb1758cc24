//! Sums over the columns of a product, row by row, in f64: `Y r` and `A (X r)`, with a weight in r for each column. The check of a single
//! product.
//!
//! `X r` is formed where a row of A first needs it: the product has just read that row of X, so it is in a cache.
//!
//! The loops share no code with the kernels whose results they check.

#![allow(unsafe_code)]
// functions for an instruction set
// Loops over a constant number of chains are written with indices, so that they unroll.
#![allow(clippy::needless_range_loop)]

use std::sync::atomic::{AtomicU64, Ordering};

use crate::isa::{Isa, by_isa};
use crate::lanes::{LANES, LaneValue, Lanes};
use crate::number::Number;

/// Chains of additions.
const CHAINS: usize = 4;

/// Rows of A, X and the weights of its columns.
#[derive(Clone, Copy)]
pub struct RowsOfProduct<'a, T> {
    /// Where each row of A starts in `columns` and `values`, and where the last one ends.
    pub row_pointers: &'a [u64],
    /// The columns of all rows of A.
    pub columns: &'a [u32],
    /// The values.
    pub values: &'a [T],
    /// X, from its first element on.
    pub x: &'a [T],
    /// Distance between rows of X.
    pub x_distance: usize,
    /// The same rows of Y.
    pub y: &'a [T],
    /// Distance between rows of Y.
    pub y_distance: usize,
    /// The weight of each column of X and Y.
    pub weights: &'a [f64],
    /// The bits of the weighted sum of each row of X; 0 if it is not formed yet, and those of -0.0 if it is zero.
    pub sums_of_x: &'a [AtomicU64],
}

/// The sums of one row.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct RowSum {
    /// Of Y.
    pub y: f64,
    /// Of A X.
    pub product: f64,
    /// The sum of the sizes of the terms of `product`.
    pub size: f64,
}

/// The compiled loops for an instruction set. Calling one is unsafe: the processor must have the instruction set.
#[derive(Clone, Copy)]
pub struct RowSumBodies<T> {
    /// The sums of all rows.
    pub sums: unsafe fn(RowsOfProduct<'_, T>, &mut [RowSum]),
    /// The weighted sum of numbers.
    pub dot: unsafe fn(&[T], &[f64]) -> f64,
    /// The sum of the squares of the weighted numbers.
    pub squares: unsafe fn(&[T], &[f64]) -> f64,
}

// No closures: a closure that is not inlined would be compiled without the instruction set.

/// The sum of the weighted numbers, or of their squares, in four chains of lanes.
#[inline(always)]
unsafe fn sum<T: Number + LaneValue, L: Lanes, const SQUARES: bool>(values: &[T], weights: &[f64]) -> f64 {
    // SAFETY: the caller ensures the instruction set of `L`.
    unsafe {
        let (wide, narrow) = values.as_chunks::<LANES>();
        let (wide_weights, narrow_weights) = weights.as_chunks::<LANES>();
        let mut sums = [L::zero(); CHAINS];
        let (fours, rest) = wide.as_chunks::<CHAINS>();
        let (four_weights, rest_weights) = wide_weights.as_chunks::<CHAINS>();
        for (values, weights) in fours.iter().zip(four_weights) {
            for chain in 0..CHAINS {
                let (values, weights) = (T::load::<L>(&values[chain]), L::load(&weights[chain]));
                sums[chain] = add_term::<L, SQUARES>(values, weights, sums[chain]);
            }
        }
        for (values, weights) in rest.iter().zip(rest_weights) {
            sums[0] = add_term::<L, SQUARES>(T::load::<L>(values), L::load(weights), sums[0]);
        }
        if !narrow.is_empty() {
            let (values, weights) = (T::load_part::<L>(narrow), L::load_part(narrow_weights));
            sums[1] = add_term::<L, SQUARES>(values, weights, sums[1]);
        }
        sums[0].add(sums[1]).add(sums[2].add(sums[3])).total()
    }
}

#[inline(always)]
unsafe fn add_term<L: Lanes, const SQUARES: bool>(values: L, weights: L, sum: L) -> L {
    // SAFETY: the caller ensures the instruction set of `L`.
    unsafe {
        if SQUARES {
            let weighted = values.multiply_add(weights, L::zero());
            weighted.multiply_add(weighted, sum)
        } else {
            values.multiply_add(weights, sum)
        }
    }
}

/// Forms the weighted sums of the rows of X that these columns need and that are not formed yet. Afterwards they do not change.
#[inline(always)]
unsafe fn form_sums_of_x<T: Number + LaneValue, L: Lanes>(rows: &RowsOfProduct<'_, T>, columns: &[u32]) {
    for &column in columns {
        let known = &rows.sums_of_x[column as usize];
        if known.load(Ordering::Acquire) == 0 {
            let values = &rows.x[column as usize * rows.x_distance..][..rows.weights.len()];
            // SAFETY: the caller ensures the instruction set of `L`.
            let sum = unsafe { sum::<T, L, false>(values, rows.weights) };
            let bits = if sum == 0.0 { -0.0f64 } else { sum }.to_bits();
            // If another thread has stored the same number meanwhile, it stays.
            let _ = known.compare_exchange(0, bits, Ordering::AcqRel, Ordering::Acquire);
        }
    }
}

#[inline(always)]
unsafe fn sums<T: Number + LaneValue, L: Lanes>(rows: RowsOfProduct<'_, T>, to: &mut [RowSum]) {
    let k = rows.weights.len();
    let sums_of_x: *const f64 = rows.sums_of_x.as_ptr().cast();
    for (row, (pointers, to)) in rows.row_pointers.windows(2).zip(to).enumerate() {
        let entries = pointers[0] as usize..pointers[1] as usize;
        let (columns, values) = (&rows.columns[entries.clone()], &rows.values[entries]);
        // SAFETY: the caller ensures the instruction set of `L`. The sums of these columns are formed, are seen by this thread, and no
        // thread writes them again, so they are read as plain numbers; that the columns are those of X was seen when they were formed.
        unsafe {
            form_sums_of_x::<T, L>(&rows, columns);
            let (mut products, mut sizes) = (L::zero(), L::zero());
            let (wide_columns, narrow_columns) = columns.as_chunks::<LANES>();
            let (wide_values, narrow_values) = values.as_chunks::<LANES>();
            for (columns, values) in wide_columns.iter().zip(wide_values) {
                let terms = T::load::<L>(values).multiply_add(L::gather(sums_of_x, columns), L::zero());
                products = products.add(terms);
                sizes = sizes.add(terms.magnitude());
            }
            if !narrow_columns.is_empty() {
                let values = T::load_part::<L>(narrow_values);
                let terms = values.multiply_add(L::gather_part(sums_of_x, narrow_columns), L::zero());
                products = products.add(terms);
                sizes = sizes.add(terms.magnitude());
            }
            let y = sum::<T, L, false>(&rows.y[row * rows.y_distance..][..k], rows.weights);
            *to = RowSum { y, product: products.total(), size: sizes.total() };
        }
    }
}

/// Defines the entry points of an instruction set; the inlined loops are compiled for it.
macro_rules! entry_points {
    ($module:ident, $lanes:ty, $(#[$attribute:meta])*) => {
        mod $module {
            use super::*;

            pub(super) fn bodies<T: Number + LaneValue>() -> RowSumBodies<T> {
                RowSumBodies { sums: sums_entry::<T>, dot: dot_entry::<T>, squares: squares_entry::<T> }
            }

            $(#[$attribute])*
            unsafe fn sums_entry<T: Number + LaneValue>(rows: RowsOfProduct<'_, T>, to: &mut [RowSum]) {
                // SAFETY: the caller ensures the instruction set.
                unsafe { sums::<T, $lanes>(rows, to) }
            }

            $(#[$attribute])*
            unsafe fn dot_entry<T: Number + LaneValue>(values: &[T], weights: &[f64]) -> f64 {
                // SAFETY: the caller ensures the instruction set.
                unsafe { sum::<T, $lanes, false>(values, weights) }
            }

            $(#[$attribute])*
            unsafe fn squares_entry<T: Number + LaneValue>(values: &[T], weights: &[f64]) -> f64 {
                // SAFETY: the caller ensures the instruction set.
                unsafe { sum::<T, $lanes, true>(values, weights) }
            }
        }
    };
}

entry_points!(portable, [f64; LANES],);
#[cfg(simd)]
entry_points!(avx2, crate::lanes::Halves, #[target_feature(enable = "avx2,fma")]);
#[cfg(simd)]
entry_points!(avx512, std::arch::x86_64::__m512d, #[target_feature(enable = "avx512f,avx512vl,avx2,fma")]);

/// Value types with compiled sums of rows: `f64` and `f32`.
pub trait RowSumKernels: Number {
    /// The loops for an instruction set.
    fn row_sum_bodies(isa: Isa) -> RowSumBodies<Self>;
}

macro_rules! kernels {
    ($scalar:ty) => {
        impl RowSumKernels for $scalar {
            #[inline(never)]
            fn row_sum_bodies(isa: Isa) -> RowSumBodies<$scalar> {
                by_isa!(isa, portable::bodies(), avx2::bodies(), avx512::bodies())
            }
        }
    };
}

kernels!(f64);
kernels!(f32);
