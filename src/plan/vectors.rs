//! Plans of products on vectors that stay on the devices.

use super::data::{Mode, Plan};
use super::make::make_of_devices;
use super::request::PlanRequest;
use crate::cost::SimulatedCluster;
use crate::error::{Advice, Error, Result};

/// The bandwidth of links that do not count.
const UNLIMITED_GB_PER_S: f64 = (1 << 20) as f64;

/// The plan of a product whose A, X and Y stay on the devices: one device owns each row, and rows of X are exchanged before a product.
///
/// X and Y do not cross the links with each product, so the links do not count in the shares. The predicted time has no exchange.
pub fn make_on_vectors(request: &PlanRequest<'_>) -> Result<Plan> {
    if request.mode.is_some_and(|mode| mode != Mode::Resident) {
        let reason = "a product on vectors has no other mode: A, X and Y stay on the devices";
        return Err(Error::usage(reason).advise([Advice::AutomaticMode]));
    }
    if request.cpu_share.is_some() {
        let reason =
            "a product on vectors has no share of the CPU: the balance of the devices sets their shares";
        return Err(Error::usage(reason).advise([Advice::AutomaticCpuShare]));
    }
    let mut of_vectors = request.clone();
    // Over ranks all kernels are canonical.
    of_vectors.reproducible |= request.cluster.as_ref().is_some_and(SimulatedCluster::has_cpu_ranks);
    of_vectors.mode = Some(Mode::Resident);
    (of_vectors.chunks, of_vectors.chunk_bytes) = (Some(request.devices.len()), None);
    (of_vectors.always_register, of_vectors.vectors_change, of_vectors.vectors_stay) = (true, false, true);
    for link in of_vectors.devices.iter_mut().filter_map(|device| device.profile.link.as_mut()) {
        (link.to_device_gb_per_s, link.from_device_gb_per_s) = (UNLIMITED_GB_PER_S, UNLIMITED_GB_PER_S);
    }
    let mut plan = make_of_devices(&of_vectors)?;
    for device in &mut plan.devices {
        let of = request.devices.iter().find(|of| of.name == device.name);
        of.into_iter().for_each(|of| device.profile.link.clone_from(&of.profile.link));
    }
    Ok(plan)
}
