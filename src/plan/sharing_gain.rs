//! What sharing between the CPU and GPUs is worth: the predicted time of a product on all of them, and on each kind of processor alone.

use super::data::Plan;
use super::make::make;
use super::request::{DeviceSpec, PlanRequest};
use crate::error::Seconds;

/// Predicted times are called equal within this part.
const EQUAL_WITHIN: f64 = 0.01;

/// A sentence about a plan that uses the CPU and GPUs, or leaves out those that were named; `None` for others.
pub(super) fn sentence(request: &PlanRequest<'_>, plan: &Plan) -> Option<String> {
    let uses = |is_gpu: bool| {
        plan.devices.iter().any(|device| device.chunks > 0 && device.profile.link.is_some() == is_gpu)
    };
    let is_named = |is_gpu: bool| {
        request.devices.iter().any(|device| device.required && device.profile.link.is_some() == is_gpu)
    };
    let shares = uses(false) && uses(true);
    // A product without rows uses none of them.
    let uses_one = uses(false) != uses(true);
    let names_both = is_named(false) && is_named(true);
    let leaves_out_named = uses_one && request.chunks.is_none() && names_both;
    // Of a list that was not named the sets of devices are compared already.
    let is_compared = request.work.compares_sharing() || names_both;
    if !is_compared || request.cpu_share.is_some() || !(shares || leaves_out_named) {
        return None;
    }
    let mut alone: Vec<(String, f64)> = Vec::new();
    for is_gpu in [true, false] {
        let is_kept = |device: &&DeviceSpec| device.profile.link.is_some() == is_gpu;
        let devices: Vec<DeviceSpec> = request.devices.iter().filter(is_kept).cloned().collect();
        let names: Vec<&str> = devices.iter().map(|device| device.name.as_str()).collect();
        let names = names.join(" and ");
        // Not every request can be planned for one of them: the operands may not fit, or a kernel that was asked for runs elsewhere.
        if let Ok(other) = make(&PlanRequest { devices, ..request.clone() }) {
            alone.push((names, other.predicted_s));
        }
    }
    alone.sort_by(|one, other| one.1.total_cmp(&other.1));
    let (fastest, fastest_s) = alone.first()?;
    let times: Vec<String> =
        alone.iter().map(|(names, seconds)| format!("{} on {names} alone", Seconds(*seconds))).collect();
    if !shares {
        return Some(format!(
            "sharing: none, since it would gain too little: predicted {} per product",
            times.join(", ")
        ));
    }
    let ratio = fastest_s / plan.predicted_s.max(1e-12);
    let verdict = match ratio {
        _ if ratio > 1.0 + EQUAL_WITHIN => format!("{ratio:.2} times faster than {fastest} alone"),
        _ if ratio < 1.0 - EQUAL_WITHIN => format!("{:.2} times slower than {fastest} alone", 1.0 / ratio),
        _ => format!("as fast as {fastest} alone"),
    };
    Some(format!(
        "sharing: predicted {verdict}: {} per product on all, {}",
        Seconds(plan.predicted_s),
        times.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use super::super::data::Mode;
    use super::super::tests::request;
    use super::*;
    use crate::matrix::Dtype;
    use crate::work::colmean::Colmean;

    #[test]
    fn of_equal_times_those_of_the_gpus_come_first() {
        let job = Colmean { rows: 20_000, columns: 100, dtype: Dtype::F64, deviations: false };
        let mut request = request(job.into(), &["cpu", "emu"]);
        // Only the host's memory limits a product.
        (request.mode, request.host.memory_gb_per_s) = (Some(Mode::Resident), 1e-6);
        let alone = |request: &PlanRequest<'_>, index: usize| {
            make(&PlanRequest { devices: vec![request.devices[index].clone()], ..request.clone() }).unwrap()
        };
        let (cpu, gpu) = (alone(&request, 0), alone(&request, 1));
        let moved_bytes: u64 =
            cpu.chunks.iter().map(|chunk| chunk.load(cpu.k, cpu.dtype).moved_bytes()).sum();
        request.devices[0].profile.cache_bytes = moved_bytes - gpu.memory_bytes(&gpu.host);
        let seconds = alone(&request, 0).predicted_s;
        assert_eq!(seconds, gpu.predicted_s, "the CPU moves as many bytes as the GPU");
        let words = sentence(&request, &make(&request).unwrap()).unwrap();
        let times = format!("{0} on emu:1/0 alone, {0} on cpu alone", Seconds(seconds));
        assert!(words.contains(&times), "{words}");
    }
}
