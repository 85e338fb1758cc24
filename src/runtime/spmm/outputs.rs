//! Y, and the carries of split rows, cut into the slices that chunks write.
//!
//! Every slice belongs to one chunk, so jobs of different chunks never meet. The locks are there because a chunk may be
//! computed again elsewhere after a fault; the graph sees to it that they are never waited for.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::error::{Error, Result};
use crate::matrix::{MultiVector, MultiVectorViewMut, Scalar};
use crate::plan::SplitRow;
use crate::work::ChunkRows;

/// The slices of one run.
pub struct Outputs<'run, T: Scalar> {
    chunks: Vec<Mutex<MultiVectorViewMut<'run, T>>>,
    split_rows: Vec<Mutex<MultiVectorViewMut<'run, T>>>,
}

impl<'run, T: Scalar> Outputs<'run, T> {
    /// Cuts `y`, and for each of `split_rows` its carries, along `chunks`.
    pub fn cut(
        y: MultiVectorViewMut<'run, T>,
        carries: &'run mut [MultiVector<T>],
        chunks: &[ChunkRows],
    ) -> Result<Self> {
        let mut y = Rest { rows: y, begin: 0 };
        let mut carries = carries.iter_mut();
        let mut sums: Option<(usize, Rest<'run, T>)> = None;
        let mut outputs = Self { chunks: Vec::with_capacity(chunks.len()), split_rows: Vec::new() };
        for chunk in chunks {
            let slice = match *chunk {
                ChunkRows::Rows { begin, end } => y.take(begin, end)?,
                ChunkRows::Segments { row, begin, end } => {
                    if sums.as_ref().is_none_or(|(of, _)| *of != row) {
                        let carry = carries.next().ok_or_else(|| lacking("carries"))?;
                        outputs.split_rows.push(Mutex::new(y.take(row, row + 1)?));
                        sums = Some((row, Rest { rows: carry.view_mut(), begin: 0 }));
                    }
                    let (_, rest) = sums.as_mut().ok_or_else(|| lacking("carries"))?;
                    rest.take(begin, end)?
                }
            };
            outputs.chunks.push(Mutex::new(slice));
        }
        Ok(outputs)
    }

    /// The slice of a chunk.
    pub fn chunk(&self, index: usize) -> Result<MutexGuard<'_, MultiVectorViewMut<'run, T>>> {
        lock(self.chunks.get(index))
    }

    /// Adds the carries of a split row, first to last, into its row of Y.
    pub fn merge_split_row(&self, index: usize, split: &SplitRow) -> Result<()> {
        let mut row = lock(self.split_rows.get(index))?;
        let sum = row.row_mut(0);
        for (place, &chunk) in split.chunks.iter().enumerate() {
            let mut carries = self.chunk(chunk as usize)?;
            for segment in 0..carries.rows() {
                let carry = carries.row_mut(segment);
                if place == 0 && segment == 0 {
                    sum.copy_from_slice(carry);
                } else {
                    sum.iter_mut().zip(carry).for_each(|(sum, carry)| *sum = sum.plus(*carry));
                }
            }
        }
        Ok(())
    }
}

/// Rows that are not yet given away.
struct Rest<'run, T: Scalar> {
    rows: MultiVectorViewMut<'run, T>,
    begin: usize,
}

impl<'run, T: Scalar> Rest<'run, T> {
    /// Rows `begin..end`; what lies before them is given up.
    fn take(&mut self, begin: usize, end: usize) -> Result<MultiVectorViewMut<'run, T>> {
        let all = std::mem::replace(&mut self.rows, MultiVectorViewMut::try_new(&mut [], 0, 0, 0)?);
        if begin < self.begin || end < begin || end - self.begin > all.rows() {
            return Err(lacking("rows of Y"));
        }
        let (_, behind) = all.split_at_row(begin - self.begin);
        let (taken, rest) = behind.split_at_row(end - begin);
        *self = Self { rows: rest, begin: end };
        Ok(taken)
    }
}

fn lacking(what: &str) -> Error {
    Error::Internal(format!("the chunks of a plan do not fit its {what}"))
}

fn lock<'a, T>(slice: Option<&'a Mutex<T>>) -> Result<MutexGuard<'a, T>> {
    // A job that panicked leaves a slice that is written again from its start.
    slice.map(|slice| slice.lock().unwrap_or_else(PoisonError::into_inner)).ok_or_else(|| lacking("slices"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_lie_where_their_rows_are() {
        let chunks = [
            ChunkRows::Rows { begin: 0, end: 2 },
            ChunkRows::Segments { row: 2, begin: 0, end: 1 },
            ChunkRows::Segments { row: 2, begin: 1, end: 3 },
            ChunkRows::Rows { begin: 3, end: 4 },
        ];
        let split = SplitRow { row: 2, chunks: vec![1, 2], segments: 3 };
        let mut y = MultiVector::<f64>::zeros_with_leading_dimension(4, 2, 3).unwrap();
        let mut carries = [MultiVector::<f64>::zeros(3, 2).unwrap()];
        let outputs = Outputs::cut(y.view_mut(), &mut carries, &chunks).unwrap();
        outputs.chunk(0).unwrap().row_mut(1).fill(1.0);
        outputs.chunk(3).unwrap().row_mut(0).fill(4.0);
        outputs.chunk(1).unwrap().row_mut(0).fill(10.0);
        outputs.chunk(2).unwrap().row_mut(0).fill(20.0);
        outputs.chunk(2).unwrap().row_mut(1).fill(30.0);
        outputs.merge_split_row(0, &split).unwrap();
        drop(outputs);
        let rows: Vec<f64> = (0..4).map(|row| y.row(row)[1]).collect();
        assert_eq!(rows, [0.0, 1.0, 60.0, 4.0]);
    }

    #[test]
    fn chunks_beyond_y_are_an_error() {
        let chunks = [ChunkRows::Rows { begin: 0, end: 5 }];
        let mut y = MultiVector::<f64>::zeros(4, 1).unwrap();
        assert!(Outputs::cut(y.view_mut(), &mut [], &chunks).is_err());
        let segments = [ChunkRows::Segments { row: 0, begin: 0, end: 1 }];
        assert!(Outputs::cut(y.view_mut(), &mut [], &segments).is_err());
    }
}
