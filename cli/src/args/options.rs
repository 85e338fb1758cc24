//! The values of flags.

use std::ffi::OsString;
use std::fmt;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::str::FromStr;

pub use rowloom::internal::runtime::{DeviceWord, Devices};

/// The number of bytes in `8GiB`, `512 MiB`, `100MB`, `100mb`, `4096`.
pub fn parse_bytes(text: &str) -> std::result::Result<u64, String> {
    const UNITS: [(&str, u64); 9] = [
        ("kib", 1 << 10),
        ("mib", 1 << 20),
        ("gib", 1 << 30),
        ("tib", 1 << 40),
        ("kb", 1_000),
        ("mb", 1_000_000),
        ("gb", 1_000_000_000),
        ("tb", 1_000_000_000_000),
        ("b", 1),
    ];
    let wrong = || {
        "the size must be above 0, in bytes or with a unit: KiB, MiB, GiB, TiB (1 KiB is 1024 bytes), KB, MB, GB or TB \
         (1 KB is 1000 bytes)"
            .to_string()
    };
    let lower = text.to_ascii_lowercase();
    let (digits, unit) = UNITS
        .iter()
        .find_map(|(unit, bytes)| lower.strip_suffix(unit).map(|digits| (digits.trim_end(), *bytes)))
        .unwrap_or((&lower, 1));
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

/// Channels, as ranges in the order that was typed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selection(Vec<RangeInclusive<u64>>);

impl Selection {
    /// The numbers of `0,3,8-11`.
    pub fn parse(text: &str) -> std::result::Result<Self, String> {
        let wrong = || format!("'{text}' is no list of numbers and ranges such as 0,3,8-11");
        let number = |word: &str| word.trim().parse::<u64>().map_err(|_| wrong());
        let range = |word: &str| match word.split_once('-') {
            Some((first, last)) => match (number(first)?, number(last)?) {
                (first, last) if first <= last => Ok(first..=last),
                _ => Err(wrong()),
            },
            None => number(word).map(|only| only..=only),
        };
        text.split(',').map(range).collect::<std::result::Result<_, _>>().map(Self)
    }

    /// The numbers, each once, ascending; an error names the first that is not below `count`.
    pub fn numbers(&self, count: u64) -> std::result::Result<Vec<u64>, u64> {
        let beyond = self.0.iter().find(|range| *range.end() >= count);
        if let Some(range) = beyond {
            return Err((*range.start()).max(count));
        }
        let mut numbers: Vec<u64> = self.0.iter().cloned().flatten().collect();
        numbers.sort_unstable();
        numbers.dedup();
        Ok(numbers)
    }
}

impl fmt::Display for Selection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = |range: &RangeInclusive<u64>| match (range.start(), range.end()) {
            (first, last) if first == last => first.to_string(),
            (first, last) => format!("{first}-{last}"),
        };
        f.write_str(&self.0.iter().map(word).collect::<Vec<_>>().join(","))
    }
}

/// Samples from one up to, but not including, another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// The first sample.
    pub begin: u64,
    /// One past the last sample; the end of the channel without it.
    pub end: Option<u64>,
}

impl Window {
    /// The samples of `20:60`, `20:` or `:60`.
    pub fn parse(text: &str) -> std::result::Result<Self, String> {
        let wrong = || format!("'{text}' is no window such as 20:60, whose end is after its begin");
        let (begin, end) = text.split_once(':').ok_or_else(wrong)?;
        let number = |word: &str| match word.trim() {
            "" => Ok(None),
            word => word.parse::<u64>().map(Some).map_err(|_| wrong()),
        };
        let (begin, end) = (number(begin)?.unwrap_or(0), number(end)?);
        if end.is_some_and(|end| end <= begin) { Err(wrong()) } else { Ok(Self { begin, end }) }
    }
}

impl fmt::Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.begin, self.end.map(|end| end.to_string()).unwrap_or_default())
    }
}

/// A statistic of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Statistic {
    /// The sum divided by the number of rows.
    Mean,
    /// The sum.
    Sum,
    /// The squared deviations from the mean divided by the number of rows less one.
    Variance,
}

impl Statistic {
    /// All statistics.
    pub const ALL: [Self; 3] = [Self::Mean, Self::Sum, Self::Variance];

    /// The name for `--statistics`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Mean => "mean",
            Self::Sum => "sum",
            Self::Variance => "variance",
        }
    }
}

impl FromStr for Statistic {
    type Err = String;

    fn from_str(name: &str) -> std::result::Result<Self, String> {
        Self::ALL.into_iter().find(|statistic| statistic.name() == name).ok_or_else(|| name.to_owned())
    }
}

/// The number of devices in a list. `cuda`, whose number is unknown before the driver is asked, counts as one.
pub fn count_devices(devices: &str) -> usize {
    let count = |word: &DeviceWord| match word {
        DeviceWord::Simulated { .. } => word.preset().map_or(1, |preset| preset.gpus.len()),
        _ => 1,
    };
    devices.parse().map_or(1, |devices: Devices| devices.words().iter().map(count).sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn channels_are_numbers_and_ranges_each_once() {
        let numbers = |text: &str, count| Selection::parse(text).unwrap().numbers(count);
        assert_eq!(numbers("8-10,0,3,9", 64), Ok(vec![0, 3, 8, 9, 10]));
        assert_eq!(numbers("0,60-80", 64), Err(64));
        assert_eq!(numbers("99", 64), Err(99));
        // No list of that length is made.
        assert_eq!(numbers("0-18446744073709551615", 64), Err(64));
        assert_eq!(Selection::parse("8-10,0").unwrap().to_string(), "8-10,0");
        for nonsense in ["", ",", "1,", "a", "3-1", "-1", "1.5", "1-2-3"] {
            assert!(Selection::parse(nonsense).is_err(), "{nonsense}");
        }
    }

    #[test]
    fn a_window_has_an_end_after_its_begin() {
        assert_eq!(Window::parse("20:60"), Ok(Window { begin: 20, end: Some(60) }));
        assert_eq!(Window::parse(":"), Ok(Window { begin: 0, end: None }));
        assert_eq!(Window::parse("20:").unwrap().to_string(), "20:");
        for nonsense in ["", "20", "60:20", "5:5", "a:b", "-1:4", "1:2:3"] {
            assert!(Window::parse(nonsense).is_err(), "{nonsense}");
        }
    }

    #[test]
    fn bytes_have_units() {
        assert_eq!(parse_bytes("8GiB"), Ok(8 << 30));
        assert_eq!(parse_bytes("1.5MiB"), Ok(3 << 19));
        assert_eq!(parse_bytes("4096"), Ok(4096));
        assert_eq!(parse_bytes("2kB"), Ok(2000));
        assert_eq!(parse_bytes("18446744073709551615"), Ok(u64::MAX));
        for (text, bytes) in [
            ("1KB", 1000),
            ("1kb", 1000),
            ("8gib", 8 << 30),
            ("8 GiB", 8 << 30),
            ("2MB", 2_000_000),
            ("7B", 7),
        ] {
            assert_eq!(parse_bytes(text), Ok(bytes), "{text}");
        }
        for nonsense in ["", "GiB", "0", "-1", "1e9", "0.1", "99999999999TiB", "8G", "8GiBs", "inf", "1.2.3"]
        {
            let refusal = parse_bytes(nonsense).unwrap_err();
            assert!(refusal.contains("KiB, MiB, GiB, TiB") && refusal.contains("KB, MB, GB"), "{nonsense}");
        }
    }
}
