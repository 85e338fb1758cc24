//! The factors of a run.

use crate::matrix::Scalar;

/// The factors of `Y = alpha A X + beta Y`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scaling {
    /// The factor of A X.
    pub alpha: f64,
    /// The factor of Y; the old Y has no effect if it is zero.
    pub beta: f64,
}

impl Scaling {
    /// Y = A X.
    pub const NONE: Self = Self { alpha: 1.0, beta: 0.0 };

    /// The factors rounded to the precision of `T`, so that a beta that is zero for the kernels is zero for plans and merges too.
    pub fn rounded<T: Scalar>(alpha: f64, beta: f64) -> Self {
        Self { alpha: T::from_f64(alpha).to_f64(), beta: T::from_f64(beta).to_f64() }
    }

    /// Whether the old Y has an effect.
    pub fn reads_y(self) -> bool {
        self.beta != 0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_beta_that_rounds_to_zero_does_not_read_y() {
        assert!(!Scaling::rounded::<f32>(1.0, -1e-60).reads_y());
        assert!(Scaling::rounded::<f64>(1.0, -1e-60).reads_y());
        assert_eq!(Scaling::rounded::<f32>(0.1, 1.0), Scaling { alpha: f64::from(0.1f32), beta: 1.0 });
    }
}
