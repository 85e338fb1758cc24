//! Settings of products that are not part of the plan.

use std::time::Duration;

use crate::kernel::cpu::CpuSettings;
use crate::runtime::Check;

/// Settings of products that are not part of the plan.
#[derive(Debug, Clone)]
pub struct Settings {
    /// How chunks on the host are computed.
    pub cpu: CpuSettings,
    /// The most memory that a converted copy of A may use.
    pub memory_limit_bytes: u64,
    /// The watchdog timeout: how long devices may report nothing before they count as hung.
    pub watchdog_timeout: Duration,
    /// Which products are checked.
    pub check: Check,
}
