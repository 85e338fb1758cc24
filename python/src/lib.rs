//! The native part of the Python package `rowloom`: operators made from NumPy's arrays, products, and vectors on devices.
//!
//! The Python layer, `rowloom/`, converts what callers pass and documents it; this module decides nothing of its own.
//! Everything that takes time runs with the interpreter's lock released.

mod abandoned;
mod advice;
mod arrays;
mod borrowed;
mod cache;
mod copies;
mod dlpack;
mod error;
mod explain;
mod interrupt;
mod matrix;
mod of_process;
mod operator;
mod per_process;
mod product;
mod ranks;
mod results;
mod runtimes;
mod scalars;
mod source;
mod vectors;

use pyo3::prelude::*;

/// The native part of `rowloom`.
#[pymodule(gil_used = false)]
mod _rowloom {
    /// The version of the package.
    #[pymodule_export]
    #[allow(non_upper_case_globals)] // Python's name.
    const __version__: &str = env!("CARGO_PKG_VERSION");
    #[pymodule_export]
    use super::error::DeviceError;
    #[pymodule_export]
    use super::operator::{Operator, from_arrays, from_file};
    #[pymodule_export]
    use super::ranks::Ranks;
    #[pymodule_export]
    use super::runtimes::close;
    #[pymodule_export]
    use super::scalars::Scalars;
    #[pymodule_export]
    use super::vectors::Vectors;
}
