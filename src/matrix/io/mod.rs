//! Reads and writes matrices and multivectors.
//!
//! The first bytes of a file decide its format, not its name. A damaged file is refused with a reason: a reader never
//! panics or hangs, and allocates nothing because a damaged header asks for it.

pub mod archive;
pub mod cache;
#[cfg(target_arch = "x86_64")]
mod decimal_groups;
mod decimals;
pub mod gzip;
pub mod mapping;
pub mod matrix_market;
pub mod npy;
mod npy_header;
pub mod npz;
pub mod npz_write;
mod progress;
mod refusal;
mod table_text;
pub mod text;
pub mod write;

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

pub use progress::Progress;

use super::info::Loaded;
use super::multivector::MultiVector;
use super::scalar::Scalar;
use crate::error::{Advice, Error, Place, Result};
use crate::files::open_regular;
use text::TextMatrix;

/// Limits of a reader.
#[derive(Debug, Clone, Copy)]
pub struct ReadOptions<'a> {
    /// Most bytes of memory that a matrix may take while it is read.
    pub memory_limit_bytes: u64,
    /// Refuse NaN and infinities.
    pub finite: bool,
    /// Accept complex values: as the real matrix of [`super::complex`], and as two real columns for each column of a dense array.
    pub complex: bool,
    /// Counts the bytes that are read of a text, compressed or not.
    pub progress: Option<Progress<'a>>,
}

impl Default for ReadOptions<'_> {
    fn default() -> Self {
        Self { memory_limit_bytes: u64::MAX, finite: false, complex: false, progress: None }
    }
}

/// A regular file that is open for reading.
#[derive(Debug)]
pub struct Input {
    /// The file.
    pub file: File,
    /// Its name in messages.
    pub path: PathBuf,
}

impl Input {
    /// Opens a regular file; a folder, a pipe or a device is refused without waiting for it.
    pub fn open(path: &Path) -> Result<Self> {
        Ok(Self { file: open_regular(path)?, path: path.into() })
    }
}

/// A dense array and how its file stores it.
#[derive(Debug)]
pub struct Dense<T: Scalar> {
    /// The values.
    pub values: MultiVector<T>,
    /// Whether each column of the file is two columns of values, the real and the imaginary parts.
    pub is_complex: bool,
    /// The names of the columns, where the file has them.
    pub names: Vec<String>,
    /// The format of the file.
    pub format: ArrayFormat,
    /// Sentences about repairs and oddities.
    pub notes: Vec<String>,
}

/// The format of a dense file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArrayFormat {
    /// A Matrix Market array.
    MatrixMarket,
    /// NumPy's `.npy`.
    Npy {
        /// Whether the array has one dimension instead of two.
        one_dimensional: bool,
    },
    /// Text: a row per line, numbers separated by blanks, commas or semicolons.
    Text,
}

/// The format of a file.
enum Kind {
    Cache,
    Gzip,
    Npy,
    Zip,
    Text,
}

impl Kind {
    fn of(first_bytes: &[u8]) -> Self {
        match first_bytes {
            _ if first_bytes.starts_with(&cache::MAGIC) => Self::Cache,
            [0x1f, 0x8b, ..] => Self::Gzip,
            [0x93, b'N', b'U', b'M', b'P', b'Y', ..] => Self::Npy,
            [b'P', b'K', 3, 4, ..] => Self::Zip,
            _ => Self::Text,
        }
    }
}

/// Reads a sparse matrix: Matrix Market as it is or as `.gz`, a SuiteSparse `.tar.gz`, a SciPy `.npz` or a cache.
pub fn read<T: Scalar>(path: &Path, options: &ReadOptions) -> Result<Loaded<T>> {
    read_input(&Input::open(path)?, options)
}

/// Reads what [`read`] reads, from an open file.
pub fn read_input<T: Scalar>(input: &Input, options: &ReadOptions) -> Result<Loaded<T>> {
    let _span = tracing::info_span!("read matrix").entered();
    let Input { file, path } = input;
    match Kind::of(&first_bytes(input)?) {
        Kind::Gzip => matrix_market::read_gzip(file, path, options),
        Kind::Cache => cache::read_cache_input(input, options),
        Kind::Zip => npz::read_npz_input(input, options),
        Kind::Npy => Err(dense_array(path)),
        Kind::Text => matrix_market::read_plain(file, path, options),
    }
}

/// The formats of sparse matrices, by how several readers share the work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DividedFormat {
    /// Rowloom's cache: each reads a part.
    Cache,
    /// Matrix Market as plain text: each reads a part.
    MatrixMarket,
    /// Compressed: one reader reads it from its beginning.
    Whole,
}

/// The format of a sparse matrix that several readers are to read.
pub fn divided_format(input: &Input) -> Result<DividedFormat> {
    match Kind::of(&first_bytes(input)?) {
        Kind::Cache => Ok(DividedFormat::Cache),
        Kind::Text => Ok(DividedFormat::MatrixMarket),
        Kind::Gzip | Kind::Zip => Ok(DividedFormat::Whole),
        Kind::Npy => Err(dense_array(&input.path)),
    }
}

fn dense_array(path: &Path) -> Error {
    Error::input(Place::file(path), "unsupported: a dense array as A; give a sparse matrix")
        .advise([Advice::DenseProduct])
}

/// The error of complex values where only real ones are read.
pub(crate) fn complex_values(place: Place) -> Error {
    Error::input(place, "unsupported: complex values; real, integer and pattern matrices are read here")
        .advise([Advice::ComplexProduct])
}

/// A note on values that are not finite, or an error where only finite values are allowed.
pub(crate) fn non_finite_note(path: &Path, count: u64, only_finite: bool) -> Result<Option<String>> {
    let values = counted(count, "value is not finite", "values are not finite");
    match count {
        0 => Ok(None),
        _ if only_finite => {
            let reason = format!("{values}, and only finite values are allowed");
            Err(Error::input(Place::file(path), reason).advise([Advice::AnyValues]))
        }
        _ => Ok(Some(values)),
    }
}

/// Reads a dense matrix: a Matrix Market array, as it is or as `.gz`, a `.npy` file, or text with a row per line.
pub fn read_dense<T: Scalar>(path: &Path, options: &ReadOptions) -> Result<Dense<T>> {
    read_dense_input(&Input::open(path)?, options)
}

/// Reads what [`read_dense`] reads, from an open file.
pub fn read_dense_input<T: Scalar>(input: &Input, options: &ReadOptions) -> Result<Dense<T>> {
    let _span = tracing::info_span!("read dense").entered();
    let Input { file, path } = input;
    let text = |(values, notes)| Dense {
        values,
        is_complex: false,
        names: Vec::new(),
        format: ArrayFormat::MatrixMarket,
        notes,
    };
    let first_bytes = first_bytes(input)?;
    match Kind::of(&first_bytes) {
        Kind::Gzip => matrix_market::read_array_gzip(file, path, options).map(text),
        Kind::Npy => npy::read_npy_input(input, options),
        Kind::Zip => npz::read_dense_npz(input, options),
        Kind::Cache => Err(Error::input(Place::file(path), SPARSE)),
        Kind::Text if text::may_be_table(input, &first_bytes)? => {
            let TextMatrix { values, names, notes } = text::read_text_input(input, options)?;
            Ok(Dense { values, is_complex: false, names, format: ArrayFormat::Text, notes })
        }
        Kind::Text => matrix_market::read_array_plain(file, path, options).map(text),
    }
}

fn first_bytes(input: &Input) -> Result<Vec<u8>> {
    // Text may begin with blanks.
    read_start(input, 64)
}

/// The first bytes of a file, at most so many.
fn read_start(input: &Input, most: usize) -> Result<Vec<u8>> {
    let mut bytes = vec![0; most];
    let mut filled = 0;
    while filled < bytes.len() {
        match input.file.read_at(&mut bytes[filled..], filled as u64) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(Error::read(&input.path, error)),
        }
    }
    bytes.truncate(filled);
    Ok(bytes)
}

/// Why a sparse matrix is refused where a dense one is needed.
const SPARSE: &str = "this holds a sparse matrix; give a Matrix Market array or a .npy file";

/// The error of a failed read: damage that a reader described, or the error of the system.
pub(crate) fn read_error(path: &Path, source: &str, error: io::Error) -> Error {
    if error.kind() == io::ErrorKind::InvalidData && error.get_ref().is_some() {
        Error::input(Place { source: source.into(), line: None, column: None }, error.to_string())
    } else {
        Error::read(path, error)
    }
}

/// A file's name without its endings: `cant` for `matrices/cant.mtx.gz`.
pub(crate) fn name_of(path: &Path) -> String {
    let mut name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    for ending in [".gz", ".tar", ".mtx"] {
        if let Some(shorter) = name.strip_suffix(ending).filter(|shorter| !shorter.is_empty()) {
            name.truncate(shorter.len());
        }
    }
    name
}

/// `1 value is`, `2 values are`: a count with the words for one or for several.
pub(crate) fn counted(count: u64, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lose_their_endings() {
        assert_eq!(name_of(Path::new("a/cant.mtx.gz")), "cant");
        assert_eq!(name_of(Path::new("cant.tar.gz")), "cant");
        assert_eq!(name_of(Path::new("v1.2.mtx")), "v1.2");
        assert_eq!(name_of(Path::new(".mtx")), ".mtx");
    }
}
