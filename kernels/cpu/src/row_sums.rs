//! Sums over the columns of a product, row by row, in f64: `Y r` and `A (X r)`, with a weight in r for each column. The check of a single
//! product.
//!
//! `X r` is formed where a row of A first needs it: the product has just read that row of X, so it is in a cache. Eight rows are summed at a
//! time, so that each weight is loaded once for all of them and their eight totals cost as much as one. They are compared here too: in most
//! products rounding explains every row, and no sum is stored.
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
    /// The differences that need no explanation.
    pub rounding: RowRounding,
}

/// Which difference between the sums of a row of Y and of `alpha A X` rounding explains: up to `factor * (n + per_root √n + constant)` times
/// the size of its terms, for a row of n values. A row whose bound is zero or infinite is not explained.
#[derive(Debug, Clone, Copy)]
pub struct RowRounding {
    /// The factor of A X.
    pub alpha: f64,
    /// The unit round-off times the magnitude of `alpha`; 0 if no row is explained.
    pub factor: f64,
    /// The weight of the root of the number of values.
    pub per_root: f64,
    /// What is added to the number of values.
    pub constant: f64,
}

/// Most rows of one call of [`RowSumBodies::unexplained`].
pub const MOST_SUMMED_ROWS: usize = 64;

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
    /// Which rows rounding does not explain, as bits: that of the first row is the lowest. Their sums are stored; those of other rows may be.
    /// There are at most [`MOST_SUMMED_ROWS`].
    pub unexplained: unsafe fn(RowsOfProduct<'_, T>, &mut [RowSum]) -> u64,
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

/// The weighted sums of eight rows.
#[inline(always)]
unsafe fn sums_of_eight<T: Number + LaneValue, L: Lanes>(x: &[T], distance: usize, weights: &[f64]) -> L {
    let k = weights.len();
    assert!((LANES - 1) * distance + k <= x.len());
    let (wide, narrow) = weights.as_chunks::<LANES>();
    // SAFETY: the caller ensures the instruction set of `L`. The last row is inside X, hence all are.
    unsafe {
        let mut sums = [L::zero(); LANES];
        for (part, weights) in wide.iter().enumerate() {
            let weights = L::load(weights);
            for row in 0..LANES {
                let values = x.as_ptr().add(row * distance + part * LANES).cast::<[T; LANES]>();
                sums[row] = T::load::<L>(&*values).multiply_add(weights, sums[row]);
            }
        }
        if !narrow.is_empty() {
            let weights = L::load_part(narrow);
            for row in 0..LANES {
                let values = x.get_unchecked(row * distance + wide.len() * LANES..row * distance + k);
                sums[row] = T::load_part::<L>(values).multiply_add(weights, sums[row]);
            }
        }
        L::totals(sums)
    }
}

/// Forms the weighted sum of a row of X, and of the seven rows beside it: a product that needs a row often needs its neighbours.
#[inline(always)]
unsafe fn form_sum_of_x<T: Number + LaneValue, L: Lanes>(rows: &RowsOfProduct<'_, T>, column: usize) {
    let first = column / LANES * LANES;
    // SAFETY: the caller ensures the instruction set of `L`.
    unsafe {
        if let Some(known) = rows.sums_of_x.get(first..first + LANES) {
            let x = &rows.x[first * rows.x_distance..];
            let sums = sums_of_eight::<T, L>(x, rows.x_distance, rows.weights).store();
            for (known, sum) in known.iter().zip(sums) {
                keep(known, sum);
            }
        } else {
            let values = &rows.x[column * rows.x_distance..][..rows.weights.len()];
            keep(&rows.sums_of_x[column], sum::<T, L, false>(values, rows.weights));
        }
    }
}

/// Stores a sum that is not known. Threads that form it at the same time store the same number.
#[inline(always)]
fn keep(known: &AtomicU64, sum: f64) {
    if known.load(Ordering::Relaxed) == 0 {
        known.store(if sum == 0.0 { -0.0f64 } else { sum }.to_bits(), Ordering::Relaxed);
    }
}

/// The weighted sums of the rows of X at up to eight columns; other lanes are zero.
#[inline(always)]
unsafe fn sums_at<T: Number + LaneValue, L: Lanes>(rows: &RowsOfProduct<'_, T>, columns: &[u32]) -> L {
    // SAFETY: the caller ensures the instruction set of `L`.
    unsafe {
        let sums = known_sums::<L>(rows.sums_of_x, columns);
        if !sums.has_zero_bits() {
            return sums;
        }
        for &column in columns {
            if rows.sums_of_x[column as usize].load(Ordering::Relaxed) == 0 {
                form_sum_of_x::<T, L>(rows, column as usize);
            }
        }
        known_sums(rows.sums_of_x, columns)
    }
}

/// The sums that are stored for these columns.
#[inline(always)]
unsafe fn known_sums<L: Lanes>(sums_of_x: &[AtomicU64], columns: &[u32]) -> L {
    let mut sums = [-0.0; LANES];
    for (sum, &column) in sums.iter_mut().zip(columns) {
        *sum = f64::from_bits(sums_of_x[column as usize].load(Ordering::Relaxed));
    }
    // SAFETY: the caller ensures the instruction set of `L`.
    unsafe { L::load(&sums) }
}

/// The sums of the terms of a row of the product, and of their sizes.
#[inline(always)]
unsafe fn terms<T: Number + LaneValue, L: Lanes>(
    rows: &RowsOfProduct<'_, T>,
    columns: &[u32],
    values: &[T],
) -> (L, L) {
    // SAFETY: the caller ensures the instruction set of `L`.
    unsafe {
        let (mut products, mut sizes) = (L::zero(), L::zero());
        let (wide_columns, narrow_columns) = columns.as_chunks::<LANES>();
        let (wide_values, narrow_values) = values.as_chunks::<LANES>();
        for (columns, values) in wide_columns.iter().zip(wide_values) {
            let terms = T::load::<L>(values).multiply_add(sums_at::<T, L>(rows, columns), L::zero());
            products = products.add(terms);
            sizes = sizes.add(terms.magnitude());
        }
        if !narrow_columns.is_empty() {
            let values = T::load_part::<L>(narrow_values);
            let terms = values.multiply_add(sums_at::<T, L>(rows, narrow_columns), L::zero());
            products = products.add(terms);
            sizes = sizes.add(terms.magnitude());
        }
        (products, sizes)
    }
}

#[inline(always)]
unsafe fn unexplained<T: Number + LaneValue, L: Lanes>(rows: RowsOfProduct<'_, T>, to: &mut [RowSum]) -> u64 {
    assert!(to.len() <= MOST_SUMMED_ROWS);
    let k = rows.weights.len();
    let mut unexplained = 0;
    for (eight, to) in to.chunks_mut(LANES).enumerate() {
        let first = eight * LANES;
        // SAFETY: the caller ensures the instruction set of `L`.
        unsafe {
            let (mut products, mut sizes) = ([L::zero(); LANES], [L::zero(); LANES]);
            let mut lengths = [0.0; LANES];
            for index in 0..to.len() {
                let pointers = &rows.row_pointers[first + index..][..2];
                let entries = pointers[0] as usize..pointers[1] as usize;
                let (columns, values) = (&rows.columns[entries.clone()], &rows.values[entries]);
                lengths[index] = columns.len() as f64;
                (products[index], sizes[index]) = terms::<T, L>(&rows, columns, values);
            }
            let (products, sizes) = (L::totals(products), L::totals(sizes));
            let of_y = if to.len() == LANES {
                sums_of_eight::<T, L>(&rows.y[first * rows.y_distance..], rows.y_distance, rows.weights)
            } else {
                let mut of_y = [0.0; LANES];
                for index in 0..to.len() {
                    let y = &rows.y[(first + index) * rows.y_distance..][..k];
                    of_y[index] = sum::<T, L, false>(y, rows.weights);
                }
                L::load(&of_y)
            };
            let explained = rows.rounding.explained::<L>(products, sizes, of_y, L::load(&lengths));
            let rest = !explained & (u8::MAX >> (LANES - to.len()));
            if rest != 0 {
                unexplained |= u64::from(rest) << first;
                let (of_y, products, sizes) = (of_y.store(), products.store(), sizes.store());
                for (index, to) in to.iter_mut().enumerate() {
                    *to = RowSum { y: of_y[index], product: products[index], size: sizes[index] };
                }
            }
        }
    }
    unexplained
}

impl RowRounding {
    /// The rows that rounding explains, as bits.
    #[inline(always)]
    unsafe fn explained<L: Lanes>(&self, products: L, sizes: L, of_y: L, lengths: L) -> u8 {
        // SAFETY: the caller ensures the instruction set of `L`.
        unsafe {
            let difference = products.multiply_add(L::splat(-self.alpha), of_y).magnitude();
            let roots = lengths.square_root();
            let count = roots.multiply_add(L::splat(self.per_root), lengths).add(L::splat(self.constant));
            let size = sizes.multiply_add(L::splat(self.factor), L::zero());
            let bound = count.multiply_add(size, L::zero());
            difference.at_most(bound) & bound.at_most(L::splat(f64::MAX)) & !bound.at_most(L::zero())
        }
    }
}

/// Defines the entry points of an instruction set; the inlined loops are compiled for it.
macro_rules! entry_points {
    ($module:ident, $lanes:ty, $(#[$attribute:meta])*) => {
        mod $module {
            use super::*;

            pub(super) fn bodies<T: Number + LaneValue>() -> RowSumBodies<T> {
                RowSumBodies {
                    unexplained: unexplained_entry::<T>,
                    dot: dot_entry::<T>,
                    squares: squares_entry::<T>,
                }
            }

            $(#[$attribute])*
            unsafe fn unexplained_entry<T: Number + LaneValue>(
                rows: RowsOfProduct<'_, T>,
                to: &mut [RowSum],
            ) -> u64 {
                // SAFETY: the caller ensures the instruction set.
                unsafe { unexplained::<T, $lanes>(rows, to) }
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
