//! Makes plans: compares sets of devices and modes, and keeps the fastest.

use std::sync::OnceLock;

use super::data::{Mode, Plan};
use super::draft::{Draft, ordered};
use super::packing::{may_gain_from_packing, packing_reason};
use super::request::{DeviceSpec, PlanRequest};
use super::resident::{Adopted, beside_layouts};
use super::set_up::compared_set_up_s;
use super::sharing_gain;
use super::values::values_reason;
use super::vectors::make_on_vectors;
use crate::cost::cpu_profile;
use crate::error::{Advice, Counted, Error, Result, Seconds};
use crate::work::{Forms, Layouts};

/// A later candidate must take at most this share of the best time so far.
const CANDIDATE_MARGIN: f64 = 0.98;

/// Makes the plan with the shortest predicted time. Runs in the rayon pool that calls it.
pub fn make(request: &PlanRequest<'_>) -> Result<Plan> {
    match request.cluster {
        Some(_) => make_on_vectors(request),
        None => make_of_devices(request),
    }
}

/// The plan with the shortest predicted time, as if all devices were those of one machine.
pub(super) fn make_of_devices(request: &PlanRequest<'_>) -> Result<Plan> {
    if request.devices.is_empty() {
        return Err(Error::usage("there is no device to plan for").advise([Advice::CpuOnly]));
    }
    if request.devices.iter().filter(|device| device.profile.link.is_none()).count() > 1 {
        return Err(Error::usage("cpu is named twice; name it once"));
    }
    let host_profile = cpu_profile(request.host.cores as usize, u64::MAX)?;
    let fingerprint = request.work.fingerprint();
    // Computed once for all candidates.
    let request = &PlanRequest { work: request.work.remembering(), ..request.clone() };
    let samples = OnceLock::new();
    let mut tried: Vec<Candidate> = Vec::new();
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
        let stays = modes.contains(&Mode::Resident);
        let mut of_set: Vec<Candidate> = Vec::new();
        let draft = |devices: &[DeviceSpec], mode, layouts: &[Layouts], adopted: Option<&Adopted<'_>>| {
            let forms = forms_of(request, mode, layouts)?;
            let (fingerprint, host_profile, samples) = (&fingerprint, &host_profile, &samples);
            Draft { request, fingerprint, forms, host_profile, devices, mode, samples, adopted }.plan()
        };
        // A layout that is there costs no copy of A.
        for adopted in Adopted::all(request, &ordered(&devices)).iter().filter(|_| stays) {
            match draft(&devices, Mode::Resident, &[Layouts::Any, Layouts::Unchanged], Some(adopted)) {
                Ok(plan) => of_set.push(Candidate::new(plan, true)),
                Err(error) => tracing::debug!(%error, "a stored A is not used"),
            }
        }
        let beside = beside_layouts(&devices, &request.resident);
        let own = modes.iter().flat_map(|&mode| layouts(request, mode).into_iter().map(move |of| (mode, of)));
        let mut plans: Vec<Result<Plan>> =
            own.map(|(mode, layouts)| draft(&beside, mode, &[layouts], None)).collect();
        let is_resident = |plan: &Plan| plan.mode == Mode::Resident;
        let has_resident = of_set.iter().any(|candidate| is_resident(&candidate.plan))
            || plans.iter().flatten().any(is_resident);
        if stays && !has_resident && beside != devices {
            // Layouts of other plans are evicted, and copied again when they are needed.
            let all = layouts(request, Mode::Resident).into_iter();
            plans.extend(all.map(|layouts| draft(&devices, Mode::Resident, &[layouts], None)));
        }
        for plan in plans {
            match plan {
                Ok(plan) => of_set.push(Candidate::new(plan, false)),
                Err(error) => refused = refused.or(Some(error)),
            }
        }
        tried.extend(of_set);
    }
    let mut best = 0;
    for (index, candidate) in tried.iter().enumerate() {
        if candidate.total_s < CANDIDATE_MARGIN * tried[best].total_s {
            best = index;
        }
    }
    let mut others: Vec<String> = left_out(request, &tried, best);
    let plans = || tried.iter().map(|candidate| &candidate.plan);
    others.extend(plans().nth(best).and_then(|best| values_reason(best, plans())));
    others.extend(plans().nth(best).and_then(|best| packing_reason(best, plans())));
    match (tried.into_iter().nth(best), refused) {
        (Some(Candidate { mut plan, .. }), _) => {
            plan.reasons.extend(others);
            plan.reasons.extend(sharing_gain::sentence(request, &plan));
            Ok(plan)
        }
        (None, Some(error)) => Err(error),
        (None, None) => Err(Error::Internal("no devices were tried".into())),
    }
}

/// The forms of these layouts, each once.
fn forms_of(request: &PlanRequest<'_>, mode: Mode, layouts: &[Layouts]) -> Result<Forms> {
    let (first, others) = match layouts.split_first() {
        Some((first, others)) => (*first, others),
        None => (Layouts::Unchanged, layouts),
    };
    let kernels = request.kernels(mode);
    let mut forms = request.work.forms(&kernels, first)?;
    for &layouts in others {
        for candidate in request.work.forms(&kernels, layouts)?.gpu {
            if !forms.gpu.iter().any(|known| known.form == candidate.form) {
                forms.gpu.push(candidate);
            }
        }
    }
    Ok(forms)
}

/// A plan and the predicted seconds of all products, with registering and copying A.
struct Candidate {
    total_s: f64,
    plan: Plan,
}

impl Candidate {
    /// A plan that copies A to the devices first, unless they have it already.
    fn new(plan: Plan, has_a: bool) -> Self {
        let set_up_s = if has_a { plan.set_up.register_s } else { compared_set_up_s(&plan) };
        Self { total_s: plan.predicted_s * plan.repeat as f64 + set_up_s, plan }
    }

    /// Whether a device has a share.
    fn uses(&self, name: &str) -> bool {
        self.plan.devices.iter().any(|device| device.name == name && device.chunks > 0)
    }
}

/// Why candidate `best` does not use some of the devices.
fn left_out(request: &PlanRequest<'_>, tried: &[Candidate], best: usize) -> Vec<String> {
    let Some(taken) = tried.get(best) else { return Vec::new() };
    let mut reasons = Vec::new();
    for device in request.devices.iter().filter(|device| !taken.uses(&device.name)) {
        let with_it = tried.iter().filter(|candidate| candidate.uses(&device.name));
        let Some(with_it) = with_it.min_by(|a, b| a.total_s.total_cmp(&b.total_s)) else { continue };
        let why = match (&device.profile.link, taken.plan.mode) {
            (None, Mode::Resident) => "device memory is many times faster than the host's",
            (None, _) => "it would compete with the copies of A for the host's memory",
            (Some(_), _) if request.repeat <= 1 => "A would be copied to it for 1 product",
            (Some(_), _) => "copying to it takes longer than computing on the CPU",
        };
        reasons.push(format!(
            "not used: {}: with it {} take {}, without it {} (registering and copying A included); {why}",
            device.name,
            Counted(request.repeat.max(1), "product"),
            Seconds(with_it.total_s),
            Seconds(taken.total_s)
        ));
    }
    reasons
}

/// The layouts of A on GPUs to compare, the preferred first. An A that is copied with each product keeps the host's layout, where all
/// values are equal also without them, unless packing it once or another one may pay all the same. Under a memory limit the host's
/// layouts are used, since they are the smallest.
fn layouts(request: &PlanRequest<'_>, mode: Mode) -> Vec<Layouts> {
    let limited = || request.devices.iter().any(|device| device.memory_limit_bytes.is_some());
    let has_gpu = request.devices.iter().any(|device| device.profile.link.is_some());
    let gains = || request.work.gains_from_layouts();
    let copied = mode != Mode::Resident;
    let mut layouts = vec![Layouts::Unchanged];
    match mode {
        Mode::Resident if !limited() => return vec![Layouts::Any],
        _ if !has_gpu || request.kernel.is_some() => return layouts,
        _ => {}
    }
    if request.work.has_equal_values() {
        layouts.push(Layouts::Pattern);
    }
    if copied && may_gain_from_packing(request) {
        layouts.push(Layouts::Packed);
    }
    if copied && gains() {
        layouts.push(Layouts::Any);
    }
    layouts
}

/// The sets of devices to compare: all; where some are not required, also the CPU alone and the GPUs alone.
fn device_sets(devices: &[DeviceSpec]) -> Vec<Vec<DeviceSpec>> {
    let mut sets = vec![devices.to_vec()];
    for with_link in [false, true] {
        let is_kept = |device: &&DeviceSpec| device.required || device.profile.link.is_some() == with_link;
        let set: Vec<DeviceSpec> = devices.iter().filter(is_kept).cloned().collect();
        if !set.is_empty() && !sets.contains(&set) {
            sets.push(set);
        }
    }
    sets
}

#[cfg(test)]
mod tests {
    use super::super::tests::{matrix, request};
    use super::*;
    use crate::kernel::KernelId;
    use crate::work::Work;

    #[test]
    fn an_a_that_is_copied_with_each_product_keeps_its_layout_unless_rows_are_long_and_no_kernel_is_requested()
     {
        let (short, long) = (matrix("stencil5,n=20"), matrix("arrow,rows=9000"));
        let of = |matrix: &crate::matrix::Csr<f64>, kernel, words: &[&str]| {
            let work = Work::spmm(&matrix.view(), 8).unwrap();
            layouts(&PlanRequest { kernel, ..request(work, words) }, Mode::Oneshot)
        };
        assert_eq!(of(&short, None, &["emu"]), [Layouts::Unchanged]);
        assert_eq!(of(&long, None, &["emu"]), [Layouts::Unchanged, Layouts::Any]);
        assert_eq!(of(&long, Some(KernelId::CsrVector), &["emu"]), [Layouts::Unchanged]);
        assert_eq!(of(&long, None, &["cpu"]), [Layouts::Unchanged]);
    }

    #[test]
    fn of_equally_fast_candidates_the_first_is_kept() {
        let matrix = matrix("empty,rows=0");
        let mut request = request(Work::spmm(&matrix.view(), 8).unwrap(), &["cpu", "emu"]);
        for device in &mut request.devices {
            device.required = false;
            device.profile.link.iter_mut().for_each(|link| link.latency_us = 0.0);
        }
        let plan = make(&request).unwrap();
        assert_eq!((plan.predicted_s, compared_set_up_s(&plan)), (0.0, 0.0), "no candidate takes any time");
        let names: Vec<&str> = plan.devices.iter().map(|device| &*device.name).collect();
        assert_eq!(names, ["cpu", "emu:1/0"], "the first candidate has all devices");
    }
}
