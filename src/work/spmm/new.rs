//! Y = A X with a sparse A in CSR.
//!
//! A chunk of whole rows reads its rows of A and the rows of X that its columns refer to, and writes its rows of Y. A chunk of
//! segments of one row writes the sum of each segment (a carry); the carries of a row are added first to last once all are
//! computed.

use std::sync::OnceLock;

use super::Spmm;
use crate::error::{Advice, Error, Result};
use crate::kernel::partition::Weights;
use crate::matrix::{CsrView, Dtype, Scalar};
use crate::work::Work;

/// Assumed share of gathered rows of X that miss the caches, as numerator and denominator.
///
/// It is the same for all matrices and devices, so that the division into chunks does not depend on the devices.
const GATHER_MISS_SHARE: (u64, u64) = (1, 2);

/// Limit on the bytes of A, X or Y, low enough that the sum of a few such sizes does not overflow.
const MAX_BYTES: u64 = 1 << 60;

impl<'a> Spmm<'a> {
    /// The product of `matrix` and a multivector of `k` columns; an error if X or Y would be too large to address.
    pub fn new<T: Scalar>(matrix: &CsrView<'a, T>, k: usize) -> Result<Self> {
        let columns = Some(matrix.columns());
        let product = Self::of_pattern(matrix.row_pointers(), columns, matrix.cols(), k, T::DTYPE)?;
        Ok(Self { values: Some(matrix.value_bits()), packable: Some(matrix.packable()), ..product })
    }

    /// As [`Self::new`], for a matrix given by its row pointers and, if known, its columns.
    pub fn of_pattern(
        row_pointers: &'a [u64],
        columns: Option<&'a [u32]>,
        cols: usize,
        k: usize,
        dtype: Dtype,
    ) -> Result<Self> {
        let value = dtype.bytes() as u64;
        let rows = row_pointers.len().saturating_sub(1);
        let row_bytes = (k as u64).saturating_mul(value);
        for (what, height) in [("X", cols), ("Y", rows)] {
            let needed_bytes = (height.max(1) as u64).saturating_mul(row_bytes);
            if needed_bytes > MAX_BYTES {
                return Err(Error::DoesNotFit {
                    what: format!("{what}, {height} x {k},"),
                    needed_bytes,
                    limit_bytes: MAX_BYTES,
                    advice: Advice::FewerColumns.into(),
                });
            }
        }
        let gathered = row_bytes * GATHER_MISS_SHARE.0 / GATHER_MISS_SHARE.1;
        let weights = Weights { per_nonzero: 4 + value + gathered, per_row: 8 + row_bytes };
        Ok(Self {
            row_pointers,
            columns,
            values: None,
            equal_values: OnceLock::new(),
            packable: None,
            packing: OnceLock::new(),
            sampled_packed_bytes: OnceLock::new(),
            cols,
            own_columns: None,
            k,
            dtype,
            weights,
            known: None,
            ranges: None,
            known_chunks: None,
        })
    }
}

impl<'a> Work<'a> {
    /// The product of a sparse `matrix` and a multivector of `k` columns: [`Spmm::new`].
    pub fn spmm<T: Scalar>(matrix: &CsrView<'a, T>, k: usize) -> Result<Self> {
        Ok(Self::new(Spmm::new(matrix, k)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matrix::generate;
    use crate::work::ChunkRows;

    #[test]
    fn the_cost_grows_with_nonzeros_rows_and_columns_of_x() {
        let stencil = generate::<f64>("stencil5,n=10", 1, 1 << 30).unwrap().matrix;
        let cost = |k, begin, end| {
            let work = Spmm::new(&stencil.view(), k).unwrap();
            work.cost(&ChunkRows::Rows { begin, end })
        };
        assert!(cost(8, 0, 100) > cost(1, 0, 100));
        assert!(cost(8, 0, 100) > cost(8, 0, 50));
        let empty = generate::<f64>("empty,rows=100,cols=3", 1, 1 << 30).unwrap().matrix;
        let work = Spmm::new(&empty.view(), 4).unwrap();
        assert_eq!(work.cost(&ChunkRows::Rows { begin: 0, end: 100 }), 100 * (8 + 32));
    }

    #[test]
    fn a_multivector_too_large_to_address_is_refused() {
        let stencil = generate::<f64>("stencil5,n=10", 1, 1 << 30).unwrap().matrix;
        let error = Spmm::new(&stencil.view(), usize::MAX).unwrap_err();
        assert_eq!(error.exit_code(), 3);
    }
}
