//! The check of a product by projections: `Y r = A (X r)`, with a vector r of weights.
//!
//! Each row of X and Y is projected to a weighted sum of its elements, one sum per group of 32 columns. The projections of Y are then
//! compared with A times those of X, row by row, in f64. That takes one pass over X, Y and A, whatever K is. A row that differs by more
//! than rounding explains is compared element by element in twice the precision, so no right row is reported.
//!
//! An error of one element is found if it is larger than 1,000 times the rounding bound of its row, the largest of its elements, and
//! usually if it is larger than a tenth of that. Errors of several elements of a row can cancel each other; the weights are random
//! numbers, so that this is improbable.

use rayon::prelude::*;
use rowloom_cpu::{Comparison, PROJECTED_COLUMNS, Projected, ProjectedRows, ProjectionBodies, RowsOfA};

use super::cpu::Kernels;
use super::scaling::Scaling;
use super::verify;
use crate::error::{Error, Result};
use crate::machine::Isa;
use crate::matrix::{CsrView, MultiVectorView, Scalar};

/// Rows that a thread projects or compares at a time.
const BLOCK_ROWS: usize = 512;

/// The projections of the rows of a multivector.
#[derive(Debug, Clone, PartialEq)]
pub struct Projections {
    groups: usize,
    sums: Vec<f64>,
    sizes: Vec<f64>,
    /// Relative rounding error, if another processor has computed them in the precision of the product.
    relative_error: f64,
}

/// The weight of each of `k` columns: between 1 and 1.5, with a sign; a hash of the column's number.
///
/// They differ, so that exchanged columns are found, and are of similar size, so that no column hides behind another.
pub fn weights(k: usize) -> Vec<f64> {
    let weight = |column: usize| {
        let mut z = (column as u64).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^= z >> 31;
        // 20 bits: exact in f32 too.
        let fraction = (z >> 44) as f64 / f64::from(1 << 20);
        let size = 1.0 + fraction / 2.0;
        if z & 1 == 0 { size } else { -size }
    };
    (0..k).map(weight).collect()
}

/// Groups of columns of a multivector of `k` columns.
pub fn groups(k: usize) -> usize {
    k.div_ceil(PROJECTED_COLUMNS)
}

/// The weights as a matrix of `k` rows and a column for each group: a multivector times this matrix has the projections.
pub fn weight_matrix<T: Scalar>(k: usize) -> Vec<T> {
    let groups = groups(k);
    let mut matrix = vec![T::ZERO; k * groups];
    for (column, weight) in weights(k).into_iter().enumerate() {
        matrix[column * groups + column / PROJECTED_COLUMNS] = T::from_f64(weight);
    }
    matrix
}

impl Projections {
    /// The projections of the rows of `x`, computed in the rayon pool of the caller.
    pub fn of<T: Kernels>(x: MultiVectorView<'_, T>) -> Result<Self> {
        let (weights, bodies) = (weights(x.k()), bodies::<T>());
        let mut projections = Self::zeros(x.rows(), x.k())?;
        let groups = projections.groups;
        if groups > 0 {
            let sums = projections.sums.par_chunks_mut(BLOCK_ROWS * groups);
            let sizes = projections.sizes.par_chunks_mut(BLOCK_ROWS * groups);
            sums.zip(sizes).enumerate().for_each(|(block, (sums, sizes))| {
                let first = block * BLOCK_ROWS;
                let rows = x.rows_in(first..first + sums.len() / groups);
                project(bodies, rows, &weights, sums, sizes);
            });
        }
        Ok(projections)
    }

    /// Sets the projections of the rows from `first` on to those of `x`, in the rayon pool of the caller.
    pub fn set_rows<T: Kernels>(&mut self, first: usize, x: MultiVectorView<'_, T>) -> Result<()> {
        let of = Self::of(x)?;
        let range = first * self.groups..first * self.groups + of.sums.len();
        let outside = || Error::Internal("projections of rows outside of a multivector".into());
        self.sums.get_mut(range.clone()).ok_or_else(outside)?.copy_from_slice(&of.sums);
        self.sizes.get_mut(range).ok_or_else(outside)?.copy_from_slice(&of.sizes);
        Ok(())
    }

    /// The projections of some rows.
    pub fn rows_in(mut self, rows: std::ops::Range<usize>) -> Self {
        for values in [&mut self.sums, &mut self.sizes] {
            values.truncate(rows.end * self.groups);
            values.drain(..rows.start * self.groups);
        }
        self
    }

    /// Projections of zero, of `rows` rows and `k` columns.
    pub fn zeros(rows: usize, k: usize) -> Result<Self> {
        let groups = groups(k);
        let (sums, sizes) = (zeros(rows * groups)?, zeros(rows * groups)?);
        Ok(Self { groups, sums, sizes, relative_error: 0.0 })
    }

    /// Sets the projections of the rows from `first` on to those that a device has computed in the precision `T`.
    pub fn set<T: Scalar>(&mut self, first: usize, projected: &[T]) -> Result<()> {
        let begin = first * self.groups;
        let outside = || Error::Internal("projections of rows outside of a multivector".into());
        let range = begin..begin + projected.len();
        let sums = self.sums.get_mut(range.clone()).ok_or_else(outside)?;
        let sizes = self.sizes.get_mut(range).ok_or_else(outside)?;
        for ((sum, size), value) in sums.iter_mut().zip(sizes).zip(projected) {
            *sum = value.to_f64();
            *size = ESTIMATED_SIZE * sum.abs();
        }
        self.relative_error = 2.0 * PROJECTED_COLUMNS as f64 * T::UNIT_ROUNDOFF;
        Ok(())
    }

    /// Estimates the sizes of projections that devices have computed, which return none: at least a multiple of the root mean square
    /// of all. Rows for which the estimate is too small are compared element by element.
    pub fn estimate_sizes(&mut self) {
        if self.relative_error == 0.0 {
            return;
        }
        let finite = || self.sums.iter().filter(|sum| sum.is_finite());
        let mean_square = finite().map(|sum| sum * sum).sum::<f64>() / finite().count().max(1) as f64;
        let least = TYPICAL_SIZE * mean_square.sqrt();
        self.sizes.iter_mut().for_each(|size| *size = size.max(least));
    }

    fn rows(&self, rows: std::ops::Range<usize>) -> Projected<'_> {
        let range = rows.start * self.groups..rows.end * self.groups;
        Projected { sums: &self.sums[range.clone()], sizes: &self.sizes[range] }
    }
}

/// The size of a projection over its absolute value, where only the value is known.
const ESTIMATED_SIZE: f64 = 8.0;
/// The size of a projection over the root mean square of projections.
const TYPICAL_SIZE: f64 = 4.0;

fn zeros(length: usize) -> Result<Vec<f64>> {
    let mut values = Vec::new();
    values.try_reserve_exact(length).map_err(|_| Error::DoesNotFit {
        what: "the check of a product".into(),
        needed_bytes: 8 * length as u64,
        limit_bytes: 0,
        advice: "use --check never".into(),
    })?;
    values.resize(length, 0.0);
    Ok(values)
}

fn bodies<T: Kernels>() -> ProjectionBodies<T> {
    T::projection_bodies(Isa::detect())
}

#[allow(unsafe_code)] // calls compiled loops
fn project<T: Kernels>(
    bodies: ProjectionBodies<T>,
    rows: MultiVectorView<'_, T>,
    weights: &[f64],
    sums: &mut [f64],
    sizes: &mut [f64],
) {
    let mut job = ProjectedRows { x: rows.data(), ldx: rows.leading_dimension(), weights, sums, sizes };
    // SAFETY: `bodies` are for the instruction set of this processor.
    unsafe { (bodies.project)(&mut job) };
}

/// Y after a product: its values, or the projections that its devices have computed.
#[derive(Clone, Copy)]
pub enum CheckedY<'a, T> {
    /// Values in host memory, which are projected while they are compared.
    Values(MultiVectorView<'a, T>),
    /// Projections.
    Projections(&'a Projections),
}

/// A, by rows.
#[derive(Clone, Copy)]
pub enum Operator<'a, T> {
    /// Sparse.
    Sparse(CsrView<'a, T>),
    /// Dense.
    Dense(MultiVectorView<'a, T>),
}

impl<'a, T: Scalar> Operator<'a, T> {
    fn rows(&self) -> usize {
        match self {
            Self::Sparse(a) => a.rows(),
            Self::Dense(a) => a.rows(),
        }
    }

    fn block(&self, rows: std::ops::Range<usize>) -> RowsOfA<'a, T> {
        match *self {
            Self::Sparse(a) => RowsOfA::Sparse {
                pointers: &a.row_pointers()[rows.start..=rows.end],
                columns: a.columns(),
                values: a.values(),
            },
            Self::Dense(a) => RowsOfA::Dense {
                values: a.rows_in(rows).data(),
                leading_dimension: a.leading_dimension(),
                columns: a.k(),
            },
        }
    }
}

/// The rows of Y whose projections differ from those of `alpha A X + beta before` by more than rounding explains, in ascending order;
/// computed in the rayon pool of the caller. Few right rows are among them, and rows with infinite or NaN elements.
#[allow(unsafe_code)] // calls compiled loops
pub fn suspicious_rows<T: Kernels>(
    a: Operator<'_, T>,
    scaling: Scaling<T>,
    x: &Projections,
    before: Option<&Projections>,
    y: CheckedY<'_, T>,
) -> Vec<usize> {
    let (rows, groups, bodies) = (a.rows(), x.groups, bodies::<T>());
    if groups == 0 {
        return Vec::new();
    }
    let weights = match y {
        CheckedY::Values(y) => weights(y.k()),
        CheckedY::Projections(_) => Vec::new(),
    };
    let blocks = (0..rows.div_ceil(BLOCK_ROWS)).into_par_iter();
    let suspicious: Vec<Vec<usize>> = blocks
        .map_init(
            || (vec![0.0; BLOCK_ROWS * groups], vec![0.0; BLOCK_ROWS * groups]),
            |(sums, sizes), block| {
                let range = block * BLOCK_ROWS..rows.min((block + 1) * BLOCK_ROWS);
                let length = range.len() * groups;
                let (projected, error) = match y {
                    CheckedY::Values(y) => {
                        let y = y.rows_in(range.clone());
                        project(bodies, y, &weights, &mut sums[..length], &mut sizes[..length]);
                        (Projected { sums: &sums[..length], sizes: &sizes[..length] }, 0.0)
                    }
                    CheckedY::Projections(y) => (y.rows(range.clone()), y.relative_error),
                };
                let mut found = Vec::new();
                let mut job = Comparison {
                    a: a.block(range.clone()),
                    groups,
                    x: Projected { sums: &x.sums, sizes: &x.sizes },
                    y: projected,
                    before: before.map(|before| before.rows(range.clone())),
                    alpha: scaling.alpha.to_f64(),
                    beta: scaling.beta.to_f64(),
                    unit_roundoff: T::UNIT_ROUNDOFF,
                    projection_error: error.max(x.relative_error),
                    suspicious: &mut found,
                };
                // SAFETY: `bodies` are for the instruction set of this processor.
                unsafe { (bodies.compare)(&mut job) };
                found.iter_mut().for_each(|row| *row += range.start);
                found
            },
        )
        .collect();
    suspicious.concat()
}

/// A product that was computed.
#[derive(Clone, Copy)]
pub struct Applied<'a, T> {
    /// The factors.
    pub scaling: Scaling<T>,
    /// X.
    pub x: MultiVectorView<'a, T>,
    /// Y before the product; `None` if beta is zero.
    pub old: Option<MultiVectorView<'a, T>>,
    /// Y.
    pub y: MultiVectorView<'a, T>,
}

/// The rows of Y that are wrong, in ascending order; computed in the rayon pool of the caller.
pub fn wrong_rows<T: Kernels>(a: Operator<'_, T>, product: Applied<'_, T>) -> Result<Vec<usize>> {
    let Applied { scaling, x, old, y } = product;
    let projected = Projections::of(x)?;
    let before = old.map(Projections::of).transpose()?;
    let suspicious = suspicious_rows(a, scaling, &projected, before.as_ref(), CheckedY::Values(y));
    compared(a, product, suspicious)
}

/// Multiply-adds of comparisons in twice the precision: about a second of one core.
const MOST_COMPARED: usize = 1 << 26;

/// Those of the `suspicious` rows that are wrong. They are compared element by element, as long as that takes about a second. If one of
/// these is wrong, all others count as wrong too, and are computed again; if none is, they count as right.
pub fn compared<T: Kernels>(
    a: Operator<'_, T>,
    product: Applied<'_, T>,
    suspicious: Vec<usize>,
) -> Result<Vec<usize>> {
    let Applied { scaling, x, old, y } = product;
    let work = |row: usize| match a {
        Operator::Sparse(a) => a.row_length(row).saturating_mul(x.k()),
        Operator::Dense(a) => a.k().saturating_mul(x.k()),
    };
    let mut done = 0usize;
    let count = suspicious
        .iter()
        .take_while(|&&row| {
            let begins = done < MOST_COMPARED;
            done = done.saturating_add(work(row));
            begins
        })
        .count();
    let (compared, rest) = suspicious.split_at(count);
    let mut wrong = match a {
        Operator::Sparse(a) => verify::wrong_rows(a, scaling, x, old, y, compared),
        Operator::Dense(a) => {
            let is_wrong = |&row: &usize| match super::gemm::verify(scaling, a, x, old, y, &[row]) {
                Ok(verification) if verification.passed => None,
                Ok(_) => Some(Ok(row)),
                Err(error) => Some(Err(error)),
            };
            compared.iter().filter_map(is_wrong).collect::<Result<_>>()?
        }
    };
    if !wrong.is_empty() {
        wrong.extend_from_slice(rest);
    }
    Ok(wrong)
}
