//! Makes plans: compares devices and modes, and keeps the fastest.

use super::data::{DevicePlan, Mode, Plan, Registered};
use super::draft::Draft;
use super::predict::x_s;
use super::request::{DeviceSpec, PlanRequest};
use crate::cost::cpu_profile;
use crate::error::{Error, Result};

/// A later alternative must be predicted to take no more than this share of the best so far, or it is not worth it.
const WORTH_CHANGING: f64 = 0.98;

/// Makes the plan with the shortest predicted time. Runs in the rayon pool it is called in.
pub fn make(request: &PlanRequest<'_>) -> Result<Plan> {
    if request.devices.is_empty() {
        return Err(Error::Usage("no device to plan for; take --devices cpu".into()));
    }
    if request.devices.iter().filter(|device| device.profile.link.is_none()).count() > 1 {
        return Err(Error::Usage("there is one CPU; name cpu once".into()));
    }
    let host_profile = cpu_profile(request.host.cores as usize, u64::MAX)?;
    let mut best: Option<(f64, Plan)> = None;
    let mut refused = None;
    for devices in device_sets(&request.devices) {
        let has_gpu = devices.iter().any(|device| device.profile.link.is_some());
        let modes: &[Mode] = match request.mode {
            Some(Mode::Resident) => &[Mode::Resident],
            Some(Mode::Oneshot) => &[Mode::Oneshot],
            Some(Mode::Stream) => &[Mode::Stream],
            None if !has_gpu => &[Mode::Resident],
            None if request.repeat > 1 => &[Mode::Resident, Mode::Oneshot],
            None => &[Mode::Oneshot],
        };
        for &mode in modes {
            let kernels = request.kernels(mode)?;
            let draft = Draft { request, kernels, host_profile: &host_profile, devices: &devices, mode };
            match draft.plan() {
                Ok(plan) => {
                    let total = plan.predicted_s * request.repeat.max(1) as f64 + prepare_s(&plan);
                    if best.as_ref().is_none_or(|(least, _)| total < WORTH_CHANGING * *least) {
                        best = Some((total, plan));
                    }
                }
                Err(error) => refused = refused.or(Some(error)),
            }
        }
    }
    match (best, refused) {
        (Some((_, plan)), _) => Ok(plan),
        (None, Some(error)) => Err(error),
        (None, None) => Err(Error::Internal("no devices were tried".into())),
    }
}

/// The sets of devices worth comparing: all; where some are not insisted on, also the CPU and the GPUs by themselves.
fn device_sets(devices: &[DeviceSpec]) -> Vec<Vec<DeviceSpec>> {
    let mut sets = vec![devices.to_vec()];
    for with_link in [false, true] {
        let kept = |device: &&DeviceSpec| device.required || device.profile.link.is_some() == with_link;
        let set: Vec<DeviceSpec> = devices.iter().filter(kept).cloned().collect();
        if !set.is_empty() && !sets.contains(&set) {
            sets.push(set);
        }
    }
    sets
}

/// Seconds to bring what stays on the devices, and to register what crosses from where it lies.
fn prepare_s(plan: &Plan) -> f64 {
    let bring = |(index, device): (usize, &DevicePlan)| {
        let staged = Registered::default();
        x_s(&device.profile, &plan.host, device.slots.resident_bytes, staged) + register_s(plan, index)
    };
    plan.devices.iter().enumerate().map(bring).fold(0.0, f64::max)
}

fn register_s(plan: &Plan, index: usize) -> f64 {
    let Some(device) = plan.devices.get(index) else { return 0.0 };
    let own = || plan.chunks.iter().filter(|chunk| chunk.home == index as u32);
    let a: u64 = own().map(|chunk| chunk.staged_bytes).sum();
    let y: u64 = own().map(|chunk| chunk.slice_bytes(plan.k, plan.dtype)).sum();
    let Registered { a: is_a, x: is_x, y: is_y } = device.registered;
    let bytes = u64::from(is_a) * a + u64::from(is_x) * device.slots.x_bytes + u64::from(is_y) * y;
    let rate = device.profile.link.as_ref().and_then(|link| link.register_s_per_gb);
    bytes as f64 * 1e-9 * rate.unwrap_or(0.0)
}
