//! Deterministic patterns: band, arrow, diagonal and empty.

use super::build::{Shape, build};
use crate::error::Result;
use crate::matrix::csr::Csr;
use crate::matrix::scalar::Scalar;

/// `width` adjacent diagonals around the main one; if `width` is even, one more is above it than below.
pub fn band<T: Scalar>(width: u64, shape: Shape<'_>) -> Result<Csr<T>> {
    let above = width / 2;
    let below = width.saturating_sub(1) / 2;
    let range = |row: usize| {
        let row = row as u64;
        let end = if width == 0 { row } else { row.saturating_add(above).saturating_add(1).min(shape.cols) };
        row.saturating_sub(below)..end
    };
    let outside = |beyond: u64| beyond.saturating_mul(beyond.saturating_add(1)) / 2;
    let whole = shape.rows.saturating_mul(width);
    let nonzeros = whole.saturating_sub(outside(above)).saturating_sub(outside(below));
    build(
        Shape { nonzeros, ..shape },
        |row| range(row).count(),
        |row, columns| columns.iter_mut().zip(range(row)).for_each(|(to, column)| *to = column as u32),
    )
}

/// The diagonal, the first row and the first column.
pub fn arrow<T: Scalar>(shape: Shape<'_>) -> Result<Csr<T>> {
    build(
        Shape { nonzeros: shape.rows.saturating_mul(3).saturating_sub(2), ..shape },
        |row| if row == 0 { shape.cols as usize } else { 2 },
        |row, columns| match (row, columns) {
            (0, all) => all.iter_mut().enumerate().for_each(|(column, to)| *to = column as u32),
            (row, columns) => columns.iter_mut().zip([0, row]).for_each(|(to, column)| *to = column as u32),
        },
    )
}

/// The diagonal.
pub fn diagonal<T: Scalar>(shape: Shape<'_>) -> Result<Csr<T>> {
    build(
        Shape { nonzeros: shape.rows, ..shape },
        |_| 1,
        |row, columns| columns.iter_mut().for_each(|to| *to = row as u32),
    )
}

/// No nonzeros.
pub fn empty<T: Scalar>(shape: Shape<'_>) -> Result<Csr<T>> {
    build(shape, |_| 0, |_, _| {})
}
