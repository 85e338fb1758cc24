//! Eigenvalue solvers on vectors that stay on devices: block power iteration and Chebyshev-filtered subspace iteration.
//!
//! Only K × K matrices and K numbers come to the host. With a [reproducible](crate::runtime::ProductBuilder::reproducible) product
//! the results have the same bits on any devices.

mod block;
mod power;
mod small;
mod subspace;

pub use block::start_vectors;
pub use power::{PowerSettings, power_iteration};
pub use subspace::{SpectrumEnd, SubspaceSettings, subspace_iteration};

/// The result of a solver.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct SolverReport {
    /// The wanted eigenvalues: Ritz values, the most wanted first.
    pub eigenvalues: Vec<f64>,
    /// For each eigenvalue the Euclidean norm of A x - λ x, where x has length 1.
    pub residuals: Vec<f64>,
    /// Whether all residuals are within the tolerance.
    pub converged: bool,
    /// Number of iterations.
    pub iterations: u64,
    /// Number of products with K columns.
    pub products: u64,
    /// Seconds of products; in the filter of subspace iteration, also of the `axpby` after each.
    pub product_s: f64,
    /// Seconds of all other operations on vectors and of K × K matrices.
    pub vector_s: f64,
    /// Seconds of the whole solve, without the allocation of its vectors.
    pub total_s: f64,
}
