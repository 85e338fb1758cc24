//! Dot products in twice the precision: a value is the unevaluated sum of two doubles.
//!
//! Products are exact (Dekker's splitting, which needs no fused multiply-add); sums keep their rounding error (Knuth's
//! two-sum). For matrices in single precision the result has far more than twice the precision.

/// A double-double number `high + low`, with `low` at most half a unit in the last place of `high`.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct DoubleDouble {
    high: f64,
    low: f64,
}

/// `a + b` and its rounding error.
#[inline(always)]
pub(super) fn two_sum(a: f64, b: f64) -> (f64, f64) {
    let sum = a + b;
    let b_part = sum - a;
    (sum, (a - (sum - b_part)) + (b - b_part))
}

/// Splits `a` into two numbers of 26 significant bits whose sum is `a`.
#[inline(always)]
fn split(a: f64) -> (f64, f64) {
    // Above this magnitude the multiplication below would overflow; scaling by a power of two is exact.
    const LARGEST: f64 = 6.69692879491417e299;
    const FACTOR: f64 = 134_217_729.0; // 2^27 + 1
    if a.abs() > LARGEST {
        let scaled = a * 2f64.powi(-28);
        let spread = FACTOR * scaled;
        let high = spread - (spread - scaled);
        return (high * 2f64.powi(28), (scaled - high) * 2f64.powi(28));
    }
    let spread = FACTOR * a;
    let high = spread - (spread - a);
    (high, a - high)
}

/// `a * b` and its rounding error.
#[inline(always)]
fn two_product(a: f64, b: f64) -> (f64, f64) {
    let product = a * b;
    let ((a_high, a_low), (b_high, b_low)) = (split(a), split(b));
    (product, ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low)
}

impl DoubleDouble {
    /// `self + a * b`.
    #[inline(always)]
    pub fn add_product(self, a: f64, b: f64) -> Self {
        let (product, product_error) = two_product(a, b);
        let (sum, sum_error) = two_sum(self.high, product);
        let low = self.low + product_error + sum_error;
        let high = sum + low;
        Self { high, low: low - (high - sum) }
    }

    /// `self * factor`.
    pub fn times(self, factor: f64) -> Self {
        Self::default().add_product(self.high, factor).add_product(self.low, factor)
    }

    /// `self / divisor`.
    pub fn divided(self, divisor: f64) -> Self {
        let quotient = self.high / divisor;
        let rest = self.add_product(-quotient, divisor);
        let (high, low) = two_sum(quotient, rest.high / divisor);
        Self { high, low }
    }

    /// `value - self`, as a double and the part that is lost by rounding to it.
    pub fn subtracted_from(self, value: f64) -> (f64, f64) {
        let (difference, error) = two_sum(value, -self.high);
        two_sum(difference, error - self.low)
    }

    /// The nearest double.
    pub fn value(self) -> f64 {
        self.high
    }

    /// The absolute difference between `y` and this number.
    pub fn distance(self, y: f64) -> f64 {
        ((y - self.high) - self.low).abs()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_below_double_precision_are_kept() {
        // (1 + 2^-52)(1 - 2^-52) - 1 = -2^-104, invisible to doubles.
        let e = f64::EPSILON;
        let sum = DoubleDouble::default().add_product(1.0, -1.0).add_product(1.0 + e, 1.0 - e);
        assert_eq!(sum.value(), -e * e);
    }

    #[test]
    fn cancelling_large_terms_leave_the_small_one() {
        let sum =
            DoubleDouble::default().add_product(1e16, 1.0).add_product(1.0, 1.0).add_product(-1e16, 1.0);
        assert_eq!(sum.value(), 1.0);
        assert_eq!(sum.distance(1.5), 0.5);
    }

    #[test]
    fn quotients_and_differences_keep_digits_below_double_precision() {
        let third = DoubleDouble::default().add_product(1.0, 1.0).divided(3.0);
        assert!(third.times(3.0).distance(1.0) < 1e-31);
        let (difference, rest) = third.subtracted_from(1.0);
        let twice = DoubleDouble::default().add_product(difference, 1.5).add_product(rest, 1.5);
        assert!(twice.distance(1.0) < 1e-31, "{}", twice.distance(1.0));
    }

    #[test]
    fn products_near_the_largest_number_stay_finite() {
        let sum = DoubleDouble::default().add_product(1e300, 1e7).add_product(-1e300, 1e7);
        assert_eq!(sum.value(), 0.0);
    }
}
