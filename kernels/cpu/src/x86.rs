//! AVX2 and AVX-512 registers as [`Vector`]s.

#![allow(unsafe_code)] // SIMD leaf

use std::arch::x86_64::*;

use crate::vector::Vector;

/// Masks of the first 0..=8 lanes of 32 bits in the form of AVX2: windows of a sequence of ones followed by zeros.
static FIRST_LANES: [i32; 16] = [-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0];

/// Implements `Vector` for a register type with the given intrinsics.
macro_rules! vector {
    ($register:ty, $element:ty, $lanes:literal, $mask:ty,
     mask: $make_mask:expr, zero: $zero:path, splat: $splat:path, load: $load:expr, load_masked: $load_masked:expr,
     store: $store:expr, store_masked: $store_masked:expr, stream: $stream:expr, fma: $fma:path, add: $add:path,
     multiply: $multiply:path) => {
        // SAFETY of all functions: by the contract of `Vector`, the processor has the instruction set and pointers are valid for
        // the lanes that are accessed.
        impl Vector for $register {
            type Element = $element;
            type Mask = $mask;
            const LANES: usize = $lanes;

            // AVX-512 masks are integers; AVX2 masks are loaded from memory.
            #[allow(unused_unsafe)]
            #[inline(always)]
            unsafe fn mask(lanes: usize) -> $mask {
                unsafe { ($make_mask)(lanes) }
            }
            #[inline(always)]
            unsafe fn zero() -> Self {
                unsafe { $zero() }
            }
            #[inline(always)]
            unsafe fn splat(value: $element) -> Self {
                unsafe { $splat(value) }
            }
            #[inline(always)]
            unsafe fn load(from: *const $element) -> Self {
                unsafe { ($load)(from) }
            }
            #[inline(always)]
            unsafe fn load_masked(from: *const $element, mask: $mask) -> Self {
                unsafe { ($load_masked)(from, mask) }
            }
            #[inline(always)]
            unsafe fn store(self, to: *mut $element) {
                unsafe { ($store)(to, self) }
            }
            #[inline(always)]
            unsafe fn store_masked(self, to: *mut $element, mask: $mask) {
                unsafe { ($store_masked)(to, mask, self) }
            }
            #[inline(always)]
            unsafe fn stream(self, to: *mut $element) {
                unsafe { ($stream)(to, self) }
            }
            #[inline(always)]
            unsafe fn prefetch(from: *const $element) {
                unsafe { _mm_prefetch::<_MM_HINT_T0>(from.cast()) }
            }
            #[inline(always)]
            unsafe fn multiply_add(self, factor: Self, addend: Self) -> Self {
                unsafe { $fma(self, factor, addend) }
            }
            #[inline(always)]
            unsafe fn add(self, other: Self) -> Self {
                unsafe { $add(self, other) }
            }
            #[inline(always)]
            unsafe fn multiply(self, other: Self) -> Self {
                unsafe { $multiply(self, other) }
            }
        }
    };
}

vector!(__m512d, f64, 8, __mmask8,
    mask: |lanes: usize| ((1u32 << lanes) - 1) as __mmask8,
    zero: _mm512_setzero_pd, splat: _mm512_set1_pd, load: |p| _mm512_loadu_pd(p),
    load_masked: |p, m| _mm512_maskz_loadu_pd(m, p), store: |p, v| _mm512_storeu_pd(p, v),
    store_masked: |p, m, v| _mm512_mask_storeu_pd(p, m, v), stream: |p, v| _mm512_stream_pd(p, v),
    fma: _mm512_fmadd_pd, add: _mm512_add_pd, multiply: _mm512_mul_pd);

vector!(__m512, f32, 16, __mmask16,
    mask: |lanes: usize| ((1u32 << lanes) - 1) as __mmask16,
    zero: _mm512_setzero_ps, splat: _mm512_set1_ps, load: |p| _mm512_loadu_ps(p),
    load_masked: |p, m| _mm512_maskz_loadu_ps(m, p), store: |p, v| _mm512_storeu_ps(p, v),
    store_masked: |p, m, v| _mm512_mask_storeu_ps(p, m, v), stream: |p, v| _mm512_stream_ps(p, v),
    fma: _mm512_fmadd_ps, add: _mm512_add_ps, multiply: _mm512_mul_ps);

vector!(__m256d, f64, 4, __m256i,
    mask: |lanes: usize| _mm256_loadu_si256(FIRST_LANES.as_ptr().add(8 - 2 * lanes).cast()),
    zero: _mm256_setzero_pd, splat: _mm256_set1_pd, load: |p| _mm256_loadu_pd(p),
    load_masked: |p, m| _mm256_maskload_pd(p, m), store: |p, v| _mm256_storeu_pd(p, v),
    store_masked: |p, m, v| _mm256_maskstore_pd(p, m, v), stream: |p, v| _mm256_stream_pd(p, v),
    fma: _mm256_fmadd_pd, add: _mm256_add_pd, multiply: _mm256_mul_pd);

vector!(__m256, f32, 8, __m256i,
    mask: |lanes: usize| _mm256_loadu_si256(FIRST_LANES.as_ptr().add(8 - lanes).cast()),
    zero: _mm256_setzero_ps, splat: _mm256_set1_ps, load: |p| _mm256_loadu_ps(p),
    load_masked: |p, m| _mm256_maskload_ps(p, m), store: |p, v| _mm256_storeu_ps(p, v),
    store_masked: |p, m, v| _mm256_maskstore_ps(p, m, v), stream: |p, v| _mm256_stream_ps(p, v),
    fma: _mm256_fmadd_ps, add: _mm256_add_ps, multiply: _mm256_mul_ps);

vector!(__m128d, f64, 2, __m128i,
    mask: |lanes: usize| _mm_loadu_si128(FIRST_LANES.as_ptr().add(8 - 2 * lanes).cast()),
    zero: _mm_setzero_pd, splat: _mm_set1_pd, load: |p| _mm_loadu_pd(p),
    load_masked: |p, m| _mm_maskload_pd(p, m), store: |p, v| _mm_storeu_pd(p, v),
    store_masked: |p, m, v| _mm_maskstore_pd(p, m, v), stream: |p, v| _mm_stream_pd(p, v),
    fma: _mm_fmadd_pd, add: _mm_add_pd, multiply: _mm_mul_pd);

vector!(__m128, f32, 4, __m128i,
    mask: |lanes: usize| _mm_loadu_si128(FIRST_LANES.as_ptr().add(8 - lanes).cast()),
    zero: _mm_setzero_ps, splat: _mm_set1_ps, load: |p| _mm_loadu_ps(p),
    load_masked: |p, m| _mm_maskload_ps(p, m), store: |p, v| _mm_storeu_ps(p, v),
    store_masked: |p, m, v| _mm_maskstore_ps(p, m, v), stream: |p, v| _mm_stream_ps(p, v),
    fma: _mm_fmadd_ps, add: _mm_add_ps, multiply: _mm_mul_ps);

/// Two single-precision lanes: the lower half of a 128-bit register.
#[derive(Clone, Copy)]
pub(super) struct Pair(__m128);

// SAFETY of all functions: as above; loads and stores access eight bytes only.
impl Vector for Pair {
    type Element = f32;
    type Mask = ();
    const LANES: usize = 2;

    #[inline(always)]
    unsafe fn mask(_lanes: usize) {}
    #[inline(always)]
    unsafe fn zero() -> Self {
        Self(unsafe { _mm_setzero_ps() })
    }
    #[inline(always)]
    unsafe fn splat(value: f32) -> Self {
        Self(unsafe { _mm_set1_ps(value) })
    }
    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        Self(unsafe { _mm_castsi128_ps(_mm_loadl_epi64(from.cast())) })
    }
    #[inline(always)]
    unsafe fn load_masked(from: *const f32, (): ()) -> Self {
        unsafe { Self::load(from) }
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        unsafe { _mm_storel_epi64(to.cast(), _mm_castps_si128(self.0)) }
    }
    #[inline(always)]
    unsafe fn store_masked(self, to: *mut f32, (): ()) {
        unsafe { self.store(to) }
    }
    #[inline(always)]
    unsafe fn stream(self, to: *mut f32) {
        unsafe { self.store(to) }
    }
    #[inline(always)]
    unsafe fn prefetch(from: *const f32) {
        unsafe { _mm_prefetch::<_MM_HINT_T0>(from.cast()) }
    }
    #[inline(always)]
    unsafe fn multiply_add(self, factor: Self, addend: Self) -> Self {
        Self(unsafe { _mm_fmadd_ps(self.0, factor.0, addend.0) })
    }
    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        Self(unsafe { _mm_add_ps(self.0, other.0) })
    }
    #[inline(always)]
    unsafe fn multiply(self, other: Self) -> Self {
        Self(unsafe { _mm_mul_ps(self.0, other.0) })
    }
}
