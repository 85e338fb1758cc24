//! How products are computed, beside what their plan says.

use std::time::Duration;

use crate::device::{CudaOptions, EmulatedOptions};
use crate::kernel::Schedule;
use crate::kernel::cpu::CpuSettings;
use crate::machine::{Isa, memory_limit_bytes};

/// How long devices may stay silent where nobody says.
const WATCHDOG_TIMEOUT: Duration = Duration::from_secs(30);

/// How products are computed, beside the plan.
#[derive(Debug, Clone)]
pub struct Settings {
    /// How chunks on the host are computed.
    pub cpu: CpuSettings,
    /// Most memory that another format of A may take.
    pub memory_limit_bytes: u64,
    /// How long devices may stay silent before they count as hung.
    pub watchdog_timeout: Duration,
    /// What is special about emulated devices, by their names.
    pub emulated: Vec<(String, EmulatedOptions)>,
    /// What is special about CUDA devices, by their names.
    pub cuda: Vec<(String, CudaOptions)>,
}

impl Settings {
    /// For `k` columns on so many threads, with the best instructions of this processor and what memory there is.
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
