//! The values of the flags of `run` and `plan`.

use std::ffi::OsString;
use std::path::PathBuf;

pub use crate::runtime::{DeviceWord, Devices};

/// The number of bytes in `8GiB`, `512MiB`, `100MB`, `4096`.
pub fn parse_bytes(text: &str) -> std::result::Result<u64, String> {
    const UNITS: [(&str, u64); 9] = [
        ("KiB", 1 << 10),
        ("MiB", 1 << 20),
        ("GiB", 1 << 30),
        ("TiB", 1 << 40),
        ("kB", 1_000),
        ("MB", 1_000_000),
        ("GB", 1_000_000_000),
        ("TB", 1_000_000_000_000),
        ("B", 1),
    ];
    let wrong = || "the size must be a number of bytes, such as 8GiB, 512MiB or 4096".to_string();
    let (digits, unit) = UNITS
        .iter()
        .find_map(|(unit, bytes)| text.strip_suffix(unit).map(|digits| (digits, *bytes)))
        .unwrap_or((text, 1));
    let number: f64 = match digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') {
        true => digits.parse().map_err(|_| wrong())?,
        false => return Err(wrong()),
    };
    let bytes = number * unit as f64;
    // A whole number stays exact where floating point would round it.
    let exact = digits.parse::<u64>().ok().map(|number| number.checked_mul(unit));
    match exact {
        Some(Some(bytes @ 1..)) => Ok(bytes),
        Some(_) => Err(wrong()),
        None if (1.0..u64::MAX as f64).contains(&bytes) => Ok(bytes as u64),
        None => Err(wrong()),
    }
}

/// The storage format of A during products.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum FormatChoice {
    /// The format of the chosen kernel.
    #[default]
    Auto,
    /// Compressed sparse rows.
    Csr,
    /// Padded ELLPACK.
    Ell,
    /// Sliced ELLPACK.
    Sell,
}

/// The source of X.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum XSource {
    /// Uniform random numbers from -1 to 1.
    Random,
    /// All ones.
    Ones,
    /// A file.
    File(PathBuf),
}

impl XSource {
    /// The text that was typed.
    pub fn name(&self) -> String {
        match self {
            Self::Random => "random".into(),
            Self::Ones => "ones".into(),
            Self::File(path) => path.display().to_string(),
        }
    }
}

impl From<OsString> for XSource {
    fn from(text: OsString) -> Self {
        match text.to_str() {
            Some("random") => Self::Random,
            Some("ones") => Self::Ones,
            _ => Self::File(text.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_have_units() {
        assert_eq!(parse_bytes("8GiB"), Ok(8 << 30));
        assert_eq!(parse_bytes("1.5MiB"), Ok(3 << 19));
        assert_eq!(parse_bytes("4096"), Ok(4096));
        assert_eq!(parse_bytes("2kB"), Ok(2000));
        assert_eq!(parse_bytes("18446744073709551615"), Ok(u64::MAX));
        for nonsense in ["", "GiB", "0", "-1", "1e9", "8 GiB", "0.1", "99999999999TiB", "8Gb", "inf", "1.2.3"]
        {
            assert!(parse_bytes(nonsense).is_err(), "{nonsense}");
        }
    }
}
