//! The error type of the project and the exit code of each kind of error.
//!
//! Every message names the place, the reason and, where there is one, the next action. Messages hold for every client; what depends on
//! the client is an [`Advice`].

mod advice;
mod reason;

use std::fmt;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

pub use advice::Advice;
pub use reason::Reason;

/// The result of every fallible function of Rowloom.
pub type Result<T> = std::result::Result<T, Error>;

/// A place in an input: a file, and the line and column where they are known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The file, or the description of a generated matrix.
    pub source: String,
    /// Line of the file, counted from one.
    pub line: Option<u64>,
    /// Column of the line, counted from one, in bytes.
    pub column: Option<u64>,
}

impl Place {
    /// A whole file.
    #[doc(hidden)]
    pub fn file(path: impl AsRef<Path>) -> Self {
        Self { source: path.as_ref().display().to_string(), line: None, column: None }
    }

    /// A line of a file.
    #[doc(hidden)]
    pub fn line(source: impl Into<String>, line: u64) -> Self {
        Self { source: source.into(), line: Some(line), column: None }
    }

    /// The same place, at a column.
    #[doc(hidden)]
    pub fn at_column(mut self, column: u64) -> Self {
        self.column = Some(column);
        self
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.source)?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        if let Some(column) = self.column {
            write!(f, ":{column}")?;
        }
        Ok(())
    }
}

/// An error, by kind.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// A program, a command line or a configuration asks for something that does not exist.
    Usage(Reason),

    /// An input is damaged, of an unknown kind, or does not fit the request.
    Input {
        /// The place.
        place: Place,
        /// The reason, and what to do about it.
        reason: Reason,
    },

    /// An input could not be read.
    Read {
        /// The file.
        path: PathBuf,
        /// The operating system's error.
        source: std::io::Error,
    },

    /// Something needs more memory than the limit; reported before it is allocated.
    DoesNotFit {
        /// The object to be allocated.
        what: String,
        /// The bytes it needs.
        needed_bytes: u64,
        /// The limit in bytes.
        limit_bytes: u64,
        /// The next action.
        advice: Reason,
    },

    /// A device is missing or failed.
    Device {
        /// The device's name, as in a list of devices.
        device: String,
        /// The reason, and what to do about it.
        reason: Reason,
    },

    /// Another rank of the job failed, ended or does not answer.
    Rank {
        /// Its number.
        rank: usize,
        /// The name of its host.
        host: String,
        /// The reason.
        reason: Reason,
        /// The exit code of its error.
        exit_code: u8,
    },

    /// A study ended without a single measurement.
    NothingMeasured(String),

    /// Y differs from the product by more than the rounding bound.
    Verification(String),

    /// A result could not be written; an earlier file of that name is unchanged.
    Write {
        /// The file.
        path: PathBuf,
        /// The operating system's error.
        source: std::io::Error,
    },

    /// A signal asked the program to stop.
    Interrupted,

    /// An invariant of the program was violated.
    Internal(String),
}

impl Error {
    /// An error of a request.
    #[doc(hidden)]
    pub fn usage(reason: impl Into<Reason>) -> Self {
        Self::Usage(reason.into())
    }

    /// An input error at a place.
    #[doc(hidden)]
    pub fn input(place: Place, reason: impl Into<Reason>) -> Self {
        Self::Input { place, reason: reason.into() }
    }

    /// A read error of a file.
    #[doc(hidden)]
    pub fn read(path: impl Into<PathBuf>, source: std::io::Error) -> Self {
        Self::Read { path: path.into(), source }
    }

    /// A write error of a file. Where the folder is missing, it says so.
    #[doc(hidden)]
    pub fn write(path: impl Into<PathBuf>, source: std::io::Error) -> Self {
        let path = path.into();
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let source = match folder {
            Some(folder) if source.kind() == ErrorKind::NotFound && !folder.exists() => {
                let reason = format!("the folder {} does not exist", folder.display());
                std::io::Error::new(ErrorKind::NotFound, reason)
            }
            _ => source,
        };
        Self::Write { path, source }
    }

    /// An error of a device.
    #[doc(hidden)]
    pub fn device(device: impl Into<String>, reason: impl Into<Reason>) -> Self {
        Self::Device { device: device.into(), reason: reason.into() }
    }

    /// The same with more advice. Kinds without a reason stay as they are.
    #[doc(hidden)]
    pub fn advise(mut self, more: impl IntoIterator<Item = Advice>) -> Self {
        if let Self::Usage(reason)
        | Self::Input { reason, .. }
        | Self::DoesNotFit { advice: reason, .. }
        | Self::Device { reason, .. }
        | Self::Rank { reason, .. } = &mut self
        {
            *reason = std::mem::take(reason).advise(more);
        }
        self
    }

    /// The names of what would help, such as `FewerColumns`; `docs/programs.md` lists them.
    pub fn advice(&self) -> Vec<&'static str> {
        self.pieces_of_advice().iter().map(|advice| advice.name()).collect()
    }

    /// What would help.
    #[doc(hidden)]
    pub fn pieces_of_advice(&self) -> &[Advice] {
        match self {
            Self::Usage(reason)
            | Self::Input { reason, .. }
            | Self::DoesNotFit { advice: reason, .. }
            | Self::Device { reason, .. }
            | Self::Rank { reason, .. } => reason.advice(),
            _ => &[],
        }
    }

    /// What is wrong and where, without advice.
    pub fn message(&self) -> String {
        match self {
            Self::Usage(reason) => reason.words().to_owned(),
            Self::Input { place, reason } => format!("{place}: {}", reason.words()),
            Self::Read { path, source } => format!("{}: {source}", path.display()),
            Self::DoesNotFit { what, needed_bytes, limit_bytes, advice } => {
                let needed = Bytes(*needed_bytes);
                // 0: no limit is known, but the memory was not given.
                let limit = match *limit_bytes {
                    0 => String::new(),
                    limit => format!(" but the limit is {}", Bytes(limit)),
                };
                let separator = if advice.words().is_empty() { "" } else { "; " };
                format!("{what} needs {needed}{limit}{separator}{}", advice.words())
            }
            Self::Device { device, reason } => format!("device {device}: {}", reason.words()),
            Self::Rank { rank, host, reason, .. } => format!("rank {rank} on {host}: {}", reason.words()),
            Self::NothingMeasured(reason) => format!("no case could be measured: {reason}"),
            Self::Verification(reason) => format!("verification failed: {reason}"),
            Self::Write { path, source } => format!("cannot write {}: {source}", path.display()),
            Self::Interrupted => "interrupted".into(),
            Self::Internal(reason) => format!("internal error: {reason}; please report it"),
        }
    }

    /// The message and the advice, as the reason of another error.
    #[doc(hidden)]
    pub fn as_reason(&self) -> Reason {
        Reason::from(self.message()).advise(self.pieces_of_advice().iter().copied())
    }

    /// The message and the advice in the words of a client. Advice for which the client has no words is left out.
    #[doc(hidden)]
    pub fn for_client(&self, words: impl Fn(Advice) -> Option<&'static str>) -> String {
        advice::with_advice(&self.message(), self.pieces_of_advice(), words)
    }

    /// The exit code the program ends with.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Write { .. } => 1,
            Self::Usage(_) => 2,
            Self::Input { .. } | Self::Read { .. } | Self::DoesNotFit { .. } => 3,
            Self::Device { .. } | Self::NothingMeasured(_) => 4,
            Self::Rank { exit_code, .. } => *exit_code,
            Self::Verification(_) => 5,
            Self::Internal(_) => 70,
            Self::Interrupted => 130,
        }
    }
}

impl fmt::Display for Error {
    /// The message, and the advice in the words of Rust.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.for_client(|advice| Some(advice.in_rust())))
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Read { source, .. } | Self::Write { source, .. } => Some(source),
            _ => None,
        }
    }
}

/// A byte count with its binary unit: `1.5 GiB`.
#[derive(Debug, Clone, Copy)]
pub struct Bytes(pub u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
        if self.0 < 1024 {
            return f.pad(&format!("{} B", self.0));
        }
        let mut value = self.0 as f64 / 1024.0;
        let mut unit = UNITS[0];
        for next in &UNITS[1..] {
            if value < 1024.0 {
                break;
            }
            value /= 1024.0;
            unit = next;
        }
        f.pad(&format!("{value:.1} {unit}"))
    }
}

/// A duration in seconds, written for people with three digits and a unit: `12.3 ms`.
#[derive(Debug, Clone, Copy)]
pub struct Seconds(pub f64);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (scaled, unit) = match self.0 {
            value if value >= 0.9995 => (value, "s"),
            value if value >= 0.9995e-3 => (value * 1e3, "ms"),
            value => (value * 1e6, "µs"),
        };
        let decimals = match scaled {
            _ if scaled >= 99.95 => 0,
            _ if scaled >= 9.995 => 1,
            _ => 2,
        };
        f.pad(&format!("{scaled:.decimals$} {unit}"))
    }
}

/// A number and its noun, in the plural unless the number is one: `1 product`, `2 products`.
#[derive(Debug, Clone, Copy)]
pub struct Counted<'a>(pub u64, pub &'a str);

impl fmt::Display for Counted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}{}", self.0, self.1, if self.0 == 1 { "" } else { "s" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_read_like_compiler_messages() {
        let place = Place::line("cant.mtx", 14).at_column(3);
        assert_eq!(Error::input(place, "row 0").to_string(), "cant.mtx:14:3: row 0");
    }

    #[test]
    fn advice_follows_the_message_in_the_words_of_each_client() {
        let error = Error::usage("a chunk is too large").advise([Advice::MoreChunks]);
        assert_eq!(error.message(), "a chunk is too large");
        assert_eq!(error.advice(), ["MoreChunks"]);
        assert_eq!(error.to_string(), "a chunk is too large; use a plan with more chunks");
        assert_eq!(error.for_client(|_| Some("use --chunks")), "a chunk is too large; use --chunks");
        assert_eq!(error.for_client(|_| None), error.message());
    }

    #[test]
    fn what_does_not_fit_keeps_its_plain_advice_for_every_client() {
        let refused =
            |advice| Error::DoesNotFit { what: "A".into(), needed_bytes: 2, limit_bytes: 1, advice };
        let plain = refused("use a smaller matrix".into());
        assert_eq!(plain.for_client(|_| None), "A needs 2 B but the limit is 1 B; use a smaller matrix");
        let advised = refused(Advice::FewerColumns.into());
        assert_eq!(advised.to_string(), "A needs 2 B but the limit is 1 B; use fewer `.columns(…)`");
        assert_eq!(advised.message(), "A needs 2 B but the limit is 1 B");
    }

    #[test]
    fn byte_counts_are_written_in_binary_units() {
        assert_eq!(Bytes(1023).to_string(), "1023 B");
        assert_eq!(Bytes(1536).to_string(), "1.5 KiB");
        assert_eq!(Bytes(u64::MAX).to_string(), "16.0 EiB");
    }

    #[test]
    fn durations_have_three_digits_and_a_unit() {
        for (seconds, text) in [
            (1.2345, "1.23 s"),
            (0.99996, "1.00 s"),
            (0.0123, "12.3 ms"),
            (0.000_456, "456 µs"),
            (0.0, "0.00 µs"),
            (123.0, "123 s"),
        ] {
            assert_eq!(Seconds(seconds).to_string(), text);
        }
    }

    #[test]
    fn nouns_follow_their_number() {
        assert_eq!(Counted(1, "product").to_string(), "1 product");
        assert_eq!(Counted(0, "row").to_string(), "0 rows");
    }
}
