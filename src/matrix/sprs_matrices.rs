//! Conversions from and to the matrices of the crate `sprs`. The arrays are copied, since the two crates have indices of different types.

use sprs::{CsMat, CsMatI, CsMatViewI, SpIndex};

use super::csr::Csr;
use super::scalar::Scalar;
use crate::error::{Error, Result};

/// A copy of a matrix by rows or by columns, with any type of indices.
///
/// ```
/// use rowloom::{Csr, Runtime};
/// use sprs::{CsMat, TriMat};
///
/// # fn main() -> rowloom::Result<()> {
/// let mut entries = TriMat::new((2, 3));
/// entries.add_triplet(0, 2, 4.0);
/// entries.add_triplet(1, 0, 5.0);
/// let a: CsMat<f64> = entries.to_csr();
/// let mut product = Runtime::open("cpu")?.product(Csr::try_from(a.view())?).build()?;
/// assert_eq!(product.apply(&vec![1.0, 1.0, 1.0])?.data(), [4.0, 5.0]);
/// # Ok(())
/// # }
/// ```
impl<T: Scalar, I: SpIndex, P: SpIndex> TryFrom<CsMatViewI<'_, T, I, P>> for Csr<T> {
    type Error = Error;

    fn try_from(matrix: CsMatViewI<'_, T, I, P>) -> Result<Self> {
        if matrix.is_csc() {
            let by_rows: CsMatI<T, I, P> = matrix.to_csr();
            return Self::try_from(by_rows.view());
        }
        let (rows, cols) = matrix.shape();
        let column = |index: &I| {
            let too_wide = |_| Error::usage(format!("column {} exceeds 32 bits", index.index()));
            u32::try_from(index.index()).map_err(too_wide)
        };
        let pointers: Vec<u64> =
            matrix.proper_indptr().iter().map(|pointer| pointer.index() as u64).collect();
        let columns = matrix.indices().iter().map(column).collect::<Result<Vec<u32>>>()?;
        Self::try_new(rows, cols, pointers, columns, matrix.data().to_vec())
    }
}

/// A copy; an error if the columns of a row are not in increasing order, which `sprs` needs.
impl<T: Scalar> TryFrom<&Csr<T>> for CsMat<T> {
    type Error = Error;

    fn try_from(matrix: &Csr<T>) -> Result<Self> {
        let view = matrix.view();
        let pointers = view.row_pointers().iter().map(|&pointer| pointer as usize).collect();
        let columns = view.columns().iter().map(|&column| column as usize).collect();
        let made = Self::try_new((view.rows(), view.cols()), pointers, columns, view.values().to_vec());
        made.map_err(|(_, _, _, reason)| Error::usage(format!("the matrix is not one of sprs: {reason}")))
    }
}

#[cfg(test)]
mod tests {
    use sprs::TriMatI;

    use super::*;
    use crate::matrix::generate;

    #[test]
    fn matrices_by_rows_and_by_columns_are_copied_with_any_indices() {
        let expected =
            Csr::try_new(2, 3, vec![0u64, 1, 3], vec![2u32, 0, 1], vec![4.0f64, 5.0, 6.0]).unwrap();
        let mut entries = TriMatI::<f64, u16>::new((2, 3));
        for (row, column, value) in [(1, 1, 6.0), (0, 2, 4.0), (1, 0, 5.0)] {
            entries.add_triplet(row, column, value);
        }
        let (by_rows, by_columns): (CsMatI<f64, u16>, CsMatI<f64, u16>) =
            (entries.to_csr(), entries.to_csc());
        assert_eq!(Csr::try_from(by_rows.view()).unwrap(), expected);
        assert_eq!(Csr::try_from(by_columns.view()).unwrap(), expected);
        let lower = by_rows.slice_outer(1..2);
        assert_eq!(Csr::try_from(lower).unwrap().view().row(0), (&[0, 1][..], &[5.0, 6.0][..]));
    }

    #[test]
    fn a_matrix_is_the_same_there_and_back_and_unsorted_columns_are_refused() {
        let matrix = generate::<f32>("stencil5,n=9", 1, 1 << 30).unwrap().matrix;
        let copy = CsMat::try_from(&matrix).unwrap();
        assert_eq!(copy.nnz(), matrix.nnz());
        assert_eq!(Csr::try_from(copy.view()).unwrap(), matrix);
        let unsorted = Csr::try_new(1, 3, vec![0u64, 2], vec![2u32, 0], vec![1.0f64, 2.0]).unwrap();
        assert_eq!(CsMat::try_from(&unsorted).unwrap_err().exit_code(), 2);
    }
}
