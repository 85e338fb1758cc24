//! The trait of the two value types, `f64` and `f32`.

use std::fmt;
use std::str::FromStr;

pub use rowloom_cpu::Number;

use crate::error::Error;

/// The name of a value type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Dtype {
    /// IEEE double precision.
    F64,
    /// IEEE single precision.
    F32,
}

impl Dtype {
    /// Bytes of one value.
    #[doc(hidden)]
    pub fn bytes(self) -> usize {
        match self {
            Self::F64 => 8,
            Self::F32 => 4,
        }
    }

    /// `f64` or `f32`.
    #[doc(hidden)]
    pub fn name(self) -> &'static str {
        match self {
            Self::F64 => "f64",
            Self::F32 => "f32",
        }
    }
}

impl fmt::Display for Dtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Dtype {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        match text {
            "f64" => Ok(Self::F64),
            "f32" => Ok(Self::F32),
            _ => Err(Error::usage(format!("unknown dtype '{text}'; the supported ones are f64 and f32"))),
        }
    }
}

/// A value type of matrices: `f64` or `f32`.
pub trait Scalar: Number + bytemuck::Pod + PartialOrd + Default + fmt::Display + fmt::Debug {
    /// The type's name.
    const DTYPE: Dtype;
    /// One.
    #[doc(hidden)]
    const ONE: Self;
    /// Half the distance from 1 to the next larger number: the largest relative error of a rounding.
    #[doc(hidden)]
    const UNIT_ROUNDOFF: f64;
    /// The smallest positive (subnormal) number.
    #[doc(hidden)]
    const SMALLEST: f64;

    /// The nearest value to `value`.
    fn from_f64(value: f64) -> Self;
    /// The same value, exactly.
    fn to_f64(self) -> f64;
}

impl Scalar for f64 {
    const DTYPE: Dtype = Dtype::F64;
    const ONE: Self = 1.0;
    const UNIT_ROUNDOFF: f64 = f64::EPSILON / 2.0;
    const SMALLEST: f64 = 5e-324;

    #[inline(always)]
    fn from_f64(value: f64) -> Self {
        value
    }
    #[inline(always)]
    fn to_f64(self) -> f64 {
        self
    }
}

impl Scalar for f32 {
    const DTYPE: Dtype = Dtype::F32;
    const ONE: Self = 1.0;
    const UNIT_ROUNDOFF: f64 = f32::EPSILON as f64 / 2.0;
    const SMALLEST: f64 = 1.401298464324817e-45;

    #[inline(always)]
    fn from_f64(value: f64) -> Self {
        value as f32
    }
    #[inline(always)]
    fn to_f64(self) -> f64 {
        f64::from(self)
    }
}
