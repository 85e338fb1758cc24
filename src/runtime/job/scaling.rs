//! The factors of a run.

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

    /// Whether the old Y has an effect.
    pub fn reads_y(self) -> bool {
        self.beta != 0.0
    }
}
