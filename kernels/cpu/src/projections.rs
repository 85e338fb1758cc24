//! Projections of rows to weighted sums of their elements, in f64, and rows of A times projections: the check of a product.
//!
//! Columns form groups of [`PROJECTED_COLUMNS`]. A row of a multivector has one projection per group: `Σ w_k x_k`, and its size
//! `Σ |w_k| |x_k|`, which bounds rounding errors. If `Y = A X`, the projections of Y are A times the projections of X.
//!
//! The loops are plain Rust over slices, compiled for each instruction set. They share no code with the kernels that they check.

#![allow(unsafe_code)] // functions for an instruction set

use crate::isa::Isa;
use crate::number::Number;

/// Columns of a group. A larger group would hide an error of one element behind the rounding errors of the others.
pub const PROJECTED_COLUMNS: usize = 32;

/// Accumulators of a sum: enough that their additions overlap.
const LANES: usize = 8;
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
fn projection<T: Number>(row: &[T], weights: &[f64]) -> (f64, f64) {
    let (mut sums, mut sizes) = ([0.0; LANES], [0.0; LANES]);
    let (wide, tail) = row.as_chunks::<LANES>();
    let (wide_weights, tail_weights) = weights.as_chunks::<LANES>();
    for (values, weights) in wide.iter().zip(wide_weights) {
        for lane in 0..LANES {
            let value = values[lane].widened();
            sums[lane] = weights[lane].mul_add(value, sums[lane]);
            sizes[lane] = weights[lane].abs().mul_add(value.abs(), sizes[lane]);
        }
    }
    for (lane, (value, weight)) in tail.iter().zip(tail_weights).enumerate() {
        let value = value.widened();
        sums[lane] = weight.mul_add(value, sums[lane]);
        sizes[lane] = weight.abs().mul_add(value.abs(), sizes[lane]);
    }
    (total(sums), total(sizes))
}

#[inline(always)]
fn project<T: Number>(job: &mut ProjectedRows<'_, T>) {
    let k = job.weights.len();
    let groups = k.div_ceil(PROJECTED_COLUMNS);
    let outputs = job.sums.chunks_exact_mut(groups).zip(job.sizes.chunks_exact_mut(groups));
    for (index, (sums, sizes)) in outputs.enumerate() {
        let row = &job.x[index * job.ldx..][..k];
        let columns = row.chunks(PROJECTED_COLUMNS).zip(job.weights.chunks(PROJECTED_COLUMNS));
        for ((values, weights), (sum, size)) in columns.zip(sums.iter_mut().zip(sizes)) {
            (*sum, *size) = projection(values, weights);
        }
    }
}

/// `Σ a_j z_j` for one group of columns, or `Σ |a_j| z_j`.
#[inline(always)]
fn row_sum<T: Number, const ABSOLUTE: bool>(
    values: &[T],
    columns: Option<&[u32]>,
    z: &[f64],
    (groups, group): (usize, usize),
) -> f64 {
    let value = |index: usize| {
        let value = values[index].widened();
        if ABSOLUTE { value.abs() } else { value }
    };
    let mut sums = [0.0; LANES];
    match columns {
        Some(columns) => {
            let at = |index: usize| z[columns[index] as usize * groups + group];
            let wide = values.len() / LANES * LANES;
            for first in (0..wide).step_by(LANES) {
                for lane in 0..LANES {
                    sums[lane] = value(first + lane).mul_add(at(first + lane), sums[lane]);
                }
            }
            for index in wide..values.len() {
                sums[index - wide] = value(index).mul_add(at(index), sums[index - wide]);
            }
        }
        None => {
            for index in 0..values.len() {
                sums[index % LANES] = value(index).mul_add(z[index * groups + group], sums[index % LANES]);
            }
        }
    }
    total(sums)
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
        let length = values.len() as f64;
        let agrees = |group: usize| {
            let at = row * groups + group;
            let sum = job.alpha * row_sum::<T, false>(values, columns, job.x.sums, (groups, group));
            let (old, old_size) = match job.before {
                Some(before) => (job.beta * before.sums[at], (job.beta * before.sizes[at]).abs()),
                None => (0.0, 0.0),
            };
            let error = (job.y.sums[at] - (sum + old)).abs();
            if !error.is_finite() {
                return false;
            }
            // The bound below is larger; most rows need no second sum.
            if error <= length.sqrt() * job.unit_roundoff * sum.abs() {
                return true;
            }
            let size = job.alpha.abs() * row_sum::<T, true>(values, columns, job.x.sizes, (groups, group))
                + old_size;
            // Rounding errors of n terms grow as the square root of n, unless they are systematic. The bound may be exceeded by a
            // right row: such rows are compared element by element.
            let roundings = USUAL_ROUNDINGS + 2.0 * length.sqrt();
            error <= ((job.unit_roundoff + SUM_ROUNDOFF) * roundings + job.projection_error) * size
        };
        if !(0..groups).all(agrees) {
            job.suspicious.push(row);
        }
    }
}

/// Defines the entry points of an instruction set; the inlined loops are compiled for it.
macro_rules! entry_points {
    ($module:ident, $(#[$attribute:meta])*) => {
        mod $module {
            use super::*;

            pub(super) fn bodies<T: Number>() -> ProjectionBodies<T> {
                ProjectionBodies { project: project_entry::<T>, compare: compare_entry::<T> }
            }

            $(#[$attribute])*
            unsafe fn project_entry<T: Number>(job: &mut ProjectedRows<'_, T>) {
                project::<T>(job);
            }

            $(#[$attribute])*
            unsafe fn compare_entry<T: Number>(job: &mut Comparison<'_, T>) {
                compare::<T>(job);
            }
        }
    };
}

entry_points!(portable,);
#[cfg(target_arch = "x86_64")]
entry_points!(avx2, #[target_feature(enable = "avx2,fma")]);
#[cfg(target_arch = "x86_64")]
entry_points!(avx512, #[target_feature(enable = "avx512f,avx512vl,avx2,fma")]);

/// The loops for an instruction set.
#[inline(never)]
fn select<T: Number>(isa: Isa) -> ProjectionBodies<T> {
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
