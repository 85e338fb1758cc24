//! `rowloom convert --check`: compares the parallel conversions with the serial ones, bit for bit, and times both.

use std::time::Instant;

use serde::Serialize;

use crate::console::Console;
use crate::console::table::{Table, seconds};
use crate::operands::session::Session;
use rowloom::internal::error::{Error, Result};
use rowloom::internal::matrix::array::check_memory;
use rowloom::internal::matrix::{Coo, Csr, CsrView, EllPadded, EllUnpadded, Scalar, convert, convert_serial};

/// The comparison of one conversion.
#[derive(Debug, Serialize)]
pub struct Check {
    conversion: &'static str,
    equal: Option<bool>,
    serial_s: Option<f64>,
    parallel_s: Option<f64>,
    speedup: Option<f64>,
    refused: Option<String>,
}

/// Runs each conversion serially and in parallel, and compares the results.
pub fn check<T: Scalar>(matrix: &CsrView<'_, T>, session: &Session, console: &Console) -> Result<Vec<Check>> {
    let _spinner = console.spinner("checking conversions");
    let coo = by_columns(matrix)?;
    // Both results are in memory at once, with the matrix and its coordinates.
    let limit = session.memory_limit_bytes() / 3;
    let mut checks = Vec::new();
    checks.push(compare(
        "COO to CSR",
        session,
        || Ok(convert_serial::coo_to_csr(&coo)?.0),
        || Ok(convert::coo_to_csr(&coo)?.0),
        same_csr,
    )?);
    session.interrupt.check()?;
    checks.push(compare(
        "COO to ELL, padded",
        session,
        || convert_serial::coo_to_ell_padded(&coo, limit),
        || convert::coo_to_ell_padded(&coo, limit),
        same_padded,
    )?);
    session.interrupt.check()?;
    checks.push(compare(
        "COO to ELL, unpadded",
        session,
        || convert_serial::coo_to_ell_unpadded(&coo),
        || convert::coo_to_ell_unpadded(&coo),
        same_unpadded,
    )?);
    Ok(checks)
}

/// The checks as a table.
pub fn table(checks: &[Check]) -> Table {
    let mut table = Table::columns(["conversion", "serial", "parallel", "speed-up", "equal"], &[1, 2, 3]);
    for check in checks {
        let time = |value: Option<f64>| value.map(seconds).unwrap_or_else(|| "-".into());
        let equal = match check.equal {
            Some(true) => "yes",
            Some(false) => "NO",
            None => "refused by both",
        };
        table.row([
            check.conversion.into(),
            time(check.serial_s),
            time(check.parallel_s),
            check.speedup.map(|speedup| format!("{speedup:.2} x")).unwrap_or_else(|| "-".into()),
            equal.into(),
        ]);
    }
    table
}

/// A sentence for each conversion that was refused.
pub fn refusals(checks: &[Check]) -> impl Iterator<Item = String> {
    checks.iter().filter_map(|check| Some(format!("{}: {}", check.conversion, check.refused.as_ref()?)))
}

/// An error naming the conversions that differ.
pub fn verdict(checks: &[Check]) -> Result<()> {
    let different: Vec<&str> =
        checks.iter().filter(|check| check.equal == Some(false)).map(|check| check.conversion).collect();
    if different.is_empty() {
        return Ok(());
    }
    Err(Error::Verification(format!("parallel and serial differ for {}", different.join("; "))))
}

fn compare<M: Send>(
    conversion: &'static str,
    session: &Session,
    serial: impl FnOnce() -> Result<M>,
    parallel: impl FnOnce() -> Result<M> + Send,
    same: impl FnOnce(&M, &M) -> bool,
) -> Result<Check> {
    let start = Instant::now();
    let serial = serial();
    let serial_s = start.elapsed().as_secs_f64();
    let start = Instant::now();
    let parallel = session.pool.install(parallel);
    let parallel_s = start.elapsed().as_secs_f64();
    let times = |equal| Check {
        conversion,
        equal: Some(equal),
        serial_s: Some(serial_s),
        parallel_s: Some(parallel_s),
        speedup: Some(serial_s / parallel_s),
        refused: None,
    };
    match (serial, parallel) {
        (Ok(serial), Ok(parallel)) => Ok(times(same(&serial, &parallel))),
        (Err(refusal @ Error::DoesNotFit { .. }), Err(Error::DoesNotFit { .. })) => Ok(Check {
            conversion,
            equal: None,
            serial_s: None,
            parallel_s: None,
            speedup: None,
            refused: Some(refusal.to_string()),
        }),
        (Ok(_), Err(Error::DoesNotFit { .. })) | (Err(Error::DoesNotFit { .. }), Ok(_)) => Ok(times(false)),
        (Err(error), _) | (_, Err(error)) => Err(error),
    }
}

/// Compares bits, not numbers: NaN equals itself, and zero has a sign.
fn same_bits<T: bytemuck::Pod>(left: &[T], right: &[T]) -> bool {
    bytemuck::cast_slice::<T, u8>(left) == bytemuck::cast_slice::<T, u8>(right)
}

/// Whether two matrices are the same, bit for bit.
pub fn same_csr<T: Scalar>(left: &Csr<T>, right: &Csr<T>) -> bool {
    let (left, right) = (left.view(), right.view());
    (left.rows(), left.cols()) == (right.rows(), right.cols())
        && left.row_pointers() == right.row_pointers()
        && left.columns() == right.columns()
        && same_bits(left.values(), right.values())
}

/// The same for padded ELL.
pub fn same_padded<T: Scalar>(left: &EllPadded<T>, right: &EllPadded<T>) -> bool {
    (left.rows(), left.cols(), left.width()) == (right.rows(), right.cols(), right.width())
        && left.columns() == right.columns()
        && same_bits(left.values(), right.values())
}

/// The same for unpadded ELL.
pub fn same_unpadded<T: Scalar>(left: &EllUnpadded<T>, right: &EllUnpadded<T>) -> bool {
    left.cols() == right.cols()
        && left.row_starts() == right.row_starts()
        && left.row_lengths() == right.row_lengths()
        && left.columns() == right.columns()
        && same_bits(left.values(), right.values())
}

/// The entries column by column, as most files list them.
pub fn by_columns<T: Scalar>(matrix: &CsrView<'_, T>) -> Result<Coo<T>> {
    let mut next = zeros::<u64>(matrix.cols() + 1)?;
    for &column in matrix.columns() {
        next[column as usize + 1] += 1;
    }
    for column in 0..matrix.cols() {
        next[column + 1] += next[column];
    }
    let mut rows = zeros::<u32>(matrix.nnz())?;
    let mut columns = zeros::<u32>(matrix.nnz())?;
    let mut values = zeros::<T>(matrix.nnz())?;
    for row in 0..matrix.rows() {
        let (row_columns, row_values) = matrix.row(row);
        for (&column, &value) in row_columns.iter().zip(row_values) {
            let position = next[column as usize] as usize;
            next[column as usize] += 1;
            rows[position] = row as u32;
            columns[position] = column;
            values[position] = value;
        }
    }
    Coo::try_new(matrix.rows(), matrix.cols(), rows, columns, values)
}

fn zeros<N: bytemuck::Pod>(length: usize) -> Result<Vec<N>> {
    check_memory("the matrix as coordinates", (length as u64).saturating_mul(size_of::<N>() as u64))?;
    let mut values = Vec::new();
    values.try_reserve_exact(length).map_err(|_| Error::DoesNotFit {
        what: "the matrix as coordinates".into(),
        needed_bytes: (length as u64).saturating_mul(size_of::<N>() as u64),
        limit_bytes: 0,
        advice: "the system refused the memory; free some or use a smaller matrix".into(),
    })?;
    values.resize(length, N::zeroed());
    Ok(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_come_column_by_column() {
        let matrix =
            Csr::try_new(2, 3, vec![0, 2, 4], vec![0, 2, 0, 1], vec![1.0, 2.0, 3.0, f64::NAN]).unwrap();
        let coo = by_columns(&matrix.view()).unwrap();
        assert_eq!(coo.row_indices(), [0, 1, 1, 0]);
        assert_eq!(coo.col_indices(), [0, 0, 1, 2]);
        let back = convert_serial::coo_to_csr(&coo).unwrap().0;
        assert!(same_csr(&matrix, &back));
        let other = Csr::try_new(2, 3, vec![0, 2, 4], vec![0, 2, 0, 1], vec![1.0, 2.0, 3.0, -0.0]).unwrap();
        assert!(!same_csr(&matrix, &other));
    }

    #[test]
    fn a_difference_is_exit_code_5() {
        let check = |equal| Check {
            conversion: "COO to CSR",
            equal,
            serial_s: None,
            parallel_s: None,
            speedup: None,
            refused: None,
        };
        assert!(verdict(&[check(Some(true)), check(None)]).is_ok());
        assert_eq!(verdict(&[check(Some(true)), check(Some(false))]).unwrap_err().exit_code(), 5);
    }
}
