//! Factors of operations on multivectors: a number, scalars, or a quotient of scalars.

use std::ops::{Div, Mul, Neg};

use super::Vectors;
use super::errors::scalars_lost;
use super::row_distribution::Part;
use super::scalars::Scalars;
use crate::device::{DeviceFactor, MemoryRange};
use crate::error::Result;
use crate::kernel::cpu::Kernels;
use crate::kernel::vectors::Factor;

/// A factor of each column: `number * multiplied / divisors`, computed in this order in the precision of the vectors. Scalars that are
/// absent count as ones. A number, [`Scalars`] and their quotients convert to it.
pub struct Coefficient<'s, T: Kernels> {
    number: f64,
    multiplied: Option<&'s Scalars<T>>,
    divisors: Option<&'s Scalars<T>>,
}

impl<T: Kernels> From<f64> for Coefficient<'_, T> {
    fn from(number: f64) -> Self {
        Self { number, multiplied: None, divisors: None }
    }
}

impl<'s, T: Kernels> From<&'s Scalars<T>> for Coefficient<'s, T> {
    fn from(scalars: &'s Scalars<T>) -> Self {
        Self { multiplied: Some(scalars), ..Self::from(1.0) }
    }
}

impl<'s, T: Kernels> Neg for &'s Scalars<T> {
    type Output = Coefficient<'s, T>;

    fn neg(self) -> Self::Output {
        -Coefficient::from(self)
    }
}

impl<T: Kernels> Neg for Coefficient<'_, T> {
    type Output = Self;

    fn neg(self) -> Self {
        Self { number: -self.number, ..self }
    }
}

impl<'s, T: Kernels> Mul<&'s Scalars<T>> for f64 {
    type Output = Coefficient<'s, T>;

    fn mul(self, scalars: &'s Scalars<T>) -> Self::Output {
        Coefficient { number: self, ..Coefficient::from(scalars) }
    }
}

impl<'s, T: Kernels> Mul<Coefficient<'s, T>> for f64 {
    type Output = Coefficient<'s, T>;

    fn mul(self, coefficient: Coefficient<'s, T>) -> Self::Output {
        Coefficient { number: self * coefficient.number, ..coefficient }
    }
}

impl<'s, T: Kernels> Div<&'s Scalars<T>> for f64 {
    type Output = Coefficient<'s, T>;

    fn div(self, divisors: &'s Scalars<T>) -> Self::Output {
        Coefficient { divisors: Some(divisors), ..Coefficient::from(self) }
    }
}

impl<'s, T: Kernels> Div for &'s Scalars<T> {
    type Output = Coefficient<'s, T>;

    fn div(self, divisors: Self) -> Self::Output {
        Coefficient { divisors: Some(divisors), ..Coefficient::from(self) }
    }
}

/// The factors of an operation, where it finds them.
pub(super) enum Factors<T> {
    /// The same for all columns.
    Number(f64),
    /// In the memory of the device that has all rows, with its name.
    OnDevice(DeviceFactor, String),
    /// One for each column, on the host.
    Columns(Vec<T>),
}

impl<T: Kernels> Factors<T> {
    /// The factors of an operation that changes `y`.
    pub fn of(coefficient: &Coefficient<'_, T>, y: &Vectors<T>) -> Result<Self> {
        let Coefficient { number, multiplied, divisors } = *coefficient;
        let given = || [multiplied, divisors].into_iter().flatten();
        given().try_for_each(|scalars| scalars.check_same(y))?;
        if given().next().is_none() || y.machine().is_some() {
            return Ok(Self::Number(number));
        }
        let part = y.only_owner().and_then(|index| y.distribution.parts.get(index));
        let device = part.and_then(Part::device);
        let on_device = |scalars: &Scalars<T>| device.and_then(|device| scalars.on_device(device));
        if let Some(part) = part
            && given().all(|scalars| on_device(scalars).is_some())
        {
            let (multiplied, divisors) = (multiplied.and_then(on_device), divisors.and_then(on_device));
            let factor = DeviceFactor { number, multiplied, divisors };
            return Ok(Self::OnDevice(factor, part.name.clone()));
        }
        let values = |scalars: Option<&Scalars<T>>| scalars.map(Scalars::values).transpose();
        let (multiplied, divisors) = (values(multiplied)?, values(divisors)?);
        // Each step is rounded, as on a device. In double precision products of two f32 are exact, and quotients round to the same f32.
        let mut columns = vec![T::from_f64(number); y.k];
        for (to, by) in columns.iter_mut().zip(multiplied.iter().flatten()) {
            *to = T::from_f64(to.to_f64() * by.to_f64());
        }
        for (to, by) in columns.iter_mut().zip(divisors.iter().flatten()) {
            *to = T::from_f64(to.to_f64() / by.to_f64());
        }
        Ok(Self::Columns(columns))
    }

    /// The factors of the rows that are on the host.
    pub fn on_host(&self) -> Result<Factor<'_, T>> {
        match self {
            Self::Number(number) => Ok(Factor::All(T::from_f64(*number))),
            Self::Columns(columns) => Ok(Factor::Columns(columns)),
            Self::OnDevice(_, device) => Err(scalars_lost(device)),
        }
    }

    /// Whether all factors are the number zero.
    pub fn is_zero(&self) -> bool {
        matches!(self, Self::Number(number) if T::from_f64(*number) == T::ZERO)
    }

    /// The factors of a launch whose rows have `pitch` elements. Those of columns are appended to `numbers`, which are written to
    /// `memory` before the launch.
    pub fn bind(&self, pitch: usize, memory: MemoryRange, numbers: &mut Vec<T>) -> DeviceFactor {
        match self {
            Self::Number(number) => (*number).into(),
            Self::OnDevice(factor, _) => *factor,
            Self::Columns(columns) => {
                let begin = memory.begin + (numbers.len() * size_of::<T>()) as u64;
                numbers.extend(columns);
                numbers.resize(numbers.len() - columns.len() + pitch, T::ZERO);
                let end = memory.begin + (numbers.len() * size_of::<T>()) as u64;
                DeviceFactor::columns(MemoryRange { begin, end, ..memory })
            }
        }
    }
}
