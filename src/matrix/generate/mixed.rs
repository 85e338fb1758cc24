//! A stencil matrix above a random matrix with hub rows. No single kernel suits both halves.

use super::build::{Part, Request, Shape, Values, check_memory, chosen_rows};
use super::{grid, scattered};
use crate::error::{Error, Result};
use crate::matrix::csr::Csr;
use crate::matrix::scalar::Scalar;

/// A 27-point stencil on n x n x n points above as many rows of `degree` random columns, `hubs` of which have half of all
/// columns.
///
/// The whole matrix is generated, also for a part of its rows.
pub fn mixed<T: Scalar>(n: u64, degree: u64, hubs: u64, request: Request<'_>) -> Result<Csr<T>> {
    let rows = n.saturating_pow(3);
    if degree.max(hubs) > rows {
        return Err(Error::Usage(format!(
            "gen:mixed with n={n} has {rows} columns and {rows} rows of each kind; degree={degree} or hubs={hubs} exceeds that"
        )));
    }
    let scattered = rows.saturating_mul(degree).saturating_add(hubs.saturating_mul(rows / 2));
    let nonzeros = rows.saturating_mul(27).saturating_add(scattered);
    let combined = request.csr_bytes::<T>(rows.saturating_mul(2), nonzeros);
    // Both halves and the combined matrix exist at the same time.
    check_memory(combined.and_then(|bytes| bytes.checked_mul(2)), request.memory_limit_bytes)?;
    let all = Request { part: Part::All, ..request };
    let above: Csr<T> = grid::box_stencil(n, n, 1, all)?;
    let shape = Shape { rows, cols: rows, nonzeros: 0, values: Values::Random, request: all };
    let below: Csr<T> = scattered::hub(degree, hubs, shape)?;
    let (above, below) = (above.view(), below.view());
    let entries = above.nnz() as u64;
    let lower_pointers = below.row_pointers().iter().skip(1).map(|pointer| pointer + entries);
    let pointers: Vec<u64> = above.row_pointers().iter().copied().chain(lower_pointers).collect();
    let columns = [above.columns(), below.columns()].concat();
    let values = [above.values(), below.values()].concat();
    let whole = Csr::try_new(2 * rows as usize, rows as usize, pointers, columns, values)?;
    chosen_rows(whole, request)
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
}
