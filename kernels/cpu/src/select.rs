//! Selects the compiled bodies for an instruction set, a slab width and a kind of values.
//!
//! Common widths fill their registers exactly; other widths mask the last register. Narrow slabs use smaller registers, so that
//! no lanes are idle.

#![allow(unsafe_code)] // SIMD leaf

use crate::blocks::{identical, most_identical_rows, shifted};
use crate::chains::{FULL, MASKED, PACKED, RowJob};
use crate::isa::Isa;
use crate::number::Number;
use crate::rows::rows;
use crate::scaling::{self, ScaledStore};
use crate::vector::{Single, Vector};
#[cfg(simd)]
use crate::x86::Pair;

/// A compiled body. Calling it is unsafe: the job must satisfy the contract of [`RowJob`], and the processor must have the
/// instruction set that the body was selected for.
pub type Body<T> = unsafe fn(&RowJob<T>);

/// The bodies for one slab.
#[derive(Clone, Copy)]
pub struct Bodies<T> {
    /// Computes rows with contiguous entries, in any order.
    pub rows: Body<T>,
    /// Computes rows whose entries have a stride.
    pub strided: Body<T>,
    /// Computes blocks of rows with identical columns; wide slabs with general values have no such body.
    pub identical: Option<IdenticalBody<T>>,
    /// Computes blocks of rows with shifted columns; only narrow slabs have it, since wider ones would not gain.
    pub shifted: Option<Body<T>>,
    /// Number of columns in the last register.
    pub tail_lanes: usize,
}

/// The body for blocks of rows with identical columns, and the blocks that it takes.
#[derive(Clone, Copy)]
pub struct IdenticalBody<T> {
    /// The body.
    pub body: Body<T>,
    /// Maximal rows of a block; the minimum is 2.
    pub most_rows: usize,
}

/// The properties of a slab that decide its bodies.
#[derive(Debug, Clone, Copy)]
pub struct SlabShape {
    /// Number of columns, at least 1, as [`slab_widths`] returns it.
    pub width: usize,
    /// Whether the slab is all of X and the rows of X are contiguous.
    pub packed: bool,
    /// Whether all values of the matrix are equal.
    pub uniform: bool,
}

/// Value types with compiled kernels: `f64` and `f32`.
pub trait Kernels: Number {
    /// The bodies for a slab; none if no body has its number of registers.
    fn select(isa: Isa, shape: SlabShape) -> Option<Bodies<Self>>;
    /// The scaled store of sums that were computed to a buffer.
    fn scaled_store(isa: Isa) -> ScaledStore<Self>;
}

/// Widths of the slabs that `k` columns are divided into. There is a body for the number of registers of each, which is at most
/// `most_units`.
pub fn slab_widths<T: Number>(isa: Isa, k: usize, most_units: usize) -> Vec<usize> {
    let (lanes, most) = match isa {
        Isa::Portable => (1, 8),
        // Of 16 registers, 12 hold sums and the rest operands.
        Isa::Avx2 => (32 / size_of::<T>(), 12),
        Isa::Avx512 => (64 / size_of::<T>(), 16),
    };
    let most = most.min(most_units);
    let mut widths = Vec::new();
    let mut left = k;
    while left > 0 {
        let units = left.div_ceil(lanes);
        let slab_units = match units {
            _ if units >= 16 && most >= 16 => 16,
            _ if units >= 12 && most >= 12 => 12,
            9..=11 => units.div_ceil(2),
            _ => units.min(8),
        };
        widths.push(left.min(slab_units * lanes));
        left -= left.min(slab_units * lanes);
    }
    widths
}

/// Defines the four entry points of an instruction set; the inlined bodies are compiled for it.
macro_rules! entry_points {
    ($module:ident, $(#[$attribute:meta])*) => {
        mod $module {
            use super::*;

            $(#[$attribute])*
            pub(super) unsafe fn rows_entry<
                V: Vector, const U: usize, const R: usize, const FIT: u8, const UNIFORM: bool,
            >(job: &RowJob<V::Element>) {
                // SAFETY: the caller satisfies the contract of the job.
                unsafe { rows::<V, U, R, FIT, UNIFORM, false>(job) }
            }

            $(#[$attribute])*
            pub(super) unsafe fn strided_entry<V: Vector, const U: usize, const R: usize, const FIT: u8>(
                job: &RowJob<V::Element>,
            ) {
                // SAFETY: the caller satisfies the contract of the job.
                unsafe { rows::<V, U, R, FIT, false, true>(job) }
            }

            $(#[$attribute])*
            pub(super) unsafe fn identical_entry<V: Vector, const U: usize, const FIT: u8, const UNIFORM: bool>(
                job: &RowJob<V::Element>,
            ) {
                // SAFETY: the caller satisfies the contract of the job.
                unsafe { identical::<V, U, FIT, UNIFORM>(job) }
            }

            $(#[$attribute])*
            pub(super) unsafe fn shifted_entry<V: Vector, const U: usize, const FIT: u8, const UNIFORM: bool>(
                job: &RowJob<V::Element>,
            ) {
                // SAFETY: the caller satisfies the contract of the job.
                unsafe { shifted::<V, U, FIT, UNIFORM>(job) }
            }
        }
    };
}

entry_points!(portable,);
#[cfg(simd)]
entry_points!(avx2, #[target_feature(enable = "avx2,fma")]);
#[cfg(simd)]
entry_points!(avx512, #[target_feature(enable = "avx512f,avx512vl,avx2,fma")]);

/// Whether an instruction set has bodies for equal values, which read the value once. They double the compile time, so only the
/// widest instruction set has them.
pub fn takes_uniform(isa: Isa) -> bool {
    isa == Isa::Avx512
}

/// The body for equal values if the values are equal and the instruction set has one, else the general body.
macro_rules! by_values {
    (avx512, $shape:expr, $uniform:expr, $plain:expr) => {
        if $shape.uniform { $uniform } else { $plain }
    };
    ($isa:ident, $shape:expr, $uniform:expr, $plain:expr) => {
        $plain
    };
}

/// The body for blocks of rows with identical columns, if there is one for so many registers and such values.
macro_rules! identical_body {
    ($isa:ident, $vector:ty, $units:literal, $fit:ident, $uniform:literal) => {
        most_identical_rows($units, $uniform).map(|most_rows| IdenticalBody {
            body: $isa::identical_entry::<$vector, $units, $fit, $uniform>,
            most_rows,
        })
    };
}

/// The bodies for a slab of `$units` registers, which compute `$chains` rows at a time.
macro_rules! bodies {
    ($isa:ident, $vector:ty, $units:literal, $chains:literal, $shape:expr, $fit:ident, $shifted:expr) => {{
        let tail_lanes = $shape.width - ($units - 1) * <$vector as Vector>::LANES;
        let strided: Body<_> = $isa::strided_entry::<$vector, $units, $chains, $fit>;
        let rows: Body<_> = by_values!(
            $isa,
            $shape,
            $isa::rows_entry::<$vector, $units, $chains, $fit, true>,
            $isa::rows_entry::<$vector, $units, $chains, $fit, false>
        );
        let identical = by_values!(
            $isa,
            $shape,
            identical_body!($isa, $vector, $units, $fit, true),
            identical_body!($isa, $vector, $units, $fit, false)
        );
        Bodies { rows, strided, identical, shifted: $shifted, tail_lanes }
    }};
}

/// The bodies for a slab of one or two registers, including the one for shifted columns.
macro_rules! narrow_bodies {
    ($isa:ident, $vector:ty, $units:literal, $shape:expr, $fit:ident) => {{
        let shifted: Body<_> = by_values!(
            $isa,
            $shape,
            $isa::shifted_entry::<$vector, $units, $fit, true>,
            $isa::shifted_entry::<$vector, $units, $fit, false>
        );
        bodies!($isa, $vector, $units, 4, $shape, $fit, Some(shifted))
    }};
}

/// The bodies for a slab that fills one register; a constant leading dimension of X makes them faster.
macro_rules! exact {
    ($isa:ident, $vector:ty, $shape:expr) => {
        if $shape.packed {
            narrow_bodies!($isa, $vector, 1, $shape, PACKED)
        } else {
            narrow_bodies!($isa, $vector, 1, $shape, FULL)
        }
    };
}

/// The bodies for a slab of one or two registers; a constant leading dimension of X makes them faster.
macro_rules! narrow {
    ($isa:ident, $vector:ty, $units:literal, $shape:expr) => {
        match (is_full::<$vector>($shape), $shape.packed) {
            (false, _) => narrow_bodies!($isa, $vector, $units, $shape, MASKED),
            (true, true) => narrow_bodies!($isa, $vector, $units, $shape, PACKED),
            (true, false) => narrow_bodies!($isa, $vector, $units, $shape, FULL),
        }
    };
}

/// The bodies for a slab of three or more registers.
macro_rules! wide {
    ($isa:ident, $vector:ty, $units:literal, $chains:literal, $shape:expr) => {
        if is_full::<$vector>($shape) {
            bodies!($isa, $vector, $units, $chains, $shape, FULL, None)
        } else {
            bodies!($isa, $vector, $units, $chains, $shape, MASKED, None)
        }
    };
}

/// The bodies with single-lane registers, which a slab always fills.
macro_rules! portable_bodies {
    ($scalar:ty, $shape:expr, $($units:literal),*) => {
        match $shape.width {
            1 => Some(narrow_bodies!(portable, Single<$scalar>, 1, $shape, FULL)),
            $($units => Some(bodies!(portable, Single<$scalar>, $units, 1, $shape, FULL, None)),)*
            _ => None,
        }
    };
}

fn is_full<V: Vector>(shape: SlabShape) -> bool {
    shape.width.is_multiple_of(V::LANES)
}

/// The bodies by the number of registers of a slab: with fewer registers more rows are computed at a time, as long as all sums
/// stay in registers.
macro_rules! bodies_by_width {
    ($isa:ident, $vector:ty, $shape:expr, $three:literal, $five:literal $(, $units:literal)*) => {
        Some(match $shape.width.div_ceil(<$vector as Vector>::LANES) {
            1 => narrow!($isa, $vector, 1, $shape),
            2 => narrow!($isa, $vector, 2, $shape),
            3 => wide!($isa, $vector, 3, $three, $shape),
            // These have the code paths of 3 and 8 registers, so that mutation tests do without them.
            #[cfg(not(feature = "few-instances"))]
            4 => wide!($isa, $vector, 4, $three, $shape),
            #[cfg(not(feature = "few-instances"))]
            5 => wide!($isa, $vector, 5, $five, $shape),
            #[cfg(not(feature = "few-instances"))]
            6 => wide!($isa, $vector, 6, $five, $shape),
            #[cfg(not(feature = "few-instances"))]
            7 => wide!($isa, $vector, 7, $five, $shape),
            8 => wide!($isa, $vector, 8, $five, $shape),
            $($units => wide!($isa, $vector, $units, 1, $shape),)*
            _ => return None,
        })
    };
}

impl Kernels for f64 {
    #[inline(never)]
    fn select(isa: Isa, shape: SlabShape) -> Option<Bodies<f64>> {
        #[cfg(simd)]
        {
            use std::arch::x86_64::{__m128d, __m256d, __m512d};
            match (isa, shape.width) {
                (Isa::Portable, _) => {}
                (Isa::Avx2, 1) => return Some(exact!(avx2, Single<f64>, shape)),
                (Isa::Avx2, 2) => return Some(exact!(avx2, __m128d, shape)),
                (Isa::Avx2, _) => return bodies_by_width!(avx2, __m256d, shape, 2, 1, 12),
                (Isa::Avx512, 1) => return Some(exact!(avx512, Single<f64>, shape)),
                (Isa::Avx512, 2) => return Some(exact!(avx512, __m128d, shape)),
                (Isa::Avx512, 3..=4) => return Some(narrow!(avx512, __m256d, 1, shape)),
                (Isa::Avx512, _) => return bodies_by_width!(avx512, __m512d, shape, 2, 1, 12, 16),
            }
        }
        let _ = isa;
        portable_bodies!(f64, shape, 2, 3, 4, 5, 6, 7, 8)
    }

    fn scaled_store(isa: Isa) -> ScaledStore<f64> {
        scaling::select(isa)
    }
}

impl Kernels for f32 {
    #[inline(never)]
    fn select(isa: Isa, shape: SlabShape) -> Option<Bodies<f32>> {
        #[cfg(simd)]
        {
            use std::arch::x86_64::{__m128, __m256, __m512};
            match (isa, shape.width) {
                (Isa::Portable, _) => {}
                (Isa::Avx2, 1) => return Some(exact!(avx2, Single<f32>, shape)),
                (Isa::Avx2, 2) => return Some(exact!(avx2, Pair, shape)),
                (Isa::Avx2, 3..=4) => return Some(narrow!(avx2, __m128, 1, shape)),
                (Isa::Avx2, _) => return bodies_by_width!(avx2, __m256, shape, 2, 1, 12),
                (Isa::Avx512, 1) => return Some(exact!(avx512, Single<f32>, shape)),
                (Isa::Avx512, 2) => return Some(exact!(avx512, Pair, shape)),
                (Isa::Avx512, 3..=4) => return Some(narrow!(avx512, __m128, 1, shape)),
                (Isa::Avx512, 5..=8) => return Some(narrow!(avx512, __m256, 1, shape)),
                (Isa::Avx512, _) => return bodies_by_width!(avx512, __m512, shape, 2, 1, 12, 16),
            }
        }
        let _ = isa;
        portable_bodies!(f32, shape, 2, 3, 4, 5, 6, 7, 8)
    }

    fn scaled_store(isa: Isa) -> ScaledStore<f32> {
        scaling::select(isa)
    }
}
