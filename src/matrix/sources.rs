//! Matrices from their sources, files and generators, with the memory limit of this machine.

use std::path::Path;

use super::io::{self, ReadOptions};
use super::{Csr, Scalar, generate};
use crate::error::Result;
use crate::machine::memory_limit_bytes;

/// The short forms for programs.
impl<T: Scalar> Csr<T> {
    /// Reads a matrix file: Matrix Market, SciPy `.npz`, SuiteSparse `.tar.gz` or Rowloom's `.rlm`.
    pub fn read(path: impl AsRef<Path>) -> Result<Self> {
        let options = ReadOptions { memory_limit_bytes: memory_limit_bytes(), ..ReadOptions::default() };
        Ok(io::read(path.as_ref(), &options)?.matrix)
    }

    /// A generated matrix, such as `stencil27,n=24`.
    pub fn generate(spec: &str) -> Result<Self> {
        Ok(generate(spec, 1, memory_limit_bytes())?.matrix)
    }
}
