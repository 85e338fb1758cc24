//! Serial reference implementations of the conversions, written for obvious correctness.
//!
//! Every conversion goes through a list of rows. They check [`convert`](super::convert) in tests and in
//! `rowloom convert --check`.

use super::array::check_memory;
use super::convert::padded_slots;
use super::coo::Coo;
use super::csr::{Csr, CsrView};
use super::ell::{EllPadded, EllUnpadded, PADDING};
use super::scalar::Scalar;
use crate::error::{Error, Result};

/// The entries of each row.
type Rows<T> = Vec<Vec<(u32, T)>>;

/// Converts to CSR with ascending columns, duplicates summed in list order; returns the matrix and the number of duplicates.
pub fn coo_to_csr<T: Scalar>(coo: &Coo<T>) -> Result<(Csr<T>, u64)> {
    let rows = summed_rows(coo)?;
    let (row_pointers, columns, values) = flatten(&rows);
    let duplicates = (coo.len() - columns.len()) as u64;
    Ok((Csr::try_new(coo.rows(), coo.cols(), row_pointers, columns, values)?, duplicates))
}

/// Converts to padded ELLPACK, as [`coo_to_csr`] does to CSR; an error if it needs more than `memory_limit_bytes`.
pub fn coo_to_ell_padded<T: Scalar>(coo: &Coo<T>, memory_limit_bytes: u64) -> Result<EllPadded<T>> {
    pad(&summed_rows(coo)?, coo.cols(), memory_limit_bytes)
}

/// Converts to ELLPACK without padding, as [`coo_to_csr`] does to CSR.
pub fn coo_to_ell_unpadded<T: Scalar>(coo: &Coo<T>) -> Result<EllUnpadded<T>> {
    pack(&summed_rows(coo)?, coo.cols())
}

/// Converts to padded ELLPACK; an error if it needs more than `memory_limit_bytes`.
pub fn csr_to_ell_padded<T: Scalar>(csr: &CsrView<'_, T>, memory_limit_bytes: u64) -> Result<EllPadded<T>> {
    pad(&rows_of(csr), csr.cols(), memory_limit_bytes)
}

/// Converts to ELLPACK without padding.
pub fn csr_to_ell_unpadded<T: Scalar>(csr: &CsrView<'_, T>) -> Result<EllUnpadded<T>> {
    pack(&rows_of(csr), csr.cols())
}

/// The entries of each row, sorted by column, duplicates summed.
fn summed_rows<T: Scalar>(coo: &Coo<T>) -> Result<Rows<T>> {
    let entry_bytes = size_of::<(u32, T)>() as u64;
    let list_bytes = size_of::<Vec<(u32, T)>>() as u64;
    // A growing list has up to twice the size of its entries, and its old copy while it grows.
    check_memory(
        "lists of the entries of all rows",
        coo.len() as u64 * 3 * entry_bytes + coo.rows() as u64 * list_bytes,
    )?;
    let mut rows: Rows<T> = Vec::new();
    rows.try_reserve_exact(coo.rows()).map_err(|_| Error::DoesNotFit {
        what: format!("a list of {} rows", coo.rows()),
        needed_bytes: (coo.rows() as u64).saturating_mul(size_of::<Vec<(u32, T)>>() as u64),
        limit_bytes: 0,
        advice: "the system refused the memory; free some or choose a smaller matrix".into(),
    })?;
    rows.resize(coo.rows(), Vec::new());
    for ((&row, &column), &value) in coo.row_indices().iter().zip(coo.col_indices()).zip(coo.values()) {
        rows[row as usize].push((column, value));
    }
    for row in &mut rows {
        // The sort is stable: entries of one column stay in list order.
        row.sort_by_key(|&(column, _)| column);
        row.dedup_by(|next, first| {
            let same = next.0 == first.0;
            if same {
                first.1 = first.1.plus(next.1);
            }
            same
        });
    }
    Ok(rows)
}

fn rows_of<T: Scalar>(csr: &CsrView<'_, T>) -> Rows<T> {
    (0..csr.rows())
        .map(|row| {
            let (columns, values) = csr.row(row);
            columns.iter().copied().zip(values.iter().copied()).collect()
        })
        .collect()
}

fn flatten<T: Scalar>(rows: &Rows<T>) -> (Vec<u64>, Vec<u32>, Vec<T>) {
    let mut row_pointers = vec![0];
    let (mut columns, mut values) = (Vec::new(), Vec::new());
    for row in rows {
        for &(column, value) in row {
            columns.push(column);
            values.push(value);
        }
        row_pointers.push(columns.len() as u64);
    }
    (row_pointers, columns, values)
}

fn pad<T: Scalar>(rows: &Rows<T>, cols: usize, memory_limit_bytes: u64) -> Result<EllPadded<T>> {
    let width = rows.iter().map(Vec::len).max().unwrap_or(0);
    padded_slots::<T>(rows.len(), width, memory_limit_bytes)?;
    let (mut columns, mut values) = (Vec::new(), Vec::new());
    for row in rows {
        for slot in 0..width {
            let (column, value) = row.get(slot).copied().unwrap_or((PADDING, T::ZERO));
            columns.push(column);
            values.push(value);
        }
    }
    EllPadded::try_new(rows.len(), cols, width, columns, values)
}

fn pack<T: Scalar>(rows: &Rows<T>, cols: usize) -> Result<EllUnpadded<T>> {
    let (mut row_starts, columns, values) = flatten(rows);
    row_starts.pop();
    let row_lengths = rows
        .iter()
        .map(|row| u32::try_from(row.len()))
        .collect::<std::result::Result<_, _>>()
        .map_err(|_| Error::usage("a row has 2^32 entries or more, which ELLPACK does not support"))?;
    EllUnpadded::try_new(cols, row_starts, row_lengths, columns, values)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `[[0, 5], [3, -1]]`, with the 5 listed as 2 + 3 around another entry.
    fn small() -> Coo<f64> {
        Coo::try_new(2, 2, vec![0, 1, 0, 1], vec![1, 1, 1, 0], vec![2.0, -1.0, 3.0, 3.0]).unwrap()
    }

    #[test]
    fn a_small_matrix_converts_to_the_hand_computed_arrays() {
        let (csr, duplicates) = coo_to_csr(&small()).unwrap();
        assert_eq!(csr, Csr::try_new(2, 2, vec![0, 1, 3], vec![1, 0, 1], vec![5.0, 3.0, -1.0]).unwrap());
        assert_eq!(duplicates, 1);
        let padded = coo_to_ell_padded(&small(), u64::MAX).unwrap();
        assert_eq!((padded.width(), padded.columns()), (2, &[1, PADDING, 0, 1][..]));
        assert_eq!(padded.values(), [5.0, 0.0, 3.0, -1.0]);
        let unpadded = coo_to_ell_unpadded(&small()).unwrap();
        assert_eq!((unpadded.row_starts(), unpadded.row_lengths()), (&[0, 1][..], &[1, 2][..]));
        assert_eq!(csr_to_ell_padded(&csr.view(), u64::MAX).unwrap(), padded);
        assert_eq!(csr_to_ell_unpadded(&csr.view()).unwrap(), unpadded);
    }
}
