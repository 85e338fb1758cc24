//! Picks the compiled bodies for an instruction set, a slab width and a kind of values.
//!
//! Common widths fill their registers exactly, the rest use a mask on the last one. Small slabs use registers of
//! their own size, so that no lanes are idle.

use super::blocks::{identical, most_identical_rows, shifted};
use super::chains::{FULL, MASKED, PACKED, RowJob, rows};
use super::vector::{Single, Vector};
#[cfg(target_arch = "x86_64")]
use super::x86::Pair;
use crate::kernel::isa::Isa;
use crate::matrix::Scalar;

/// A compiled body. Calling it is unsafe: the job must keep its promises and the processor must have the
/// instructions it was selected for.
pub(super) type Body<T> = unsafe fn(&RowJob<T>);

/// The bodies for one slab.
#[derive(Clone, Copy)]
pub struct Bodies<T> {
    /// Takes rows one way or another.
    pub(super) rows: Body<T>,
    /// Takes blocks of rows with the same columns, up to `most_identical_rows` in each.
    pub(super) identical: Body<T>,
    /// Takes blocks of rows with moved columns.
    pub(super) shifted: Body<T>,
    /// Columns in the last register.
    pub(super) tail_lanes: usize,
    /// Most rows of a block with the same columns; one means that blocks are not worth it.
    pub(super) most_identical_rows: usize,
}

/// What a slab looks like to the kernels.
#[derive(Debug, Clone, Copy)]
pub struct SlabShape {
    /// Columns, at least one and at most [`most_columns`].
    pub(super) width: usize,
    /// The slab is all of X, and rows of X follow each other.
    pub(super) packed: bool,
    /// All values of the matrix are equal.
    pub(super) uniform: bool,
}

/// Scalars that have kernels: both of them.
pub trait Kernels: Scalar {
    /// The bodies for a slab.
    #[doc(hidden)]
    fn select(isa: Isa, shape: SlabShape) -> Bodies<Self>;
}

/// Most registers a slab's row takes.
const MOST_UNITS: usize = 16;

/// Most columns of a slab.
pub(super) fn most_columns<T: Scalar>(isa: Isa) -> usize {
    let lanes = match isa {
        Isa::Portable => 1,
        Isa::Avx2 => 32 / size_of::<T>(),
        Isa::Avx512 => 64 / size_of::<T>(),
    };
    lanes * MOST_UNITS
}

/// Writes the three entry points of one instruction set; inlined bodies are compiled with its instructions.
macro_rules! entry_points {
    ($module:ident, $(#[$attribute:meta])*) => {
        mod $module {
            use super::*;

            $(#[$attribute])*
            pub(super) unsafe fn rows_entry<
                V: Vector, const U: usize, const R: usize, const FIT: u8, const UNIFORM: bool,
            >(job: &RowJob<V::Element>) {
                // SAFETY: the caller keeps the job's promises.
                unsafe { rows::<V, U, R, FIT, UNIFORM>(job) }
            }

            $(#[$attribute])*
            pub(super) unsafe fn identical_entry<V: Vector, const U: usize, const FIT: u8, const UNIFORM: bool>(
                job: &RowJob<V::Element>,
            ) {
                // SAFETY: the caller keeps the job's promises.
                unsafe { identical::<V, U, FIT, UNIFORM>(job) }
            }

            $(#[$attribute])*
            pub(super) unsafe fn shifted_entry<V: Vector, const U: usize, const FIT: u8, const UNIFORM: bool>(
                job: &RowJob<V::Element>,
            ) {
                // SAFETY: the caller keeps the job's promises.
                unsafe { shifted::<V, U, FIT, UNIFORM>(job) }
            }
        }
    };
}

entry_points!(portable,);
#[cfg(target_arch = "x86_64")]
entry_points!(avx2, #[target_feature(enable = "avx2,fma")]);
#[cfg(target_arch = "x86_64")]
entry_points!(avx512, #[target_feature(enable = "avx512f,avx512vl,avx2,fma")]);

/// The bodies for `$units` registers and `$chains` rows at a time.
macro_rules! bodies {
    ($isa:ident, $vector:ty, $units:literal, $chains:literal, $shape:expr) => {{
        let lanes = <$vector as Vector>::LANES;
        let tail_lanes = $shape.width - ($units - 1) * lanes;
        macro_rules! with {
            ($fit:expr, $uniform:literal) => {
                Bodies {
                    rows: $isa::rows_entry::<$vector, $units, $chains, { $fit }, $uniform>,
                    identical: $isa::identical_entry::<$vector, $units, { $fit }, $uniform>,
                    shifted: $isa::shifted_entry::<$vector, $units, { $fit }, $uniform>,
                    tail_lanes,
                    most_identical_rows: most_identical_rows($units),
                }
            };
        }
        // Only where rows of X are a register or two wide does their distance matter to the speed.
        let packed = $shape.packed && $units <= 2;
        match (tail_lanes < lanes, packed, $shape.uniform) {
            (true, _, false) => with!(MASKED, false),
            (true, _, true) => with!(MASKED, true),
            (false, true, false) => with!(if $units <= 2 { PACKED } else { FULL }, false),
            (false, true, true) => with!(if $units <= 2 { PACKED } else { FULL }, true),
            (false, false, false) => with!(FULL, false),
            (false, false, true) => with!(FULL, true),
        }
    }};
}

/// Bodies of as many registers as the slab needs: the fewer registers, the more rows at a time.
macro_rules! bodies_by_width {
    ($isa:ident, $vector:ty, $shape:expr) => {
        match $shape.width.div_ceil(<$vector as Vector>::LANES) {
            1 => bodies!($isa, $vector, 1, 4, $shape),
            2 => bodies!($isa, $vector, 2, 4, $shape),
            3 => bodies!($isa, $vector, 3, 2, $shape),
            4 => bodies!($isa, $vector, 4, 2, $shape),
            5 => bodies!($isa, $vector, 5, 1, $shape),
            6 => bodies!($isa, $vector, 6, 1, $shape),
            7 => bodies!($isa, $vector, 7, 1, $shape),
            8 => bodies!($isa, $vector, 8, 1, $shape),
            9..=12 => bodies!($isa, $vector, 12, 1, $shape),
            _ => bodies!($isa, $vector, 16, 1, $shape),
        }
    };
}

impl Kernels for f64 {
    fn select(isa: Isa, shape: SlabShape) -> Bodies<f64> {
        #[cfg(target_arch = "x86_64")]
        {
            use std::arch::x86_64::{__m128d, __m256d, __m512d};
            match (isa, shape.width) {
                (Isa::Portable, _) => {}
                (Isa::Avx2, 1) => return bodies!(avx2, Single<f64>, 1, 4, shape),
                (Isa::Avx2, 2) => return bodies!(avx2, __m128d, 1, 4, shape),
                (Isa::Avx2, _) => return bodies_by_width!(avx2, __m256d, shape),
                (Isa::Avx512, 1) => return bodies!(avx512, Single<f64>, 1, 4, shape),
                (Isa::Avx512, 2) => return bodies!(avx512, __m128d, 1, 4, shape),
                (Isa::Avx512, 3..=4) => return bodies!(avx512, __m256d, 1, 4, shape),
                (Isa::Avx512, _) => return bodies_by_width!(avx512, __m512d, shape),
            }
        }
        let _ = isa;
        bodies_by_width!(portable, Single<f64>, shape)
    }
}

impl Kernels for f32 {
    fn select(isa: Isa, shape: SlabShape) -> Bodies<f32> {
        #[cfg(target_arch = "x86_64")]
        {
            use std::arch::x86_64::{__m128, __m256, __m512};
            match (isa, shape.width) {
                (Isa::Portable, _) => {}
                (Isa::Avx2, 1) => return bodies!(avx2, Single<f32>, 1, 4, shape),
                (Isa::Avx2, 2) => return bodies!(avx2, Pair, 1, 4, shape),
                (Isa::Avx2, 3..=4) => return bodies!(avx2, __m128, 1, 4, shape),
                (Isa::Avx2, _) => return bodies_by_width!(avx2, __m256, shape),
                (Isa::Avx512, 1) => return bodies!(avx512, Single<f32>, 1, 4, shape),
                (Isa::Avx512, 2) => return bodies!(avx512, Pair, 1, 4, shape),
                (Isa::Avx512, 3..=4) => return bodies!(avx512, __m128, 1, 4, shape),
                (Isa::Avx512, 5..=8) => return bodies!(avx512, __m256, 1, 4, shape),
                (Isa::Avx512, _) => return bodies_by_width!(avx512, __m512, shape),
            }
        }
        let _ = isa;
        bodies_by_width!(portable, Single<f32>, shape)
    }
}
