//! The operations that kernels need of a vector register, and the portable implementation with one lane.
//!
//! Every function is `unsafe`. The caller must ensure that the processor has the instruction set, and that pointers are valid
//! for the lanes that are read or written.

#![allow(unsafe_code)] // SIMD leaf

use crate::number::Number;

/// A vector register of `LANES` values.
pub(super) trait Vector: Copy {
    /// Type of a lane.
    type Element: Number;
    /// A mask that selects the first lanes.
    type Mask: Copy;
    /// Number of lanes.
    const LANES: usize;

    /// The mask of the first `lanes` lanes.
    unsafe fn mask(lanes: usize) -> Self::Mask;
    /// +0 in every lane.
    unsafe fn zero() -> Self;
    /// The same value in every lane.
    unsafe fn splat(value: Self::Element) -> Self;
    /// Loads `LANES` values; no alignment is needed.
    unsafe fn load(from: *const Self::Element) -> Self;
    /// Loads the masked lanes, and zero in the others, whose memory is not accessed.
    unsafe fn load_masked(from: *const Self::Element, mask: Self::Mask) -> Self;
    /// Stores `LANES` values; no alignment is needed.
    unsafe fn store(self, to: *mut Self::Element);
    /// Stores the masked lanes; the memory of the others is not accessed.
    unsafe fn store_masked(self, to: *mut Self::Element, mask: Self::Mask);
    /// Stores `LANES` values with a non-temporal store; `to` must be aligned to the size of the register.
    unsafe fn stream(self, to: *mut Self::Element);
    /// Prefetches the cache line at `from`, which may be any address.
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
    /// `self * other`.
    unsafe fn multiply(self, other: Self) -> Self;
}

/// Orders the non-temporal stores of this thread before its later operations. They are weakly ordered, and other threads read Y
/// after a synchronization that relies on the order.
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
        // SAFETY: as `load`; with a single lane, none is masked.
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
    #[inline(always)]
    unsafe fn multiply(self, other: Self) -> Self {
        Self(self.0.times(other.0))
    }
}
