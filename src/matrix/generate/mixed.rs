//! A stencil matrix above a random matrix with hub rows. No single kernel suits both halves.

use std::cell::RefCell;
use std::ops::Range;

use super::build::{Part, Request, RowLengths, Shape, Values, check_memory};
use super::{grid, scattered};
use crate::error::{Error, Result};
use crate::matrix::csr::Csr;
use crate::matrix::scalar::Scalar;

/// A 27-point stencil on n x n x n points above as many rows of `degree` random columns, `hubs` of which have half of all
/// columns.
pub fn mixed<T: Scalar>(n: u64, degree: u64, hubs: u64, request: Request<'_>) -> Result<Csr<T>> {
    let rows = n.saturating_pow(3);
    if degree.max(hubs) > rows {
        return Err(Error::usage(format!(
            "gen:mixed with n={n} has {rows} columns and {rows} rows of each kind; degree={degree} or hubs={hubs} exceeds that"
        )));
    }
    let scattered = rows.saturating_mul(degree).saturating_add(hubs.saturating_mul(rows / 2));
    let nonzeros = rows.saturating_mul(27).saturating_add(scattered);
    let all_rows = rows.saturating_mul(2);
    // Rows of both halves and the combined matrix exist at the same time.
    let needed_bytes = request.csr_bytes::<T>(all_rows, nonzeros).and_then(|bytes| bytes.checked_mul(2));
    check_memory(needed_bytes.map(|bytes| bytes / request.parts(all_rows)), request.memory_limit_bytes)?;
    let above = |part: Part<'_>| grid::box_stencil::<T>(n, n, 1, Request { part, ..request });
    let below = |part: Part<'_>| {
        let request = Request { part, ..request };
        let shape = Shape { rows, cols: rows, nonzeros: 0, values: Values::Random, request };
        scattered::hub::<T>(degree, hubs, shape)
    };
    let lengths = |of: Range<u64>| {
        let (upper, lower) = halves(&of, rows);
        Ok([row_lengths(upper, above)?, row_lengths(lower, below)?].concat())
    };
    let (upper, lower) = halves(&request.rows(all_rows, &lengths)?, rows);
    let part = |rows: Range<u64>| Part::Rows { first: rows.start, end: rows.end };
    let (above, below) = (above(part(upper))?, below(part(lower))?);
    if above.rows() == 0 || below.rows() == 0 {
        return Ok(if below.rows() == 0 { above } else { below });
    }
    let (above, below) = (above.view(), below.view());
    let entries = above.nnz() as u64;
    let lower_pointers = below.row_pointers().iter().skip(1).map(|pointer| pointer + entries);
    let pointers: Vec<u64> = above.row_pointers().iter().copied().chain(lower_pointers).collect();
    let columns = [above.columns(), below.columns()].concat();
    let values = [above.values(), below.values()].concat();
    Csr::try_new(above.rows() + below.rows(), rows as usize, pointers, columns, values)
}

/// The rows of the upper half and those of the lower half, which is counted from its own first row. Each half has `height` rows.
fn halves(rows: &Range<u64>, height: u64) -> (Range<u64>, Range<u64>) {
    let upper = rows.start.min(height)..rows.end.min(height);
    (upper, rows.start.saturating_sub(height)..rows.end.saturating_sub(height))
}

/// The lengths of rows of the matrix of which `generate` builds a part. No row is built.
fn row_lengths<T: Scalar>(
    rows: Range<u64>,
    generate: impl Fn(Part<'_>) -> Result<Csr<T>>,
) -> Result<Vec<u64>> {
    let counted = RefCell::new(Vec::new());
    let choose = |_: u64, lengths: &RowLengths<'_>| {
        *counted.borrow_mut() = lengths(rows.clone())?;
        Ok(0..0)
    };
    generate(Part::Chosen { parts: u64::MAX, choose: &choose })?;
    Ok(counted.take())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stencil_is_above_the_rows_with_hubs() {
        let request = Request { seed: 1, memory_limit_bytes: 1 << 30, part: Part::All, has_values: true };
        let matrix: Csr<f64> = mixed(8, 3, 2, request).unwrap();
        assert_eq!((matrix.rows(), matrix.cols()), (1024, 512));
        let lengths = |rows: std::ops::Range<usize>| rows.map(|row| matrix.view().row_length(row));
        assert!(lengths(0..512).all(|length| (8..=27).contains(&length)));
        assert_eq!(lengths(512..1024).filter(|&length| length == 256).count(), 2);
        assert_eq!(lengths(512..1024).filter(|&length| length == 3).count(), 510);
        assert!(mixed::<f64>(2, 9, 1, request).is_err());
        assert!(mixed::<f64>(u64::MAX, 1, 1, request).is_err());
    }

    #[test]
    fn a_part_of_the_rows_needs_no_memory_for_the_others() {
        let request =
            |part, memory_limit_bytes| Request { seed: 1, memory_limit_bytes, part, has_values: true };
        let whole: Csr<f64> = mixed(12, 4, 2, request(Part::All, u64::MAX)).unwrap();
        let (height, limit) = (1728, whole.bytes() / 4);
        assert!(mixed::<f64>(12, 4, 2, request(Part::All, limit)).is_err());
        for (first, end) in [(0, 9), (100, 300), (height - 5, height + 5), (height, height), (3000, 3200)] {
            let part: Csr<f64> = mixed(12, 4, 2, request(Part::Rows { first, end }, limit)).unwrap();
            assert_eq!(part.rows() as u64, end - first);
            for row in 0..part.rows() {
                assert_eq!(part.view().row(row), whole.view().row(first as usize + row));
            }
        }
    }
}
