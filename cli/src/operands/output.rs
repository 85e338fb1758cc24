//! The files that commands write. The ending of the name decides the format, before any work is done.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Instant;

use super::session::{CHANGED, Session};
use crate::args::standard_stream::is_dash;
use crate::console::table::seconds;
use crate::console::{Console, check_target};
use rowloom::internal::error::{Bytes, Error, Result};
use rowloom::internal::files::{STANDARD_OUTPUT, Target};
use rowloom::internal::matrix::io::{ArrayFormat, Progress, cache, npy, npz_write, write};
use rowloom::internal::matrix::{Field, Loaded, MatrixInfo, MultiVector, Scalar};
use rowloom::internal::work::ChunkRows;
use rowloom::internal::work::spmm::{Features, Spmm};

/// The format of a matrix file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MatrixFormat {
    MatrixMarket,
    Npz,
    Cache,
}

/// Where a matrix is written: a file, or standard output as Matrix Market.
#[derive(Debug)]
pub struct MatrixFile {
    path: PathBuf,
    format: MatrixFormat,
}

impl MatrixFile {
    /// The file that OUT names. Its ending must be known and its folder must accept new files.
    pub fn new(path: &Path) -> Result<Self> {
        let name = path.to_string_lossy();
        let format = match () {
            () if is_dash(path) || name.ends_with(".mtx") || name.ends_with(".mtx.gz") => {
                MatrixFormat::MatrixMarket
            }
            () if name.ends_with(".npz") => MatrixFormat::Npz,
            () if name.ends_with(".rlm") => MatrixFormat::Cache,
            () => {
                let reason = "the ending must be .mtx, .mtx.gz, .npz or .rlm";
                return Err(Error::usage(format!("{name}: {reason}")));
            }
        };
        if !is_dash(path) {
            check_target(path)?;
        }
        Ok(Self { path: path.to_owned(), format })
    }

    /// The file, as typed.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes the matrix and returns the seconds that took. An existing file stays if the mapped file of the matrix changes.
    pub fn write<T: Scalar>(&self, loaded: &Loaded<T>, session: &Session, console: &Console) -> Result<f64> {
        let (matrix, info) = (&loaded.matrix.view(), &loaded.info);
        let bar = console.bar(matrix.nnz() as u64, "entries");
        bar.say(&format!("writing {}", self.path.display()));
        let advance = |entries| {
            bar.advance(entries);
            if loaded.matrix.is_intact() { Ok(()) } else { Err(io::Error::other(CHANGED)) }
        };
        let progress = Some(Progress(&advance));
        let start = Instant::now();
        session.pool.install(|| match self.format {
            MatrixFormat::MatrixMarket => {
                write::write_matrix_market(target(&self.path), matrix, info, progress)
            }
            MatrixFormat::Npz => npz_write::write_npz(&self.path, matrix, info, progress),
            MatrixFormat::Cache => {
                let all = ChunkRows::Rows { begin: 0, end: matrix.rows() };
                let features = Features::of(&Spmm::new(matrix, 1)?, &all);
                let features =
                    serde_json::to_value(features).map_err(|error| Error::Internal(error.to_string()))?;
                let info = MatrixInfo { features: Some(features), ..info.clone() };
                cache::write_cache(&self.path, matrix, &info, progress)
            }
        })?;
        Ok(start.elapsed().as_secs_f64())
    }
}

/// Where Y is written: a file, or standard output in the format of X.
#[derive(Debug)]
pub struct DenseFile {
    path: PathBuf,
}

impl DenseFile {
    /// The file that `--output` names. Its ending must be known and its folder must accept new files.
    pub fn new(path: &Path) -> Result<Self> {
        let name = path.to_string_lossy();
        if !is_dash(path) {
            if !name.ends_with(".npy") && !name.ends_with(".mtx") {
                return Err(Error::usage(format!("{name}: the ending must be .mtx or .npy")));
            }
            check_target(path)?;
        }
        Ok(Self { path: path.to_owned() })
    }

    /// An error unless the file can hold the product with a matrix of such values.
    pub fn check_holds(&self, field: Field) -> Result<()> {
        match field {
            Field::Complex if !is_dash(&self.path) && !self.is_npy() => {
                let path = self.path.display();
                Err(Error::usage(format!("{path}: A is complex, and so is Y; the ending must be .npy")))
            }
            _ => Ok(()),
        }
    }

    fn is_npy(&self) -> bool {
        self.path.to_string_lossy().ends_with(".npy")
    }

    /// Writes Y of an A with values of this kind; complex ones as `.npy`, also to standard output. In a `.npy` file Y has one dimension
    /// if X had one.
    pub fn write<T: Scalar>(&self, y: &MultiVector<T>, x_format: ArrayFormat, field: Field) -> Result<()> {
        let one_dimensional = x_format == ArrayFormat::Npy { one_dimensional: true };
        if field == Field::Complex {
            return npy::write_complex_npy(target(&self.path), y, one_dimensional);
        }
        let is_npy = match is_dash(&self.path) {
            true => matches!(x_format, ArrayFormat::Npy { .. }),
            false => self.is_npy(),
        };
        match is_npy {
            true => npy::write_npy(target(&self.path), y, one_dimensional),
            false => write::write_array(target(&self.path), y),
        }
    }
}

fn target(path: &Path) -> Target<'_> {
    if is_dash(path) { Target::StandardOutput } else { Target::File(path) }
}

/// A written file for people: its name, size and time.
pub fn written(path: &Path, write_seconds: f64) -> String {
    let time = seconds(write_seconds);
    if is_dash(path) {
        return format!("{STANDARD_OUTPUT}, in {time}");
    }
    let size =
        std::fs::metadata(path).map(|metadata| format!(", {}", Bytes(metadata.len()))).unwrap_or_default();
    format!("{}{size}, in {time}", path.display())
}
