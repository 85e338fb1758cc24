//! The arithmetic that kernels need of a value type.

mod sealed {
    pub trait Sealed {}
    impl Sealed for f64 {}
    impl Sealed for f32 {}
}

/// A value type with kernels: `f64` or `f32`.
pub trait Number: sealed::Sealed + Copy + PartialEq + Send + Sync + 'static {
    /// Zero.
    const ZERO: Self;
    /// Negative zero, which added to any number leaves it unchanged.
    const MINUS_ZERO: Self;

    /// `self * factor + addend`, rounded once.
    fn fused_multiply_add(self, factor: Self, addend: Self) -> Self;
    /// `self + other`, rounded.
    fn plus(self, other: Self) -> Self;
    /// `self - other`, rounded.
    fn minus(self, other: Self) -> Self;
    /// `self * other`, rounded.
    fn times(self, other: Self) -> Self;
    /// `self / other`, rounded.
    fn over(self, other: Self) -> Self;
    /// The same number in f64.
    fn widened(self) -> f64;
}

impl Number for f64 {
    const ZERO: Self = 0.0;
    const MINUS_ZERO: Self = -0.0;

    #[inline(always)]
    fn fused_multiply_add(self, factor: Self, addend: Self) -> Self {
        self.mul_add(factor, addend)
    }
    #[inline(always)]
    fn plus(self, other: Self) -> Self {
        self + other
    }
    #[inline(always)]
    fn minus(self, other: Self) -> Self {
        self - other
    }
    #[inline(always)]
    fn times(self, other: Self) -> Self {
        self * other
    }
    #[inline(always)]
    fn over(self, other: Self) -> Self {
        self / other
    }
    #[inline(always)]
    fn widened(self) -> f64 {
        self
    }
}

impl Number for f32 {
    const ZERO: Self = 0.0;
    const MINUS_ZERO: Self = -0.0;

    #[inline(always)]
    fn fused_multiply_add(self, factor: Self, addend: Self) -> Self {
        self.mul_add(factor, addend)
    }
    #[inline(always)]
    fn plus(self, other: Self) -> Self {
        self + other
    }
    #[inline(always)]
    fn minus(self, other: Self) -> Self {
        self - other
    }
    #[inline(always)]
    fn times(self, other: Self) -> Self {
        self * other
    }
    #[inline(always)]
    fn over(self, other: Self) -> Self {
        self / other
    }
    #[inline(always)]
    fn widened(self) -> f64 {
        self.into()
    }
}
