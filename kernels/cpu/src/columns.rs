//! Sums of the columns of a dense matrix stored by rows, and of squared deviations from their means.
//!
//! The loops are plain Rust over slices of columns, which the compiler vectorises for each instruction set.

#![allow(unsafe_code)] // functions for an instruction set

use crate::isa::{Isa, by_isa};
use crate::number::Number;

/// Rows that are added as a tree.
pub(super) const GROUP: usize = 8;

/// The factors of a merge of two sums, over a and b rows.
#[derive(Debug, Clone, Copy)]
pub struct MergeWeights<T> {
    /// `1 / a`.
    pub first_inverse: T,
    /// `1 / b`.
    pub second_inverse: T,
    /// `a b / (a + b)`.
    pub weight: T,
}

/// The sums of the columns of one strand: consecutive rows, in groups of 8.
pub struct Strand<'a, T> {
    /// The rows, from the first column on.
    pub x: &'a [T],
    /// Distance between rows.
    pub ldx: usize,
    /// Number of rows.
    pub rows: usize,
    /// A row of zeros.
    pub zeros: &'a [T],
    /// For each group, the weights of its merge with the groups before it. The first has no groups before it: only the inverse of its
    /// own number of rows is used.
    pub weights: &'a [MergeWeights<T>],
    /// The sums, one per column; the old values are not used.
    pub sums: &'a mut [T],
    /// The sums of squared deviations from the means; not used if only sums are computed.
    pub deviations: &'a mut [T],
}

/// Merges the sums of later rows into those of earlier ones.
pub struct Merge<'a, T> {
    /// The weights.
    pub weights: MergeWeights<T>,
    /// The sums over the earlier rows, and over all rows afterwards.
    pub sums: &'a mut [T],
    /// Their squared deviations; not used if only sums are computed.
    pub deviations: &'a mut [T],
    /// The sums over the later rows.
    pub more_sums: &'a [T],
    /// Their squared deviations.
    pub more_deviations: &'a [T],
}

/// The compiled loops for an instruction set. Calling one is unsafe: the processor must have the instruction set.
#[derive(Clone, Copy)]
pub struct ColumnBodies<T> {
    /// Adds up a strand: sums alone.
    pub add: unsafe fn(&mut Strand<'_, T>),
    /// Adds up a strand: sums and squared deviations.
    pub add_deviations: unsafe fn(&mut Strand<'_, T>),
    /// Merges sums and squared deviations.
    pub merge_deviations: unsafe fn(&mut Merge<'_, T>),
}

#[inline(always)]
fn tree<T: Number>(v: [T; GROUP]) -> T {
    let low = v[0].plus(v[1]).plus(v[2].plus(v[3]));
    let high = v[4].plus(v[5]).plus(v[6].plus(v[7]));
    low.plus(high)
}

/// The formula of Chan, Golub and LeVeque for the squared deviations of all rows.
#[inline(always)]
fn merged<T: Number>(weights: MergeWeights<T>, first: (T, T), second: (T, T)) -> T {
    let difference = second.0.times(weights.second_inverse).minus(first.0.times(weights.first_inverse));
    difference.times(difference).fused_multiply_add(weights.weight, first.1.plus(second.1))
}

#[inline(always)]
fn add_strand<T: Number, const DEVIATIONS: bool>(strand: &mut Strand<'_, T>) {
    let columns = strand.sums.len();
    strand.sums.fill(T::ZERO);
    for (group, &weights) in strand.weights.iter().enumerate() {
        let first = group * GROUP;
        let count = GROUP.min(strand.rows - first);
        let row = |i: usize| {
            if i < count {
                &strand.x[(first + i) * strand.ldx..][..columns]
            } else {
                &strand.zeros[..columns]
            }
        };
        let rows: [&[T]; GROUP] = std::array::from_fn(row);
        let (sums, deviations) = (&mut *strand.sums, &mut *strand.deviations);
        match (DEVIATIONS, group) {
            (false, _) => add_group(rows, sums),
            (true, 0) => add_deviations::<T, true>(rows, count, weights, sums, deviations),
            (true, _) => add_deviations::<T, false>(rows, count, weights, sums, deviations),
        }
    }
}

#[inline(always)]
fn add_group<T: Number>(rows: [&[T]; GROUP], sums: &mut [T]) {
    let columns = sums.len();
    let rows = rows.map(|row| &row[..columns]);
    for (column, sum) in sums.iter_mut().enumerate() {
        *sum = sum.plus(tree(rows.map(|row| row[column])));
    }
}

#[inline(always)]
fn add_deviations<T: Number, const FIRST: bool>(
    rows: [&[T]; GROUP],
    count: usize,
    weights: MergeWeights<T>,
    sums: &mut [T],
    deviations: &mut [T],
) {
    let columns = sums.len();
    let (rows, deviations) = (rows.map(|row| &row[..columns]), &mut deviations[..columns]);
    for column in 0..columns {
        let values = rows.map(|row| row[column]);
        let sum = tree(values);
        let mean = sum.times(weights.second_inverse);
        let mut squares = [T::ZERO; GROUP];
        for (i, square) in squares.iter_mut().enumerate() {
            let deviation = values[i].minus(mean);
            *square = if i < count { deviation.times(deviation) } else { T::ZERO };
        }
        let own = tree(squares);
        deviations[column] =
            if FIRST { own } else { merged(weights, (sums[column], deviations[column]), (sum, own)) };
        sums[column] = sums[column].plus(sum);
    }
}

#[inline(always)]
fn merge<T: Number>(job: &mut Merge<'_, T>) {
    let columns = job.sums.len();
    let (sums, deviations) = (&mut job.sums[..columns], &mut job.deviations[..columns]);
    let (more_sums, more_deviations) = (&job.more_sums[..columns], &job.more_deviations[..columns]);
    for column in 0..columns {
        let (first, second) =
            ((sums[column], deviations[column]), (more_sums[column], more_deviations[column]));
        deviations[column] = merged(job.weights, first, second);
        sums[column] = first.0.plus(second.0);
    }
}

/// Defines the entry points of an instruction set; the inlined loops are compiled for it.
macro_rules! entry_points {
    ($module:ident, $(#[$attribute:meta])*) => {
        mod $module {
            use super::*;

            pub(super) fn bodies<T: Number>() -> ColumnBodies<T> {
                ColumnBodies {
                    add: add_entry::<T, false>,
                    add_deviations: add_entry::<T, true>,
                    merge_deviations: merge_entry::<T>,
                }
            }

            $(#[$attribute])*
            unsafe fn add_entry<T: Number, const DEVIATIONS: bool>(strand: &mut Strand<'_, T>) {
                add_strand::<T, DEVIATIONS>(strand);
            }

            $(#[$attribute])*
            unsafe fn merge_entry<T: Number>(job: &mut Merge<'_, T>) {
                merge::<T>(job);
            }
        }
    };
}

entry_points!(portable,);
#[cfg(simd)]
entry_points!(avx2, #[target_feature(enable = "avx2,fma")]);
#[cfg(simd)]
entry_points!(avx512, #[target_feature(enable = "avx512f,avx512vl,avx2,fma")]);

/// Value types with compiled sums of columns: `f64` and `f32`.
pub trait ColumnKernels: Number {
    /// The loops for an instruction set.
    fn column_bodies(isa: Isa) -> ColumnBodies<Self>;
}

macro_rules! kernels {
    ($scalar:ty) => {
        impl ColumnKernels for $scalar {
            #[inline(never)]
            fn column_bodies(isa: Isa) -> ColumnBodies<$scalar> {
                by_isa!(isa, portable::bodies(), avx2::bodies(), avx512::bodies())
            }
        }
    };
}

kernels!(f64);
kernels!(f32);
