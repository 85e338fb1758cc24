//! Plans again between products, once it is seen how long devices take.

use super::session::Session;
use crate::error::Result;
use crate::graph::DeviceId;
use crate::plan::{Plan, PlanRequest, make};
use crate::runtime::RunReport;

/// A new plan must be predicted to take no more than this share of what the old one took.
const WORTH_CHANGING: f64 = 0.93;
/// And what it saves must be so many times what getting ready again costs.
const WORTH_PREPARING: f64 = 1.5;

/// The same request for devices as fast as `last` showed them, and what was seen, where planning anew should pay for the
/// `products` that are left. Nothing where one device computes everything, or something went wrong.
pub fn replanned<'a>(
    session: &Session,
    request: &PlanRequest<'a>,
    plan: &Plan,
    last: &RunReport,
    prepare_s: f64,
    products: u64,
) -> Result<Option<(PlanRequest<'a>, String)>> {
    let busy = plan.devices.iter().filter(|device| device.chunks > 0).count();
    if busy < 2 || last.cancelled || !last.faults.is_empty() {
        return Ok(None);
    }
    let mut seen = request.clone();
    let mut words = Vec::new();
    for (index, device) in plan.devices.iter().enumerate().filter(|(_, device)| device.chunks > 0) {
        let ratio = last.finish_s(DeviceId(index as u32)) / device.predicted_s.max(1e-9);
        if !(ratio.is_finite() && ratio > 0.0) {
            return Ok(None);
        }
        for spec in seen.devices.iter_mut().filter(|spec| spec.name == device.name) {
            spec.profile = spec.profile.slowed(ratio);
        }
        words.push(format!("{} took {ratio:.2} times what was predicted", device.name));
    }
    let better_s = session.pool.install(|| make(&seen))?.predicted_s;
    let saved_s = (last.seconds() - better_s) * products as f64;
    let pays = better_s < WORTH_CHANGING * last.seconds() && saved_s > WORTH_PREPARING * prepare_s;
    Ok(pays.then(|| (seen, format!("planned again: {}", words.join(", ")))))
}
