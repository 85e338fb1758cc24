//! The scaled product `Y = alpha A X + beta Y`, which every kernel computes without a second pass over Y.
//!
//! **Definition.** `s` is the kernel's sum of a row of A times a column of X. The element of Y becomes `fma(beta, y, alpha * s)`, with
//! the product `alpha * s` rounded first. If beta is zero it becomes `alpha * s`, and the old Y is not read. Both factors are
//! given in double precision and rounded once to the precision of the kernel. With `alpha = 1` and `beta = 0`, Y is `s`.

use crate::matrix::{Dtype, Scalar};

pub use rowloom_cpu::Scaling;

/// The factors rounded to the precision of `T`.
pub fn scaling<T: Scalar>(alpha: f64, beta: f64) -> Scaling<T> {
    Scaling { alpha: T::from_f64(alpha), beta: T::from_f64(beta) }
}

/// A factor rounded to a precision, as a CUDA kernel gets it: its bits in the low bits of a word.
pub fn factor_bits(dtype: Dtype, factor: f64) -> u64 {
    match dtype {
        Dtype::F64 => factor.to_bits(),
        Dtype::F32 => u64::from((factor as f32).to_bits()),
    }
}

/// Whether a factor is zero in a precision: a small one rounds to zero, and both signs of zero count.
pub fn rounds_to_zero(dtype: Dtype, factor: f64) -> bool {
    match dtype {
        Dtype::F64 => factor == 0.0,
        Dtype::F32 => factor as f32 == 0.0,
    }
}

/// Whether Y is the sum itself: `alpha = 1` and `beta = 0`.
pub(super) fn is_plain<T: Scalar>(scaling: Scaling<T>) -> bool {
    scaling == Scaling { alpha: T::ONE, beta: T::ZERO }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_old_value_is_read_only_if_beta_is_not_zero() {
        assert_eq!(scaling::<f64>(2.0, 0.0).apply(3.0, f64::NAN), 6.0);
        assert_eq!(scaling::<f64>(2.0, -0.0).apply(-0.0, f64::NAN).to_bits(), (-0.0f64).to_bits());
        assert_eq!(scaling::<f64>(2.0, 0.5).apply(3.0, 8.0), 10.0);
        assert!(scaling::<f64>(0.0, 1.0).apply(3.0, f64::NAN).is_nan());
    }

    #[test]
    fn factors_are_rounded_to_the_precision_of_the_kernel() {
        assert_eq!(scaling::<f32>(0.1, 1e-60), Scaling { alpha: 0.1f32, beta: 0.0 });
        assert!(!scaling::<f32>(1.0, 1e-60).reads_old() && scaling::<f64>(1.0, 1e-60).reads_old());
        assert!(is_plain(scaling::<f32>(1.0 + 1e-12, 0.0)) && !is_plain(scaling::<f64>(1.0 + 1e-12, 0.0)));
    }

    #[test]
    fn a_factor_that_rounds_to_zero_of_either_sign_is_zero() {
        for factor in [0.0, -0.0, 1e-60, -1e-60] {
            assert!(rounds_to_zero(Dtype::F32, factor), "{factor}");
            assert_eq!(rounds_to_zero(Dtype::F64, factor), factor == 0.0, "{factor}");
        }
        assert!(!rounds_to_zero(Dtype::F32, 1e-45) && !rounds_to_zero(Dtype::F32, f64::NAN));
    }

    #[test]
    fn the_old_value_is_added_with_one_rounding_to_the_rounded_product() {
        // alpha * s rounds to 1; the square of 1 + 2^-30 has 2^-60, which only a fused multiply-add keeps next to 1.
        let (alpha, old) = (1.0 + f64::EPSILON, 1.0 + 2f64.powi(-30));
        let sum = 1.0 - f64::EPSILON;
        let got = scaling::<f64>(alpha, -old).apply(sum, old);
        assert_eq!(got, -(2f64.powi(-29) + 2f64.powi(-60)));
    }
}
