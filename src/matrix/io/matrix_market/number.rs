//! Parses the words of a line as numbers, and decides what is a number.
//!
//! This is the careful path. The fast path in `entries` reads the usual forms and accepts nothing that is refused here.

/// Largest power of two below which every whole number is an `f64`.
const EXACT_INTEGERS: u128 = 1 << 53;

/// A value and how its conversion to `f64` changed it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Value {
    /// The nearest `f64`.
    pub value: f64,
    /// A whole number beyond 2^53 that had to be rounded.
    pub inexact: bool,
    /// A number other than zero that became zero.
    pub underflowed: bool,
}

/// A word as a message shows it: printable and shortened.
pub fn shown(word: &[u8]) -> String {
    const LONGEST: usize = 40;
    let start = String::from_utf8_lossy(&word[..word.len().min(LONGEST)]).escape_debug().to_string();
    if word.len() > LONGEST { format!("'{start}...'") } else { format!("'{start}'") }
}

/// A whole number without a sign, as dimensions and counts are.
pub fn count(word: &[u8]) -> Result<u64, String> {
    let digits = word.strip_prefix(b"-").unwrap_or(word);
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return Err(format!("{} is not a whole number", shown(word)));
    }
    if digits.len() != word.len() {
        return Err(format!("{} is negative", shown(word)));
    }
    digits
        .iter()
        .try_fold(0u64, |sum, digit| sum.checked_mul(10)?.checked_add(u64::from(digit - b'0')))
        .ok_or_else(|| format!("{} is beyond 2^64", shown(word)))
}

/// A whole number with or without a sign, as the values of integer matrices are.
pub fn integer(word: &[u8], unsigned: bool) -> Result<Value, String> {
    let (negative, digits) = sign_and_rest(word);
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return Err(format!("value {} of an integer matrix is not a whole number", shown(word)));
    }
    if negative && unsigned && digits.iter().any(|&digit| digit != b'0') {
        return Err(format!("value {} of an unsigned-integer matrix is negative", shown(word)));
    }
    let exact = digits
        .iter()
        .try_fold(0u128, |sum, digit| sum.checked_mul(10)?.checked_add(u128::from(digit - b'0')));
    let magnitude = match exact {
        Some(exact) => exact as f64,
        None => decimal(digits, word)?,
    };
    let inexact = match exact {
        Some(exact) => exact > EXACT_INTEGERS && magnitude as u128 != exact,
        None => true,
    };
    Ok(Value { value: if negative { -magnitude } else { magnitude }, inexact, underflowed: false })
}

/// A real number: decimal, with an exponent after E or D if any, or NaN or infinity by name.
pub fn real(word: &[u8]) -> Result<Value, String> {
    let (negative, rest) = sign_and_rest(word);
    let is = |name: &str| rest.eq_ignore_ascii_case(name.as_bytes());
    let magnitude = if is("nan") {
        f64::NAN
    } else if is("inf") || is("infinity") {
        f64::INFINITY
    } else {
        check_decimal(rest, word)?;
        decimal(rest, word)?
    };
    let mantissa = rest.iter().take_while(|byte| byte.is_ascii_digit() || **byte == b'.');
    let underflowed = magnitude == 0.0 && mantissa.into_iter().any(|byte| (b'1'..=b'9').contains(byte));
    Ok(Value { value: if negative { -magnitude } else { magnitude }, inexact: false, underflowed })
}

fn sign_and_rest(word: &[u8]) -> (bool, &[u8]) {
    match word {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, word),
    }
}

/// Digits with at most one point and at least one digit, then at most one exponent with at least one digit.
fn check_decimal(rest: &[u8], word: &[u8]) -> Result<(), String> {
    let digits = |from: usize| rest.iter().skip(from).take_while(|byte| byte.is_ascii_digit()).count();
    let whole = digits(0);
    let mut at = whole;
    let mut mantissa_digits = whole;
    if rest.get(at) == Some(&b'.') {
        let fraction = digits(at + 1);
        mantissa_digits += fraction;
        at += 1 + fraction;
    }
    let mut sound = mantissa_digits > 0;
    if sound && matches!(rest.get(at), Some(b'e' | b'E' | b'd' | b'D')) {
        at += 1 + usize::from(matches!(rest.get(at + 1), Some(b'+' | b'-')));
        let exponent = digits(at);
        sound = exponent > 0;
        at += exponent;
    }
    if sound && at == rest.len() {
        return Ok(());
    }
    let hint = match rest.get(at) {
        Some(b'+' | b'-') if sound => "; an exponent needs its E",
        Some(b',') if sound => "; the decimal sign is a point",
        Some(b'.') if sound => "; a number has one decimal mark and no mark of thousands",
        Some(b'x' | b'X') if rest.get(..at) == Some(b"0") => {
            "; hexadecimal numbers are not part of the format"
        }
        _ => "",
    };
    Err(format!("value {} is not a number{hint}", shown(word)))
}

/// The nearest `f64` of a checked decimal without a sign.
fn decimal(rest: &[u8], word: &[u8]) -> Result<f64, String> {
    let parsed = match rest.iter().position(|byte| matches!(byte, b'd' | b'D')) {
        None => fast_float2::parse::<f64, _>(rest),
        Some(at) => {
            // Fortran's double precision exponent means the same as E.
            let mut spelled = rest.to_vec();
            spelled[at] = b'e';
            fast_float2::parse::<f64, _>(&spelled)
        }
    };
    match parsed {
        Ok(value) if value.is_finite() => Ok(value),
        Ok(_) => Err(format!("value {} overflows f64", shown(word))),
        Err(_) => Err(format!("value {} is not a number", shown(word))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(word: &str) -> f64 {
        real(word.as_bytes()).unwrap().value
    }

    #[test]
    fn every_spelling_of_the_policy_is_read() {
        let cases = [
            ("1.5D+02", 150.0),
            ("2d-1", 0.2),
            ("+1.E-3", 1e-3),
            (".5", 0.5),
            ("5.", 5.0),
            ("-5.e0", -5.0),
            ("1e0003", 1000.0),
            ("-Infinity", f64::NEG_INFINITY),
            ("+inf", f64::INFINITY),
            ("1.7976931348623157e308", f64::MAX),
        ];
        for (word, expected) in cases {
            assert_eq!(value(word), expected, "{word}");
        }
        assert!(value("NaN").is_nan() && value("-nan").is_nan());
        assert!(value("-0.0").is_sign_negative());
    }

    #[test]
    fn what_is_not_a_number_is_refused() {
        let not_numbers = [
            "1.5-102", "1,5", "0x1p3", "", "-", ".", "e5", "1e", "1e+", "1.2.3", "--1", "1 ", "1_0",
            "infinit", "nan(1)", "1d2e3", "+-1",
        ];
        for word in not_numbers {
            assert!(real(word.as_bytes()).unwrap_err().contains("is not a number"), "{word}");
        }
        assert!(real(b"1.5-102").unwrap_err().contains("needs its E"));
        assert!(real(b"1,5").unwrap_err().contains("decimal sign"));
        assert!(real(b"0x1p3").unwrap_err().contains("hexadecimal"));
    }

    #[test]
    fn overflow_is_refused_and_underflow_told() {
        for word in ["1e400", "-1d400", "1e99999999999999999999", "2e308"] {
            assert!(real(word.as_bytes()).unwrap_err().contains("overflows"), "{word}");
        }
        for word in ["1e-400", "-0.001e-99999999999999999999"] {
            let read = real(word.as_bytes()).unwrap();
            assert!(read.value == 0.0 && read.underflowed, "{word}");
        }
        assert!(!real(b"0e5").unwrap().underflowed);
    }

    #[test]
    fn integers_are_exact_or_told_to_be_not() {
        assert_eq!(integer(b"-7", false).unwrap(), Value { value: -7.0, inexact: false, underflowed: false });
        assert!(!integer(b"9007199254740992", false).unwrap().inexact);
        assert!(integer(b"9007199254740993", false).unwrap().inexact);
        assert!(!integer(b"9007199254740994", false).unwrap().inexact);
        assert!(integer(&[b'9'; 60], false).unwrap().inexact);
        assert!(integer(&[b'9'; 400], false).unwrap_err().contains("overflows"));
        for word in ["1.0", "1e3", "x", "", "+", "0x10"] {
            assert!(integer(word.as_bytes(), false).unwrap_err().contains("not a whole number"), "{word}");
        }
        assert!(integer(b"-1", true).unwrap_err().contains("negative"));
    }

    #[test]
    fn counts_are_whole_and_fit() {
        assert_eq!(count(b"18446744073709551615").unwrap(), u64::MAX);
        assert!(count(b"18446744073709551616").unwrap_err().contains("beyond 2^64"));
        assert!(count(b"-1").unwrap_err().contains("negative"));
        assert!(count(b"1.0").unwrap_err().contains("not a whole number"));
        assert!(count(&[b'1'; 1000]).unwrap_err().len() < 100);
    }
}
