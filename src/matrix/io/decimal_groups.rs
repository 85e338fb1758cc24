//! Reads decimal numbers of the form `-12.345e-06` eight at a time, with AVX-512.
//!
//! **Borders.** Comparisons of 64 bytes give bit masks of the starts of numbers, of points and of exponents. Their positions become three
//! lists. While all numbers have this form, entry i of each list belongs to number i; the checks of each number find where that ends.
//!
//! **Digits.** The digits before the point, and the 16 bytes before the exponent, are gathered into 64-bit lanes, one number per lane. They
//! become an integer of at most 18 digits. Every byte of a number is checked.
//!
//! **Rounding.** The number is w 10^q with an integer w. Both w and 10^|q| are pairs of doubles: the nearest one and the rest. A division or
//! multiplication gives an estimate and a correction, of which the sum is w 10^q. The correction has a relative error below 2^-13, and an
//! absolute one below 2^-100 of the estimate, which matters only if the correction is too small to change the estimate. The sums of the
//! estimate and the correction, once enlarged and once reduced by 2^-12, enclose the number. If both round to the same double, it is the
//! nearest one. Otherwise (one number in thousands, such as one half-way between two doubles) the number is left to the caller.

#![allow(unsafe_code)] // SIMD leaf: loads, stores and gathers by addresses

use std::arch::x86_64::*;

/// Bytes of text whose borders are found at a time.
const PIECE_BYTES: usize = 64 * BLOCKS;
const BLOCKS: usize = 16;

/// Bytes before and after a piece that are read too: those before an exponent, and those of one that begins with its last byte.
const BYTES_AROUND: usize = 16;

/// Numbers that are read together.
const GROUP: usize = 8;

/// The most borders of a piece, and space for those of a block, of which all 32 entries are written.
const LIST: usize = PIECE_BYTES / 2 + 32;

/// Most digits after the point, and in total: an integer of so many digits is exact as the sum of two doubles.
const FRACTION_DIGITS: i64 = 16;
const DIGITS: i64 = 18;

/// The largest power of ten whose scale is known.
const LARGEST_POWER: usize = 38;

/// 10^1 to 10^16.
const TENS: [u64; FRACTION_DIGITS as usize] = {
    let mut tens = [10; FRACTION_DIGITS as usize];
    let mut at = 1;
    while at < tens.len() {
        tens[at] = 10 * tens[at - 1];
        at += 1;
    }
    tens
};

/// For each power of ten the nearest double, and the rest as a double.
static SCALES: [[f64; LARGEST_POWER + 1]; 2] = {
    let mut scales = [[0.0; LARGEST_POWER + 1]; 2];
    let (mut power, mut at) = (1u128, 0);
    loop {
        let nearest = power as f64;
        let exact = nearest as u128;
        scales[0][at] = nearest;
        scales[1][at] = if exact > power { -((exact - power) as f64) } else { (power - exact) as f64 };
        if at == LARGEST_POWER {
            break scales;
        }
        (power, at) = (10 * power, at + 1);
    }
};

/// By how much a correction may be wrong, relatively; the error of an approximate reciprocal is a quarter of it.
const SLACK: f64 = 1.0 / 4096.0;

const INDICES: [u8; 64] = {
    let mut indices = [0; 64];
    let mut at = 0;
    while at < 64 {
        indices[at] = at as u8;
        at += 1;
    }
    indices
};

/// Whether the processor has all instructions.
pub fn is_supported() -> bool {
    is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512vl")
        && is_x86_feature_detected!("avx512vbmi2")
        && is_x86_feature_detected!("fma")
        && is_x86_feature_detected!("popcnt")
}

/// Positions in a piece of text, ascending.
type Borders = [u16; LIST];

/// Adds the positions of the first 32 bits of `mask`, counted from `base`, to the first `count` borders, and returns their number. A block
/// has no more numbers.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi2,popcnt")]
fn add(borders: &mut Borders, count: usize, mask: u64, base: u16) -> usize {
    let Some(to) = borders.get_mut(count..count + 32) else { return count };
    // SAFETY: `INDICES` has 64 bytes.
    let indices = unsafe { _mm512_loadu_si512(INDICES.as_ptr().cast()) };
    let bytes = _mm512_castsi512_si256(_mm512_maskz_compress_epi8(mask, indices));
    let words = _mm512_add_epi16(_mm512_cvtepu8_epi16(bytes), _mm512_set1_epi16(base as i16));
    // SAFETY: `to` has 32 words.
    unsafe { _mm512_storeu_si512(to.as_mut_ptr().cast(), words) };
    count + (mask.count_ones() as usize).min(32)
}

/// Eight borders from number `at` on.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi2,popcnt")]
fn eight(borders: &Borders, at: usize) -> __m512i {
    let eight: [u16; GROUP] =
        borders.get(at..at + GROUP).and_then(|of| of.try_into().ok()).unwrap_or_default();
    _mm512_cvtepu16_epi64(bytemuck::cast(eight))
}

/// Reads numbers from `at` on, where one begins, in groups of eight. Each has a separator after it: a comma, or a blank. Ends before a
/// number of another form, the last one of a line, one near the end of the text, and numbers that fill no group. Returns how many there
/// are and where the next one begins.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi2,fma,popcnt")]
pub fn decimals(text: &[u8], mut at: usize, comma: bool, values: &mut [f64]) -> (usize, usize) {
    let separators = if comma { [b','; 2] } else { [b' ', b'\t'] };
    let mut groups = values.chunks_exact_mut(GROUP);
    let (mut starts, mut points, mut exponents) = ([0; LIST], [0; LIST], [0; LIST]);
    let mut done = 0;
    while groups.len() > 0
        && let Some(begin) = at.checked_sub(BYTES_AROUND)
        && let Some(rest) = text.get(begin..)
        && let Some(piece) = rest.first_chunk::<{ PIECE_BYTES + 2 * BYTES_AROUND }>()
    {
        let (mut start_count, mut point_count, mut exponent_count) = (0, 0, 0);
        let mut before = u64::from(comma);
        for (block, bytes) in piece[BYTES_AROUND..][..PIECE_BYTES].chunks_exact(64).enumerate() {
            // SAFETY: a block has 64 bytes.
            let bytes = unsafe { _mm512_loadu_si512(bytes.as_ptr().cast()) };
            let are = |byte: u8| _mm512_cmpeq_epi8_mask(bytes, _mm512_set1_epi8(byte as i8));
            let separated = are(separators[0]) | are(separators[1]);
            let first = match comma {
                // A number begins after each comma, so that an empty field is found.
                true => separated << 1 | std::mem::replace(&mut before, separated >> 63),
                false => !separated & !(!separated << 1 | std::mem::replace(&mut before, !separated >> 63)),
            };
            if first.count_ones() > 32 {
                return (done, at);
            }
            let base = 64 * block as u16;
            start_count = add(&mut starts, start_count, first, base);
            point_count = add(&mut points, point_count, are(b'.'), base);
            exponent_count = add(&mut exponents, exponent_count, are(b'e') | are(b'E'), base);
        }
        // The end of the last number of a piece is unknown.
        let complete = start_count.saturating_sub(1).min(point_count).min(exponent_count) / GROUP;
        let mut first = 0;
        for values in groups.by_ref().take(complete) {
            let (numbers, read) = group(piece, [&starts, &points, &exponents], first, separators);
            // SAFETY: a group has eight values.
            unsafe { _mm512_storeu_pd(values.as_mut_ptr(), numbers) };
            if read < GROUP {
                return (done + read, at + usize::from(starts[first + read]));
            }
            // Constants, so that the next group need not wait for this one.
            (done, first) = (done + GROUP, first + GROUP);
        }
        if first == 0 {
            break;
        }
        at += usize::from(starts[first]);
    }
    (done, at)
}

/// Eight numbers from number `at` of a piece on, and how many of them are right, counted from the first. The others are of another form, or
/// may be rounded wrongly.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi2,fma,popcnt")]
fn group(
    piece: &[u8; PIECE_BYTES + 2 * BYTES_AROUND],
    [starts, points, exponents]: [&Borders; 3],
    at: usize,
    separators: [u8; 2],
) -> (__m512d, usize) {
    let number = |number: i64| _mm512_set1_epi64(number);
    let byte_of = |words: __m512i| _mm512_and_si512(words, number(0xff));
    let is = |bytes: __m512i, byte: u8| _mm512_cmpeq_epi64_mask(bytes, number(byte.into()));
    // Eight bytes of each number: those from `before` bytes before its position on.
    let gathered = |positions: __m512i, before: usize| {
        let from = &piece[BYTES_AROUND - before..];
        // SAFETY: positions are below `PIECE_BYTES`, and at least 16 bytes follow the piece.
        unsafe { _mm512_i64gather_epi64::<1>(positions, from.as_ptr().cast()) }
    };
    let (start, next) = (eight(starts, at), eight(starts, at + 1));
    let (point, exponent) = (eight(points, at), eight(exponents, at));
    let first = gathered(start, 0);
    let is_negative = is(byte_of(first), b'-');
    let before_point = _mm512_sub_epi64(point, start);
    let whole_digits = _mm512_mask_sub_epi64(before_point, is_negative, before_point, number(1));
    let fraction_digits = _mm512_sub_epi64(_mm512_sub_epi64(exponent, point), number(1));
    // As unsigned numbers, negative ones are large.
    let is_ordered = _mm512_cmplt_epi64_mask(exponent, next)
        & _mm512_cmplt_epu64_mask(_mm512_sub_epi64(whole_digits, number(1)), number(8))
        & _mm512_cmple_epu64_mask(before_point, number(8))
        & _mm512_cmplt_epu64_mask(_mm512_sub_epi64(fraction_digits, number(1)), number(FRACTION_DIGITS))
        & _mm512_cmple_epi64_mask(_mm512_add_epi64(whole_digits, fraction_digits), number(DIGITS));

    // The last bytes of a word are the last digits; the others become zero. A shift by 64 bits or more gives zero.
    let bits = |bytes: __m512i| _mm512_slli_epi64(bytes, 3);
    let without = |missing_bits: __m512i, word: __m512i| {
        let values = _mm512_sub_epi8(word, _mm512_set1_epi8(b'0' as i8));
        _mm512_and_si512(values, _mm512_sllv_epi64(number(-1), missing_bits))
    };
    let whole = _mm512_sllv_epi64(first, _mm512_sub_epi64(number(64), bits(before_point)));
    let whole = without(_mm512_sub_epi64(number(64), bits(whole_digits)), whole);
    let missing = _mm512_sub_epi64(number(64), bits(fraction_digits));
    let low = without(_mm512_max_epi64(missing, _mm512_setzero_si512()), gathered(exponent, 8));
    let high = without(_mm512_add_epi64(missing, number(64)), gathered(exponent, 16));
    let largest = _mm512_max_epu8(_mm512_max_epu8(whole, low), high);
    let has_digits = !_mm512_test_epi64_mask(
        _mm512_movm_epi8(_mm512_cmpgt_epu8_mask(largest, _mm512_set1_epi8(9))),
        number(-1),
    );

    let last = gathered(exponent, 0);
    let sign = byte_of(_mm512_srli_epi64(last, 8));
    let is_reduced = is(sign, b'-');
    let digit = |shift: u32| {
        let byte = byte_of(_mm512_srlv_epi64(last, number(shift.into())));
        _mm512_sub_epi64(byte, number(b'0'.into()))
    };
    let (one, two) = (digit(16), digit(24));
    let has_two = _mm512_cmplt_epu64_mask(two, number(10));
    let tens = _mm512_add_epi64(_mm512_slli_epi64(one, 3), _mm512_slli_epi64(one, 1));
    let size = _mm512_mask_add_epi64(one, has_two, tens, two);
    let end = byte_of(_mm512_mask_srli_epi64(_mm512_srli_epi64(last, 24), has_two, last, 32));
    let is_spelled = (is_reduced | is(sign, b'+'))
        & _mm512_cmplt_epu64_mask(one, number(10))
        & (is(end, separators[0]) | is(end, separators[1]));
    let size = _mm512_mask_sub_epi64(size, is_reduced, _mm512_setzero_si512(), size);
    let power = _mm512_sub_epi64(size, fraction_digits);
    let magnitude = _mm512_abs_epi64(power);
    let is_known = _mm512_cmple_epu64_mask(magnitude, number(LARGEST_POWER as i64));

    // SAFETY: `TENS` has 16 numbers, eight for each load.
    let (low_tens, high_tens) = unsafe {
        (_mm512_loadu_si512(TENS.as_ptr().cast()), _mm512_loadu_si512(TENS[GROUP..].as_ptr().cast()))
    };
    let shift = _mm512_permutex2var_epi64(low_tens, _mm512_sub_epi64(fraction_digits, number(1)), high_tens);
    let fraction = _mm512_add_epi64(_mm512_mul_epu32(value(high), number(100_000_000)), value(low));
    let integer = _mm512_add_epi64(_mm512_mullo_epi64(value(whole), shift), fraction);
    let (numbers, is_certain) = scaled(integer, _mm512_maskz_mov_epi64(is_known, magnitude), power);
    let numbers = _mm512_mask_xor_pd(numbers, is_negative, numbers, _mm512_set1_pd(-0.0));
    let is_right = is_ordered & has_digits & is_spelled & is_known & is_certain;
    (numbers, is_right.trailing_ones() as usize)
}

/// The values of eight words of eight digits, of which the first digit is the lowest byte.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn value(digits: __m512i) -> __m512i {
    let pairs = _mm512_maddubs_epi16(digits, _mm512_set1_epi16(0x010a));
    let fours = _mm512_madd_epi16(pairs, _mm512_set1_epi32(0x0001_0064));
    _mm512_add_epi64(_mm512_mul_epu32(fours, _mm512_set1_epi64(10_000)), _mm512_srli_epi64(fours, 32))
}

/// `integer` times ten to the `power`, of which `magnitude` is the magnitude, at most [`LARGEST_POWER`]; and whether it is the nearest
/// double for certain. Integers are below 2^62.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,fma")]
fn scaled(integer: __m512i, magnitude: __m512i, power: __m512i) -> (__m512d, u8) {
    let nearest = _mm512_cvtepi64_pd(integer);
    let rest = _mm512_cvtepi64_pd(_mm512_sub_epi64(integer, _mm512_cvttpd_epi64(nearest)));
    let [scales, rests] = &SCALES;
    // SAFETY: both tables have an entry for every magnitude.
    let (scale, scale_rest) = unsafe {
        (
            _mm512_i64gather_pd::<8>(magnitude, scales.as_ptr()),
            _mm512_i64gather_pd::<8>(magnitude, rests.as_ptr()),
        )
    };
    let quotient = _mm512_div_pd(nearest, scale);
    let remainder = _mm512_fnmadd_pd(quotient, scale, nearest);
    let remainder = _mm512_add_pd(_mm512_fnmadd_pd(quotient, scale_rest, remainder), rest);
    let (mut estimate, mut correction) = (quotient, _mm512_mul_pd(remainder, _mm512_rcp14_pd(scale)));
    let is_divided = _mm512_cmplt_epi64_mask(power, _mm512_setzero_si512());
    if is_divided != u8::MAX {
        let product = _mm512_mul_pd(nearest, scale);
        let more = _mm512_fmsub_pd(nearest, scale, product);
        let more = _mm512_fmadd_pd(rest, scale, _mm512_fmadd_pd(nearest, scale_rest, more));
        estimate = _mm512_mask_mov_pd(product, is_divided, estimate);
        correction = _mm512_mask_mov_pd(more, is_divided, correction);
    }
    let enlarged = _mm512_fmadd_pd(correction, _mm512_set1_pd(1.0 + SLACK), estimate);
    let reduced = _mm512_fmadd_pd(correction, _mm512_set1_pd(1.0 - SLACK), estimate);
    (enlarged, _mm512_cmpeq_pd_mask(enlarged, reduced))
}
