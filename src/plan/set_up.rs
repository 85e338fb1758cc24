//! The predicted time of the set-up: opening devices, loading kernels, registering memory, copying A.

use std::collections::HashSet;

use super::data::{Chunk, DevicePlan, Mode, Plan, Registered, SetUp};
use super::packing::pack_chunk_s;
use super::predict::list_s;
use crate::cost::{Form, HostRates, Profile};
use crate::kernel::Processor;

/// Time to build a layout other than the host's and to stage it, as a multiple of the time to copy as many bytes. Measured with `hybrid` and
/// 281 MB of A on an H200's host: 80 ms to build and 36 ms to copy, against 16 ms for a plain copy.
const LAYOUT_COPIES: f64 = 6.0;

/// Predicts the set-up of a plan whose devices and chunks are complete.
pub(super) fn set_up(plan: &Plan) -> SetUp {
    let opened = || plan.devices.iter().map(|device| &device.profile).filter(|on| on.link.is_some());
    let driver_s = opened().map(|on| on.driver_start_s).fold(0.0, f64::max);
    let devices = || 0..plan.devices.len();
    // Equal nodes, which open their devices at the same time.
    let nodes = plan.cluster.as_ref().map_or(1, |cluster| cluster.nodes.max(1));
    SetUp {
        open_s: driver_s + opened().map(|on| on.open_s).sum::<f64>() / nodes as f64,
        load_kernels_s: devices().map(|index| load_kernels_s(plan, index)).fold(0.0, f64::max),
        register_s: devices().map(|index| register_s(plan, index)).sum::<f64>() + lists_s(plan),
        bring_a_s: bring_a_s(plan),
    }
}

/// The part of the set-up that candidates are compared by: registering memory and copying A. Devices are open when a plan is made, and
/// kernels and layouts serve later products too.
pub(super) fn compared_set_up_s(plan: &Plan) -> f64 {
    let of_device = |index: usize| {
        let device = &plan.devices[index];
        x_s(&device.profile, &plan.host, device.slots.resident_bytes, Registered::default())
    };
    (0..plan.devices.len()).map(of_device).fold(0.0, f64::max) + plan.set_up.register_s
}

/// Seconds to copy X to a device.
pub(super) fn x_s(profile: &Profile, host: &HostRates, x_bytes: u64, registered: Registered) -> f64 {
    if profile.link.is_none() {
        return 0.0;
    }
    let staged_s = if registered.x { 0.0 } else { host.copy_s(x_bytes) };
    staged_s + profile.upload_s(x_bytes)
}

/// The forms of the chunks of device `index`, each once.
pub(super) fn forms(plan: &Plan, index: usize) -> HashSet<Form> {
    let own = plan.chunks.iter().filter(|chunk| chunk.home == index as u32);
    own.map(|chunk| chunk.form(Processor::Gpu)).collect()
}

/// Each device loads its kernels at their first launch, at the same time as the other devices.
fn load_kernels_s(plan: &Plan, index: usize) -> f64 {
    let profile = &plan.devices[index].profile;
    if profile.link.is_none() { 0.0 } else { forms(plan, index).len() as f64 * profile.load_kernel_s }
}

/// Bytes that are registered for device `index`; none where X and Y stay on the devices of a cluster.
pub(super) fn registered_bytes(plan: &Plan, index: usize) -> u64 {
    if plan.cluster.is_some() {
        // X and Y stay on the devices: no memory of the host is read or written with each product.
        return 0;
    }
    let registered = plan.devices.get(index).map_or(Registered::default(), |device| device.registered);
    let own = || plan.chunks.iter().filter(|chunk| chunk.home == index as u32);
    let a: u64 = own().map(|chunk| chunk.staged_bytes).sum();
    let y: u64 = own().map(|chunk| chunk.slice_bytes(plan.k, plan.dtype)).sum();
    let x = plan.devices.get(index).map_or(0, |device| device.slots.x_bytes);
    let bytes = |is: bool, bytes: u64| if is { bytes } else { 0 };
    bytes(registered.a, a).saturating_add(bytes(registered.x, x)).saturating_add(bytes(registered.y, y))
}

/// Seconds to register memory with device `index`. Devices register one after the other.
fn register_s(plan: &Plan, index: usize) -> f64 {
    let link = plan.devices.get(index).and_then(|device| device.profile.link.as_ref());
    let s_per_gb = link.and_then(|link| link.register_s_per_gb).unwrap_or(0.0);
    registered_bytes(plan, index) as f64 * 1e-9 * s_per_gb
}

/// Seconds to make the lists of long rows, and to pack A, where these are copied with each product.
fn lists_s(plan: &Plan) -> f64 {
    let of_chunk = |chunk: &Chunk| {
        let device = plan.devices.get(chunk.home as usize).filter(|_| plan.mode != Mode::Resident)?;
        Some(list_s(device, &plan.host, chunk) + pack_chunk_s(plan, device, chunk))
    };
    plan.chunks.iter().filter_map(of_chunk).sum()
}

/// The host builds and stages the parts of all devices; the links copy them at the same time.
fn bring_a_s(plan: &Plan) -> f64 {
    if plan.mode != Mode::Resident {
        return 0.0;
    }
    let on_gpu = |device: &DevicePlan| device.profile.link.is_some();
    let staged = plan.chunks.iter().filter_map(|chunk| {
        let device = plan.devices.get(chunk.home as usize).filter(|device| on_gpu(device))?;
        let unchanged = chunk.form(device.profile.processor).reads_a_unchanged();
        Some(plan.host.copy_s(chunk.staged_bytes) * if unchanged { 1.0 } else { LAYOUT_COPIES })
    });
    let links = plan.devices.iter().filter(|device| on_gpu(device) && device.slots.resident_bytes > 0);
    let links = links.map(|device| device.profile.upload_s(device.slots.resident_bytes));
    staged.sum::<f64>() + links.fold(0.0, f64::max)
}
