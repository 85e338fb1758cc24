//! The copy of a multivector that the host still has, with which it survives the loss of a device.

use std::ops::Range;

use super::row_distribution::RowDistribution;
use crate::error::Result;
use crate::kernel::cpu::Kernels;
use crate::kernel::vectors::rows;
use crate::matrix::{MultiVector, MultiVectorView, MultiVectorViewMut};

/// What the host knows of the present values.
pub enum HostCopy<T: Kernels> {
    /// Nothing: an operation changed them on the devices.
    Nothing,
    /// All elements have this value.
    Value(T),
    /// All rows.
    Rows(MultiVector<T>),
}

impl<T: Kernels> HostCopy<T> {
    /// The rows `range` of a multivector of `shape` rows and columns, in memory for all rows; `None` if the host does not have them.
    pub fn restored(&self, shape: (usize, usize), range: Range<usize>) -> Result<Option<MultiVector<T>>> {
        let mut restored = MultiVector::zeros(shape.0, shape.1)?;
        let to = view_rows_mut(&mut restored, range.clone());
        match self {
            Self::Nothing => return Ok(None),
            Self::Value(value) => rows::fill(*value, to),
            Self::Rows(copy) => rows::copy(copy.view().rows_in(range), to)?,
        }
        Ok(Some(restored))
    }

    /// Stores new values of the rows from `first` on, in the rayon pool of the caller. Rows have the numbers of `distribution`.
    pub fn store(
        &mut self,
        distribution: &RowDistribution,
        first: usize,
        x: MultiVectorView<'_, T>,
    ) -> Result<()> {
        let (own, shape) = (distribution.own(), (distribution.rows as usize, x.k()));
        let is_whole = x.rows() as u64 == own.end - own.start;
        let mut copy = match std::mem::replace(self, Self::Nothing) {
            Self::Rows(copy) => copy,
            Self::Value(value) => {
                let mut copy = MultiVector::zeros(shape.0, shape.1)?;
                if !is_whole {
                    rows::fill(value, copy.view_mut());
                }
                copy
            }
            Self::Nothing if is_whole => MultiVector::zeros(shape.0, shape.1)?,
            Self::Nothing => return Ok(()),
        };
        rows::copy(x, view_rows_mut(&mut copy, first..first + x.rows()))?;
        *self = Self::Rows(copy);
        Ok(())
    }
}

/// Rows of a multivector in host memory.
pub fn view_rows_mut<T: Kernels>(data: &mut MultiVector<T>, rows: Range<usize>) -> MultiVectorViewMut<'_, T> {
    let (_, behind) = data.view_mut().split_at_row(rows.start);
    behind.split_at_row(rows.len()).0
}
