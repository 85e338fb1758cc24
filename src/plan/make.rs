//! Makes plans: compares devices and modes, and keeps the fastest.

use super::data::{DevicePlan, Mode, Plan, Registered};
use super::draft::Draft;
use super::kernels::Layouts;
use super::predict::x_s;
use super::request::{DeviceSpec, PlanRequest};
use crate::cost::cpu_profile;
use crate::error::{Error, Result};
use crate::kernel::order::SEGMENT;
use crate::work::{ChunkRows, Features};

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
    let fingerprint = request.work.fingerprint();
    // Looked at once for all attempts.
    let all = ChunkRows::Rows { begin: 0, end: request.work.rows() };
    let work = request.work.with_features(Some(Features::of(&request.work, &all)));
    let request = &PlanRequest { work, ..request.clone() };
    let mut tried: Vec<Attempt> = Vec::new();
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
        let attempts =
            modes.iter().flat_map(|&mode| layouts(request, mode).iter().map(move |&of| (mode, of)));
        for (mode, layouts) in attempts {
            let forms = request.forms(layouts)?;
            let draft = Draft {
                request,
                fingerprint: &fingerprint,
                forms,
                host_profile: &host_profile,
                devices: &devices,
                mode,
            };
            match draft.plan() {
                Ok(plan) => {
                    let total_s = plan.predicted_s * request.repeat.max(1) as f64 + prepare_s(&plan);
                    tried.push(Attempt { total_s, plan });
                }
                Err(error) => refused = refused.or(Some(error)),
            }
        }
    }
    let mut best = 0;
    for (index, attempt) in tried.iter().enumerate() {
        if attempt.total_s < WORTH_CHANGING * tried[best].total_s {
            best = index;
        }
    }
    let left_out = left_out(request, &tried, best);
    match (tried.into_iter().nth(best), refused) {
        (Some(Attempt { mut plan, .. }), _) => {
            plan.reasons.extend(left_out);
            Ok(plan)
        }
        (None, Some(error)) => Err(error),
        (None, None) => Err(Error::Internal("no devices were tried".into())),
    }
}

/// A plan and what all of its products should take, bringing A included.
struct Attempt {
    total_s: f64,
    plan: Plan,
}

impl Attempt {
    /// Whether a device has a part.
    fn uses(&self, name: &str) -> bool {
        self.plan.devices.iter().any(|device| device.name == name && device.chunks > 0)
    }
}

/// Why devices that may compute are left out of attempt number `best`.
fn left_out(request: &PlanRequest<'_>, tried: &[Attempt], best: usize) -> Vec<String> {
    let Some(taken) = tried.get(best) else { return Vec::new() };
    let ms = |attempt: &Attempt| attempt.total_s / request.repeat.max(1) as f64 * 1e3;
    let mut reasons = Vec::new();
    for device in request.devices.iter().filter(|device| !taken.uses(&device.name)) {
        let with_it = tried.iter().filter(|attempt| attempt.uses(&device.name));
        let Some(with_it) = with_it.min_by(|a, b| a.total_s.total_cmp(&b.total_s)) else { continue };
        let why = match (&device.profile.link, taken.plan.mode) {
            (None, Mode::Resident) => "A stays where memory is many times faster than the host's",
            (None, _) => "it would read the memory that A crosses from",
            (Some(_), _) if request.repeat <= 1 => "A would have to cross to it for a single product",
            (Some(_), _) => "what has to cross to it takes longer than computing here",
        };
        reasons.push(format!(
            "{} is left out: with it a product should take {:.3} ms, without it {:.3} ms, everything counted; {why}",
            device.name,
            ms(with_it),
            ms(taken)
        ));
    }
    reasons
}

/// How A may lie on GPUs, the better first. Where it crosses each time its own arrays cross as they lie, unless long rows need
/// a list of their parts. Where memory is scarce its own arrays take least of it.
fn layouts(request: &PlanRequest<'_>, mode: Mode) -> &'static [Layouts] {
    let work = &request.work;
    let scarce = || request.devices.iter().any(|device| device.memory_limit_bytes.is_some());
    let has_gpu = request.devices.iter().any(|device| device.profile.link.is_some());
    let long =
        || work.lengths(&ChunkRows::Rows { begin: 0, end: work.rows() }).any(|row| row > SEGMENT as u64);
    match mode {
        Mode::Resident if scarce() => &[Layouts::AsItLies],
        Mode::Resident => &[Layouts::Any],
        _ if has_gpu && request.kernel.is_none() && long() => &[Layouts::AsItLies, Layouts::Any],
        _ => &[Layouts::AsItLies],
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
