//! Loops over dense multivectors, stored by rows: scaling and adding, products of rows, and products with a small matrix.
//!
//! Multiplications and additions are fused. A product without an addition is fused with negative zero, which does not change
//! it.

#![allow(unsafe_code)] // SIMD leaf

use crate::isa::{Isa, by_isa};
use crate::number::Number;
use crate::vector::{Single, Vector};

/// `y(r, c) = alphas(c) x(r, c) + betas(c) y(r, c)`.
///
/// The caller guarantees that `x` and `y` have `rows` rows of `columns` elements with the given leading dimensions, that `alphas`
/// has `columns` elements, and `betas` too if the body reads it. `x` and `y` are equal or do not overlap.
#[derive(Clone, Copy)]
pub struct Combination<T> {
    /// Number of rows.
    pub rows: usize,
    /// Number of columns.
    pub columns: usize,
    /// X.
    pub x: *const T,
    /// Leading dimension of X.
    pub ldx: usize,
    /// Y.
    pub y: *mut T,
    /// Leading dimension of Y.
    pub ldy: usize,
    /// A factor for each column of X.
    pub alphas: *const T,
    /// A factor for each column of Y.
    pub betas: *const T,
}

/// `sums(r mod lanes, c) += x(r, c) y(r, c)`, row by row.
///
/// The caller guarantees that `x` and `y` have `rows` rows of `columns` elements with the given leading dimensions, and that
/// `sums` has `lanes` contiguous rows of `columns` elements, which nothing else accesses; `lanes` is not 0.
#[derive(Clone, Copy)]
pub struct Accumulation<T> {
    /// Number of rows.
    pub rows: usize,
    /// Number of columns.
    pub columns: usize,
    /// X.
    pub x: *const T,
    /// Leading dimension of X.
    pub ldx: usize,
    /// Y.
    pub y: *const T,
    /// Leading dimension of Y.
    pub ldy: usize,
    /// The sums.
    pub sums: *mut T,
    /// Rows of `sums`.
    pub lanes: usize,
}

/// `c(i, j) = beta c(i, j) + sum of a(i, d) b(d, j)`, each element a chain over `d` that starts at `beta c(i, j)`, or at zero
/// without reading C if there is no beta.
///
/// The caller guarantees that element `(i, d)` of A is at `i * row_stride + d * depth_stride`, that B has `depth` rows and C
/// `rows` rows of `columns` elements with the given leading dimensions, and that C overlaps neither A nor B.
#[derive(Clone, Copy)]
pub struct Multiplication<T> {
    /// Rows of A and C.
    pub rows: usize,
    /// Columns of B and C.
    pub columns: usize,
    /// Columns of A, rows of B.
    pub depth: usize,
    /// A.
    pub a: *const T,
    /// Distance between rows of A.
    pub row_stride: usize,
    /// Distance between columns of A.
    pub depth_stride: usize,
    /// B.
    pub b: *const T,
    /// Leading dimension of B.
    pub ldb: usize,
    /// C.
    pub c: *mut T,
    /// Leading dimension of C.
    pub ldc: usize,
    /// The factor of C.
    pub beta: Option<T>,
}

/// The compiled loops over multivectors for an instruction set. Calling one is unsafe: the job must satisfy its contract, and the
/// processor must have the instruction set.
#[derive(Clone, Copy)]
pub struct MultivectorBodies<T> {
    /// `y = alphas x`; Y is not read.
    pub scale: unsafe fn(&Combination<T>),
    /// `y = fma(alphas, x, betas y)`.
    pub combine: unsafe fn(&Combination<T>),
    /// Products of the elements of X and Y, added to sums.
    pub accumulate: unsafe fn(&Accumulation<T>),
    /// A product with a small matrix.
    pub multiply: unsafe fn(&Multiplication<T>),
}

#[inline(always)]
unsafe fn combine<V: Vector, const READS_Y: bool>(job: &Combination<V::Element>) {
    let Combination { rows, columns, alphas, betas, .. } = *job;
    let full = columns / V::LANES * V::LANES;
    // SAFETY of all accesses: inside the rows that the contract of the job promises; a masked access stays below `columns`.
    unsafe {
        let tail = V::mask(columns - full);
        let minus_zero = V::splat(V::Element::MINUS_ZERO);
        for row in 0..rows {
            let (x, y) = (job.x.add(row * job.ldx), job.y.add(row * job.ldy));
            let mut at = 0;
            while at < full {
                let addend = if READS_Y {
                    V::load(betas.add(at)).multiply_add(V::load(y.add(at)), minus_zero)
                } else {
                    minus_zero
                };
                V::load(alphas.add(at)).multiply_add(V::load(x.add(at)), addend).store(y.add(at));
                at += V::LANES;
            }
            if full < columns {
                let addend = if READS_Y {
                    let old = V::load_masked(y.add(full), tail);
                    V::load_masked(betas.add(full), tail).multiply_add(old, minus_zero)
                } else {
                    minus_zero
                };
                let alpha = V::load_masked(alphas.add(full), tail);
                alpha.multiply_add(V::load_masked(x.add(full), tail), addend).store_masked(y.add(full), tail);
            }
        }
    }
}

#[inline(always)]
unsafe fn accumulate<V: Vector>(job: &Accumulation<V::Element>) {
    let columns = job.columns;
    let full = columns / V::LANES * V::LANES;
    let mut lane = 0;
    // SAFETY of all accesses: as in `combine`.
    unsafe {
        let tail = V::mask(columns - full);
        for row in 0..job.rows {
            let (x, y) = (job.x.add(row * job.ldx), job.y.add(row * job.ldy));
            let sums = job.sums.add(lane * columns);
            let mut at = 0;
            while at < full {
                let sum = V::load(sums.add(at));
                V::load(x.add(at)).multiply_add(V::load(y.add(at)), sum).store(sums.add(at));
                at += V::LANES;
            }
            if full < columns {
                let (x, y) = (V::load_masked(x.add(full), tail), V::load_masked(y.add(full), tail));
                let sum = V::load_masked(sums.add(full), tail);
                x.multiply_add(y, sum).store_masked(sums.add(full), tail);
            }
            lane = if lane + 1 == job.lanes { 0 } else { lane + 1 };
        }
    }
}

/// Computes C in tiles of 4 rows and `U` registers of columns, or of 8 rows and one register if C has few columns: the sums of a
/// tile stay in registers, and there are enough of them to hide the latency of the multiply-adds.
#[inline(always)]
unsafe fn multiply<V: Vector, const U: usize>(job: &Multiplication<V::Element>) {
    // SAFETY: as the caller promises.
    unsafe {
        if job.columns < 2 * V::LANES {
            multiply_rows::<V, 8, 1>(job);
        } else {
            multiply_rows::<V, 4, U>(job);
        }
    }
}

#[inline(always)]
unsafe fn multiply_rows<V: Vector, const R: usize, const U: usize>(job: &Multiplication<V::Element>) {
    let mut row = 0;
    // SAFETY: the rows are inside, as the contract of the job promises.
    unsafe {
        while job.rows - row >= R {
            rows::<V, R, U>(job, row);
            row += R;
        }
        while row < job.rows {
            rows::<V, 1, U>(job, row);
            row += 1;
        }
    }
}

/// Computes `R` rows of C from `row` on.
#[inline(always)]
unsafe fn rows<V: Vector, const R: usize, const U: usize>(job: &Multiplication<V::Element>, row: usize) {
    let mut column = 0;
    // SAFETY: the columns are inside, as the contract of the job promises.
    unsafe {
        let whole = V::mask(V::LANES);
        while job.columns - column >= U * V::LANES {
            tile::<V, R, U, false>(job, row, column, whole);
            column += U * V::LANES;
        }
        while U > 1 && job.columns - column >= V::LANES {
            tile::<V, R, 1, false>(job, row, column, whole);
            column += V::LANES;
        }
        if column < job.columns {
            tile::<V, R, 1, true>(job, row, column, V::mask(job.columns - column));
        }
    }
}

/// Computes `R` rows and `U` registers of columns of C.
#[inline(always)]
unsafe fn tile<V: Vector, const R: usize, const U: usize, const MASKED: bool>(
    job: &Multiplication<V::Element>,
    row: usize,
    column: usize,
    mask: V::Mask,
) {
    // SAFETY of all accesses: the caller chose a tile inside C; rows of A and B are inside by the contract of the job.
    unsafe {
        let load = |from: *const V::Element| if MASKED { V::load_masked(from, mask) } else { V::load(from) };
        let a = job.a.add(row * job.row_stride);
        let (b, c) = (job.b.add(column), job.c.add(row * job.ldc + column));
        let mut sums = [[V::zero(); U]; R];
        if let Some(beta) = job.beta {
            let (beta, minus_zero) = (V::splat(beta), V::splat(V::Element::MINUS_ZERO));
            for (i, sums) in sums.iter_mut().enumerate() {
                for (u, sum) in sums.iter_mut().enumerate() {
                    *sum = beta.multiply_add(load(c.add(i * job.ldc + u * V::LANES)), minus_zero);
                }
            }
        }
        for step in 0..job.depth {
            let mut values = [V::zero(); U];
            for (u, value) in values.iter_mut().enumerate() {
                *value = load(b.add(step * job.ldb + u * V::LANES));
            }
            for (i, sums) in sums.iter_mut().enumerate() {
                let factor = V::splat(a.add(i * job.row_stride + step * job.depth_stride).read());
                for (sum, value) in sums.iter_mut().zip(values) {
                    *sum = factor.multiply_add(value, *sum);
                }
            }
        }
        for (i, sums) in sums.into_iter().enumerate() {
            for (u, sum) in sums.into_iter().enumerate() {
                let to = c.add(i * job.ldc + u * V::LANES);
                if MASKED { sum.store_masked(to, mask) } else { sum.store(to) }
            }
        }
    }
}

/// Defines the entry points of an instruction set; the inlined bodies are compiled for it. Products compute `$units` registers of
/// columns at a time.
macro_rules! entry_points {
    ($module:ident, $units:literal, $(#[$attribute:meta])*) => {
        mod $module {
            use super::*;

            pub(super) fn bodies<V: Vector>() -> MultivectorBodies<V::Element> {
                let (scale, combine): (unsafe fn(&Combination<V::Element>), unsafe fn(&Combination<V::Element>)) =
                    (combine_entry::<V, false>, combine_entry::<V, true>);
                MultivectorBodies { scale, combine, accumulate: accumulate_entry::<V>, multiply: multiply_entry::<V> }
            }

            $(#[$attribute])*
            unsafe fn combine_entry<V: Vector, const READS_Y: bool>(job: &Combination<V::Element>) {
                // SAFETY: the caller satisfies the contract of the job.
                unsafe { combine::<V, READS_Y>(job) }
            }

            $(#[$attribute])*
            unsafe fn accumulate_entry<V: Vector>(job: &Accumulation<V::Element>) {
                // SAFETY: the caller satisfies the contract of the job.
                unsafe { accumulate::<V>(job) }
            }

            $(#[$attribute])*
            unsafe fn multiply_entry<V: Vector>(job: &Multiplication<V::Element>) {
                // SAFETY: the caller satisfies the contract of the job.
                unsafe { multiply::<V, $units>(job) }
            }
        }
    };
}

entry_points!(portable, 2,);
#[cfg(simd)]
entry_points!(avx2, 2, #[target_feature(enable = "avx2,fma")]);
#[cfg(simd)]
entry_points!(avx512, 4, #[target_feature(enable = "avx512f,avx512vl,avx2,fma")]);

/// Value types with compiled loops over multivectors: `f64` and `f32`.
pub trait MultivectorKernels: Number {
    /// The loops for an instruction set.
    fn multivector_bodies(isa: Isa) -> MultivectorBodies<Self>;
}

macro_rules! kernels {
    ($scalar:ty, $avx2:ident, $avx512:ident) => {
        impl MultivectorKernels for $scalar {
            #[inline(never)]
            fn multivector_bodies(isa: Isa) -> MultivectorBodies<$scalar> {
                by_isa!(
                    isa,
                    portable::bodies::<Single<$scalar>>(),
                    avx2::bodies::<std::arch::x86_64::$avx2>(),
                    avx512::bodies::<std::arch::x86_64::$avx512>()
                )
            }
        }
    };
}

kernels!(f64, __m256d, __m512d);
kernels!(f32, __m256, __m512);
