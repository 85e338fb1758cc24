//! Complex matrices as real ones with twice as many columns.
//!
//! A complex matrix A = P + iQ of `n` columns is kept as a real matrix with two columns for each of A: column `2c` holds the real part of
//! A's column `c`, column `2c + 1` the imaginary part. Both parts of every nonzero are stored, also those that are zero, so the values in
//! memory are those of an array of complex numbers, and rows stay sorted.
//!
//! A complex X of K columns is a real array of 2 K columns, real and imaginary parts in turn, as complex numbers lie in memory; Y too. Then
//! `Y = P X + Q (iX)` is the product of the real matrix with [`with_rotated_rows`] of X: row `2c` is row `c` of X, row `2c + 1` is `i` times it.
//! That costs the four multiplications and additions of every complex product and no more. Multiplying by `i` only moves numbers and
//! changes signs, so each part of Y is the sum of the same products as in complex arithmetic without special cases for infinities: `p a - q b`
//! and `p b + q a`.

use rayon::prelude::*;

use super::array::AlignedBuffer;
use super::csr::{Csr, CsrView, MOST_COLUMNS};
use super::multivector::{MultiVector, MultiVectorView};
use super::scalar::Scalar;
use super::transpose;
use crate::error::{Error, Result};

/// Real numbers in a complex one.
pub const PARTS: usize = 2;

/// Numbers of a parallel task at least.
const STEP: usize = 1 << 14;

/// The X of the real product: twice as many rows, row `c` of `x` and then `i` times row `c`.
pub fn with_rotated_rows<T: Scalar>(x: MultiVectorView<'_, T>) -> Result<MultiVector<T>> {
    let mut to = MultiVector::zeros(x.rows().saturating_mul(PARTS), x.k())?;
    rotate_into(x, &mut to)?;
    Ok(to)
}

/// The same, in a multivector of that shape.
pub fn rotate_into<T: Scalar>(x: MultiVectorView<'_, T>, to: &mut MultiVector<T>) -> Result<()> {
    let k = x.k();
    if !k.is_multiple_of(PARTS) || (to.rows(), to.k(), to.leading_dimension()) != (x.rows() * PARTS, k, k) {
        return Err(Error::Internal("the rows of a complex X do not fit".into()));
    }
    if k == 0 {
        return Ok(());
    }
    let rotate = |(row, to): (usize, &mut [T])| {
        let (same, rotated) = to.split_at_mut(k);
        same.copy_from_slice(x.row(row));
        for (rotated, same) in rotated.chunks_exact_mut(PARTS).zip(same.chunks_exact(PARTS)) {
            rotated[0] = negative(same[1]);
            rotated[1] = same[0];
        }
    };
    let length = PARTS * k;
    match to.data().len() < 2 * STEP {
        true => to.data_mut().chunks_exact_mut(length).enumerate().for_each(rotate),
        false => {
            let rows = to.data_mut().par_chunks_exact_mut(length).with_min_len(1 + STEP / length);
            rows.enumerate().for_each(rotate);
        }
    }
    Ok(())
}

/// Complex columns of a real array: every number with an imaginary part of zero.
pub fn of_real<T: Scalar>(x: MultiVectorView<'_, T>) -> Result<MultiVector<T>> {
    MultiVector::from_fn(x.rows(), x.k() * PARTS, |row, column| match column % PARTS {
        0 => x.row(row)[column / PARTS],
        _ => T::ZERO,
    })
}

/// Every index `parts` times: `spread` as the columns of its parts, else as it is.
pub(super) fn repeated(indices: Vec<u32>, parts: usize, spread: bool) -> Result<Vec<u32>> {
    if parts == 1 {
        return Ok(indices);
    }
    let length = indices.len().saturating_mul(parts);
    let mut result = Vec::new();
    result.try_reserve_exact(length).map_err(|_| Error::DoesNotFit {
        what: "the indices of a complex matrix".into(),
        needed_bytes: length as u64 * 4,
        limit_bytes: 0,
        advice: "the system refused the memory; free some or use a smaller matrix".into(),
    })?;
    // An index is below `MOST_COLUMNS / parts`, which the reader has checked.
    let first = |index: u32| if spread { index * parts as u32 } else { index };
    result.extend(
        indices.iter().flat_map(|&index| {
            (0..parts as u32).map(move |part| first(index) + if spread { part } else { 0 })
        }),
    );
    Ok(result)
}

/// An error unless the entries of every row are pairs of columns `2c` and `2c + 1`.
pub fn check_pairs<T: Scalar>(matrix: &CsrView<'_, T>) -> std::result::Result<(), &'static str> {
    let is_pair = |pair: &[u32]| matches!(*pair, [a, b] if a.is_multiple_of(2) && b == a + 1);
    let are_whole = |pointer: &u64| pointer.is_multiple_of(PARTS as u64);
    let is_sound = matrix.cols().is_multiple_of(PARTS)
        && matrix.row_pointers().par_iter().with_min_len(STEP).all(are_whole)
        && matrix.columns().par_chunks(PARTS).with_min_len(STEP).all(is_pair);
    if is_sound { Ok(()) } else { Err("its complex entries lack a real or an imaginary part") }
}

/// The positions of a complex matrix, as a matrix with the real parts as its values.
pub fn positions<T: Scalar>(matrix: &CsrView<'_, T>) -> Result<Csr<T>> {
    let (columns, values) = (matrix.columns(), matrix.values());
    let mut to_columns = AlignedBuffer::<u32>::zeroed(columns.len() / PARTS)?;
    let mut to_values = AlignedBuffer::<T>::zeroed(values.len() / PARTS)?;
    let parts = columns.par_chunks_exact(PARTS).zip(values.par_chunks_exact(PARTS)).with_min_len(STEP);
    let to = to_columns.par_iter_mut().zip(to_values.par_iter_mut());
    to.zip(parts).for_each(|((column, value), (columns, values))| {
        (*column, *value) = (columns[0] / PARTS as u32, values[0]);
    });
    let mut pointers = AlignedBuffer::<u64>::copied_from(matrix.row_pointers())?;
    pointers.iter_mut().for_each(|pointer| *pointer /= PARTS as u64);
    Csr::try_new(matrix.rows(), matrix.cols() / PARTS, pointers, to_columns, to_values)
}

/// The transposed complex matrix, or its conjugate.
pub fn transposed<T: Scalar>(matrix: &CsrView<'_, T>, conjugate: bool) -> Result<Csr<T>> {
    if matrix.rows() > MOST_COLUMNS / PARTS {
        let most = MOST_COLUMNS / PARTS;
        let rows = matrix.rows();
        return Err(Error::usage(format!(
            "a complex matrix of {rows} rows cannot be transposed: it has at most {most} columns"
        )));
    }
    // Rows 2c and 2c + 1 are the real and the imaginary parts of one column, at the same positions.
    let apart = transpose::transpose(matrix)?;
    let apart = apart.view();
    let rows = apart.rows() / PARTS;
    let mut pointers = AlignedBuffer::<u64>::zeroed(rows + 1)?;
    let mut columns = AlignedBuffer::<u32>::zeroed(apart.nnz())?;
    let mut values = AlignedBuffer::<T>::zeroed(apart.nnz())?;
    let mut end = 0;
    for row in 0..rows {
        let ((positions, real), (_, imaginary)) = (apart.row(PARTS * row), apart.row(PARTS * row + 1));
        for ((&column, &real), &imaginary) in positions.iter().zip(real).zip(imaginary) {
            let parts = [real, if conjugate { negative(imaginary) } else { imaginary }];
            for (part, value) in (0..).zip(parts) {
                (columns[end], values[end]) = (column * PARTS as u32 + part, value);
                end += 1;
            }
        }
        pointers[row + 1] = end as u64;
    }
    Csr::try_new(rows, matrix.rows() * PARTS, pointers, columns, values)
}

fn negative<T: Scalar>(value: T) -> T {
    T::from_f64(-value.to_f64())
}
