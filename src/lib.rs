//! Rowloom computes `Y = A X`, A sparse and X a dense multivector, on every processor of a machine at once.
//!
//! # A product
//!
//! `auto` uses the CPU and every GPU that makes the products faster. A list such as `cpu,cuda:0` names devices.
//!
//! ```
//! use rowloom::{Csr, MultiVector, Runtime};
//!
//! # fn main() -> rowloom::Result<()> {
//! let runtime = Runtime::open("auto")?;
//! let a = Csr::<f64>::generate("stencil5,n=30")?;
//! let x = MultiVector::from_fn(a.cols(), 8, |row, column| (row + column) as f64)?;
//! let mut product = runtime.product(a).columns(8).uses(10).build()?;
//! let mut y = product.apply(&x)?;
//! product.apply_into(&x, &mut y)?;
//! println!("{}", product.explain());
//! # Ok(())
//! # }
//! ```
//!
//! # A plan
//!
//! A plan depends only on the sparsity pattern of the matrix. It can be made for a described machine, and simulated there.
//!
//! ```
//! use rowloom::runtime::Simulated;
//! use rowloom::{Csr, Runtime};
//!
//! # fn main() -> rowloom::Result<()> {
//! let runtime = Runtime::open("sim:h200x2")?;
//! let product = runtime.product(Csr::<f64>::generate("rmat,scale=10,degree=8")?).columns(32).build()?;
//! assert!(Simulated::new(product.plan())?.run()?.seconds() > 0.0);
//! # Ok(())
//! # }
//! ```
//!
//! # Modules
//!
//! | module | contents |
//! |---|---|
//! | [`matrix`] | sparse matrices, multivectors and their views |
//! | [`runtime`] | runtimes, products, vectors that stay on devices, dense products, ranks |
//! | [`plan`] | plans of products, saved and loaded |
//! | [`solver`] | eigenvalue solvers |
//! | [`trace`] | products as Chrome traces |
//! | `mpi` | ranks that are processes of an MPI job, with the feature `mpi` |
//!
//! `docs/programs.md` describes the objects, options, features and errors; `examples/` contains complete programs.

#![deny(unsafe_code)]
#![warn(missing_docs)]
// Some functions serve only one of the back ends, and a build may lack it.
#![cfg_attr(not(all(feature = "cuda", feature = "emulator")), allow(dead_code, unused_imports))]

#[doc(hidden)]
pub mod internal;
#[cfg(test)]
#[path = "../tests/skip/mod.rs"]
mod skip;

// Modules of the crate name each other as `crate::module`.
use internal::{
    adapt, cost, device, error, exec, files, graph, kernel, machine, suggest, threads, toml_file, work,
};

/// Parts of matrices and multivectors. The main types, [`Csr`] and [`MultiVector`], are in the root of the crate.
pub mod matrix {
    pub(crate) use crate::internal::matrix::*;
    pub use crate::internal::matrix::{Coo, CsrView, Dtype, MultiVectorView, MultiVectorViewMut, Scalar};
}

/// Plans of products.
pub mod plan {
    pub(crate) use crate::internal::plan::*;
    pub use crate::internal::plan::{Mode, Plan};
}

/// Options, builders and reports of products. The main types, [`Runtime`], [`Product`] and [`Vectors`], are in the root of the crate.
pub mod runtime {
    pub use crate::internal::device::network::Communicator;
    pub use crate::internal::kernel::colmean::Totals;
    pub use crate::internal::kernel::cpu::Kernels;
    pub use crate::internal::kernel::gemm::PackedProduct;
    pub(crate) use crate::internal::runtime::*;
    pub use crate::internal::runtime::{
        Bound, BoundGemm, Check, Cluster, ClusterProduct, ClusterProductBuilder, ColumnSums,
        ColumnSumsBuilder, DenseBuilder, DenseOperand, DenseWork, FaultReport, Gemm, GemmBuilder, Input,
        Matrix, Output, PageLockedMultiVector, Product, ProductBuilder, RowBlock, RunReport, Runtime,
        RuntimeBuilder, Scalars, Simulated, Transfer, Vectors,
    };
}

/// Eigenvalue solvers on vectors that stay on devices.
pub mod solver {
    pub use crate::internal::solver::{
        PowerSettings, SolverReport, SpectrumEnd, SubspaceSettings, power_iteration, start_vectors,
        subspace_iteration,
    };
}

/// Spans of products on one clock, as Chrome traces.
pub mod trace {
    pub use crate::internal::trace::Trace;
    pub(crate) use crate::internal::trace::*;
}

/// Ranks that are processes of an MPI job.
#[cfg(feature = "mpi")]
pub mod mpi {
    pub use crate::internal::mpi::{communicator, from_communicator, from_raw};
}

/// Compiles the examples of the document.
#[cfg(doctest)]
#[doc = include_str!("../docs/programs.md")]
struct ExamplesOfPrograms;

pub use internal::error::{Error, Place, Reason, Result};
pub use internal::matrix::{Csr, MultiVector};
pub use internal::runtime::{Product, Runtime, Vectors};
