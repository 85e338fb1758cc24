//! Dense multivectors of `rows` by `k` elements, stored by rows with a leading dimension.

use rayon::prelude::*;

use super::array::AlignedBuffer;
use super::random::mix;
use super::scalar::Scalar;
use crate::error::{Error, Result};

/// An owned dense multivector; its first element is at the start of a cache line.
#[derive(Debug)]
pub struct MultiVector<T: Scalar> {
    rows: usize,
    k: usize,
    leading_dimension: usize,
    data: AlignedBuffer<T>,
}

impl<T: Scalar> MultiVector<T> {
    /// A multivector of zeros with contiguous rows.
    pub fn zeros(rows: usize, k: usize) -> Result<Self> {
        Self::zeros_with_leading_dimension(rows, k, k)
    }

    /// A multivector of zeros; an error if `leading_dimension` is less than `k`.
    #[doc(hidden)]
    pub fn zeros_with_leading_dimension(rows: usize, k: usize, leading_dimension: usize) -> Result<Self> {
        if leading_dimension < k {
            return Err(Error::usage(format!(
                "the leading dimension {leading_dimension} is less than k = {k}"
            )));
        }
        let length = rows.saturating_mul(leading_dimension);
        Ok(Self { rows, k, leading_dimension, data: AlignedBuffer::zeroed(length)? })
    }

    /// A multivector with the elements `value(row, column)`.
    pub fn from_fn(rows: usize, k: usize, mut value: impl FnMut(usize, usize) -> T) -> Result<Self> {
        let mut result = Self::zeros(rows, k)?;
        for row in 0..rows {
            for column in 0..k {
                result.data[row * k + column] = value(row, column);
            }
        }
        Ok(result)
    }

    /// A multivector with a copy of `values`: element (row, column) is `values[row * k + column]`. An error if there are not `rows * k`
    /// values.
    ///
    /// ```
    /// let x = rowloom::MultiVector::from_vec(2, 3, vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0])?;
    /// assert_eq!(x.row(1), [4.0, 5.0, 6.0]);
    /// # Ok::<(), rowloom::Error>(())
    /// ```
    pub fn from_vec(rows: usize, k: usize, values: Vec<T>) -> Result<Self> {
        if rows.checked_mul(k) != Some(values.len()) {
            return Err(Error::usage(format!("{} values are not {rows} rows of {k}", values.len())));
        }
        Ok(Self { rows, k, leading_dimension: k, data: AlignedBuffer::copied_from(&values)? })
    }

    /// A multivector with equal elements.
    pub fn filled(rows: usize, k: usize, value: T) -> Result<Self> {
        let mut result = Self::zeros(rows, k)?;
        result.data_mut().fill(value);
        Ok(result)
    }

    /// A multivector of uniform random numbers from -1 to 1. Each depends on the seed and its index only, so every number of
    /// threads gives the same numbers.
    pub fn random(rows: usize, k: usize, seed: u64) -> Result<Self> {
        let mut result = Self::zeros(rows, k)?;
        fill_random(result.data_mut(), seed);
        Ok(result)
    }

    /// Some rows of the multivector that [`Self::random`] gives: `row(index)` is the number of row `index`.
    #[doc(hidden)]
    pub fn random_rows(rows: usize, k: usize, seed: u64, row: impl Fn(usize) -> u64 + Sync) -> Result<Self> {
        let mut result = Self::zeros(rows, k)?;
        result.data_mut().par_chunks_mut(k.max(1)).with_min_len(1 + 4096 / k.max(1)).enumerate().for_each(
            |(index, values)| {
                let first = row(index).wrapping_mul(k as u64);
                (first..).zip(values).for_each(|(index, value)| *value = random_number(seed, index));
            },
        );
        Ok(result)
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Number of columns.
    pub fn k(&self) -> usize {
        self.k
    }

    /// Distance between the starts of consecutive rows, in elements.
    pub fn leading_dimension(&self) -> usize {
        self.leading_dimension
    }

    /// All elements, padding between rows included.
    pub fn data(&self) -> &[T] {
        &self.data
    }

    /// All elements, padding between rows included, mutable.
    pub fn data_mut(&mut self) -> &mut [T] {
        &mut self.data
    }

    /// The elements of a row.
    pub fn row(&self, row: usize) -> &[T] {
        &self.data[row * self.leading_dimension..][..self.k]
    }

    /// The elements of a row, mutable.
    pub fn row_mut(&mut self, row: usize) -> &mut [T] {
        &mut self.data[row * self.leading_dimension..][..self.k]
    }

    /// A view of the whole multivector.
    pub fn view(&self) -> MultiVectorView<'_, T> {
        MultiVectorView {
            rows: self.rows,
            k: self.k,
            leading_dimension: self.leading_dimension,
            data: &self.data,
        }
    }

    /// A mutable view of the whole multivector.
    pub fn view_mut(&mut self) -> MultiVectorViewMut<'_, T> {
        MultiVectorViewMut {
            rows: self.rows,
            k: self.k,
            leading_dimension: self.leading_dimension,
            data: &mut self.data,
        }
    }
}

/// A copy, with the same leading dimension. Where the system refuses the memory it panics; [`MultiVector::zeros`] and a copy of the rows
/// return an error instead.
impl<T: Scalar> Clone for MultiVector<T> {
    fn clone(&self) -> Self {
        let data = AlignedBuffer::copied_from(&self.data);
        let data = data.unwrap_or_else(|error| panic!("a multivector cannot be copied: {error}"));
        Self { rows: self.rows, k: self.k, leading_dimension: self.leading_dimension, data }
    }
}

/// Minimal number of elements of a multivector of this shape.
fn min_length(rows: usize, k: usize, leading_dimension: usize) -> usize {
    if rows == 0 { 0 } else { (rows - 1).saturating_mul(leading_dimension).saturating_add(k) }
}

fn check(length: usize, rows: usize, k: usize, leading_dimension: usize) -> Result<()> {
    if leading_dimension < k || length < min_length(rows, k, leading_dimension) {
        return Err(Error::usage(format!(
            "{length} elements cannot hold {rows} rows of {k} with a leading dimension of {leading_dimension}"
        )));
    }
    Ok(())
}

/// A borrowed dense multivector.
#[derive(Debug, Clone, Copy)]
pub struct MultiVectorView<'a, T> {
    rows: usize,
    k: usize,
    leading_dimension: usize,
    data: &'a [T],
}

impl<'a, T: Scalar> MultiVectorView<'a, T> {
    /// A view of borrowed elements; an error if there are too few for the shape.
    pub fn try_new(data: &'a [T], rows: usize, k: usize, leading_dimension: usize) -> Result<Self> {
        check(data.len(), rows, k, leading_dimension)?;
        Ok(Self { rows, k, leading_dimension, data })
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Number of columns.
    pub fn k(&self) -> usize {
        self.k
    }

    /// Distance between the starts of consecutive rows, in elements.
    pub fn leading_dimension(&self) -> usize {
        self.leading_dimension
    }

    /// All elements.
    pub fn data(&self) -> &'a [T] {
        self.data
    }

    /// The elements of a row.
    pub fn row(&self, row: usize) -> &'a [T] {
        &self.data[row * self.leading_dimension..][..self.k]
    }

    /// The rows of a range, which must be inside.
    #[doc(hidden)]
    pub fn rows_in(self, rows: std::ops::Range<usize>) -> Self {
        let begin = (rows.start * self.leading_dimension).min(self.data.len());
        Self { rows: rows.len(), data: &self.data[begin..], ..self }
    }
}

/// A mutably borrowed dense multivector.
#[derive(Debug)]
pub struct MultiVectorViewMut<'a, T> {
    rows: usize,
    k: usize,
    leading_dimension: usize,
    data: &'a mut [T],
}

impl<'a, T: Scalar> MultiVectorViewMut<'a, T> {
    /// A view of borrowed elements; an error if there are too few for the shape.
    pub fn try_new(data: &'a mut [T], rows: usize, k: usize, leading_dimension: usize) -> Result<Self> {
        check(data.len(), rows, k, leading_dimension)?;
        Ok(Self { rows, k, leading_dimension, data })
    }

    /// The same elements, to read.
    #[doc(hidden)]
    pub fn as_view(&self) -> MultiVectorView<'_, T> {
        MultiVectorView {
            rows: self.rows,
            k: self.k,
            leading_dimension: self.leading_dimension,
            data: self.data,
        }
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Number of columns.
    pub fn k(&self) -> usize {
        self.k
    }

    /// Distance between the starts of consecutive rows, in elements.
    pub fn leading_dimension(&self) -> usize {
        self.leading_dimension
    }

    /// All elements, mutable.
    pub fn data_mut(&mut self) -> &mut [T] {
        self.data
    }

    /// All elements, with the lifetime of the original borrow.
    #[doc(hidden)]
    pub fn into_data(self) -> &'a mut [T] {
        self.data
    }

    /// The elements of a row, mutable.
    pub fn row_mut(&mut self, row: usize) -> &mut [T] {
        &mut self.data[row * self.leading_dimension..][..self.k]
    }

    /// The same view with a shorter borrow.
    #[doc(hidden)]
    pub fn reborrow(&mut self) -> MultiVectorViewMut<'_, T> {
        MultiVectorViewMut {
            rows: self.rows,
            k: self.k,
            leading_dimension: self.leading_dimension,
            data: self.data,
        }
    }

    /// The first `row` rows, and the remaining rows.
    #[doc(hidden)]
    pub fn split_at_row(self, row: usize) -> (Self, Self) {
        let Self { rows, k, leading_dimension, data } = self;
        let middle = row.saturating_mul(leading_dimension).min(data.len());
        let (top, bottom) = data.split_at_mut(middle);
        (
            Self { rows: row, k, leading_dimension, data: top },
            Self { rows: rows - row, k, leading_dimension, data: bottom },
        )
    }
}

fn fill_random<T: Scalar>(values: &mut [T], seed: u64) {
    const PART: usize = 1 << 16;
    values.par_chunks_mut(PART).enumerate().for_each(|(part, values)| {
        for (index, value) in values.iter_mut().enumerate() {
            *value = random_number(seed, (part * PART + index) as u64);
        }
    });
}

/// The random number from -1 to 1 at an index.
#[inline]
fn random_number<T: Scalar>(seed: u64, index: u64) -> T {
    let bits = mix(seed.wrapping_add(mix(index)));
    let unit = (bits >> 11) as f64 / (1u64 << 53) as f64;
    T::from_f64(2.0 * unit - 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_a_vector_are_rows_and_a_wrong_number_of_them_is_refused() {
        let x = MultiVector::from_vec(2, 3, vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0]).unwrap();
        assert_eq!((x.row(0), x.row(1)), (&[1.0, 2.0, 3.0][..], &[4.0, 5.0, 6.0][..]));
        for (rows, k) in [(2, 2), (3, 3), (usize::MAX, 2)] {
            assert_eq!(MultiVector::from_vec(rows, k, vec![0.0; 6]).unwrap_err().exit_code(), 2);
        }
        assert_eq!(MultiVector::<f32>::from_vec(0, 3, vec![]).unwrap().rows(), 0);
    }

    #[test]
    fn a_clone_has_its_own_elements_and_the_same_leading_dimension() {
        let mut x = MultiVector::zeros_with_leading_dimension(3, 2, 5).unwrap();
        x.row_mut(1).copy_from_slice(&[1.0, 2.0]);
        let clone = x.clone();
        x.row_mut(1)[0] = 7.0;
        assert_eq!((clone.row(1), clone.leading_dimension()), (&[1.0, 2.0][..], 5));
        assert_eq!((x.row(0), x.row(1), x.row(2)), (&[0.0, 0.0][..], &[7.0, 2.0][..], &[0.0, 0.0][..]));
    }

    #[test]
    fn random_numbers_fill_the_interval_and_follow_the_seed() {
        let make = |seed| MultiVector::<f64>::random(1000, 100, seed).unwrap();
        let x = make(1);
        let mean = x.data().iter().sum::<f64>() / x.data().len() as f64;
        assert!(mean.abs() < 0.01, "mean {mean}");
        assert!(x.data().iter().all(|value| (-1.0..=1.0).contains(value)));
        assert!(x.data().iter().any(|&value| value > 0.99) && x.data().iter().any(|&value| value < -0.99));
        assert_eq!(x.data(), make(1).data());
        assert_ne!(x.data(), make(2).data());
    }

    #[test]
    fn random_rows_are_those_of_the_whole_multivector() {
        let whole = MultiVector::<f32>::random(100, 7, 3).unwrap();
        let some = MultiVector::<f32>::random_rows(33, 7, 3, |index| 3 * index as u64 + 1).unwrap();
        assert!((0..33).all(|index| some.row(index) == whole.row(3 * index + 1)));
    }

    #[test]
    fn views_too_short_for_their_shape_are_refused() {
        let data = [0.0f64; 7];
        assert!(MultiVectorView::try_new(&data, 2, 3, 4).is_ok());
        assert!(MultiVectorView::try_new(&data, 2, 4, 4).is_err());
        assert!(MultiVectorView::try_new(&data, 2, 3, 2).is_err());
        assert!(MultiVectorView::<f64>::try_new(&[], 0, 3, 3).is_ok());
    }

    #[test]
    fn splitting_keeps_every_row() {
        let mut whole = MultiVector::from_fn(5, 2, |row, column| (row * 10 + column) as f64).unwrap();
        let (mut top, mut bottom) = whole.view_mut().split_at_row(2);
        assert_eq!((top.rows(), bottom.rows()), (2, 3));
        assert_eq!(top.row_mut(1), &[10.0, 11.0]);
        assert_eq!(bottom.row_mut(0), &[20.0, 21.0]);
    }
}
