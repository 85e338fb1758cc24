//! Conversions from and to two-dimensional arrays of the crate `ndarray`: views share the memory, owned multivectors copy it.

use ndarray::{Array2, ArrayView2, ArrayViewMut2, ShapeBuilder};

use super::{MultiVector, MultiVectorView, MultiVectorViewMut, Scalar};
use crate::error::{Error, Result};

/// Views of the same memory; an error unless the elements are in row-major order without gaps.
///
/// ```
/// use ndarray::{Array2, ArrayView2, ArrayViewMut2};
/// use rowloom::matrix::{MultiVectorView, MultiVectorViewMut};
/// use rowloom::{Csr, Runtime};
///
/// # fn main() -> rowloom::Result<()> {
/// let a = Csr::<f64>::generate("stencil5,n=30")?;
/// let x = Array2::from_shape_fn((a.cols(), 8), |(row, column)| (row + column) as f64);
/// let mut y = Array2::zeros((a.rows(), 8));
/// let mut product = Runtime::open("cpu")?.product(a).columns(8).build()?;
/// product.apply_into(&MultiVectorView::try_from(x.view())?, &mut MultiVectorViewMut::try_from(y.view_mut())?)?;
/// assert!(y.sum() != 0.0);
///
/// let z = product.apply(&MultiVectorView::try_from(x.view())?)?;
/// assert_eq!(ArrayView2::from(z.view()), y);
/// # Ok(())
/// # }
/// ```
impl<'a, T: Scalar> TryFrom<ArrayView2<'a, T>> for MultiVectorView<'a, T> {
    type Error = Error;

    fn try_from(array: ArrayView2<'a, T>) -> Result<Self> {
        let (rows, k) = array.dim();
        Self::try_new(array.to_slice().ok_or_else(not_packed)?, rows, k, k)
    }
}

/// As [`MultiVectorView`]'s conversion.
impl<'a, T: Scalar> TryFrom<ArrayViewMut2<'a, T>> for MultiVectorViewMut<'a, T> {
    type Error = Error;

    fn try_from(array: ArrayViewMut2<'a, T>) -> Result<Self> {
        let (rows, k) = array.dim();
        Self::try_new(array.into_slice().ok_or_else(not_packed)?, rows, k, k)
    }
}

fn not_packed() -> Error {
    Error::Usage(
        "the elements of the array are not in row-major order without gaps; make a MultiVector of the array, which copies it"
            .into(),
    )
}

/// A copy of an array with any strides.
impl<T: Scalar> TryFrom<ArrayView2<'_, T>> for MultiVector<T> {
    type Error = Error;

    fn try_from(array: ArrayView2<'_, T>) -> Result<Self> {
        let (rows, k) = array.dim();
        let mut result = Self::zeros(rows, k)?;
        for (row, values) in array.rows().into_iter().enumerate() {
            result.row_mut(row).iter_mut().zip(values).for_each(|(to, &value)| *to = value);
        }
        Ok(result)
    }
}

/// A view of the same memory.
impl<'a, T: Scalar> From<MultiVectorView<'a, T>> for ArrayView2<'a, T> {
    fn from(view: MultiVectorView<'a, T>) -> Self {
        let shape = (view.rows(), view.k());
        let array = if view.rows() == 0 || view.k() == 0 {
            // `ndarray` compares strides with the data also where there are no elements.
            Self::from_shape(shape, &[])
        } else {
            Self::from_shape(shape.strides((view.leading_dimension(), 1)), view.data())
        };
        array.expect("a view has all elements of its shape")
    }
}

/// A view of the same memory.
impl<'a, T: Scalar> From<MultiVectorViewMut<'a, T>> for ArrayViewMut2<'a, T> {
    fn from(view: MultiVectorViewMut<'a, T>) -> Self {
        let shape = (view.rows(), view.k());
        let array = if view.rows() == 0 || view.k() == 0 {
            // `ndarray` compares strides with the data also where there are no elements.
            Self::from_shape(shape, &mut [])
        } else {
            Self::from_shape(shape.strides((view.leading_dimension(), 1)), view.into_data())
        };
        array.expect("a view has all elements of its shape")
    }
}

/// A copy.
impl<T: Scalar> From<&MultiVector<T>> for Array2<T> {
    fn from(multivector: &MultiVector<T>) -> Self {
        ArrayView2::from(multivector.view()).to_owned()
    }
}

#[cfg(test)]
mod tests {
    use ndarray::s;

    use super::*;

    #[test]
    fn views_share_memory_in_both_directions() {
        let mut array = Array2::from_shape_fn((4, 3), |(row, column)| (10 * row + column) as f64);
        let address = array.as_ptr();
        let view = MultiVectorView::try_from(array.view()).unwrap();
        assert_eq!((view.data().as_ptr(), view.rows(), view.k()), (address, 4, 3));
        assert_eq!(view.row(2), [20.0, 21.0, 22.0]);
        MultiVectorViewMut::try_from(array.view_mut()).unwrap().row_mut(1)[2] = 7.0;
        assert_eq!(array[[1, 2]], 7.0);
        let mut padded = MultiVector::<f64>::zeros_with_leading_dimension(3, 2, 5).unwrap();
        ArrayViewMut2::from(padded.view_mut())[[2, 1]] = 4.0;
        assert_eq!(padded.row(2), [0.0, 4.0]);
        assert_eq!(ArrayView2::from(padded.view()).sum(), 4.0);
        assert_eq!(
            Array2::from(&padded),
            Array2::from_shape_fn((3, 2), |at| [0.0, 4.0][usize::from(at == (2, 1))])
        );
    }

    #[test]
    fn arrays_with_gaps_or_by_columns_are_copied_and_not_viewed() {
        let array = Array2::from_shape_fn((4, 3), |(row, column)| (10 * row + column) as f32);
        for strange in
            [array.t(), array.slice(s![.., ..2]), array.slice(s![..;2, ..]), array.slice(s![..;-1, ..])]
        {
            assert_eq!(MultiVectorView::try_from(strange).unwrap_err().exit_code(), 2);
            let copy = MultiVector::try_from(strange).unwrap();
            assert_eq!(ArrayView2::from(copy.view()), strange);
        }
    }

    #[test]
    fn empty_multivectors_are_empty_arrays() {
        for (rows, k) in [(0, 3), (3, 0), (0, 0)] {
            let mut empty = MultiVector::<f64>::zeros(rows, k).unwrap();
            assert_eq!(ArrayView2::from(empty.view()).dim(), (rows, k));
            assert_eq!(ArrayViewMut2::from(empty.view_mut()).dim(), (rows, k));
            assert_eq!(Array2::from(&empty).dim(), (rows, k));
            assert_eq!(
                MultiVectorView::try_from(Array2::<f64>::zeros((rows, k)).view()).unwrap().rows(),
                rows
            );
        }
    }
}
