//! The argument that names a matrix.

use std::ffi::OsStr;
use std::path::PathBuf;

use super::hints::of_missing_matrix;
use super::standard_stream::is_dash;
use rowloom::internal::error::{Error, Result};
use rowloom::internal::matrix::generate::{generate, generate_dense};

/// Where a matrix comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MatrixSource {
    /// A file, or `-` for standard input.
    File(PathBuf),
    /// A generator; the text behind `gen:`.
    Generated(String),
    /// A matrix of the SuiteSparse collection; the text behind `suitesparse:`.
    Collection(String),
}

impl MatrixSource {
    /// The source that `text` names.
    pub fn new(text: &OsStr) -> Self {
        let behind = |prefix| text.to_str().and_then(|text| text.strip_prefix(prefix)).map(str::to_owned);
        match (behind("gen:"), behind("suitesparse:")) {
            (Some(spec), _) => Self::Generated(spec),
            (_, Some(name)) => Self::Collection(name),
            _ => Self::File(text.into()),
        }
    }

    /// An error for a missing file or an unknown generator, without loading anything.
    pub fn check(&self) -> Result<()> {
        match self {
            Self::File(path) if is_dash(path) => Ok(()),
            Self::File(path) => {
                let found = std::fs::metadata(path).map(drop);
                found.map_err(|error| of_missing_matrix(path, Error::read(path, error)))
            }
            // What is not in the folder yet is downloaded when it is needed.
            Self::Collection(_) => Ok(()),
            // Without memory a valid description is refused before anything is allocated.
            Self::Generated(spec) => match generate::<f64>(spec, 1, 0) {
                Ok(_) | Err(Error::DoesNotFit { .. }) => Ok(()),
                Err(error) => Err(error),
            },
        }
    }

    /// The same for a dense matrix.
    pub fn check_dense(&self) -> Result<()> {
        match self {
            Self::Generated(spec) => match generate_dense::<f64>(spec, 1, 0) {
                Ok(_) | Err(Error::DoesNotFit { .. }) => Ok(()),
                Err(error) => Err(error),
            },
            Self::Collection(name) => Err(Error::usage(format!("suitesparse:{name} is a sparse matrix"))),
            Self::File(_) => self.check(),
        }
    }

    /// As typed.
    pub fn name(&self) -> String {
        match self {
            Self::File(path) => path.display().to_string(),
            Self::Generated(spec) => format!("gen:{spec}"),
            Self::Collection(name) => format!("suitesparse:{name}"),
        }
    }
}
