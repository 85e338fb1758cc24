//! What the tests need of a value type, independent of the arithmetic of the crate.

use std::fmt::Debug;

use rowloom_cpu::{ColumnKernels, Kernels, MultivectorKernels};

/// `f64` or `f32`.
pub trait Real: Kernels + ColumnKernels + MultivectorKernels + Debug {
    /// A magnitude whose square is smaller than half of the smallest subnormal number.
    const TINY: f64;

    /// The nearest value.
    fn of(value: f64) -> Self;
    /// The bits; equal bits are equal values, and a NaN equals itself.
    fn bits(self) -> u64;
    /// `self * factor + addend`, rounded once.
    fn fma(self, factor: Self, addend: Self) -> Self;
    /// `self + other`.
    fn sum(self, other: Self) -> Self;
    /// `self - other`.
    fn difference(self, other: Self) -> Self;
    /// `self * other`.
    fn product(self, other: Self) -> Self;
}

macro_rules! real {
    ($scalar:ty, $tiny:literal) => {
        impl Real for $scalar {
            const TINY: f64 = $tiny;

            fn of(value: f64) -> Self {
                value as $scalar
            }
            fn bits(self) -> u64 {
                self.to_bits().into()
            }
            fn fma(self, factor: Self, addend: Self) -> Self {
                self.mul_add(factor, addend)
            }
            fn sum(self, other: Self) -> Self {
                self + other
            }
            fn difference(self, other: Self) -> Self {
                self - other
            }
            fn product(self, other: Self) -> Self {
                self * other
            }
        }
    };
}

real!(f64, 1e-180);
real!(f32, 1e-25);

/// An error that names the first element with other bits.
pub fn assert_bits<T: Real>(found: &[T], expected: &[T], what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}");
    let differs = found.iter().zip(expected).position(|(found, expected)| found.bits() != expected.bits());
    if let Some(at) = differs {
        panic!("{what}: element {at} is {:?}, not {:?}", found[at], expected[at]);
    }
}
