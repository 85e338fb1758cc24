//! The rates of devices and of the host's memory, and their correction by measured times.

use std::path::PathBuf;

use crate::cost::{Correction, HostRates, Profile, SimulatedCluster};
use crate::kernel::{KernelId, Processor};
use crate::plan::{DeviceSpec, PlanRequest};

/// The devices that may compute, and the memory they share.
#[derive(Debug, Clone, PartialEq)]
pub struct ResolvedDevices {
    /// The devices, in the order of their list.
    pub devices: Vec<DeviceSpec>,
    /// Rates of the host's memory.
    pub host: HostRates,
    /// The nodes and the network, if the devices are those of a simulated cluster.
    pub cluster: Option<SimulatedCluster>,
    /// The file of factors that runs learn; `None` where none are kept.
    pub factors_path: Option<PathBuf>,
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

/// Multiplies the predicted times of a device by a factor: the kernels of a CPU, kernels and copies of a GPU. Below 1 it is faster.
/// `of_cpu` are the CPU kernels of the job.
pub fn scale_times(profile: &mut Profile, of_cpu: &[KernelId], factor: f64) {
    match profile.processor {
        Processor::Gpu => *profile = profile.scaled(factor),
        Processor::Cpu => {
            let known = std::mem::take(&mut profile.corrections);
            let before =
                |kernel| known.iter().find(|known| known.kernel == kernel).map_or(1.0, |known| known.factor);
            let corrected = of_cpu.iter().map(|&kernel| Correction {
                kernel,
                variant: None,
                factor: before(kernel) * factor,
            });
            profile.corrections = corrected.collect();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture::cpu_and_h200;
    use super::*;
    use crate::matrix::{Csr, generate};
    use crate::plan::{Mode, make};

    #[test]
    fn a_cpu_that_measured_slower_gets_a_smaller_share() {
        let matrix: Csr<f64> = generate("stencil27,n=40", 1, 1 << 30).unwrap().matrix;
        let view = matrix.view();
        let mut request = cpu_and_h200(&view);
        request.devices.iter_mut().for_each(|device| device.required = false);
        (request.mode, request.repeat) = (Some(Mode::Oneshot), 1000);
        let alone_s = |request: &PlanRequest<'_>| {
            let alone = restricted_to(request, Processor::Cpu).unwrap();
            assert!(alone.devices.len() == 1 && alone.mode.is_none());
            make(&alone).unwrap().predicted_s
        };
        let rows = |request: &PlanRequest<'_>| {
            let plan = make(request).unwrap();
            plan.devices.iter().find(|device| device.name == "cpu").map_or(0, |device| device.rows)
        };
        let (before_s, before) = (alone_s(&request), rows(&request));
        let of_cpu = request.work.kernels(Processor::Cpu);
        scale_times(&mut request.devices[0].profile, of_cpu, 1.5);
        scale_times(&mut request.devices[0].profile, of_cpu, 2.0);
        assert!((alone_s(&request) / before_s - 3.0).abs() < 1e-9, "corrections multiply");
        assert!(rows(&request) < before, "{} rows of {before}", rows(&request));
    }

    #[test]
    fn a_restricted_request_keeps_the_devices_of_one_kind() {
        let matrix: Csr<f64> = generate("stencil5,n=20", 1, 1 << 30).unwrap().matrix;
        let view = matrix.view();
        let mut request = cpu_and_h200(&view);
        request.mode = Some(Mode::Stream);
        let gpu = restricted_to(&request, Processor::Gpu).unwrap();
        assert_eq!((gpu.devices.len(), gpu.mode), (1, Some(Mode::Stream)));
        assert!(restricted_to(&gpu, Processor::Cpu).is_none());
    }
}
