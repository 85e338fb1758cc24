//! Chebyshev-filtered subspace iteration: the largest or smallest eigenvalues of a symmetric matrix.

use rayon::prelude::*;

use super::SolverReport;
use super::block::Block;
use crate::error::Result;
use crate::kernel::cpu::Kernels;
use crate::runtime::{Product, Vectors};

/// Which eigenvalues are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpectrumEnd {
    /// The largest.
    Largest,
    /// The smallest.
    Smallest,
}

/// How Chebyshev-filtered subspace iteration proceeds and when it ends.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct SubspaceSettings {
    /// Which eigenvalues.
    #[doc(hidden)]
    pub end: SpectrumEnd,
    /// Number of eigenvalues, at most K. The columns beyond it make the iteration converge faster.
    #[doc(hidden)]
    pub wanted: usize,
    /// Degree of the filter polynomial, at least 1: the number of products of an iteration.
    #[doc(hidden)]
    pub degree: u64,
    /// The iteration ends when every residual is at most this times the largest absolute bound of the spectrum.
    #[doc(hidden)]
    pub tolerance: f64,
    /// Most iterations.
    #[doc(hidden)]
    pub iterations: u64,
}

impl SubspaceSettings {
    /// `wanted` eigenvalues at one end of the spectrum, with a filter of degree 20, a tolerance of 1e-8 and at most 100 iterations.
    pub const fn new(end: SpectrumEnd, wanted: usize) -> Self {
        Self { end, wanted, degree: 20, tolerance: 1e-8, iterations: 100 }
    }

    /// Degree of the filter polynomial, at least 1.
    #[must_use]
    pub const fn degree(mut self, degree: u64) -> Self {
        self.degree = degree;
        self
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

/// Chebyshev-filtered subspace iteration with the symmetric matrix of `product`, from the start vectors `x`, which become the
/// Ritz vectors.
///
/// Each iteration applies a polynomial of A that is small on the unwanted part of the spectrum and grows fast beyond it, orthonormalises,
/// and finds the Ritz values by Rayleigh-Ritz. The least wanted Ritz value is the end of the unwanted part in the next iteration; its other
/// end is Gershgorin's bound.
pub fn subspace_iteration<T: Kernels>(
    product: &mut Product<'_, T>,
    x: &mut Vectors<T>,
    settings: &SubspaceSettings,
) -> Result<SolverReport> {
    let mut block = Block::new(product, x, settings.wanted)?;
    let bounds = gershgorin(block.product());
    let threshold = settings.tolerance * bounds.0.abs().max(bounds.1.abs());
    let before = |one: f64, other: f64| match settings.end {
        SpectrumEnd::Largest => other.total_cmp(&one),
        SpectrumEnd::Smallest => one.total_cmp(&other),
    };
    block.orthonormalise(x)?;
    block.apply(x)?;
    let mut ritz = block.rayleigh_ritz(x, settings.wanted, before)?;
    while !block.check(threshold) && block.report.iterations < settings.iterations {
        let (most, least) = (ritz.first().copied().unwrap_or(0.0), ritz.last().copied().unwrap_or(0.0));
        let unwanted = match settings.end {
            SpectrumEnd::Largest => (bounds.0, least),
            SpectrumEnd::Smallest => (least, bounds.1),
        };
        let filter = Filter::new(unwanted, most);
        block.run_products(x, |product, x, y| filter.apply(product, settings.degree, x, y))?;
        block.orthonormalise(x)?;
        block.apply(x)?;
        ritz = block.rayleigh_ritz(x, settings.wanted, before)?;
        block.report.iterations += 1;
    }
    Ok(block.finish())
}

/// A Chebyshev polynomial of A that is at most 1 on an interval, scaled to 1 at a point outside it.
struct Filter {
    centre: f64,
    half_width: f64,
    /// The half width over the distance of the point from the centre.
    ratio: f64,
}

impl Filter {
    fn new((low, high): (f64, f64), at: f64) -> Self {
        let (centre, half_width) = (0.5 * (low + high), (0.5 * (high - low)).max(f64::MIN_POSITIVE));
        Self { centre, half_width, ratio: half_width / (at - centre) }
    }

    /// X = p(A) X by the three-term recurrence, where Y = A X is given and then overwritten. Returns the number of products.
    fn apply<T: Kernels>(
        &self,
        product: &mut Product<'_, T>,
        degree: u64,
        x: &mut Vectors<T>,
        y: &mut Vectors<T>,
    ) -> Result<u64> {
        let &Self { centre, half_width, ratio } = self;
        // Degree 1: (A - c) X times the ratio over the half width.
        let first = ratio / half_width;
        y.axpby(-first * centre, x, first)?;
        let mut sigma = ratio;
        for _ in 1..degree {
            let next = 1.0 / (2.0 / ratio - sigma);
            let alpha = 2.0 * next / half_width;
            // The older vector is overwritten by the newer one.
            product.apply_scaled(alpha, y, -sigma * next, x)?;
            x.axpby(-alpha * centre, y, 1.0)?;
            std::mem::swap(x, y);
            sigma = next;
        }
        std::mem::swap(x, y);
        Ok(degree.saturating_sub(1))
    }
}

/// An interval that contains all eigenvalues of a symmetric matrix.
fn gershgorin<T: Kernels>(product: &Product<'_, T>) -> (f64, f64) {
    let matrix = product.matrix();
    let disc = |row: usize| {
        let (columns, values) = matrix.row(row);
        let (mut centre, mut radius) = (0.0, 0.0);
        for (&column, &value) in columns.iter().zip(values) {
            match column as usize == row {
                true => centre += value.to_f64(),
                false => radius += value.to_f64().abs(),
            }
        }
        (centre - radius, centre + radius)
    };
    let wider = |one: (f64, f64), other: (f64, f64)| (one.0.min(other.0), one.1.max(other.1));
    let none = || (f64::INFINITY, f64::NEG_INFINITY);
    let rows = (0..matrix.rows()).into_par_iter().with_min_len(1 << 12);
    product.runtime().pool().install(|| rows.map(disc).reduce(none, wider))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matrix::{Csr, MultiVector};
    use crate::runtime::Runtime;

    /// The Chebyshev polynomial by its closed form.
    fn chebyshev(degree: u64, x: f64) -> f64 {
        let degree = degree as f64;
        match x.abs() <= 1.0 {
            true => (degree * x.acos()).cos(),
            false => (degree * x.abs().acosh()).cosh() * x.signum().powf(degree),
        }
    }

    #[test]
    fn the_filter_of_a_diagonal_matrix_is_the_chebyshev_polynomial_of_its_entries() {
        let entries: Vec<f64> = (0..40).map(|row| -1.5 + 0.1 * f64::from(row)).collect();
        let (pointers, columns): (Vec<u64>, Vec<u32>) = ((0..=40).collect(), (0..40).collect());
        let a = Csr::try_new(40, 40, pointers, columns, entries.clone()).unwrap();
        let runtime = Runtime::builder().devices("cpu").threads(1).model("none").open().unwrap();
        let mut product = runtime.product(&a).columns(1).build().unwrap();
        for (interval, at) in [((-1.0, 0.5), 2.0), ((0.3, 2.0), -1.0)] {
            for degree in [1, 2, 3, 8] {
                let (mut x, mut y) = (product.vectors().unwrap(), product.vectors().unwrap());
                x.fill(1.0).unwrap();
                product.apply_into(&x, &mut y).unwrap();
                let products = Filter::new(interval, at).apply(&mut product, degree, &mut x, &mut y).unwrap();
                assert_eq!(products, degree - 1);
                let mut found = MultiVector::zeros(40, 1).unwrap();
                x.copy_to(&mut found).unwrap();
                let scaled = |value: f64| (2.0 * value - interval.0 - interval.1) / (interval.1 - interval.0);
                for (found, &entry) in found.data().iter().zip(&entries) {
                    let known = chebyshev(degree, scaled(entry)) / chebyshev(degree, scaled(at));
                    assert!((found - known).abs() < 1e-12 * known.abs().max(1.0), "{found}, not {known}");
                }
            }
        }
    }
}
