//! Settings of products that are not part of the plan.

use std::time::Duration;

use crate::kernel::cpu::CpuSettings;

/// The default watchdog timeout.
pub const WATCHDOG_TIMEOUT: Duration = Duration::from_secs(30);

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

/// Settings of products that are not part of the plan.
#[derive(Debug, Clone)]
pub struct Settings {
    /// How chunks on the host are computed.
    pub cpu: CpuSettings,
    /// The most memory that a converted copy of A may use.
    pub memory_limit_bytes: u64,
    /// The watchdog timeout: how long devices may report nothing before they count as hung.
    pub watchdog_timeout: Duration,
}
