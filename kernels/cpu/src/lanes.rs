//! Eight sums in f64, for the check of products: in a register of AVX-512, in two of AVX2, or in an array.
//!
//! Every function is `unsafe`. The caller must ensure that the processor has the instruction set.

#![allow(unsafe_code)] // SIMD leaf

#[cfg(simd)]
use std::arch::x86_64::*;

/// Number of sums.
pub(super) const LANES: usize = 8;

/// Eight numbers.
pub(super) trait Lanes: Copy {
    /// Whether there are 32 registers of eight numbers.
    const HAS_MANY_REGISTERS: bool = false;

    /// Zeros.
    unsafe fn zero() -> Self;
    /// One number in every lane.
    unsafe fn splat(number: f64) -> Self;
    /// Eight numbers.
    unsafe fn load(from: &[f64; LANES]) -> Self;
    /// Eight numbers of single precision.
    unsafe fn load_single(from: &[f32; LANES]) -> Self;
    /// Fewer than eight numbers, then zeros.
    unsafe fn load_part(from: &[f64]) -> Self;
    /// Fewer than eight numbers of single precision, then zeros.
    unsafe fn load_single_part(from: &[f32]) -> Self;
    /// `self * factor + addend`, rounded once.
    unsafe fn multiply_add(self, factor: Self, addend: Self) -> Self;
    /// `self + other`.
    unsafe fn add(self, other: Self) -> Self;
    /// The magnitudes.
    unsafe fn magnitude(self) -> Self;
    /// The square roots.
    unsafe fn square_root(self) -> Self;
    /// The lanes that are at most those of `other`, as bits; none whose number is NaN.
    unsafe fn at_most(self, other: Self) -> u8;
    /// Whether all bits of a lane are zero: 0.0, and not -0.0.
    unsafe fn has_zero_bits(self) -> bool;
    /// The numbers.
    unsafe fn store(self) -> [f64; LANES];
    /// Their sum.
    unsafe fn total(self) -> f64;
    /// The sums of eight times eight numbers.
    unsafe fn totals(of: [Self; LANES]) -> Self;
}

/// A value type that lanes can load.
pub(super) trait LaneValue: Copy {
    /// Eight values.
    unsafe fn load<L: Lanes>(from: &[Self; LANES]) -> L;
    /// Fewer than eight values, then zeros.
    unsafe fn load_part<L: Lanes>(from: &[Self]) -> L;
}

impl LaneValue for f64 {
    #[inline(always)]
    unsafe fn load<L: Lanes>(from: &[f64; LANES]) -> L {
        // SAFETY: as the caller ensures.
        unsafe { L::load(from) }
    }
    #[inline(always)]
    unsafe fn load_part<L: Lanes>(from: &[f64]) -> L {
        // SAFETY: as the caller ensures.
        unsafe { L::load_part(from) }
    }
}

impl LaneValue for f32 {
    #[inline(always)]
    unsafe fn load<L: Lanes>(from: &[f32; LANES]) -> L {
        // SAFETY: as the caller ensures.
        unsafe { L::load_single(from) }
    }
    #[inline(always)]
    unsafe fn load_part<L: Lanes>(from: &[f32]) -> L {
        // SAFETY: as the caller ensures.
        unsafe { L::load_single_part(from) }
    }
}

/// Numbers, then zeros.
#[inline(always)]
fn padded(numbers: impl Iterator<Item = f64>) -> [f64; LANES] {
    let mut lanes = [0.0; LANES];
    lanes.iter_mut().zip(numbers).for_each(|(lane, number)| *lane = number);
    lanes
}

impl Lanes for [f64; LANES] {
    #[inline(always)]
    unsafe fn zero() -> Self {
        [0.0; LANES]
    }
    #[inline(always)]
    unsafe fn splat(number: f64) -> Self {
        [number; LANES]
    }
    #[inline(always)]
    unsafe fn load(from: &[f64; LANES]) -> Self {
        *from
    }
    #[inline(always)]
    unsafe fn load_single(from: &[f32; LANES]) -> Self {
        from.map(f64::from)
    }
    #[inline(always)]
    unsafe fn load_part(from: &[f64]) -> Self {
        padded(from.iter().copied())
    }
    #[inline(always)]
    unsafe fn load_single_part(from: &[f32]) -> Self {
        padded(from.iter().copied().map(f64::from))
    }
    #[inline(always)]
    unsafe fn multiply_add(self, factor: Self, addend: Self) -> Self {
        let mut sums = addend;
        for lane in 0..LANES {
            sums[lane] = self[lane].mul_add(factor[lane], sums[lane]);
        }
        sums
    }
    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        std::array::from_fn(|lane| self[lane] + other[lane])
    }
    #[inline(always)]
    unsafe fn magnitude(self) -> Self {
        self.map(f64::abs)
    }
    #[inline(always)]
    unsafe fn square_root(self) -> Self {
        self.map(f64::sqrt)
    }
    #[inline(always)]
    unsafe fn at_most(self, other: Self) -> u8 {
        let mut lanes = 0;
        for lane in 0..LANES {
            lanes |= u8::from(self[lane] <= other[lane]) << lane;
        }
        lanes
    }
    #[inline(always)]
    unsafe fn has_zero_bits(self) -> bool {
        self.iter().any(|number| number.to_bits() == 0)
    }
    #[inline(always)]
    unsafe fn store(self) -> [f64; LANES] {
        self
    }
    #[inline(always)]
    unsafe fn total(self) -> f64 {
        let half = |at: usize| (self[at] + self[at + 1]) + (self[at + 2] + self[at + 3]);
        half(0) + half(4)
    }
    #[inline(always)]
    unsafe fn totals(of: [Self; LANES]) -> Self {
        // SAFETY: no instruction set is needed.
        of.map(|numbers| unsafe { numbers.total() })
    }
}

#[cfg(simd)]
impl Lanes for __m512d {
    const HAS_MANY_REGISTERS: bool = true;

    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: the caller ensures AVX-512.
        unsafe { _mm512_setzero_pd() }
    }
    #[inline(always)]
    unsafe fn splat(number: f64) -> Self {
        // SAFETY: as above.
        unsafe { _mm512_set1_pd(number) }
    }
    #[inline(always)]
    unsafe fn load(from: &[f64; LANES]) -> Self {
        // SAFETY: as above; eight numbers are there.
        unsafe { _mm512_loadu_pd(from.as_ptr()) }
    }
    #[inline(always)]
    unsafe fn load_single(from: &[f32; LANES]) -> Self {
        // SAFETY: as above.
        unsafe { _mm512_cvtps_pd(_mm256_loadu_ps(from.as_ptr())) }
    }
    #[inline(always)]
    unsafe fn load_part(from: &[f64]) -> Self {
        // SAFETY: as above; the mask has as many bits as there are numbers.
        unsafe { _mm512_maskz_loadu_pd(first_lanes(from.len()), from.as_ptr()) }
    }
    #[inline(always)]
    unsafe fn load_single_part(from: &[f32]) -> Self {
        // SAFETY: as above.
        unsafe { _mm512_cvtps_pd(_mm256_maskz_loadu_ps(first_lanes(from.len()), from.as_ptr())) }
    }
    #[inline(always)]
    unsafe fn multiply_add(self, factor: Self, addend: Self) -> Self {
        // SAFETY: as above.
        unsafe { _mm512_fmadd_pd(self, factor, addend) }
    }
    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        // SAFETY: as above.
        unsafe { _mm512_add_pd(self, other) }
    }
    #[inline(always)]
    unsafe fn magnitude(self) -> Self {
        // SAFETY: as above.
        unsafe { _mm512_abs_pd(self) }
    }
    #[inline(always)]
    unsafe fn square_root(self) -> Self {
        // SAFETY: as above.
        unsafe { _mm512_sqrt_pd(self) }
    }
    #[inline(always)]
    unsafe fn at_most(self, other: Self) -> u8 {
        // SAFETY: as above.
        unsafe { _mm512_cmp_pd_mask::<_CMP_LE_OQ>(self, other) }
    }
    #[inline(always)]
    unsafe fn has_zero_bits(self) -> bool {
        // SAFETY: as above.
        unsafe {
            let bits = _mm512_castpd_si512(self);
            _mm512_testn_epi64_mask(bits, bits) != 0
        }
    }
    #[inline(always)]
    unsafe fn store(self) -> [f64; LANES] {
        let mut numbers = [0.0; LANES];
        // SAFETY: as above; there is room for eight numbers.
        unsafe { _mm512_storeu_pd(numbers.as_mut_ptr(), self) };
        numbers
    }
    #[inline(always)]
    unsafe fn total(self) -> f64 {
        // SAFETY: as above.
        unsafe { _mm512_reduce_add_pd(self) }
    }
    #[inline(always)]
    unsafe fn totals(of: [Self; LANES]) -> Self {
        // SAFETY: as above.
        unsafe {
            let [a, b, c, d, e, f, g, h] = of;
            // Sums of neighbours, of two rows in turns.
            let ab = _mm512_add_pd(_mm512_unpacklo_pd(a, b), _mm512_unpackhi_pd(a, b));
            let cd = _mm512_add_pd(_mm512_unpacklo_pd(c, d), _mm512_unpackhi_pd(c, d));
            let ef = _mm512_add_pd(_mm512_unpacklo_pd(e, f), _mm512_unpackhi_pd(e, f));
            let gh = _mm512_add_pd(_mm512_unpacklo_pd(g, h), _mm512_unpackhi_pd(g, h));
            // Even and odd quarters.
            let abcd = _mm512_add_pd(
                _mm512_shuffle_f64x2::<0b10_00_10_00>(ab, cd),
                _mm512_shuffle_f64x2::<0b11_01_11_01>(ab, cd),
            );
            let efgh = _mm512_add_pd(
                _mm512_shuffle_f64x2::<0b10_00_10_00>(ef, gh),
                _mm512_shuffle_f64x2::<0b11_01_11_01>(ef, gh),
            );
            _mm512_add_pd(
                _mm512_shuffle_f64x2::<0b10_00_10_00>(abcd, efgh),
                _mm512_shuffle_f64x2::<0b11_01_11_01>(abcd, efgh),
            )
        }
    }
}

/// The mask of the first `count` lanes, fewer than eight.
#[cfg(simd)]
#[inline(always)]
fn first_lanes(count: usize) -> u8 {
    debug_assert!(count < LANES);
    (1u8 << count) - 1
}

/// Two registers of AVX2.
#[cfg(simd)]
#[derive(Clone, Copy)]
pub(super) struct Halves(__m256d, __m256d);

#[cfg(simd)]
impl Lanes for Halves {
    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: the caller ensures AVX2.
        unsafe { Self(_mm256_setzero_pd(), _mm256_setzero_pd()) }
    }
    #[inline(always)]
    unsafe fn splat(number: f64) -> Self {
        // SAFETY: as above.
        unsafe { Self(_mm256_set1_pd(number), _mm256_set1_pd(number)) }
    }
    #[inline(always)]
    unsafe fn load(from: &[f64; LANES]) -> Self {
        // SAFETY: as above; eight numbers are there.
        unsafe { Self(_mm256_loadu_pd(from.as_ptr()), _mm256_loadu_pd(from.as_ptr().add(4))) }
    }
    #[inline(always)]
    unsafe fn load_single(from: &[f32; LANES]) -> Self {
        // SAFETY: as above.
        unsafe {
            let half = |at: usize| _mm256_cvtps_pd(_mm_loadu_ps(from.as_ptr().add(at)));
            Self(half(0), half(4))
        }
    }
    #[inline(always)]
    unsafe fn load_part(from: &[f64]) -> Self {
        // SAFETY: as above.
        unsafe { Self::load(&padded(from.iter().copied())) }
    }
    #[inline(always)]
    unsafe fn load_single_part(from: &[f32]) -> Self {
        // SAFETY: as above.
        unsafe { Self::load(&padded(from.iter().copied().map(f64::from))) }
    }
    #[inline(always)]
    unsafe fn multiply_add(self, factor: Self, addend: Self) -> Self {
        // SAFETY: as above.
        unsafe {
            Self(_mm256_fmadd_pd(self.0, factor.0, addend.0), _mm256_fmadd_pd(self.1, factor.1, addend.1))
        }
    }
    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        // SAFETY: as above.
        unsafe { Self(_mm256_add_pd(self.0, other.0), _mm256_add_pd(self.1, other.1)) }
    }
    #[inline(always)]
    unsafe fn magnitude(self) -> Self {
        // SAFETY: as above.
        unsafe {
            let sign = _mm256_set1_pd(-0.0);
            Self(_mm256_andnot_pd(sign, self.0), _mm256_andnot_pd(sign, self.1))
        }
    }
    #[inline(always)]
    unsafe fn square_root(self) -> Self {
        // SAFETY: as above.
        unsafe { Self(_mm256_sqrt_pd(self.0), _mm256_sqrt_pd(self.1)) }
    }
    #[inline(always)]
    unsafe fn at_most(self, other: Self) -> u8 {
        // SAFETY: as above.
        unsafe {
            let low = _mm256_movemask_pd(_mm256_cmp_pd::<_CMP_LE_OQ>(self.0, other.0));
            let high = _mm256_movemask_pd(_mm256_cmp_pd::<_CMP_LE_OQ>(self.1, other.1));
            (low | high << 4) as u8
        }
    }
    #[inline(always)]
    unsafe fn has_zero_bits(self) -> bool {
        // SAFETY: as above.
        unsafe {
            let zero = _mm256_setzero_si256();
            let low = _mm256_cmpeq_epi64(_mm256_castpd_si256(self.0), zero);
            let high = _mm256_cmpeq_epi64(_mm256_castpd_si256(self.1), zero);
            _mm256_testz_si256(_mm256_or_si256(low, high), _mm256_set1_epi64x(-1)) == 0
        }
    }
    #[inline(always)]
    unsafe fn store(self) -> [f64; LANES] {
        let mut numbers = [0.0; LANES];
        // SAFETY: as above; there is room for eight numbers.
        unsafe {
            _mm256_storeu_pd(numbers.as_mut_ptr(), self.0);
            _mm256_storeu_pd(numbers.as_mut_ptr().add(4), self.1);
        }
        numbers
    }
    #[inline(always)]
    unsafe fn total(self) -> f64 {
        // SAFETY: as above.
        unsafe {
            let four = _mm256_add_pd(self.0, self.1);
            let two = _mm_add_pd(_mm256_castpd256_pd128(four), _mm256_extractf128_pd::<1>(four));
            _mm_cvtsd_f64(_mm_add_sd(two, _mm_unpackhi_pd(two, two)))
        }
    }
    #[inline(always)]
    unsafe fn totals(of: [Self; LANES]) -> Self {
        // SAFETY: as above.
        unsafe { Self(four_totals(of[0], of[1], of[2], of[3]), four_totals(of[4], of[5], of[6], of[7])) }
    }
}

/// The sums of four times eight numbers.
#[cfg(simd)]
#[inline(always)]
unsafe fn four_totals(a: Halves, b: Halves, c: Halves, d: Halves) -> __m256d {
    // SAFETY: the caller ensures AVX2.
    unsafe {
        let ab = _mm256_hadd_pd(_mm256_add_pd(a.0, a.1), _mm256_add_pd(b.0, b.1));
        let cd = _mm256_hadd_pd(_mm256_add_pd(c.0, c.1), _mm256_add_pd(d.0, d.1));
        let (first, second) =
            (_mm256_permute2f128_pd::<0x20>(ab, cd), _mm256_permute2f128_pd::<0x31>(ab, cd));
        _mm256_add_pd(first, second)
    }
}
