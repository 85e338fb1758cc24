//! The operations that solvers share on a block of K vectors: start, orthonormalisation and Rayleigh-Ritz.

use std::cmp::Ordering;
use std::time::Instant;

use super::SolverReport;
use super::small::Small;
use crate::error::{Error, Result};
use crate::kernel::cpu::Kernels;
use crate::matrix::MultiVector;
use crate::runtime::{Product, Vectors};

/// Passes of Cholesky-QR before the columns count as dependent.
const MOST_PASSES: u32 = 6;

/// Start vectors of pseudorandom numbers in [-1, 1], the same on any devices.
pub fn start_vectors<T: Kernels>(product: &mut Product<'_, T>) -> Result<Vectors<T>> {
    let (rows, k) = (product.matrix().rows(), product.columns());
    let number = |row: usize, column: usize| {
        let mut bits = (row as u64).wrapping_mul(k as u64).wrapping_add(column as u64 + 1);
        // The finaliser of splitmix64.
        bits = bits.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        T::from_f64(((bits ^ (bits >> 31)) >> 11) as f64 / (1u64 << 52) as f64 - 1.0)
    };
    let host = MultiVector::from_fn(rows, k, number)?;
    let mut vectors = product.vectors()?;
    vectors.copy_from(&host)?;
    Ok(vectors)
}

/// The vectors of a solver: X, A X, and room for one more block.
pub struct Block<'p, 'a, T: Kernels> {
    product: &'p mut Product<'a, T>,
    /// A X, or any block that is to be orthonormalised.
    pub y: Vectors<T>,
    work: Vectors<T>,
    start: Instant,
    /// Counts and times so far.
    pub report: SolverReport,
}

impl<'p, 'a, T: Kernels> Block<'p, 'a, T> {
    /// Checks the sizes and allocates the vectors.
    pub fn new(product: &'p mut Product<'a, T>, x: &Vectors<T>, wanted: usize) -> Result<Self> {
        let (rows, cols, k) = (product.matrix().rows(), product.matrix().cols(), x.columns());
        if rows != cols {
            return Err(Error::usage(format!(
                "a {rows} x {cols} matrix has no eigenvalues; use a square one"
            )));
        }
        if wanted == 0 || wanted > k || k > rows {
            return Err(Error::usage(format!(
                "{wanted} eigenvalues of a matrix with {rows} rows cannot be computed with {k} columns"
            )));
        }
        let (y, work) = (product.vectors()?, product.vectors()?);
        let start = Instant::now();
        Ok(Self { product, y, work, start, report: SolverReport::default() })
    }

    /// The product.
    pub fn product(&self) -> &Product<'a, T> {
        self.product
    }

    /// Y = A X.
    pub fn apply(&mut self, x: &Vectors<T>) -> Result<()> {
        let start = Instant::now();
        self.product.apply_into(x, &mut self.y)?;
        self.end_products(start, 1)
    }

    /// Runs products on X and Y; `run` returns their number.
    pub fn run_products(
        &mut self,
        x: &mut Vectors<T>,
        run: impl FnOnce(&mut Product<'a, T>, &mut Vectors<T>, &mut Vectors<T>) -> Result<u64>,
    ) -> Result<()> {
        let start = Instant::now();
        let products = run(self.product, x, &mut self.y)?;
        self.end_products(start, products)
    }

    fn end_products(&mut self, start: Instant, products: u64) -> Result<()> {
        // Every solver needs a number from the host next, so waiting here costs nothing.
        self.y.synchronize()?;
        self.report.products += products;
        self.report.product_s += start.elapsed().as_secs_f64();
        Ok(())
    }

    /// Makes the columns of `x` orthonormal: Cholesky-QR twice, with shifts where the columns are nearly dependent.
    pub fn orthonormalise(&mut self, x: &mut Vectors<T>) -> Result<()> {
        let k = x.columns();
        let rounding = 8.0 * k as f64 * T::UNIT_ROUNDOFF;
        let mut without_shift = 0;
        for _ in 0..MOST_PASSES {
            let gram = small(&x.gram(x)?)?;
            let inverse = gram.inverse_factor(0.0, rounding);
            without_shift += u32::from(inverse.is_some());
            let inverse = inverse.or_else(|| gram.inverse_factor(100.0 * rounding, rounding));
            let inverse = inverse.ok_or_else(dependent)?;
            x.times(&multivector(&inverse, k)?, &mut self.work)?;
            std::mem::swap(x, &mut self.work);
            if without_shift == 2 {
                return Ok(());
            }
        }
        Err(dependent())
    }

    /// X becomes Y with orthonormal columns.
    pub fn continue_with_y(&mut self, x: &mut Vectors<T>) -> Result<()> {
        std::mem::swap(x, &mut self.y);
        self.orthonormalise(x)
    }

    /// Rayleigh-Ritz for orthonormal X and Y = A X: X becomes the Ritz vectors, Y their images, in the order of `before`.
    /// Returns all Ritz values and reports those that are wanted with their residuals.
    pub fn rayleigh_ritz(
        &mut self,
        x: &mut Vectors<T>,
        wanted: usize,
        before: impl Fn(f64, f64) -> Ordering,
    ) -> Result<Vec<f64>> {
        let k = x.columns();
        let (values, vectors) = small(&x.gram(&self.y)?)?.eigen(before);
        let vectors = multivector(&vectors, k)?;
        for block in [&mut *x, &mut self.y] {
            block.times(&vectors, &mut self.work)?;
            std::mem::swap(block, &mut self.work);
        }
        // A X - X Λ.
        let negated = Small::new(k, |row, column| if row == column { -values[row] } else { 0.0 });
        x.times(&multivector(&negated, k)?, &mut self.work)?;
        self.work.axpby(1.0, &self.y, 1.0)?;
        let residuals = self.work.norm()?.into_iter().map(T::to_f64).take(wanted);
        self.report.residuals = residuals.collect();
        self.report.eigenvalues = values.iter().copied().take(wanted).collect();
        Ok(values)
    }

    /// Whether all residuals are at most `threshold`; reports it.
    pub fn check(&mut self, threshold: f64) -> bool {
        self.report.converged = self.report.residuals.iter().all(|&residual| residual <= threshold);
        self.report.converged
    }

    /// The report with its total times.
    pub fn finish(mut self) -> SolverReport {
        self.report.total_s = self.start.elapsed().as_secs_f64();
        self.report.vector_s = self.report.total_s - self.report.product_s;
        self.report
    }
}

fn dependent() -> Error {
    Error::usage(
        "the columns of the iteration became linearly dependent; use fewer columns, a lower degree or f64",
    )
}

fn small<T: Kernels>(values: &MultiVector<T>) -> Result<Small> {
    let small = Small::new(values.k(), |row, column| values.row(row)[column].to_f64());
    match small.is_finite() {
        true => Ok(small),
        false => Err(Error::usage(
            "the iteration produced numbers that are not finite; the matrix or the start vectors have such numbers or overflow",
        )),
    }
}

fn multivector<T: Kernels>(small: &Small, k: usize) -> Result<MultiVector<T>> {
    MultiVector::from_fn(k, k, |row, column| T::from_f64(small.at(row, column)))
}
