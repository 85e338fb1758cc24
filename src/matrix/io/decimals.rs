//! Reads plainly spelled decimal numbers, such as `-1.2345e-06` and `17.25`, sixteen digits at a time.
//!
//! A number has a sign or none, up to 15 digits, a point with up to 16 digits or none, and an exponent of one or two digits or none. Its
//! digits are an integer of at most 2^53, and its power of ten is from -22 to 22: both are exact in double precision, so that one
//! multiplication or division gives the nearest double (Clinger, 1990). Many numbers with a point and an exponent are read eight at a time
//! (`decimal_groups`). Other numbers are left to the caller.

#![allow(unsafe_code)] // SIMD leaf: calls code compiled for an instruction set that was detected before

use rowloom_cpu::Isa;

#[cfg(target_arch = "x86_64")]
use super::decimal_groups;
use super::matrix_market::lines::is_blank;

/// Bytes from the start of a number that are read, whatever its length.
const WINDOW: usize = 48;

/// Reads numbers from `at` on, each with the separator after it: blanks, or a comma with or without blanks. Ends before the first number
/// that is not plain, has no separator after it, or is near the end of the text. Returns how many there are and where the next one begins.
pub fn plain_decimals(text: &[u8], at: usize, comma: bool, values: &mut [f64]) -> (usize, usize) {
    match Isa::detect() {
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 if decimal_groups::is_supported() => decimals_in_groups(text, at, comma, values),
        // SAFETY: the processor has this instruction set.
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 | Isa::Avx512 => unsafe { x86::decimals(text, at, comma, values) },
        _ => (0, at),
    }
}

/// Fewer numbers are read one by one: to find the borders of a piece of text takes as long.
#[cfg(target_arch = "x86_64")]
const NUMBERS_IN_GROUPS: usize = 32;

/// [`plain_decimals`] for a processor with the instructions of [`decimal_groups`].
#[cfg(target_arch = "x86_64")]
fn decimals_in_groups(text: &[u8], at: usize, comma: bool, values: &mut [f64]) -> (usize, usize) {
    let (mut done, mut at) = (0, at);
    while values.len() - done >= NUMBERS_IN_GROUPS {
        // SAFETY: the processor has these instructions.
        let (count, next) = unsafe { decimal_groups::decimals(text, at, comma, &mut values[done..]) };
        (done, at) = (done + count, next);
        // A number of another form, or the rest.
        let end = values.len().min(done + 1);
        // SAFETY: a processor with AVX-512 has AVX2.
        let (read, next) = unsafe { x86::decimals(text, at, comma, &mut values[done..end]) };
        (done, at) = (done + read, next);
        if read == 0 {
            return (done, at);
        }
        if count < NUMBERS_IN_GROUPS {
            // Numbers of other forms are frequent.
            break;
        }
    }
    // SAFETY: the same.
    let (count, next) = unsafe { x86::decimals(text, at, comma, &mut values[done..]) };
    (done + count, next)
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::{
        _mm_cmpeq_epi8, _mm_cvtsi128_si64, _mm_madd_epi16, _mm_maddubs_epi16, _mm_min_epu8,
        _mm_movemask_epi8, _mm_packus_epi32, _mm_set1_epi8, _mm_set1_epi16, _mm_set1_epi32, _mm_shuffle_epi8,
        _mm_sub_epi8,
    };

    use super::{WINDOW, is_blank};

    /// Digits that are read at once.
    const DIGITS: usize = 16;
    /// The most digits of a number: more may exceed 64 bits.
    const MOST_DIGITS: u32 = 18;

    const POWERS: [f64; 23] = [
        1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17,
        1e18, 1e19, 1e20, 1e21, 1e22,
    ];

    /// Powers of ten up to that of [`DIGITS`].
    const WHOLE_POWERS: [u64; DIGITS + 1] = {
        let mut powers = [1; DIGITS + 1];
        let mut at = 1;
        while at <= DIGITS {
            powers[at] = 10 * powers[at - 1];
            at += 1;
        }
        powers
    };

    /// The bytes from `n` on move the first `n` of 16 bytes to the end, after zeros.
    const MOVES: [u8; 2 * DIGITS] = {
        let mut moves = [0x80; 2 * DIGITS];
        let mut at = 0;
        while at < DIGITS {
            moves[DIGITS + at] = at as u8;
            at += 1;
        }
        moves
    };

    /// The 16 bytes from `at` on; zeros beyond the end.
    #[inline(always)]
    fn sixteen(bytes: &[u8], at: usize) -> [u8; DIGITS] {
        bytes.get(at..at + DIGITS).and_then(|bytes| bytes.try_into().ok()).unwrap_or_default()
    }

    /// How many digits the text begins with, at most 16, and their value.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn leading_digits(text: [u8; DIGITS]) -> (u32, u64) {
        let values = _mm_sub_epi8(bytemuck::cast(text), _mm_set1_epi8(b'0' as i8));
        let are_digits = _mm_cmpeq_epi8(_mm_min_epu8(values, _mm_set1_epi8(9)), values);
        // Bits beyond the sixteenth are set.
        let count = (!(_mm_movemask_epi8(are_digits) as u32)).trailing_zeros();
        let values = _mm_shuffle_epi8(values, bytemuck::cast(sixteen(&MOVES, count as usize)));
        let pairs = _mm_maddubs_epi16(values, _mm_set1_epi16(0x010a));
        let fours = _mm_madd_epi16(pairs, _mm_set1_epi32(0x0001_0064));
        let eights = _mm_madd_epi16(_mm_packus_epi32(fours, fours), _mm_set1_epi32(0x0001_2710));
        let both = _mm_cvtsi128_si64(eights) as u64;
        (count, (both & 0xffff_ffff) * 100_000_000 + (both >> 32))
    }

    #[inline(always)]
    fn digit(byte: u8) -> Option<u8> {
        Some(byte.wrapping_sub(b'0')).filter(|digit| *digit <= 9)
    }

    /// The number that the text begins with, and its length; `None` if it is not plain.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn decimal(text: &[u8; WINDOW]) -> Option<(f64, usize)> {
        let is_negative = text[0] == b'-';
        let begin = usize::from(is_negative);
        let first = digit(text[begin])?;
        let (mut digits, mut mantissa) = (1, u64::from(first));
        if text[begin + 1] != b'.' {
            (digits, mantissa) = leading_digits(sixteen(text, begin));
        }
        let mut at = begin + digits as usize;
        let mut exponent = 0;
        if text[at] == b'.' {
            let (count, fraction) = leading_digits(sixteen(text, at + 1));
            at += 1 + count as usize;
            digits += count;
            if count as usize == DIGITS && digit(text[at]).is_some() {
                return None;
            }
            mantissa = mantissa.wrapping_mul(WHOLE_POWERS[count as usize]).wrapping_add(fraction);
            exponent = -(count as i32);
        } else if digits as usize == DIGITS {
            return None;
        }
        if text[at] | 0x20 == b'e' {
            let sign = text[at + 1];
            at += 1;
            // Branches, which are predicted, so that the next number need not wait for these bytes.
            if sign == b'-' || sign == b'+' {
                at += 1;
            }
            let mut power = i32::from(digit(text[at])?);
            at += 1;
            if let Some(second) = digit(text[at]) {
                power = 10 * power + i32::from(second);
                at += 1;
                if digit(text[at]).is_some() {
                    return None;
                }
            }
            exponent += if sign == b'-' { -power } else { power };
        }
        let scale = POWERS.get(exponent.unsigned_abs() as usize)?;
        if digits > MOST_DIGITS || mantissa > 1 << 53 {
            return None;
        }
        let mantissa = mantissa as f64;
        let magnitude = if exponent < 0 { mantissa / scale } else { mantissa * scale };
        Some((if is_negative { -magnitude } else { magnitude }, at))
    }

    /// [`super::plain_decimals`] for a processor with AVX2.
    #[target_feature(enable = "avx2")]
    pub fn decimals(text: &[u8], mut at: usize, comma: bool, values: &mut [f64]) -> (usize, usize) {
        let mut count = 0;
        for value in values {
            let window = text.get(at..).and_then(|rest| rest.first_chunk::<WINDOW>());
            let Some((number, length)) = window.and_then(|window| decimal(window)) else { break };
            let end = at + length;
            let mut next = end;
            while text.get(next).is_some_and(|byte| is_blank(*byte)) {
                next += 1;
            }
            if comma {
                if text.get(next) != Some(&b',') {
                    break;
                }
                next += 1;
                while text.get(next).is_some_and(|byte| is_blank(*byte)) {
                    next += 1;
                }
            } else if next == end {
                break;
            }
            *value = number;
            (count, at) = (count + 1, next);
        }
        (count, at)
    }
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Text that is long enough for the window.
    fn padded(text: &str) -> Vec<u8> {
        let mut bytes = text.as_bytes().to_vec();
        bytes.resize(text.len() + WINDOW, b'\n');
        bytes
    }

    fn is_tested() -> bool {
        matches!(Isa::detect(), Isa::Avx2 | Isa::Avx512)
    }

    #[test]
    fn plain_numbers_are_read_and_others_are_left() {
        if !is_tested() {
            return;
        }
        let mut values = [0.0; 4];
        for text in [
            "1.5e-3 ",
            "-0.0\t",
            "12345 ",
            "7e22 ",
            "900719925474099e-22 ",
            "123456.0123456789 ",
            "0.1E+05  ",
        ] {
            let expected: f64 = text.trim().parse().unwrap();
            assert_eq!(plain_decimals(&padded(text), 0, false, &mut values), (1, text.len()), "{text:?}");
            assert_eq!(values[0].to_bits(), expected.to_bits(), "{text:?}");
        }
        for text in [
            "1.5",
            "1.5x ",
            ".5 ",
            "+1 ",
            "nan ",
            "1e ",
            "1e+ ",
            "1e100 ",
            "9007199254740993.0 ",
            "1e23 ",
            "-",
        ] {
            assert_eq!(plain_decimals(&padded(text), 0, false, &mut values), (0, 0), "{text:?}");
        }
        assert_eq!(plain_decimals(&padded("1.0 , 2.0,-3.0\n"), 0, true, &mut values), (2, 10));
        assert_eq!(
            plain_decimals(b"1.0 2.0 ", 0, false, &mut values),
            (0, 0),
            "the window ends beyond the text"
        );
        assert_eq!(plain_decimals(b"", 3, false, &mut values), (0, 3));
    }

    /// A number, mostly with a point and an exponent.
    fn spelled() -> impl Strategy<Value = String> {
        prop_oneof![
            60 => "-?[0-9]{1,3}\\.[0-9]{1,15}[eE][-+][0-2]?[0-9]",
            1 => "-?[0-9]{1,10}\\.[0-9]{1,20}[eE][-+]?[0-9]{1,2}",
            1 => "-?[0-9]{1,10}(\\.[0-9]{1,20})?",
        ]
    }

    #[test]
    fn numbers_with_a_point_and_an_exponent_are_read_in_groups() {
        if !decimal_groups::is_supported() {
            return;
        }
        for (separator, comma) in [(" ", false), ("\t", false), ("  ", false), (",", true)] {
            let words: Vec<String> = (0..1000).map(|at| format!("{:.6e}", -1.5 - f64::from(at))).collect();
            let words = words.iter().map(|word| word.replace("e", "e+0"));
            let text = " ".repeat(20) + &words.collect::<Vec<_>>().join(separator);
            let mut values = vec![0.0; 1000];
            // SAFETY: the processor has these instructions.
            let (count, _) = unsafe { decimal_groups::decimals(text.as_bytes(), 20, comma, &mut values) };
            assert!(count >= 900, "{separator:?}: {count}");
            assert!(values[..count].iter().zip(0..).all(|(value, at)| *value == -1.5 - f64::from(at)));
        }
    }

    #[test]
    fn numbers_half_way_between_two_doubles_are_rounded_to_even_or_left() {
        if !is_tested() {
            return;
        }
        let odd = (0..500).map(|at: u64| ((1 << 53) + 2 * 1_234_567 * at + 1).to_string());
        let halves = (0..500).map(|at: u64| format!("{}5", (1 << 52) + 7_654_321 * at));
        let words = odd.chain(halves).map(|digits| format!("{}.{}e+15", &digits[..1], &digits[1..]));
        let words: Vec<String> = words.collect();
        let text = padded(&(" ".repeat(20) + &words.join(" ")));
        let (mut at, mut values) = (20, [0.0; 40]);
        for words in words.chunks(40) {
            for (position, word) in words.iter().enumerate() {
                let rest = &mut values[position..words.len()];
                let (count, _) = plain_decimals(&text, at, false, rest);
                let expected = words[position..][..count].iter().map(|word| word.parse::<f64>().unwrap());
                assert!(rest[..count].iter().copied().eq(expected), "{word}");
                at += word.len() + 1;
            }
        }
    }

    proptest! {
        #[test]
        fn numbers_have_the_bits_of_the_standard_library(
            value in any::<f64>(), small in -1e3f64..1e3, digits in 0usize..20, scale in -30i32..30,
        ) {
            let scaled = small * 10f64.powi(scale);
            let short = format!("{scaled:.digits$e} ");
            let is_short = digits < 15 && (1e-5..1e15).contains(&scaled.abs());
            let is_read = plain_decimals(&padded(&short), 0, false, &mut [0.0]).0 == 1;
            prop_assert!(is_read || !is_short || !is_tested(), "{} is plain", short);
            for text in [short, format!("{small:.digits$} "), format!("{value:e} ")] {
                let mut found = [0.0];
                if plain_decimals(&padded(&text), 0, false, &mut found).0 == 1 {
                    prop_assert_eq!(found[0].to_bits(), text.trim().parse::<f64>().unwrap().to_bits(), "{}", text);
                }
            }
        }

        #[test]
        fn many_numbers_have_the_bits_of_the_standard_library(
            words in prop::collection::vec(spelled(), 40..300), comma in any::<bool>(),
        ) {
            let text = padded(&(" ".repeat(20) + &words.join(if comma { "," } else { " " })));
            let (mut at, mut done) = (20, 0);
            let mut values = vec![0.0; words.len()];
            while done < words.len() {
                let (count, next) = plain_decimals(&text, at, comma, &mut values[done..]);
                for (value, word) in values[done..][..count].iter().zip(&words[done..]) {
                    prop_assert_eq!(value.to_bits(), word.parse::<f64>().unwrap().to_bits(), "{}", word);
                }
                let left = words.get(done + count).map_or(0, |word| word.len() + 1);
                (done, at) = (done + count + 1, next + left);
            }
        }

        #[test]
        fn any_text_is_read_as_the_standard_library_reads_its_words(
            bytes in prop::collection::vec(prop::sample::select(b"0123456789001199..ee--++E ,\t".to_vec()), 0..60),
        ) {
            let text = padded(std::str::from_utf8(&bytes).unwrap());
            let mut values = [0.0; 8];
            let (count, next) = plain_decimals(&text, 0, false, &mut values);
            let words = std::str::from_utf8(&text[..next]).unwrap().split([' ', '\t']).filter(|word| !word.is_empty());
            let expected: Vec<u64> = words.map(|word| word.parse::<f64>().unwrap().to_bits()).collect();
            let found: Vec<u64> = values[..count].iter().map(|value| value.to_bits()).collect();
            prop_assert_eq!(found, expected);
        }
    }
}
