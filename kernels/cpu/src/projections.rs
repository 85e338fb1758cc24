//! Projections of rows to weighted sums of their elements, in f64, and rows of A times projections: the check of a product.
//!
//! Columns form groups of [`PROJECTED_COLUMNS`]. A row of a multivector has one projection per group: `Σ w_k x_k`, and its size
//! `Σ |w_k| |x_k|`, which bounds rounding errors. If `Y = A X`, the projections of Y are A times the projections of X.
//!
//! The loops share no code with the kernels whose results they check.

#![allow(unsafe_code)] // functions for an instruction set

use crate::isa::Isa;
use crate::lanes::{LANES, LaneValue, Lanes};
use crate::number::Number;

/// Columns of a group. A larger group would hide an error of one element behind the rounding errors of the others.
pub const PROJECTED_COLUMNS: usize = 32;

/// Roundings of the projections of a row of X and of Y, and of alpha and beta.
const USUAL_ROUNDINGS: f64 = 4.0;
/// Unit round-off of the sums.
const SUM_ROUNDOFF: f64 = f64::EPSILON / 2.0;

/// Projections of rows: `groups` numbers per row.
#[derive(Clone, Copy)]
pub struct Projected<'a> {
    /// Weighted sums.
    pub sums: &'a [f64],
    /// Sums of absolute values.
    pub sizes: &'a [f64],
}

/// Rows that are projected.
pub struct ProjectedRows<'a, T> {
    /// The rows, from the first column on.
    pub x: &'a [T],
    /// Distance between rows.
    pub ldx: usize,
    /// The weight of each column.
    pub weights: &'a [f64],
    /// The weighted sums, by row and group; the old values are not used.
    pub sums: &'a mut [f64],
    /// The sums of absolute values.
    pub sizes: &'a mut [f64],
}

/// Rows of A.
#[derive(Clone, Copy)]
pub enum RowsOfA<'a, T> {
    /// Of a sparse matrix.
    Sparse {
        /// The start of each row in the arrays, followed by the end of the last row.
        pointers: &'a [u64],
        /// All columns of the matrix.
        columns: &'a [u32],
        /// All values of the matrix.
        values: &'a [T],
    },
    /// Of a dense matrix.
    Dense {
        /// The rows, from the first column on.
        values: &'a [T],
        /// Distance between rows.
        leading_dimension: usize,
        /// Number of columns.
        columns: usize,
    },
}

/// A comparison of projections of `alpha A X + beta Y` with those of the computed Y.
pub struct Comparison<'a, T> {
    /// Rows of A.
    pub a: RowsOfA<'a, T>,
    /// Number of groups of columns.
    pub groups: usize,
    /// The projections of all rows of X.
    pub x: Projected<'a>,
    /// The projections of the rows of Y, after the product.
    pub y: Projected<'a>,
    /// The same before the product; `None` if beta is zero.
    pub before: Option<Projected<'a>>,
    /// The factor of A X.
    pub alpha: f64,
    /// The factor of the old Y.
    pub beta: f64,
    /// Unit round-off of the product.
    pub unit_roundoff: f64,
    /// Relative error of projections that were computed elsewhere; 0 for those of this module.
    pub projection_error: f64,
    /// The rows, relative to the first, whose projections differ by more than rounding usually explains, or are not finite.
    pub suspicious: &'a mut Vec<usize>,
}

/// The compiled loops for an instruction set. Calling one is unsafe: the processor must have the instruction set.
#[derive(Clone, Copy)]
pub struct ProjectionBodies<T> {
    /// Projects rows.
    pub project: unsafe fn(&mut ProjectedRows<'_, T>),
    /// Compares projections.
    pub compare: unsafe fn(&mut Comparison<'_, T>),
}

#[inline(always)]
fn total(lanes: [f64; LANES]) -> f64 {
    ((lanes[0] + lanes[1]) + (lanes[2] + lanes[3])) + ((lanes[4] + lanes[5]) + (lanes[6] + lanes[7]))
}

/// The weighted sum of a group of columns of a row, and its size.
#[inline(always)]
unsafe fn projection<T: Number + LaneValue, L: Lanes>(row: &[T], weights: &[f64]) -> (f64, f64) {
    // SAFETY: the caller ensures the instruction set of `L`.
    unsafe {
        let (mut sums, mut sizes) = (L::zero(), L::zero());
        let (wide, tail) = row.as_chunks::<LANES>();
        let (wide_weights, tail_weights) = weights.as_chunks::<LANES>();
        for (values, weights) in wide.iter().zip(wide_weights) {
            let (values, weights) = (T::load::<L>(values), L::load(weights));
            sums = weights.multiply_add(values, sums);
            sizes = weights.magnitude().multiply_add(values.magnitude(), sizes);
        }
        let (mut sum, mut size) = match wide.is_empty() {
            true => (0.0, 0.0),
            false => (total(sums.store()), total(sizes.store())),
        };
        for (&value, weight) in tail.iter().zip(tail_weights) {
            let value = value.widened();
            sum = weight.mul_add(value, sum);
            size = weight.abs().mul_add(value.abs(), size);
        }
        (sum, size)
    }
}

#[inline(always)]
unsafe fn project<T: Number + LaneValue, L: Lanes>(job: &mut ProjectedRows<'_, T>) {
    let k = job.weights.len();
    let groups = k.div_ceil(PROJECTED_COLUMNS);
    for row in 0..job.sums.len() / groups.max(1) {
        let values = &job.x[row * job.ldx..][..k];
        for group in 0..groups {
            let columns = group * PROJECTED_COLUMNS..k.min((group + 1) * PROJECTED_COLUMNS);
            let at = row * groups + group;
            // SAFETY: the caller ensures the instruction set of `L`.
            (job.sums[at], job.sizes[at]) =
                unsafe { projection::<T, L>(&values[columns.clone()], &job.weights[columns]) };
        }
    }
}

/// `Σ a_j z_j` for one group of columns, or `Σ |a_j| z_j`.
///
/// One number at a time, in four sums whose multiply-adds overlap: the projections of X are read at random, and a register of eight of
/// them would be filled one by one.
#[inline(always)]
fn row_sum<T: Number, const ABSOLUTE: bool, const ONE_GROUP: bool>(
    values: &[T],
    columns: Option<&[u32]>,
    z: &[f64],
    (groups, group): (usize, usize),
) -> f64 {
    const CHAINS: usize = 4;
    // Constants, which save a multiplication for every nonzero.
    let (groups, group) = if ONE_GROUP { (1, 0) } else { (groups, group) };
    let mut sums = [0.0; CHAINS];
    let (wide, tail) = values.as_chunks::<CHAINS>();
    let first = wide.len() * CHAINS;
    match columns {
        Some(columns) => {
            let (wide_columns, tail_columns) = columns.as_chunks::<CHAINS>();
            for (values, columns) in wide.iter().zip(wide_columns) {
                for chain in 0..CHAINS {
                    let z = z[columns[chain] as usize * groups + group];
                    sums[chain] = magnitude::<T, ABSOLUTE>(values[chain]).mul_add(z, sums[chain]);
                }
            }
            for (chain, (&value, &column)) in tail.iter().zip(tail_columns).enumerate() {
                let z = z[column as usize * groups + group];
                sums[chain] = magnitude::<T, ABSOLUTE>(value).mul_add(z, sums[chain]);
            }
        }
        None => {
            for (index, values) in wide.iter().enumerate() {
                for chain in 0..CHAINS {
                    let z = z[(index * CHAINS + chain) * groups + group];
                    sums[chain] = magnitude::<T, ABSOLUTE>(values[chain]).mul_add(z, sums[chain]);
                }
            }
            for (chain, &value) in tail.iter().enumerate() {
                let z = z[(first + chain) * groups + group];
                sums[chain] = magnitude::<T, ABSOLUTE>(value).mul_add(z, sums[chain]);
            }
        }
    }
    (sums[0] + sums[1]) + (sums[2] + sums[3])
}

#[inline(always)]
fn magnitude<T: Number, const ABSOLUTE: bool>(value: T) -> f64 {
    if ABSOLUTE { value.widened().abs() } else { value.widened() }
}

/// Whether the projections of a row agree, for one group of columns.
#[inline(always)]
fn agrees<T: Number, const ONE_GROUP: bool>(
    job: &Comparison<'_, T>,
    (values, columns): (&[T], Option<&[u32]>),
    row: usize,
    (groups, group): (usize, usize),
) -> bool {
    let (at, length) = (row * groups + group, values.len() as f64);
    let sum = job.alpha * row_sum::<T, false, ONE_GROUP>(values, columns, job.x.sums, (groups, group));
    let (old, old_size) = match job.before {
        Some(before) => (job.beta * before.sums[at], (job.beta * before.sizes[at]).abs()),
        None => (0.0, 0.0),
    };
    let error = (job.y.sums[at] - (sum + old)).abs();
    if !error.is_finite() {
        return false;
    }
    // Rounding errors of n terms grow as the square root of n, unless they are systematic. The bound may be exceeded by a right row:
    // such rows are compared element by element.
    let roundings = USUAL_ROUNDINGS + 2.0 * length.sqrt();
    let relative = (job.unit_roundoff + SUM_ROUNDOFF) * roundings + job.projection_error;
    // The size is at least the sum, so most rows need no second pass.
    if error <= relative * sum.abs() {
        return true;
    }
    let size = job.alpha.abs() * row_sum::<T, true, ONE_GROUP>(values, columns, job.x.sizes, (groups, group))
        + old_size;
    error <= relative * size
}

#[inline(always)]
fn compare<T: Number>(job: &mut Comparison<'_, T>) {
    let groups = job.groups.max(1);
    for row in 0..job.y.sums.len() / groups {
        let (values, columns) = match job.a {
            RowsOfA::Sparse { pointers, columns, values } => {
                let (begin, end) = (pointers[row] as usize, pointers[row + 1] as usize);
                (&values[begin..end], Some(&columns[begin..end]))
            }
            RowsOfA::Dense { values, leading_dimension, columns } => {
                (&values[row * leading_dimension..][..columns], None)
            }
        };
        let mut all_agree = true;
        if groups == 1 {
            all_agree = agrees::<T, true>(job, (values, columns), row, (1, 0));
        } else {
            for group in 0..groups {
                all_agree &= agrees::<T, false>(job, (values, columns), row, (groups, group));
            }
        }
        if !all_agree {
            job.suspicious.push(row);
        }
    }
}

/// Defines the entry points of an instruction set; the inlined loops are compiled for it.
macro_rules! entry_points {
    ($module:ident, $lanes:ty, $(#[$attribute:meta])*) => {
        mod $module {
            use super::*;

            pub(super) fn bodies<T: Number + LaneValue>() -> ProjectionBodies<T> {
                ProjectionBodies { project: project_entry::<T>, compare: compare_entry::<T> }
            }

            $(#[$attribute])*
            unsafe fn project_entry<T: Number + LaneValue>(job: &mut ProjectedRows<'_, T>) {
                // SAFETY: the caller ensures the instruction set.
                unsafe { project::<T, $lanes>(job) }
            }

            $(#[$attribute])*
            unsafe fn compare_entry<T: Number>(job: &mut Comparison<'_, T>) {
                compare(job);
            }
        }
    };
}

entry_points!(portable, [f64; LANES],);
#[cfg(target_arch = "x86_64")]
entry_points!(avx2, crate::lanes::Halves, #[target_feature(enable = "avx2,fma")]);
#[cfg(target_arch = "x86_64")]
entry_points!(avx512, std::arch::x86_64::__m512d, #[target_feature(enable = "avx512f,avx512vl,avx2,fma")]);

/// The loops for an instruction set.
#[inline(never)]
fn select<T: Number + LaneValue>(isa: Isa) -> ProjectionBodies<T> {
    #[cfg(target_arch = "x86_64")]
    match isa {
        Isa::Portable => {}
        Isa::Avx2 => return avx2::bodies(),
        Isa::Avx512 => return avx512::bodies(),
    }
    let _ = isa;
    portable::bodies()
}

/// Value types with compiled projections: `f64` and `f32`.
pub trait ProjectionKernels: Number {
    /// The loops for an instruction set.
    fn projection_bodies(isa: Isa) -> ProjectionBodies<Self>;
}

impl ProjectionKernels for f64 {
    fn projection_bodies(isa: Isa) -> ProjectionBodies<f64> {
        select(isa)
    }
}

impl ProjectionKernels for f32 {
    fn projection_bodies(isa: Isa) -> ProjectionBodies<f32> {
        select(isa)
    }
}
