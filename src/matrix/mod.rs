//! Sparse matrices and dense multivectors: formats, conversions, statistics, generators and files.
//!
//! Parallel functions run in the rayon pool of the caller, who decides the number of threads.

pub mod array;
mod columns;
pub mod complex;
mod content;
pub mod convert;
pub mod convert_serial;
pub mod coo;
pub mod csr;
pub mod ell;
#[cfg(feature = "faer")]
mod faer_matrices;
pub mod generate;
pub mod info;
pub mod io;
pub mod multivector;
#[cfg(feature = "ndarray")]
mod ndarray_arrays;
pub mod packing;
pub(crate) mod random;
#[cfg(test)]
mod refusal_tests;
pub mod scalar;
pub mod sell;
mod sources;
#[cfg(feature = "sprs")]
mod sprs_matrices;
pub mod spy;
pub mod statistics;
pub mod transpose;
mod value_bits;
pub mod value_codes;

pub use array::{AlignedBuffer, Array};
pub use columns::CopiedColumns;
pub use content::ContentId;
pub use coo::Coo;
pub use csr::{Csr, CsrView};
pub use ell::{EllPadded, EllUnpadded};
pub use generate::generate;
pub use info::{Field, Loaded, MatrixInfo, Symmetry};
pub use multivector::{MultiVector, MultiVectorView, MultiVectorViewMut};
pub use packing::{Packable, Packing};
pub use scalar::{Dtype, Scalar};
pub use sell::{SlicedEll, Slicing};
pub use spy::spy_svg;
pub use statistics::RowStatistics;
pub use transpose::transpose;
pub use value_bits::ValueBits;
pub use value_codes::{ValueCode, ValueCodes};
