//! The expected Y of many kernels for one matrix and one X.
//!
//! The CPU kernel of canonical order computes Y once. Y is compared with the reference in twice the precision: all rows of
//! a small product, sampled rows of a large one. Every other kernel is compared with this Y. A kernel of canonical order
//! must give the same bits. A kernel of another order may differ by two rounding bounds, since each result is within one
//! bound of the exact product.
//!
//! All rows of a large product are checked by weighted sums too, since kernels with a common defect agree with each other.

use rayon::prelude::*;

use rowloom::internal::error::{Error, Result};
use rowloom::internal::kernel::check::{Applied, Operator, wrong_rows};
use rowloom::internal::kernel::cpu::{CpuProduct, CpuSettings, Kernels};
use rowloom::internal::kernel::scaling::scaling;
use rowloom::internal::kernel::{KernelId, Order, Verification, verify};
use rowloom::internal::matrix::{Csr, CsrView, MultiVector, MultiVectorView};
use rowloom::internal::runtime::Pool;

/// Most multiplications that the reference computes.
const REFERENCE_MULTIPLICATIONS: usize = 1 << 25;

/// Blocks of rows, evenly spaced, that are compared with the reference where not all rows are.
const SAMPLED_BLOCKS: usize = 64;

/// Most multiplications of a product that [`check_product`] compares with the reference, which is slow.
const VERIFIED_MULTIPLICATIONS: usize = 1 << 26;

/// How a computed Y compares with the right one.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Checked {
    /// Whether Y is right.
    pub passed: bool,
    /// Whether Y has the same bits as the product in canonical order.
    pub bitwise: bool,
    /// The largest difference of an element, as a fraction of its rounding bound; `None` if Y was checked by weighted sums, which find
    /// no differences of elements, and if it is infinite.
    pub max_bound_ratio: Option<f64>,
}

impl Checked {
    /// Of a comparison with the reference.
    pub fn verified(verification: &Verification) -> Self {
        Self::new(verification.passed, false, verification.max_bound_ratio)
    }

    /// Of a check by weighted sums that found so many wrong rows.
    pub fn weighed(wrong_rows: usize) -> Self {
        Self { passed: wrong_rows == 0, bitwise: false, max_bound_ratio: None }
    }

    fn new(passed: bool, bitwise: bool, max_bound_ratio: f64) -> Self {
        let max_bound_ratio = Some(max_bound_ratio).filter(|ratio| ratio.is_finite());
        Self { passed, bitwise, max_bound_ratio }
    }
}

/// Checks `y` = `matrix` `x` on the pool that the caller is in: all elements against the reference if `verify` asks for it and the product
/// is small enough, else all rows by weighted sums.
pub fn check_product<T: Kernels>(
    matrix: CsrView<'_, T>,
    x: MultiVectorView<'_, T>,
    y: MultiVectorView<'_, T>,
    verify: bool,
) -> Result<Checked> {
    if verify && matrix.nnz().saturating_mul(x.k()) <= VERIFIED_MULTIPLICATIONS {
        return Ok(Checked::verified(&self::verify(matrix, x, y)?));
    }
    weighed(Operator::Sparse(matrix), x, y)
}

/// Checks all rows of `y` = `a` `x` by weighted sums, on the pool that the caller is in.
pub fn weighed<T: Kernels>(
    a: Operator<'_, T>,
    x: MultiVectorView<'_, T>,
    y: MultiVectorView<'_, T>,
) -> Result<Checked> {
    let wrong = wrong_rows(a, Applied { scaling: scaling(1.0, 0.0), x, old: None, y })?;
    Ok(Checked::weighed(wrong.len()))
}

/// A with the absolute values of its entries.
pub struct Sizes<T: Kernels>(Csr<T>);

impl<T: Kernels> Sizes<T> {
    /// The absolute values of `matrix`.
    pub fn of(matrix: CsrView<'_, T>) -> Result<Self> {
        let values: Vec<T> = matrix.values().par_iter().map(|&value| size(value)).collect();
        let (pointers, columns) = (matrix.row_pointers().to_vec(), matrix.columns().to_vec());
        Ok(Self(Csr::try_new(matrix.rows(), matrix.cols(), pointers, columns, values)?))
    }
}

/// The expected Y.
pub struct Expected<'a, T: Kernels> {
    matrix: CsrView<'a, T>,
    y: MultiVector<T>,
    /// |A| |X|: for each element the sum of the absolute values of its terms.
    sizes: MultiVector<T>,
}

impl<'a, T: Kernels> Expected<'a, T> {
    /// Computes the expected Y on `pool`.
    pub fn new(
        pool: &Pool,
        matrix: CsrView<'a, T>,
        sizes: &Sizes<T>,
        x: MultiVectorView<'_, T>,
        settings: CpuSettings,
    ) -> Result<Self> {
        let settings = CpuSettings { k: x.k(), ..settings };
        let product = |matrix: CsrView<'_, T>, x: MultiVectorView<'_, T>| {
            let mut y = MultiVector::zeros(matrix.rows(), x.k())?;
            CpuProduct::prepare(matrix, KernelId::CpuCsr, settings, u64::MAX)?.run(x, y.view_mut())?;
            Ok::<_, Error>(y)
        };
        pool.install(|| {
            let y = product(matrix, x)?;
            check_against_reference(matrix, x, y.view(), REFERENCE_MULTIPLICATIONS)?;
            let mut x_sizes = MultiVector::zeros(x.rows(), x.k())?;
            let (k, pitch) = (x.k().max(1), x.leading_dimension().max(1));
            let rows = x_sizes.data_mut().par_chunks_mut(k).zip(x.data().par_chunks(pitch));
            rows.for_each(|(to, from)| to.iter_mut().zip(from).for_each(|(to, &from)| *to = size(from)));
            let sizes = product(sizes.0.view(), x_sizes.view())?;
            Ok(Self { matrix, y, sizes })
        })
    }

    /// Compares `y`, computed by a kernel of that order. Runs on the pool that the caller is in.
    pub fn check(&self, order: Order, y: MultiVectorView<'_, T>) -> Checked {
        if y.rows() != self.y.rows() || y.k() != self.y.k() {
            return Checked { passed: false, bitwise: false, max_bound_ratio: None };
        }
        let same = |row: usize| {
            bytemuck::cast_slice::<T, u8>(self.y.row(row)) == bytemuck::cast_slice::<T, u8>(y.row(row))
        };
        let rows = 0..y.rows();
        let (bitwise, max_bound_ratio) = rows
            .into_par_iter()
            .with_min_len(256)
            .map(|row| if same(row) { (true, 0.0) } else { self.check_row(row, y.row(row)) })
            .reduce(|| (true, 0.0), |a, b| (a.0 && b.0, a.1.max(b.1)));
        let passed = match order {
            Order::Canonical => bitwise,
            Order::Free => max_bound_ratio <= 1.0,
        };
        Checked::new(passed, bitwise, max_bound_ratio)
    }

    /// Whether a row with other bits is still equal (NaN has many bit patterns), and the largest fraction of the bound.
    fn check_row(&self, row: usize, y: &[T]) -> (bool, f64) {
        let n = self.matrix.row_length(row) as f64;
        let gamma = n * T::UNIT_ROUNDOFF / (1.0 - n * T::UNIT_ROUNDOFF);
        let (mut bitwise, mut largest) = (true, 0.0f64);
        for ((&y, &expected), &size) in y.iter().zip(self.y.row(row)).zip(self.sizes.row(row)) {
            let (value, wanted) = (y.to_f64(), expected.to_f64());
            if (value.is_nan() && wanted.is_nan()) || bytemuck::bytes_of(&y) == bytemuck::bytes_of(&expected)
            {
                continue;
            }
            bitwise = false;
            let bound = 2.0 * (gamma * size.to_f64() * (1.0 + gamma) + n * T::SMALLEST);
            let difference = (value - wanted).abs();
            let ratio = if difference == 0.0 { 0.0 } else { difference / bound };
            largest = largest.max(if ratio.is_nan() { f64::INFINITY } else { ratio });
        }
        (bitwise, largest)
    }
}

fn size<T: Kernels>(value: T) -> T {
    T::from_f64(value.to_f64().abs())
}

/// An error if rows of `y` are wrong. The reference computes about `multiplications` of them; if that is not all, every row is checked by
/// weighted sums too.
fn check_against_reference<T: Kernels>(
    matrix: CsrView<'_, T>,
    x: MultiVectorView<'_, T>,
    y: MultiVectorView<'_, T>,
    multiplications: usize,
) -> Result<()> {
    let (rows, k) = (matrix.rows(), x.k());
    let products = matrix.nnz().saturating_mul(k).max(1);
    let blocks = if products <= multiplications { 1 } else { SAMPLED_BLOCKS };
    let block_rows = match blocks {
        1 => rows,
        _ => (rows / SAMPLED_BLOCKS * (multiplications / 1024) / (products / 1024).max(1)).max(1),
    };
    for block in 0..blocks {
        let begin = rows * block / blocks;
        let piece = begin..(begin + block_rows).min(rows);
        let begin = (piece.start * y.leading_dimension()).min(y.data().len());
        let slice = MultiVectorView::try_new(&y.data()[begin..], piece.len(), k, y.leading_dimension())?;
        let verification = verify(matrix.slice_rows(piece.clone()), x, slice)?;
        if !verification.passed {
            let ratio = verification.max_bound_ratio;
            let message = format!(
                "the CPU's product differs from the reference by {ratio:.3} rounding bounds, from row {}",
                piece.start
            );
            return Err(Error::Verification(message));
        }
    }
    if blocks > 1 && !weighed(Operator::Sparse(matrix), x, y)?.passed {
        return Err(Error::Verification("rows of the CPU's product are wrong".into()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rowloom::internal::kernel::Schedule;
    use rowloom::internal::machine::{Isa, Machine};
    use rowloom::internal::matrix::generate;

    fn settings(pool: &Pool) -> CpuSettings {
        CpuSettings { k: 0, threads: pool.threads(), isa: Isa::detect(), schedule: Schedule::Balanced }
    }

    #[test]
    fn another_order_passes_and_a_wrong_value_does_not() {
        let pool = Pool::new(&Machine::detect(), Some(2)).unwrap();
        let a = generate::<f32>("uniform,rows=500,degree=40", 3, u64::MAX).unwrap().matrix;
        let x = MultiVector::from_fn(a.cols(), 3, |row, k| ((row * 7 + k) % 13) as f32 / 13.0 - 0.4).unwrap();
        let sizes = Sizes::of(a.view()).unwrap();
        let expected = Expected::new(&pool, a.view(), &sizes, x.view(), settings(&pool)).unwrap();
        let backwards = |row: usize, k: usize| {
            let (columns, values) = a.view().row(row);
            let terms = columns.iter().zip(values).rev();
            terms.fold(0.0f32, |sum, (&column, &value)| sum + value * x.row(column as usize)[k])
        };
        let mut y = MultiVector::from_fn(a.rows(), 3, backwards).unwrap();
        let checked = expected.check(Order::Free, y.view());
        assert!(checked.passed && !checked.bitwise, "{checked:?}");
        assert!(checked.max_bound_ratio.is_some_and(|ratio| ratio < 0.5), "{checked:?}");
        assert!(!expected.check(Order::Canonical, y.view()).passed);
        y.data_mut()[100] *= 1.001;
        assert!(!expected.check(Order::Free, y.view()).passed);
        y.data_mut()[100] = f32::NAN;
        let unwritten = expected.check(Order::Free, y.view());
        assert_eq!(unwritten, Checked { passed: false, bitwise: false, max_bound_ratio: None });
        let same = expected.check(Order::Canonical, expected.y.view());
        assert_eq!(same, Checked { passed: true, bitwise: true, max_bound_ratio: Some(0.0) });
    }

    #[test]
    fn rows_that_differ_from_the_reference_are_an_error() {
        let pool = Pool::new(&Machine::detect(), Some(2)).unwrap();
        let a = generate::<f64>("stencil5,n=40", 3, u64::MAX).unwrap().matrix;
        let x = MultiVector::from_fn(a.cols(), 2, |row, k| (row + k) as f64).unwrap();
        let sizes = Sizes::of(a.view()).unwrap();
        let expected = Expected::new(&pool, a.view(), &sizes, x.view(), settings(&pool)).unwrap();
        let check = |y: &MultiVector<f64>, multiplications| {
            check_against_reference(a.view(), x.view(), y.view(), multiplications)
        };
        assert!(check(&expected.y, usize::MAX).is_ok() && check(&expected.y, 1).is_ok());
        let mut wrong = MultiVector::from_fn(a.rows(), 2, |row, k| expected.y.row(row)[k]).unwrap();
        wrong.data_mut()[777] += 1e-3;
        for multiplications in [usize::MAX, 1] {
            let error = check(&wrong, multiplications).unwrap_err();
            assert_eq!(error.exit_code(), 5, "{multiplications}");
        }
    }

    #[test]
    fn a_wrong_row_is_found_with_and_without_verify() {
        let a = generate::<f64>("uniform,rows=300,degree=9", 3, u64::MAX).unwrap().matrix;
        let x = MultiVector::from_fn(a.cols(), 40, |row, k| (row * 3 + k) as f64 / 7.0 - 30.0).unwrap();
        let mut y = MultiVector::zeros(a.rows(), 40).unwrap();
        let pool = Pool::new(&Machine::detect(), Some(1)).unwrap();
        let cpu = CpuSettings { k: 40, ..settings(&pool) };
        let mut product = CpuProduct::prepare(a.view(), KernelId::CpuCsr, cpu, u64::MAX).unwrap();
        product.run(x.view(), y.view_mut()).unwrap();
        let check =
            |y: &MultiVector<f64>, verify| check_product(a.view(), x.view(), y.view(), verify).unwrap();
        assert!(check(&y, true).passed && check(&y, false) == Checked::weighed(0));
        y.data_mut()[40 * 200..40 * 201].fill(0.0);
        assert!(!check(&y, true).passed && !check(&y, false).passed);
    }
}
