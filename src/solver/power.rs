//! Block power iteration: the eigenvalues of a symmetric matrix with the largest absolute values.

use super::SolverReport;
use super::block::Block;
use crate::error::Result;
use crate::kernel::cpu::Kernels;
use crate::runtime::{Product, Vectors};

/// Iterations between Rayleigh-Ritz projections, which find the residuals.
const CHECK_INTERVAL: u64 = 10;

/// When block power iteration ends.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct PowerSettings {
    /// Number of eigenvalues, at most K. The columns beyond it make the iteration converge faster.
    #[doc(hidden)]
    pub wanted: usize,
    /// The iteration ends when every residual is at most this times the largest absolute Ritz value.
    #[doc(hidden)]
    pub tolerance: f64,
    /// Most iterations.
    #[doc(hidden)]
    pub iterations: u64,
}

impl PowerSettings {
    /// `wanted` eigenvalues, with a tolerance of 1e-8 and at most 1000 iterations.
    pub const fn new(wanted: usize) -> Self {
        Self { wanted, tolerance: 1e-8, iterations: 1000 }
    }

    /// The tolerance.
    #[must_use]
    pub const fn tolerance(mut self, tolerance: f64) -> Self {
        self.tolerance = tolerance;
        self
    }

    /// Most iterations.
    #[must_use]
    pub const fn iterations(mut self, iterations: u64) -> Self {
        self.iterations = iterations;
        self
    }
}

/// Block power iteration with the symmetric matrix of `product`, from the start vectors `x`, which become the Ritz vectors.
///
/// Each iteration is a product and an orthonormalisation.
pub fn power_iteration<T: Kernels>(
    product: &mut Product<'_, T>,
    x: &mut Vectors<T>,
    settings: &PowerSettings,
) -> Result<SolverReport> {
    let mut block = Block::new(product, x, settings.wanted)?;
    block.orthonormalise(x)?;
    loop {
        block.apply(x)?;
        block.report.iterations += 1;
        let is_last = block.report.iterations >= settings.iterations;
        if is_last || block.report.iterations.is_multiple_of(CHECK_INTERVAL) {
            let largest_first = |one: f64, other: f64| other.abs().total_cmp(&one.abs());
            let values = block.rayleigh_ritz(x, settings.wanted, largest_first)?;
            let threshold = settings.tolerance * values.first().map_or(0.0, |value| value.abs());
            if block.check(threshold) || is_last {
                return Ok(block.finish());
            }
        }
        block.continue_with_y(x)?;
    }
}
