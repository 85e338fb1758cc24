//! Dense matrices that commands read or generate.

use std::ffi::OsStr;
use std::sync::Arc;
use std::time::Instant;

use serde_json::{Value, json};

use super::session::Session;
use super::standard_input;
use crate::args::MatrixSource;
use crate::console::Console;
use crate::console::table::count;
use rowloom::internal::error::{Error, Place, Result};
use rowloom::internal::matrix::generate::generate_dense;
use rowloom::internal::matrix::io::{ArrayFormat, Dense, Progress, ReadOptions, read_dense_input};
use rowloom::internal::matrix::{MultiVector, Scalar};

/// A dense matrix and where it comes from.
#[derive(Debug)]
pub struct DenseInput<T: Scalar> {
    /// Its name, as typed.
    pub name: String,
    /// The values.
    pub values: Arc<MultiVector<T>>,
    /// The names of its columns, where its file has them.
    pub column_names: Vec<String>,
    /// The format of its file; Matrix Market if it is generated.
    pub format: ArrayFormat,
    /// Notes on repairs and oddities, each with the name.
    pub notes: Vec<String>,
    /// Seconds to read or generate it.
    pub load_s: f64,
}

impl<T: Scalar> DenseInput<T> {
    /// Reads or generates the matrix that `typed` names and prints its notes. It may take at most `memory_limit_bytes`.
    pub fn load(
        typed: &OsStr,
        seed: u64,
        finite: bool,
        memory_limit_bytes: u64,
        session: &Session,
        console: &Console,
    ) -> Result<Self> {
        let start = Instant::now();
        let source = MatrixSource::new(typed);
        let name = source.name();
        let Dense { values, names: column_names, format, notes, .. } = match source {
            MatrixSource::Collection(_) => {
                let reason = "the SuiteSparse collection has sparse matrices, and a dense one is needed";
                return Err(Error::usage(format!("{name}: {reason}")));
            }
            MatrixSource::Generated(spec) => {
                let _spinner = console.spinner(format!("generating {spec}"));
                let values = session.pool.install(|| generate_dense(&spec, seed, memory_limit_bytes))?;
                Dense {
                    values,
                    is_complex: false,
                    names: Vec::new(),
                    format: ArrayFormat::MatrixMarket,
                    notes: Vec::new(),
                }
            }
            MatrixSource::File(path) => {
                let bar = console.byte_bar(&path, "reading");
                let advance = |bytes| {
                    bar.advance(bytes);
                    Ok(())
                };
                let input = standard_input::open(&path, memory_limit_bytes)?;
                let options = ReadOptions {
                    memory_limit_bytes,
                    finite,
                    complex: false,
                    progress: Some(Progress(&advance)),
                };
                session.pool.install(|| read_dense_input(&input, &options))?
            }
        };
        let notes: Vec<String> = notes.into_iter().map(|note| format!("{name}: {note}")).collect();
        notes.iter().for_each(|note| console.note(note));
        let load_s = start.elapsed().as_secs_f64();
        Ok(Self { name, values: Arc::new(values), column_names, format, notes, load_s })
    }

    /// Bytes of the values.
    pub fn bytes(&self) -> u64 {
        size_of_val(self.values.data()) as u64
    }

    /// Name and shape in one line.
    pub fn describe(&self) -> String {
        let (rows, columns) = (self.values.rows() as u64, self.values.k() as u64);
        format!("{}, {} x {}", self.name, count(rows), count(columns))
    }

    /// The matrix as reports describe it.
    pub fn report(&self) -> Value {
        json!({"name": self.name, "rows": self.values.rows(), "cols": self.values.k()})
    }

    /// An error about this matrix.
    pub fn refused(&self, reason: String) -> Error {
        Error::input(Place { source: self.name.clone(), line: None, column: None }, reason)
    }
}
