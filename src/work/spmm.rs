//! Y = A X with a sparse A in compressed rows.
//!
//! A chunk of rows reads its rows of A and the rows of X that its columns name, and writes its own rows of Y: slices
//! merge by being put in their place. A piece of a row writes the sum of each of its segments, its carries, which are
//! added first to last when all of the row's are there.

use super::Work;
use crate::error::{Error, Result};
use crate::kernel::partition::Weights;
use crate::matrix::{CsrView, Dtype, Scalar};

/// Of the rows of X that entries name, the share that comes from memory instead of a cache, taken for all matrices
/// alike: the split into chunks should not depend on who computes them.
const GATHER_SHARE: (u64, u64) = (1, 2);

/// Most bytes that A, X or Y may have: room enough above it that sums of a few such numbers stay exact.
const MOST_BYTES: u64 = 1 << 60;

impl<'a> Work<'a> {
    /// `matrix` times a multivector of `k` columns.
    pub fn spmm<T: Scalar>(matrix: &CsrView<'a, T>, k: usize) -> Result<Self> {
        let columns = Some(matrix.columns());
        Self::spmm_pattern(matrix.row_pointers(), columns, matrix.cols(), k, T::DTYPE)
    }

    /// The same for a matrix of which nothing but the row pointers, and perhaps the columns, are there.
    pub fn spmm_pattern(
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
            if needed_bytes > MOST_BYTES {
                return Err(Error::DoesNotFit {
                    what: format!("{what}, {height} x {k},"),
                    needed_bytes,
                    limit_bytes: MOST_BYTES,
                    advice: "take a smaller -k".into(),
                });
            }
        }
        let gathered = row_bytes * GATHER_SHARE.0 / GATHER_SHARE.1;
        let weights = Weights { per_nonzero: 4 + value + gathered, per_row: 8 + row_bytes };
        Ok(Self { row_pointers, columns, cols, k, dtype, weights, known: None })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matrix::generate;
    use crate::work::ChunkRows;

    #[test]
    fn nonzeros_rows_and_columns_of_x_all_weigh() {
        let stencil = generate::<f64>("stencil5,n=10", 1, 1 << 30).unwrap().matrix;
        let cost = |k, begin, end| {
            let work = Work::spmm(&stencil.view(), k).unwrap();
            work.cost(&ChunkRows::Rows { begin, end })
        };
        assert!(cost(8, 0, 100) > cost(1, 0, 100));
        assert!(cost(8, 0, 100) > cost(8, 0, 50));
        let empty = generate::<f64>("empty,rows=100,cols=3", 1, 1 << 30).unwrap().matrix;
        let work = Work::spmm(&empty.view(), 4).unwrap();
        assert_eq!(work.cost(&ChunkRows::Rows { begin: 0, end: 100 }), 100 * (8 + 32));
    }

    #[test]
    fn a_multivector_beyond_every_memory_is_refused() {
        let stencil = generate::<f64>("stencil5,n=10", 1, 1 << 30).unwrap().matrix;
        let error = Work::spmm(&stencil.view(), usize::MAX).unwrap_err();
        assert_eq!(error.exit_code(), 3);
    }
}
