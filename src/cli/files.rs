//! Files that commands write, known by their endings before any work is done.

use std::path::{Path, PathBuf};
use std::time::Instant;

use super::console::{Console, check_target};
use super::session::Session;
use super::table::seconds;
use crate::error::{Bytes, Error, Result};
use crate::matrix::io::{Progress, cache, npy, write};
use crate::matrix::{CsrView, MatrixInfo, MultiVector, Scalar};
use crate::work::{ChunkRows, Features, Work};

/// A matrix file to be written.
#[derive(Debug)]
pub struct MatrixFile {
    path: PathBuf,
    is_cache: bool,
}

impl MatrixFile {
    /// A file that can be written, of a kind that its name says.
    pub fn new(path: &Path) -> Result<Self> {
        let name = path.to_string_lossy();
        let is_cache = name.ends_with(".rlm");
        if !is_cache && !name.ends_with(".mtx") && !name.ends_with(".mtx.gz") {
            let reason = "what to write is known by the ending: .mtx, .mtx.gz or .rlm";
            return Err(Error::Usage(format!("{name}: {reason}")));
        }
        check_target(path)?;
        Ok(Self { path: path.to_owned(), is_cache })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes the matrix and gives the seconds it took.
    pub fn write<T: Scalar>(
        &self,
        matrix: &CsrView<'_, T>,
        info: &MatrixInfo,
        session: &Session,
        console: &Console,
    ) -> Result<f64> {
        let bar = console.bar(matrix.nnz() as u64, "entries");
        bar.say(&format!("writing {}", self.path.display()));
        let advance = |entries| bar.advance(entries);
        session.interrupt.defer();
        let start = Instant::now();
        session.pool.install(|| {
            if self.is_cache {
                let all = ChunkRows::Rows { begin: 0, end: matrix.rows() };
                let features = Features::of(&Work::spmm(matrix, 1)?, &all);
                let features =
                    serde_json::to_value(features).map_err(|error| Error::Internal(error.to_string()))?;
                let info = MatrixInfo { features: Some(features), ..info.clone() };
                cache::write_cache(&self.path, matrix, &info)
            } else {
                write::write_matrix_market(&self.path, matrix, info, Some(Progress(&advance)))
            }
        })?;
        Ok(start.elapsed().as_secs_f64())
    }
}

/// A dense file to be written.
#[derive(Debug)]
pub struct DenseFile {
    path: PathBuf,
    is_npy: bool,
}

impl DenseFile {
    /// A file that can be written, of a kind that its name says.
    pub fn new(path: &Path) -> Result<Self> {
        let name = path.to_string_lossy();
        let is_npy = name.ends_with(".npy");
        if !is_npy && !name.ends_with(".mtx") {
            let reason = "what to write is known by the ending: .mtx or .npy";
            return Err(Error::Usage(format!("{name}: {reason}")));
        }
        check_target(path)?;
        Ok(Self { path: path.to_owned(), is_npy })
    }

    /// Writes the multivector.
    pub fn write<T: Scalar>(&self, values: &MultiVector<T>) -> Result<()> {
        if self.is_npy { npy::write_npy(&self.path, values) } else { write::write_array(&self.path, values) }
    }
}

/// A written file for people: its name, size and time.
pub fn written(path: &Path, write_seconds: f64) -> String {
    let size =
        std::fs::metadata(path).map(|metadata| format!(", {}", Bytes(metadata.len()))).unwrap_or_default();
    format!("{}{size}, in {}", path.display(), seconds(write_seconds))
}
