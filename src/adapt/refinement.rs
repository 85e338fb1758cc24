//! What a product says about the cost model: for each device the ratio of measured to predicted kernel time.

use std::collections::BTreeMap;

use crate::kernel::Processor;
use crate::plan::Plan;

/// One computation of a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Computation {
    /// The chunk.
    pub chunk: usize,
    /// The index of the device in the plan.
    pub device: usize,
    /// Nanoseconds of the kernel or of the host job.
    pub ns: u64,
}

/// For each device of the plan that computed the ratio of measured to predicted time of its kernels.
pub fn device_ratios(plan: &Plan, computations: impl Iterator<Item = Computation>) -> Vec<(usize, f64)> {
    // Copies of other devices slow a CPU down, so its times in a shared product are not learned.
    let shared = plan.devices.iter().filter(|device| device.chunks > 0).count() > 1;
    let mut sums: BTreeMap<usize, (f64, f64)> = BTreeMap::new();
    for Computation { chunk, device, ns } in computations {
        let (Some(chunk), Some(on)) = (plan.chunks.get(chunk), plan.devices.get(device)) else { continue };
        if shared && on.profile.processor == Processor::Cpu {
            continue;
        }
        let sum = sums.entry(device).or_default();
        sum.0 += ns as f64 * 1e-9;
        sum.1 += match on.profile.processor {
            Processor::Cpu => chunk.predicted_s,
            Processor::Gpu => chunk.kernel_s(&on.profile, plan.k, plan.dtype),
        };
    }
    sums.into_iter().map(|(device, (measured_s, predicted_s))| (device, measured_s / predicted_s)).collect()
}

#[cfg(test)]
mod tests {
    use super::super::fixture::cpu_and_h200;
    use super::*;
    use crate::matrix::generate;
    use crate::plan::{PlanRequest, make};

    #[test]
    fn times_of_a_cpu_are_learned_unless_another_device_computes() {
        let matrix = generate::<f64>("stencil5,n=40", 1, 1 << 30).unwrap().matrix;
        let both = make(&cpu_and_h200(&matrix.view())).unwrap();
        let request = cpu_and_h200(&matrix.view());
        let mut alone = make(&PlanRequest { devices: request.devices[..1].to_vec(), ..request }).unwrap();
        let ratios = |plan: &Plan| {
            let ns = (2e9 * plan.chunks[0].predicted_s).round() as u64;
            device_ratios(plan, [Computation { chunk: 0, device: 0, ns }].into_iter())
        };
        assert!(both.devices.iter().all(|device| device.chunks > 0) && both.chunks[0].home == 0);
        assert!(ratios(&both).is_empty());
        // A device without a share does not copy anything.
        let idle = crate::plan::DevicePlan { chunks: 0, ..both.devices[1].clone() };
        alone.devices.push(idle);
        let [(0, ratio)] = ratios(&alone)[..] else { panic!("{:?}", ratios(&alone)) };
        assert!((ratio - 2.0).abs() < 1e-3, "{ratio}");
    }
}
