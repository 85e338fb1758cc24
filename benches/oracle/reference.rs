//! The reference: three loops in twice the precision, the rounding bound of each element, and the canonical order.
//!
//! Nothing here is shared with the library, so a defect cannot be in both.
//!
//! **Sums.** A product of f32 numbers is exact in f64, and sums of f64 are precise enough to judge f32. For f64, products and sums keep
//! their rounding errors (two-product, two-sum). **Bound.** A sum of n products, in any order, with or without fused operations, is
//! within `γ_n Σ|a x|`; each product and the two operations of a scaling may add the smallest subnormal number. **Inf and NaN** decide the
//! class of the result. Where a partial sum might overflow, nothing is said about the element.

use crate::sparse::Sparse;

/// Nonzeros of a segment, and segments of a span, of the canonical order, as the documentation defines it.
const SEGMENT: usize = 128;
const SEGMENTS_OF_SPAN: usize = 8;

/// A value type: its arithmetic and its special numbers.
pub trait Real: Copy + PartialEq + Send + Sync + std::fmt::Debug + 'static {
    const NAME: &'static str;
    const UNIT_ROUNDOFF: f64;
    const SMALLEST: f64;
    const LARGEST: f64;
    /// A NaN that no computation returns, for elements that must not be written.
    const GUARD: Self;
    /// Another one, for elements that must be written.
    const UNWRITTEN: Self;
    fn wide(self) -> f64;
    fn rounded(value: f64) -> Self;
    fn fused(self, factor: Self, addend: Self) -> Self;
    fn sum(self, other: Self) -> Self;
    fn product(self, other: Self) -> Self;
    fn word(self) -> u64;
    /// The same number with one bit flipped.
    fn flipped(self, bit: u32) -> Self;
    /// Whether a product and a sum of f64 keep their rounding errors.
    const KEEPS_ERRORS: bool;
}

impl Real for f64 {
    const NAME: &'static str = "f64";
    const UNIT_ROUNDOFF: f64 = 1.110_223_024_625_156_5e-16;
    const SMALLEST: f64 = 5e-324;
    const LARGEST: f64 = f64::MAX;
    const GUARD: Self = f64::from_bits(0x7ff8_6a12_d00d_0001);
    const UNWRITTEN: Self = f64::from_bits(0x7ff8_3e55_ab1e_0002);
    const KEEPS_ERRORS: bool = true;
    fn wide(self) -> f64 {
        self
    }
    fn rounded(value: f64) -> Self {
        value
    }
    fn fused(self, factor: Self, addend: Self) -> Self {
        self.mul_add(factor, addend)
    }
    fn sum(self, other: Self) -> Self {
        self + other
    }
    fn product(self, other: Self) -> Self {
        self * other
    }
    fn word(self) -> u64 {
        self.to_bits()
    }
    fn flipped(self, bit: u32) -> Self {
        Self::from_bits(self.to_bits() ^ 1 << bit)
    }
}

impl Real for f32 {
    const NAME: &'static str = "f32";
    const UNIT_ROUNDOFF: f64 = 5.960_464_477_539_063e-8;
    const SMALLEST: f64 = 1.401_298_464_324_817e-45;
    const LARGEST: f64 = f32::MAX as f64;
    const GUARD: Self = f32::from_bits(0x7fc6_a101);
    const UNWRITTEN: Self = f32::from_bits(0x7fc3_e502);
    const KEEPS_ERRORS: bool = false;
    fn wide(self) -> f64 {
        f64::from(self)
    }
    fn rounded(value: f64) -> Self {
        value as f32
    }
    fn fused(self, factor: Self, addend: Self) -> Self {
        self.mul_add(factor, addend)
    }
    fn sum(self, other: Self) -> Self {
        self + other
    }
    fn product(self, other: Self) -> Self {
        self * other
    }
    fn word(self) -> u64 {
        u64::from(self.to_bits())
    }
    fn flipped(self, bit: u32) -> Self {
        Self::from_bits(self.to_bits() ^ 1 << bit)
    }
}

/// γ_n = n u / (1 - n u).
pub fn gamma<T: Real>(n: f64) -> f64 {
    let nu = n * T::UNIT_ROUNDOFF;
    nu / (1.0 - nu)
}

/// A sum in twice the precision of f64, or in f64 where that suffices, with the sum of magnitudes.
#[derive(Debug, Clone, Copy, Default)]
pub struct Sum {
    pub high: f64,
    pub low: f64,
    /// Σ|a x| of the finite terms.
    pub size: f64,
    /// The sum of the terms that are Inf or NaN; 0 without any.
    pub special: f64,
}

impl Sum {
    pub fn add_product<T: Real>(&mut self, a: f64, x: f64) {
        if !(a.is_finite() && x.is_finite()) {
            self.special += a * x;
            return;
        }
        let product = a * x;
        self.size += product.abs();
        if T::KEEPS_ERRORS {
            self.low += a.mul_add(x, -product);
            let sum = self.high + product;
            let part = sum - self.high;
            self.low += (self.high - (sum - part)) + (product - part);
            self.high = sum;
        } else {
            self.high += product;
        }
    }
}

/// All sums of a product A X, and the sums in canonical order.
pub struct Reference<T> {
    pub k: usize,
    /// Nonzeros of each row.
    lengths: Vec<usize>,
    sums: Vec<Sum>,
    canonical: Vec<T>,
}

impl<T: Real> Reference<T> {
    /// The sums of A X, with X packed by rows of `k`, and the canonical order of sparse products.
    pub fn new(a: &Sparse, x: &[f64], k: usize) -> Self {
        Self::with_segments(a, x, k, SEGMENT)
    }

    /// The same with the canonical order of dense products: one chain for each element.
    pub fn of_chains(a: &Sparse, x: &[f64], k: usize) -> Self {
        Self::with_segments(a, x, k, usize::MAX)
    }

    fn with_segments(a: &Sparse, x: &[f64], k: usize, segment: usize) -> Self {
        let (mut sums, mut canonical) = (vec![Sum::default(); a.rows * k], Vec::with_capacity(a.rows * k));
        let mut lengths = Vec::with_capacity(a.rows);
        for row in 0..a.rows {
            let (columns, values) = a.row(row);
            lengths.push(columns.len());
            let sums = &mut sums[row * k..][..k];
            for (&column, &value) in columns.iter().zip(values) {
                for (sum, &x) in sums.iter_mut().zip(&x[column as usize * k..][..k]) {
                    sum.add_product::<T>(value, x);
                }
            }
            canonical.extend(canonical_row::<T>(columns, values, x, k, segment));
        }
        Self { k, lengths, sums, canonical }
    }

    /// The rounding bounds of the elements of a row; none if some are not finite, or near the ends of the range.
    pub fn bounds(&self, row: usize) -> Option<Vec<f64>> {
        let n = self.lengths[row] as f64;
        let bound = |sum: &Sum| {
            let is_usual = sum.special == 0.0 && sum.size < T::LARGEST / 4.0;
            is_usual.then(|| gamma::<T>(n) * sum.size + n * T::SMALLEST)
        };
        self.sums[row * self.k..][..self.k].iter().map(bound).collect()
    }

    pub fn canonical_row(&self, row: usize) -> &[T] {
        &self.canonical[row * self.k..][..self.k]
    }

    /// Whether `found` may be `alpha s + beta old` for the sum s of this element.
    pub fn admits(&self, (row, column): (usize, usize), (alpha, beta): (T, T), old: T, found: T) -> bool {
        let n = self.lengths[row] as f64;
        let old = if beta == T::rounded(0.0) { None } else { Some((beta.wide(), old.wide())) };
        admits::<T>(self.sums[row * self.k + column], n, alpha.wide(), old, found)
    }

    /// The first element of the canonical sums outside the bound, which would be a defect of the oracle itself.
    pub fn contradiction(&self) -> Option<(usize, usize)> {
        let (one, zero) = (T::rounded(1.0), T::rounded(0.0));
        (0..self.lengths.len()).flat_map(|row| (0..self.k).map(move |column| (row, column))).find(
            |&(row, column)| {
                let found = self.canonical[row * self.k + column];
                !self.admits((row, column), (one, zero), zero, found)
            },
        )
    }
}

/// The row times X in canonical order: spans of segments, each segment a chain of fused multiply-adds from +0.
fn canonical_row<T: Real>(columns: &[u32], values: &[f64], x: &[f64], k: usize, segment: usize) -> Vec<T> {
    let span_length = segment.saturating_mul(SEGMENTS_OF_SPAN);
    let mut row: Option<Vec<T>> = None;
    for (columns, values) in columns.chunks(span_length).zip(values.chunks(span_length)) {
        let mut span: Option<Vec<T>> = None;
        for (columns, values) in columns.chunks(segment).zip(values.chunks(segment)) {
            let mut chain = vec![T::rounded(0.0); k];
            for (&column, &value) in columns.iter().zip(values) {
                let value = T::rounded(value);
                for (sum, &x) in chain.iter_mut().zip(&x[column as usize * k..][..k]) {
                    *sum = value.fused(T::rounded(x), *sum);
                }
            }
            span = Some(added(span, chain));
        }
        row = Some(added(row, span.unwrap_or_default()));
    }
    row.unwrap_or_else(|| vec![T::rounded(0.0); k])
}

fn added<T: Real>(before: Option<Vec<T>>, part: Vec<T>) -> Vec<T> {
    match before {
        None => part,
        Some(before) => before.iter().zip(part).map(|(before, part)| before.sum(part)).collect(),
    }
}

/// Whether `found` is within the bound of `alpha s + beta old` for a sum s of n products; `old` has beta and the old value where it is read.
pub fn admits<T: Real>(sum: Sum, n: f64, alpha: f64, old: Option<(f64, f64)>, found: T) -> bool {
    let found = found.wide();
    let (beta, old) = old.unwrap_or((0.0, 0.0));
    let of_old = if beta == 0.0 { 0.0 } else { beta * old };
    let overflows = |size: f64| size > T::LARGEST / 4.0;
    if overflows(sum.size)
        || overflows(alpha.abs() * sum.size)
        || (old.is_finite() && overflows(of_old.abs()))
    {
        return true;
    }
    if sum.special != 0.0 || !of_old.is_finite() {
        let scaled = alpha * if sum.special == 0.0 { sum.high } else { sum.special };
        let expected = if beta == 0.0 { scaled } else { scaled + of_old };
        return if expected.is_nan() { found.is_nan() } else { found == expected };
    }
    let size = alpha.abs() * sum.size + of_old.abs();
    let bound =
        gamma::<T>(n + 3.0) * size * (1.0 + 1e-9) + (2.0 * n + 4.0) * T::SMALLEST * (1.0 + alpha.abs());
    // The difference of found and high is formed first: they are close, so that the rest is not lost.
    let error = if alpha == 1.0 && beta == 0.0 {
        (found - sum.high) - sum.low
    } else {
        let (mut exact, one) = (Sum::default(), -1.0);
        exact.add_product::<f64>(alpha, sum.high);
        exact.add_product::<f64>(alpha, sum.low);
        exact.add_product::<f64>(beta, old);
        exact.add_product::<f64>(found, one);
        exact.high + exact.low
    };
    error.abs() <= bound
}

/// Whether two results have the same bits, or are both NaN.
pub fn same<T: Real>(found: T, expected: T) -> bool {
    found.word() == expected.word() || (found.wide().is_nan() && expected.wide().is_nan())
}

/// The defined scaling: `fma(beta, old, alpha * sum)`, and `alpha * sum` without a look at `old` if beta is zero.
pub fn scaled<T: Real>(sum: T, (alpha, beta): (T, T), old: T) -> T {
    let product = alpha.product(sum);
    if beta == T::rounded(0.0) { product } else { beta.fused(old, product) }
}
