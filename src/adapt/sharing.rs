//! How processors share a product: devices that run together are slower than alone, and the shares follow measured times until the
//! devices finish together.

use super::rates::scale_times;
use crate::cost::HostRates;
use crate::error::Seconds;
use crate::graph::DeviceId;
use crate::kernel::Processor;
use crate::plan::{Plan, PlanRequest};

/// Step by which the bandwidth of the host's memory is raised to match a measurement.
const BANDWIDTH_STEP: f64 = 1.05;
/// Largest number of steps.
const MAX_BANDWIDTH_STEPS: usize = 60;

/// Measured times of one product.
#[derive(Debug, Clone, PartialEq)]
pub struct Observation {
    /// Seconds of this product.
    pub product_s: f64,
    /// Seconds of a product in the steady state.
    pub steady_state_s: f64,
    /// By device of the plan.
    pub devices: Vec<DeviceObservation>,
}

/// Measured times of one device.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct DeviceObservation {
    /// Seconds from the start of the product to the end of its last chunk.
    pub finish_s: f64,
    /// Seconds of its kernels.
    pub compute_s: f64,
    /// The chunks that it computed.
    pub chunks: Vec<usize>,
}

/// The request with the speeds of the devices corrected by a product of `plan`, and the corrections in words.
pub fn corrected_by<'a>(
    request: &PlanRequest<'a>,
    plan: &Plan,
    observed: &Observation,
) -> (PlanRequest<'a>, Vec<String>) {
    let (mut corrected, mut words) = (request.clone(), Vec::new());
    let of_cpu = request.work.kernels(Processor::Cpu);
    // The last product may have been slower or faster than usual, on all devices.
    let usual = observed.steady_state_s / observed.product_s;
    for (index, (device, seen)) in plan.devices.iter().zip(&observed.devices).enumerate() {
        let took_s = match device.profile.link {
            Some(_) => seen.finish_s,
            None => seen.compute_s,
        };
        let ratio = usual * took_s / plan.finish_s(index as u32, seen.chunks.iter().copied());
        if !(ratio.is_finite() && ratio > 0.0) {
            continue;
        }
        for spec in corrected.devices.iter_mut().filter(|spec| spec.name == device.name) {
            scale_times(&mut spec.profile, of_cpu, ratio);
        }
        let (predicted, measured) = (Seconds(usual * took_s / ratio), Seconds(usual * took_s));
        words.push(format!("{} predicted {predicted}, measured {measured}", device.name));
    }
    raise_memory_bandwidth(&mut corrected.host, plan, observed.steady_state_s);
    (corrected, words)
}

/// Raises the bandwidth of the host's memory until a product of `plan` can take `measured_s`: the memory moved its bytes in that time,
/// so it is at least that fast.
pub fn raise_memory_bandwidth(host: &mut HostRates, plan: &Plan, measured_s: f64) {
    let mut steps = 0..MAX_BANDWIDTH_STEPS;
    while plan.memory_s(host) > measured_s && steps.next().is_some() {
        host.memory_gb_per_s *= BANDWIDTH_STEP;
    }
}

/// Whether the host and at least one other device have chunks.
pub fn is_shared(plan: &Plan) -> bool {
    let on_host = |device: u32| device == DeviceId::HOST.0;
    let mut homes = plan.chunks.iter().map(|chunk| chunk.home);
    homes.any(on_host) && plan.chunks.iter().any(|chunk| !on_host(chunk.home))
}

/// The share of the entries that two plans give to different devices.
pub fn moved_share(one: &Plan, other: &Plan) -> f64 {
    let all = one.devices.iter().map(|device| device.size.entries).sum::<u64>().max(1) as f64;
    let of = |device: &str| {
        other.devices.iter().find(|other| other.name == device).map_or(0, |on| on.size.entries)
    };
    let differ = one.devices.iter().map(|device| device.size.entries.abs_diff(of(&device.name)));
    differ.sum::<u64>() as f64 / (2.0 * all)
}

#[cfg(test)]
mod tests {
    use super::super::fixture::cpu_and_h200;
    use super::super::rates::restricted_to;
    use super::*;
    use crate::matrix::{Csr, generate};
    use crate::plan::{Mode, make};

    #[test]
    fn moved_entries_are_counted_once() {
        let matrix: Csr<f64> = generate("stencil27,n=60", 1, 1 << 30).unwrap().matrix;
        let view = matrix.view();
        let mut request = cpu_and_h200(&view);
        (request.mode, request.repeat) = (Some(Mode::Oneshot), 1000);
        let with_share = |request: &mut PlanRequest<'_>, share| {
            request.cpu_share = Some(share);
            make(request).unwrap()
        };
        let (quarter, half) = (with_share(&mut request, 0.25), with_share(&mut request, 0.5));
        assert!(is_shared(&quarter) && is_shared(&half));
        assert!((moved_share(&quarter, &half) - 0.25).abs() < 0.02);
        assert_eq!(moved_share(&half, &half), 0.0);
        request.devices.iter_mut().for_each(|device| device.required = false);
        for share in [0.0, 1.0] {
            assert!(!is_shared(&with_share(&mut request, share)));
        }
    }

    #[test]
    fn memory_that_moved_the_bytes_in_a_measured_time_is_at_least_that_fast() {
        let matrix: Csr<f64> = generate("stencil27,n=60", 1, 1 << 30).unwrap().matrix;
        let view = matrix.view();
        // Bytes of a CPU kernel follow from its time, so the GPU computes everything.
        let mut request = restricted_to(&cpu_and_h200(&view), Processor::Gpu).unwrap();
        (request.mode, request.repeat) = (Some(Mode::Oneshot), 1000);
        let plan = make(&request).unwrap();
        let slow = request.host.clone();
        let slow_s = plan.memory_s(&slow);
        let mut host = slow.clone();
        raise_memory_bandwidth(&mut host, &plan, 2.0 * slow_s);
        assert_eq!(host, slow, "a longer time says nothing");
        raise_memory_bandwidth(&mut host, &plan, slow_s / 3.0);
        let ratio = plan.memory_s(&host) / (slow_s / 3.0);
        assert!((0.95..=1.0).contains(&ratio), "{ratio}");
    }
}
