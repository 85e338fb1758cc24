//! What the kernels ask of a vector register, and the portable answer: one lane of plain Rust.
//!
//! Every function is `unsafe` for two reasons that all callers share: the instructions must exist on the processor
//! that runs them, and pointers must be good for the lanes that are read or written.

#![allow(unsafe_code)] // SIMD leaf

use crate::number::Number;

/// A vector register of `LANES` values.
pub(super) trait Vector: Copy {
    /// Type of a lane.
    type Element: Number;
    /// Selects the first lanes.
    type Mask: Copy;
    /// Number of lanes.
    const LANES: usize;

    /// The mask of the first `lanes` lanes.
    unsafe fn mask(lanes: usize) -> Self::Mask;
    /// +0 in every lane.
    unsafe fn zero() -> Self;
    /// The same value in every lane.
    unsafe fn splat(value: Self::Element) -> Self;
    /// `LANES` values from memory, aligned or not.
    unsafe fn load(from: *const Self::Element) -> Self;
    /// The masked lanes from memory, zero in the others; memory of the others is not touched.
    unsafe fn load_masked(from: *const Self::Element, mask: Self::Mask) -> Self;
    /// `LANES` values to memory, aligned or not.
    unsafe fn store(self, to: *mut Self::Element);
    /// The masked lanes to memory; memory of the others is not touched.
    unsafe fn store_masked(self, to: *mut Self::Element, mask: Self::Mask);
    /// `LANES` values past the caches to memory that is aligned to the register's size.
    unsafe fn stream(self, to: *mut Self::Element);
    /// Asks for the memory at `from` to be brought near; harmless where it is not ours.
    #[inline(always)]
    unsafe fn prefetch(from: *const Self::Element) {
        #[cfg(target_arch = "x86_64")]
        unsafe {
            std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(from.cast())
        }
    }
    /// `self * factor + addend`, rounded once.
    unsafe fn multiply_add(self, factor: Self, addend: Self) -> Self;
    /// `self + other`.
    unsafe fn add(self, other: Self) -> Self;
}

/// Orders everything this thread streamed before anything it does next. Streamed stores are in no order by themselves,
/// and whoever reads Y relies on one.
pub fn fence_streams() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 processor has the instruction.
    unsafe {
        std::arch::x86_64::_mm_sfence()
    }
}

/// One lane, for any processor and for single columns.
#[derive(Clone, Copy)]
pub(super) struct Single<T>(T);

impl<T: Number> Vector for Single<T> {
    type Element = T;
    type Mask = ();
    const LANES: usize = 1;

    #[inline(always)]
    unsafe fn mask(_lanes: usize) {}
    #[inline(always)]
    unsafe fn zero() -> Self {
        Self(T::ZERO)
    }
    #[inline(always)]
    unsafe fn splat(value: T) -> Self {
        Self(value)
    }
    #[inline(always)]
    unsafe fn load(from: *const T) -> Self {
        // SAFETY: the caller promises a readable value.
        Self(unsafe { from.read() })
    }
    #[inline(always)]
    unsafe fn load_masked(from: *const T, (): ()) -> Self {
        // SAFETY: as `load`; one lane has no lanes to leave out.
        unsafe { Self::load(from) }
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut T) {
        // SAFETY: the caller promises a writable value.
        unsafe { to.write(self.0) }
    }
    #[inline(always)]
    unsafe fn store_masked(self, to: *mut T, (): ()) {
        // SAFETY: as `store`.
        unsafe { self.store(to) }
    }
    #[inline(always)]
    unsafe fn stream(self, to: *mut T) {
        // SAFETY: as `store`.
        unsafe { self.store(to) }
    }
    #[inline(always)]
    unsafe fn multiply_add(self, factor: Self, addend: Self) -> Self {
        Self(self.0.fused_multiply_add(factor.0, addend.0))
    }
    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        Self(self.0.plus(other.0))
    }
}
