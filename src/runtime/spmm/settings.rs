//! Settings of products that are not part of the plan.

use std::time::Duration;

use crate::device::{CudaOptions, EmulatedOptions};
use crate::kernel::Schedule;
use crate::kernel::cpu::CpuSettings;
use crate::machine::{Isa, memory_limit_bytes};

/// The default watchdog timeout.
const WATCHDOG_TIMEOUT: Duration = Duration::from_secs(30);

/// Settings of products that are not part of the plan.
#[derive(Debug, Clone)]
pub struct Settings {
    /// How chunks on the host are computed.
    pub cpu: CpuSettings,
    /// The most memory that a converted copy of A may use.
    pub memory_limit_bytes: u64,
    /// The watchdog timeout: how long devices may report nothing before they count as hung.
    pub watchdog_timeout: Duration,
    /// Options of emulated devices, by device name.
    pub emulated: Vec<(String, EmulatedOptions)>,
    /// Options of CUDA devices, by device name.
    pub cuda: Vec<(String, CudaOptions)>,
}

impl Settings {
    /// Defaults for `k` columns on `threads` threads: the best instruction set and the memory limit of this machine.
    pub fn new(k: usize, threads: usize) -> Self {
        Self {
            cpu: CpuSettings { k, threads, isa: Isa::detect(), schedule: Schedule::Balanced },
            memory_limit_bytes: memory_limit_bytes(),
            watchdog_timeout: WATCHDOG_TIMEOUT,
            emulated: Vec::new(),
            cuda: Vec::new(),
        }
    }
}
