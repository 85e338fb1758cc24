//! Conversions from and to the matrices of the crate `faer`: dense views share the memory of multivectors, all else is copied.

use faer::sparse::{SparseColMatRef, SparseRowMat, SparseRowMatRef, SymbolicSparseRowMat};
use faer::{Index, Mat, MatMut, MatRef};

use super::{Coo, Csr, MultiVector, MultiVectorView, MultiVectorViewMut, Scalar};
use crate::error::{Error, Result};

/// A copy of a matrix with any strides.
///
/// ```
/// use faer::sparse::{SparseColMat, Triplet};
/// use faer::{Mat, MatRef};
/// use rowloom::{Csr, MultiVector, Runtime};
///
/// # fn main() -> rowloom::Result<()> {
/// let entries = [Triplet::new(0usize, 2usize, 4.0), Triplet::new(1, 0, 5.0)];
/// let a = SparseColMat::try_new_from_triplets(2, 3, &entries).unwrap();
/// let x = Mat::from_fn(3, 2, |row, column| (row + column) as f64);
/// let mut product = Runtime::open("cpu")?.product(Csr::try_from(a.as_ref())?).columns(2).build()?;
/// let y = product.apply(&MultiVector::try_from(x.as_ref())?.view())?;
/// assert_eq!(MatRef::from(y.view()), Mat::from_fn(2, 2, |row, column| [[8.0, 12.0], [0.0, 5.0]][row][column]));
/// # Ok(())
/// # }
/// ```
impl<T: Scalar> TryFrom<MatRef<'_, T>> for MultiVector<T> {
    type Error = Error;

    fn try_from(matrix: MatRef<'_, T>) -> Result<Self> {
        Self::from_fn(matrix.nrows(), matrix.ncols(), |row, column| matrix[(row, column)])
    }
}

/// A view of the same memory, by rows.
impl<'a, T: Scalar> From<MultiVectorView<'a, T>> for MatRef<'a, T> {
    fn from(view: MultiVectorView<'a, T>) -> Self {
        let (rows, k, distance) = (view.rows(), view.k(), view.leading_dimension());
        if rows == 0 || k == 0 {
            return Self::from_row_major_slice(&[], rows, k);
        }
        Self::from_row_major_slice_with_stride(&view.data()[..(rows - 1) * distance + k], rows, k, distance)
    }
}

/// A view of the same memory, by rows.
impl<'a, T: Scalar> From<MultiVectorViewMut<'a, T>> for MatMut<'a, T> {
    fn from(view: MultiVectorViewMut<'a, T>) -> Self {
        let (rows, k, distance) = (view.rows(), view.k(), view.leading_dimension());
        if rows == 0 || k == 0 {
            return Self::from_row_major_slice_mut(&mut [], rows, k);
        }
        let data = &mut view.into_data()[..(rows - 1) * distance + k];
        // `from_row_major_slice_with_stride_mut` of faer 0.24.4 exchanges the strides.
        Self::from_column_major_slice_with_stride_mut(data, k, rows, distance).transpose_mut()
    }
}

/// A copy.
impl<T: Scalar> From<&MultiVector<T>> for Mat<T> {
    fn from(multivector: &MultiVector<T>) -> Self {
        Self::from_fn(multivector.rows(), multivector.k(), |row, column| multivector.row(row)[column])
    }
}

/// A copy of a matrix by rows.
impl<T: Scalar, I: Index> TryFrom<SparseRowMatRef<'_, I, T>> for Csr<T> {
    type Error = Error;

    fn try_from(matrix: SparseRowMatRef<'_, I, T>) -> Result<Self> {
        let mut pointers = vec![0u64];
        let (mut columns, mut values) = (Vec::new(), Vec::new());
        for row in 0..matrix.nrows() {
            for column in matrix.symbolic().col_idx_of_row(row) {
                columns.push(narrow(column)?);
            }
            values.extend_from_slice(matrix.val_of_row(row));
            pointers.push(values.len() as u64);
        }
        Self::try_new(matrix.nrows(), matrix.ncols(), pointers, columns, values)
    }
}

/// A copy of a matrix by columns.
impl<T: Scalar, I: Index> TryFrom<SparseColMatRef<'_, I, T>> for Csr<T> {
    type Error = Error;

    fn try_from(matrix: SparseColMatRef<'_, I, T>) -> Result<Self> {
        let (mut rows, mut columns, mut values) = (Vec::new(), Vec::new(), Vec::new());
        for column in 0..matrix.ncols() {
            for row in matrix.symbolic().row_idx_of_col(column) {
                rows.push(narrow(row)?);
                columns.push(narrow(column)?);
            }
            values.extend_from_slice(matrix.val_of_col(column));
        }
        Coo::try_new(matrix.nrows(), matrix.ncols(), rows, columns, values)?.to_csr()
    }
}

fn narrow(index: usize) -> Result<u32> {
    u32::try_from(index).map_err(|_| Error::usage(format!("the index {index} exceeds 32 bits")))
}

/// A copy; an error if the columns of a row are not in increasing order, which `faer` needs.
impl<T: Scalar> TryFrom<&Csr<T>> for SparseRowMat<usize, T> {
    type Error = Error;

    fn try_from(matrix: &Csr<T>) -> Result<Self> {
        let view = matrix.view();
        if let Some(row) = (0..view.rows()).find(|&row| !view.row(row).0.is_sorted_by(|a, b| a < b)) {
            return Err(Error::usage(format!("the columns of row {row} are not in increasing order")));
        }
        let pointers = view.row_pointers().iter().map(|&pointer| pointer as usize).collect();
        let columns = view.columns().iter().map(|&column| column as usize).collect();
        let pattern = SymbolicSparseRowMat::new_checked(view.rows(), view.cols(), pointers, None, columns);
        Ok(Self::new(pattern, view.values().to_vec()))
    }
}

#[cfg(test)]
mod tests {
    use faer::sparse::{SparseColMat, Triplet};

    use super::*;
    use crate::matrix::generate;

    #[test]
    fn dense_views_share_memory_and_copies_have_any_strides() {
        let mut padded = MultiVector::<f64>::zeros_with_leading_dimension(3, 2, 5).unwrap();
        MatMut::from(padded.view_mut())[(2, 1)] = 4.0;
        assert_eq!(padded.row(2), [0.0, 4.0]);
        let view = MatRef::from(padded.view());
        assert_eq!((view.nrows(), view.ncols(), view.as_ptr()), (3, 2, padded.data().as_ptr()));
        assert_eq!(view[(2, 1)], 4.0);
        let copy = Mat::from(&padded);
        assert_eq!(copy, view);
        for strange in [copy.as_ref(), copy.transpose(), copy.as_ref().reverse_rows()] {
            let multivector = MultiVector::try_from(strange).unwrap();
            assert_eq!(MatRef::from(multivector.view()), strange);
        }
    }

    #[test]
    fn empty_multivectors_are_empty_matrices() {
        for (rows, k) in [(0, 3), (3, 0), (0, 0)] {
            let mut empty = MultiVector::<f32>::zeros(rows, k).unwrap();
            assert_eq!(MatMut::from(empty.view_mut()).ncols(), k);
            let view = MatRef::from(empty.view());
            assert_eq!((view.nrows(), view.ncols()), (rows, k));
            let copy = MultiVector::try_from(view).unwrap();
            assert_eq!((copy.rows(), copy.k()), (rows, k));
        }
    }

    #[test]
    fn a_sparse_matrix_is_the_same_there_and_back_and_unsorted_columns_are_refused() {
        let matrix = generate::<f32>("stencil5,n=9", 1, 1 << 30).unwrap().matrix;
        let copy = SparseRowMat::try_from(&matrix).unwrap();
        assert_eq!(Csr::try_from(copy.as_ref()).unwrap(), matrix);
        let unsorted = Csr::try_new(1, 3, vec![0u64, 2], vec![2u32, 0], vec![1.0f64, 2.0]).unwrap();
        assert_eq!(SparseRowMat::try_from(&unsorted).unwrap_err().exit_code(), 2);
    }

    #[test]
    fn matrices_by_columns_are_copied() {
        let expected =
            Csr::try_new(2, 3, vec![0u64, 1, 3], vec![2u32, 0, 1], vec![4.0f64, 5.0, 6.0]).unwrap();
        let entries = [Triplet::new(1u32, 1u32, 6.0), Triplet::new(0, 2, 4.0), Triplet::new(1, 0, 5.0)];
        let by_columns = SparseColMat::try_new_from_triplets(2, 3, &entries).unwrap();
        assert_eq!(Csr::try_from(by_columns.as_ref()).unwrap(), expected);
    }
}
