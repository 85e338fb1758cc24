//! Compulsory memory traffic: what every kernel must read and write once.

use rayon::prelude::*;
use rowloom::internal::matrix::{CsrView, Dtype, Scalar};

/// The number of columns of A with an entry, which is the number of rows of X that are read.
pub fn used_columns<T: Scalar>(matrix: CsrView<'_, T>) -> u64 {
    let mut used = vec![false; matrix.cols()];
    for &column in matrix.columns() {
        if let Some(used) = used.get_mut(column as usize) {
            *used = true;
        }
    }
    used.par_iter().filter(|used| **used).count() as u64
}

/// Bytes that every kernel must move once: A with four-byte column indices and row pointers (eight-byte pointers from 2^31
/// entries on), the rows of X that are used, and Y.
pub fn compulsory_bytes(rows: u64, nnz: u64, used_columns: u64, k: u64, dtype: Dtype) -> u64 {
    let value = dtype.bytes() as u64;
    let pointer = if nnz < 1 << 31 { 4 } else { 8 };
    nnz * (value + 4) + pointer * (rows + 1) + value * k * (used_columns + rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compulsory_bytes_count_a_x_and_y_once() {
        // 3 x 4 with 6 entries in 3 columns, K = 2, double precision.
        assert_eq!(compulsory_bytes(3, 6, 3, 2, Dtype::F64), 6 * 12 + 4 * 4 + 16 * 3 + 16 * 3);
        assert_eq!(compulsory_bytes(0, 1 << 31, 0, 1, Dtype::F32), (8 << 31) + 8);
    }
}
