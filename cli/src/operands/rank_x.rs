//! X over several ranks: each rank makes or reads only the rows that it needs.

use crate::args::options::XSource;
use crate::args::standard_stream::is_dash;
use rowloom::internal::error::{Error, Place, Result};
use rowloom::internal::matrix::io::npy::NpyRows;
use rowloom::internal::matrix::io::{ArrayFormat, Input};
use rowloom::internal::matrix::{MultiVector, Scalar};

/// Columns of X where neither -k nor a file gives them.
const DEFAULT_K: usize = 32;

/// Rows of X by their numbers.
#[derive(Debug)]
pub enum RankX {
    /// Random numbers of a seed.
    Random(u64),
    /// Ones.
    Ones,
    /// Rows of a file.
    Npy(Box<NpyRows>),
}

impl RankX {
    /// X of the flags; no file but `.npy` can be read by rows.
    pub fn open(source: &XSource, seed: u64) -> Result<Self> {
        match source {
            XSource::Random => Ok(Self::Random(seed)),
            XSource::File(path) => {
                let is_npy = path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("npy"));
                if is_dash(path) || !is_npy {
                    return Err(Error::usage(format!(
                        "--x {}: over several ranks X must be random, ones or a .npy file; each rank reads its own rows of the file",
                        path.display()
                    )));
                }
                Ok(Self::Npy(Box::new(NpyRows::open(&Input::open(path)?)?)))
            }
            _ => Ok(Self::Ones),
        }
    }

    /// The number of columns, where `asked` is that of the flag -k.
    pub fn k(&self, source: &XSource, asked: Option<usize>) -> Result<usize> {
        match (self, asked) {
            (Self::Npy(file), Some(k)) if file.k() != k as u64 => Err(Error::input(
                Place { source: source.name(), line: None, column: None },
                format!("X has {} columns but -k says {k}; leave -k out", file.k()),
            )),
            (Self::Npy(file), _) => Ok(file.k() as usize),
            (_, asked) => Ok(asked.unwrap_or(DEFAULT_K)),
        }
    }

    /// An error if X does not have `rows` rows.
    pub fn check_rows(&self, source: &XSource, rows: u64) -> Result<()> {
        match self {
            Self::Npy(file) if file.rows() != rows => Err(Error::input(
                Place { source: source.name(), line: None, column: None },
                format!("X has {} rows but A has {rows} columns; the numbers must be equal", file.rows()),
            )),
            _ => Ok(()),
        }
    }

    /// The format of its file; Matrix Market if X is generated.
    pub fn format(&self) -> ArrayFormat {
        match self {
            Self::Npy(file) => ArrayFormat::Npy { one_dimensional: file.is_one_dimensional() },
            Self::Random(_) | Self::Ones => ArrayFormat::MatrixMarket,
        }
    }

    /// The rows `row(0)` to `row(count - 1)`, with `k` columns.
    pub fn read<T: Scalar>(
        &self,
        count: usize,
        k: usize,
        row: impl Fn(usize) -> u64 + Sync,
    ) -> Result<MultiVector<T>> {
        match self {
            Self::Random(seed) => MultiVector::random_rows(count, k, *seed, row),
            Self::Ones => MultiVector::filled(count, k, T::ONE),
            Self::Npy(file) => file.read(count, row),
        }
    }
}
