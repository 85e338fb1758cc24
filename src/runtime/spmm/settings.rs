//! How products are computed, beside what their plan says.

use std::time::Duration;

use crate::device::{CudaOptions, EmulatedOptions};
use crate::kernel::cpu::CpuSettings;

/// How products are computed, beside the plan.
#[derive(Debug, Clone)]
pub struct Settings {
    /// How chunks on the host are computed.
    pub cpu: CpuSettings,
    /// Most memory that another format of A may take.
    pub memory_limit_bytes: u64,
    /// How long devices may stay silent before they count as hung.
    pub patience: Duration,
    /// What is special about emulated devices, by their names.
    pub emulated: Vec<(String, EmulatedOptions)>,
    /// What is special about CUDA devices, by their names.
    pub cuda: Vec<(String, CudaOptions)>,
}
