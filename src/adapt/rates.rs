//! The rates of devices and of the host's memory, and their correction by measured times.

use std::path::PathBuf;

use crate::cost::{Correction, HostRates, Profile};
use crate::kernel::Processor;
use crate::plan::{DeviceSpec, PlanRequest};

/// The devices that may compute, and the memory they share.
#[derive(Debug, Clone, PartialEq)]
pub struct Resolved {
    /// The devices, in the order of their list.
    pub devices: Vec<DeviceSpec>,
    /// Rates of the host's memory.
    pub host: HostRates,
    /// The file of factors that runs learn; `None` where none are kept.
    pub refined: Option<PathBuf>,
    /// Whether a cost model of this machine is used.
    pub has_model: bool,
}

/// The request restricted to the devices of one kind; `None` where there are none.
pub fn restricted_to<'a>(request: &PlanRequest<'a>, processor: Processor) -> Option<PlanRequest<'a>> {
    let mut restricted = request.clone();
    restricted.devices.retain(|device| device.profile.processor == processor);
    if processor == Processor::Cpu {
        restricted.mode = None;
    }
    (!restricted.devices.is_empty()).then_some(restricted)
}

/// Multiplies the predicted times of a device by a factor: all kernels of a CPU, kernels and copies of a GPU. Below 1 it is faster.
pub fn scale_times(profile: &mut Profile, factor: f64) {
    match profile.processor {
        Processor::Gpu => *profile = profile.scaled(factor),
        Processor::Cpu => {
            let known = std::mem::take(&mut profile.corrections);
            let before =
                |kernel| known.iter().find(|known| known.kernel == kernel).map_or(1.0, |known| known.factor);
            let kernels = crate::cost::eligible(Processor::Cpu).iter();
            let corrected =
                kernels.map(|&kernel| Correction { kernel, variant: None, factor: before(kernel) * factor });
            profile.corrections = corrected.collect();
        }
    }
}
