//! Row-wise operations on multivectors, and sums over all rows.

use crate::device::{DeviceFactor, DeviceRows, VectorLaunch};
use crate::error::{Error, Result};
use crate::kernel::cpu::Kernels;
use crate::kernel::vectors::{Sum, rows};
use crate::matrix::MultiVector;
use crate::runtime::vectors::coefficient::{Coefficient, Factors};
use crate::runtime::vectors::host_copy::{HostCopy, view_rows_mut};
use crate::runtime::vectors::operations::access::Numbers;
use crate::runtime::vectors::{Vectors, lock};

impl<T: Kernels> Vectors<T> {
    /// Sets all elements.
    pub fn fill(&mut self, value: f64) -> Result<()> {
        // The old values have no effect.
        *lock(&self.host_copy) = HostCopy::Value(T::from_f64(value));
        self.for_each_part(
            1,
            |vectors, index, rows| {
                let rows = vectors.padded_rows(index, rows)?;
                vectors.launch(index, "fill", VectorLaunch::fill(value, rows)?, rows.memory.bytes())
            },
            |rows, mut data| {
                let range = rows.start as usize..rows.end as usize;
                rows::fill(T::from_f64(value), view_rows_mut(&mut data, range));
                Ok(())
            },
        )?;
        *lock(&self.host_copy) = HostCopy::Value(T::from_f64(value));
        Ok(())
    }

    /// Self = alpha X + beta Self. The old values have no effect if beta is a number that rounds to zero. Factors are numbers or
    /// [`Scalars`](crate::runtime::Scalars).
    pub fn axpby<'s>(
        &mut self,
        alpha: impl Into<Coefficient<'s, T>>,
        x: &Self,
        beta: impl Into<Coefficient<'s, T>>,
    ) -> Result<()>
    where
        T: 's,
    {
        self.check_same(x)?;
        let factors = [Factors::of(&alpha.into(), self)?, Factors::of(&beta.into(), self)?];
        self.for_each_part(
            3,
            |y, index, rows| {
                let (x, y_rows) = (x.padded_rows(index, rows.clone())?, y.padded_rows(index, rows)?);
                let ([alpha, beta], numbers) = y.bind_factors(index, &factors)?;
                let launch = VectorLaunch::axpby(alpha, x, beta, y_rows)?;
                y.launch_with_numbers(index, "axpby", numbers, launch, 3 * y_rows.memory.bytes())
            },
            |rows, mut y| {
                let [alpha, beta] = &factors;
                let (x, range) = (x.host_part_of(&rows)?, rows.start as usize..rows.end as usize);
                let (x, y) = (x.view().rows_in(range.clone()), view_rows_mut(&mut y, range));
                let of_x = alpha.on_host()?;
                match beta.is_zero() {
                    true => rows::scaled(of_x, x, y),
                    false => rows::axpby(of_x, x, beta.on_host()?, y),
                }
            },
        )
    }

    /// Multiplies all elements by `alpha`, a number or [`Scalars`](crate::runtime::Scalars).
    pub fn scale<'s>(&mut self, alpha: impl Into<Coefficient<'s, T>>) -> Result<()>
    where
        T: 's,
    {
        let alpha = Factors::of(&alpha.into(), self)?;
        self.scale_by(alpha)
    }

    /// Multiplies each column by its own factor.
    pub fn scale_columns(&mut self, factors: &[T]) -> Result<()> {
        if factors.len() != self.k {
            return Err(Error::usage(format!("{} factors were given for {} columns", factors.len(), self.k)));
        }
        self.scale_by(Factors::Columns(factors.to_vec()))
    }

    fn scale_by(&mut self, alpha: Factors<T>) -> Result<()> {
        let factors = [alpha];
        self.for_each_part(
            2,
            |y, index, rows| {
                let y_rows = y.padded_rows(index, rows)?;
                let ([alpha], numbers) = y.bind_factors(index, &factors)?;
                let launch = VectorLaunch::scale(alpha, y_rows)?;
                y.launch_with_numbers(index, "scale", numbers, launch, 2 * y_rows.memory.bytes())
            },
            |rows, mut y| {
                let range = rows.start as usize..rows.end as usize;
                rows::scale(factors[0].on_host()?, view_rows_mut(&mut y, range))
            },
        )
    }

    /// Factors as a launch takes them, and the numbers that are written to the device's memory before it.
    fn bind_factors<const N: usize>(
        &self,
        index: usize,
        factors: &[Factors<T>; N],
    ) -> Result<([DeviceFactor; N], Numbers)> {
        let (pitch, mut numbers) = (self.pitch as usize, Vec::new());
        let scratch = self.scratch_numbers(index, N * pitch)?;
        let bound = factors.each_ref().map(|factors| factors.bind(pitch, scratch, &mut numbers));
        Ok((bound, self.numbers_at(scratch, &numbers)))
    }

    /// For each column the sum of the products of the elements of both multivectors.
    pub fn dot(&self, other: &Self) -> Result<Vec<T>> {
        self.sum(Sum::Dot, other)
    }

    /// The Euclidean norm of each column.
    pub fn norm(&self) -> Result<Vec<T>> {
        let squares = self.dot(self)?;
        Ok(squares.into_iter().map(|square| T::from_f64(square.to_f64().sqrt())).collect())
    }

    /// The products of all pairs of columns, Selfᵀ Other: a K × K matrix, by rows.
    pub fn gram(&self, other: &Self) -> Result<MultiVector<T>> {
        let values = self.sum(Sum::Gram, other)?;
        MultiVector::from_fn(self.k, self.k, |row, column| values[row * self.k + column])
    }

    /// Y = Self S, with a K × K matrix S.
    pub fn times(&self, s: &MultiVector<T>, y: &mut Self) -> Result<()> {
        y.check_same(self)?;
        if s.rows() != self.k || s.k() != self.k {
            return Err(Error::usage(format!(
                "a multivector of {} columns is multiplied by a {} x {} matrix",
                self.k,
                s.rows(),
                s.k()
            )));
        }
        // With the padding of rows as columns of S, the padding of Y is written too.
        let pitch = self.pitch as usize;
        let mut padded = vec![T::ZERO; self.k * pitch];
        for (row, to) in padded.chunks_exact_mut(pitch).enumerate() {
            to[..self.k].copy_from_slice(s.row(row));
        }
        y.for_each_part(
            2,
            |y, index, rows| {
                let (x, y_rows) = (self.own_rows(index, rows.clone())?, y.padded_rows(index, rows)?);
                let memory = y.scratch_numbers(index, padded.len())?;
                let numbers = y.numbers_at(memory, &padded);
                let (columns, leading_dimension) = (y.pitch, y.pitch);
                let (dtype, rows) = (T::DTYPE, y.k as u64);
                let small = DeviceRows { dtype, memory, rows, columns, leading_dimension };
                let launch = VectorLaunch::times(x, small, 0.0, y_rows)?;
                let bytes = 2 * y_rows.memory.bytes();
                y.launch_with_numbers(index, "times", numbers, launch, bytes)
            },
            |rows, mut y| {
                let range = rows.start as usize..rows.end as usize;
                let x = self.host_part_of(&rows)?;
                rows::times(x.view().rows_in(range.clone()), s.view(), None, view_rows_mut(&mut y, range))
            },
        )
    }
}
