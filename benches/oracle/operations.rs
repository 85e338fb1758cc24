//! Operations on vectors and what they must return, bit for bit, as src/kernel/vectors/order.rs and docs/programs.md define it.

use rowloom::internal::matrix::MultiVectorView;
use rowloom::internal::runtime::Vectors;

use crate::judge::Value;
use crate::random::Random;
use crate::reference::{Real, Sum, admits, same};
use crate::values::factors;
use crate::vectors::small_matrix;

/// An operation on Y, with Z as the other operand.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Operation {
    /// Y = alpha A X + beta Y.
    Apply(f64, f64),
    /// Y = alpha Z + beta Y.
    Axpby(f64, f64),
    Scale(f64),
    ScaleColumns,
    /// Y = (Y·Z / |Z|) Z + beta |Z| Y, with scalars that stay on the devices.
    AxpbyScalars(f64),
    /// Y = Y / |Y|, the same.
    ScaleScalars,
    Dot,
    Norm,
    Gram,
    /// Y = Z S.
    Times,
    Fill,
    CopyRowsFrom,
    CopyRowsTo,
    /// X and Y are exchanged; Y and Z if A is not square.
    Exchange,
}

pub const NAMES: [&str; 14] = [
    "apply",
    "axpby",
    "scale",
    "scale columns",
    "dot",
    "norm",
    "gram",
    "times",
    "fill",
    "copy rows from",
    "copy rows to",
    "exchange",
    "axpby with scalars",
    "scale with scalars",
];

/// Rows of a block, and the lanes of a block, of sums of products of columns.
const DOT_BLOCK: usize = 1024;
const DOT_LANES: usize = 32;
/// Rows of a strand, and strands of a block, of sums of products of all pairs of columns.
const GRAM_STRAND: usize = 512;
const GRAM_STRANDS: usize = 8;

impl Operation {
    pub fn draw(random: &mut Random) -> Self {
        let (alpha, beta) = factors(random);
        match random.below(17) {
            0..=3 => Self::Apply(alpha, beta),
            4 => Self::Axpby(random.general(), beta),
            5 => Self::Scale(alpha),
            6 => Self::ScaleColumns,
            7 => Self::Dot,
            8 => Self::Norm,
            9 => Self::Gram,
            10 => Self::Times,
            11 => Self::Fill,
            12 => Self::CopyRowsFrom,
            13 => Self::CopyRowsTo,
            14 => Self::AxpbyScalars(beta),
            15 => Self::ScaleScalars,
            _ => Self::Exchange,
        }
    }

    pub fn name(self) -> &'static str {
        let number = match self {
            Self::Apply(..) => 0,
            Self::Axpby(..) => 1,
            Self::Scale(_) => 2,
            Self::ScaleColumns => 3,
            Self::Dot => 4,
            Self::Norm => 5,
            Self::Gram => 6,
            Self::Times => 7,
            Self::Fill => 8,
            Self::CopyRowsFrom => 9,
            Self::CopyRowsTo => 10,
            Self::Exchange => 11,
            Self::AxpbyScalars(_) => 12,
            Self::ScaleScalars => 13,
        };
        NAMES[number]
    }

    /// Performs the operation on vectors whose values are `old` and `other`, checks the numbers that it returns, and returns the values
    /// that `y` must have.
    pub fn apply<T: Value>(
        self,
        y: &mut Vectors<T>,
        z: &mut Vectors<T>,
        old: &mut [T],
        other: &[T],
        random: &mut Random,
    ) -> Result<Vec<T>, String> {
        let k = y.columns();
        let failed = |error: rowloom::Error| format!("error: {error}");
        let (rows, zero) = (old.len() / k, <T as Real>::rounded(0.0));
        let each = |value: &dyn Fn(usize, T, T) -> T| {
            let elements = old.iter().zip(other).enumerate();
            elements.map(|(at, (&own, &other))| value(at % k, own, other)).collect::<Vec<T>>()
        };
        match self {
            Self::Axpby(alpha, beta) => {
                y.axpby(alpha, z, beta).map_err(failed)?;
                let (alpha, beta) = (<T as Real>::rounded(alpha), <T as Real>::rounded(beta));
                let ignores_old = beta == zero;
                Ok(each(&|_, own, other| match ignores_old {
                    true => alpha.product(other),
                    false => alpha.fused(other, beta.product(own)),
                }))
            }
            Self::Scale(alpha) => {
                y.scale(alpha).map_err(failed)?;
                let alpha = <T as Real>::rounded(alpha);
                Ok(each(&|_, own, _| own.product(alpha)))
            }
            Self::ScaleColumns => {
                let factors: Vec<T> = (0..k).map(|_| <T as Real>::rounded(random.general())).collect();
                y.scale_columns(&factors).map_err(failed)?;
                Ok(each(&|column, own, _| own.product(factors[column])))
            }
            Self::AxpbyScalars(beta) => {
                let (mut sums, mut norms) = (y.scalars().map_err(failed)?, z.scalars().map_err(failed)?);
                y.dot_into(z, &mut sums).map_err(failed)?;
                z.norm_into(&mut norms).map_err(failed)?;
                y.axpby(&sums / &norms, z, beta * &norms).map_err(failed)?;
                let dots: Vec<T> = (0..k).map(|column| dot(old, other, k, (column, column))).collect();
                let roots: Vec<T> = (0..k).map(|column| norm(other, k, column)).collect();
                compare("dot to scalars", &sums.values().map_err(failed)?, &dots)?;
                compare("norm to scalars", &norms.values().map_err(failed)?, &roots)?;
                let beta = <T as Real>::rounded(beta);
                Ok(each(&|column, own, other| {
                    let alpha = <T as Real>::rounded(dots[column].wide() / roots[column].wide());
                    alpha.fused(other, beta.product(roots[column]).product(own))
                }))
            }
            Self::ScaleScalars => {
                let mut norms = y.scalars().map_err(failed)?;
                y.norm_into(&mut norms).map_err(failed)?;
                y.scale(1.0 / &norms).map_err(failed)?;
                let roots: Vec<T> = (0..k).map(|column| norm(old, k, column)).collect();
                Ok(each(&|column, own, _| <T as Real>::rounded(1.0 / roots[column].wide()).product(own)))
            }
            Self::Dot => {
                let expected: Vec<T> = (0..k).map(|column| dot(old, other, k, (column, column))).collect();
                compare("dot", &y.dot(z).map_err(failed)?, &expected)?;
                check_sums(old, other, k, |column| (column, column), &expected)?;
                Ok(old.to_vec())
            }
            Self::Norm => {
                let expected: Vec<T> = (0..k).map(|column| norm(old, k, column)).collect();
                compare("norm", &y.norm().map_err(failed)?, &expected)?;
                Ok(old.to_vec())
            }
            Self::Gram => {
                let expected: Vec<T> = (0..k * k).map(|at| gram(old, other, k, (at / k, at % k))).collect();
                compare("gram", y.gram(z).map_err(failed)?.data(), &expected)?;
                check_sums(old, other, k, |at| (at / k, at % k), &expected)?;
                Ok(old.to_vec())
            }
            Self::Times => {
                let s = small_matrix::<T>(random, k).map_err(failed)?;
                z.times(&s, y).map_err(failed)?;
                let element = |at: usize| {
                    let of_row = &other[at / k * k..][..k];
                    let chain = |sum, (i, value): (usize, &T)| value.fused(s.row(i)[at % k], sum);
                    of_row.iter().enumerate().fold(zero, chain)
                };
                Ok((0..old.len()).map(element).collect())
            }
            Self::Fill => {
                let value = random.general();
                y.fill(value).map_err(failed)?;
                Ok(vec![<T as Real>::rounded(value); old.len()])
            }
            Self::CopyRowsFrom => {
                let first = random.below(rows + 1);
                let count = random.below(rows - first + 1);
                let part: Vec<T> = (0..count * k).map(|_| <T as Real>::rounded(random.general())).collect();
                let view = MultiVectorView::try_new(&part, count, k, k).map_err(failed)?;
                y.copy_rows_from(first, &view).map_err(failed)?;
                let mut expected = old.to_vec();
                expected[first * k..][..count * k].copy_from_slice(&part);
                Ok(expected)
            }
            Self::CopyRowsTo => {
                let first = random.below(rows + 1);
                let count = random.below(rows - first + 1);
                let mut part = rowloom::MultiVector::<T>::filled(count, k, T::UNWRITTEN).map_err(failed)?;
                y.copy_rows_to(first, part.view_mut()).map_err(failed)?;
                compare("copy rows to", part.data(), &old[first * k..][..count * k])?;
                Ok(old.to_vec())
            }
            Self::Apply(..) | Self::Exchange => Err("this operation belongs to the product".into()),
        }
    }
}

pub fn compare<T: Value>(name: &str, found: &[T], expected: &[T]) -> Result<(), String> {
    if found.len() != expected.len() {
        return Err(format!("{name}: {} values instead of {}", found.len(), expected.len()));
    }
    match found.iter().zip(expected).position(|(found, expected)| !same(*found, *expected)) {
        None => Ok(()),
        Some(at) => Err(format!("{name}: value {at} is {:?} instead of {:?}", found[at], expected[at])),
    }
}

/// The defined sum of products of two columns: lanes in blocks of rows.
fn dot<T: Value>(left: &[T], right: &[T], k: usize, (i, j): (usize, usize)) -> T {
    let zero = <T as Real>::rounded(0.0);
    let blocks = left.chunks(DOT_BLOCK * k).zip(right.chunks(DOT_BLOCK * k)).map(|(left, right)| {
        let mut lanes = [zero; DOT_LANES];
        for (row, (left, right)) in left.chunks(k).zip(right.chunks(k)).enumerate() {
            let lane = &mut lanes[row % DOT_LANES];
            *lane = left[i].fused(right[j], *lane);
        }
        let mut half = DOT_LANES / 2;
        while half > 0 {
            (0..half).for_each(|lane| lanes[lane] = lanes[lane].sum(lanes[lane + half]));
            half /= 2;
        }
        lanes[0]
    });
    blocks.reduce(Real::sum).unwrap_or(zero)
}

/// The root of the defined sum of squares of a column.
fn norm<T: Value>(values: &[T], k: usize, column: usize) -> T {
    <T as Real>::rounded(dot(values, values, k, (column, column)).wide().sqrt())
}

/// The defined sum of products of a pair of columns: strands in blocks of rows.
fn gram<T: Value>(left: &[T], right: &[T], k: usize, (i, j): (usize, usize)) -> T {
    let zero = <T as Real>::rounded(0.0);
    let rows = GRAM_STRAND * GRAM_STRANDS * k;
    let blocks = left.chunks(rows).zip(right.chunks(rows)).map(|(left, right)| {
        let strands = left.chunks(GRAM_STRAND * k).zip(right.chunks(GRAM_STRAND * k));
        let mut sums: Vec<T> = strands
            .map(|(left, right)| {
                let rows = left.chunks(k).zip(right.chunks(k));
                rows.fold(zero, |sum, (left, right)| left[i].fused(right[j], sum))
            })
            .collect();
        sums.resize(GRAM_STRANDS, zero);
        sums.into_iter().reduce(Real::sum).unwrap_or(zero)
    });
    blocks.reduce(Real::sum).unwrap_or(zero)
}

/// The defined sums are within the bound of sums in twice the precision.
fn check_sums<T: Value>(
    left: &[T],
    right: &[T],
    k: usize,
    pair: impl Fn(usize) -> (usize, usize),
    found: &[T],
) -> Result<(), String> {
    for (at, &found) in found.iter().enumerate() {
        let ((i, j), mut sum) = (pair(at), Sum::default());
        for (left, right) in left.chunks(k).zip(right.chunks(k)) {
            sum.add_product::<T>(left[i].wide(), right[j].wide());
        }
        if !admits(sum, (left.len() / k) as f64, 1.0, None, found) {
            return Err(format!("sum {at} is {found:?}, outside the rounding bound of {}", sum.high));
        }
    }
    Ok(())
}
