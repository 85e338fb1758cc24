//! Plans again after the warm-up products, with the measured speed of the devices.

use super::session::Session;
use super::sharing::corrected_by;
use super::trials::{Trials, restricted_to, scale_times};
use crate::error::{Result, Seconds};
use crate::kernel::Processor;
use crate::plan::{Plan, PlanRequest, make};
use crate::runtime::RunReport;

/// A new plan must be predicted to take at most this share of the measured time of the old one.
const REPLAN_MARGIN: f64 = 0.97;
/// Devices of one kind that are not in the plan must have taken at most this share of its time when timed alone.
const ALONE_MARGIN: f64 = 0.99;
/// Devices of one kind that share the plan go on alone where they took at most this multiple of its time: a small gain is not worth
/// the sensitivity to other load on two kinds of devices.
const MIN_SHARING_GAIN: f64 = 1.03;
/// The time saved must be at least this multiple of the time to prepare again.
const PREPARE_MARGIN: f64 = 1.5;

/// Measurements of the warm-up products.
pub struct Observed<'a> {
    /// The report of the last product.
    pub last: &'a RunReport,
    /// The steady-state seconds of a product.
    pub seconds: f64,
    /// The times of devices alone.
    pub trials: Trials,
    /// Seconds of preparing the plan.
    pub prepare_s: f64,
    /// Number of products that remain.
    pub products: u64,
}

/// A request whose plan is predicted faster than `plan`, and the reason; `None` where planning again would not pay or a device
/// failed.
pub fn replanned<'a>(
    session: &Session,
    request: &PlanRequest<'a>,
    plan: &Plan,
    observed: &Observed<'_>,
) -> Result<Option<(PlanRequest<'a>, String)>> {
    let last = observed.last;
    if last.cancelled || !last.faults.is_empty() {
        return Ok(None);
    }
    let busy = plan.devices.iter().filter(|device| device.chunks > 0);
    let busy: Vec<Processor> = busy.map(|device| device.profile.processor).collect();
    let named = request.devices.iter().any(|device| device.required);
    if let Some((kind, alone_s)) = faster_alone(&observed.trials, observed.seconds, &busy).filter(|_| !named)
        && let Some(mut alone) = restricted_to(request, kind)
    {
        let predicted_s = session.pool.install(|| make(&alone))?.predicted_s;
        alone.devices.iter_mut().for_each(|device| scale_times(&mut device.profile, alone_s / predicted_s));
        let who = if kind == Processor::Cpu { "the CPU" } else { "the GPUs" };
        let (planned, alone_time) = (Seconds(observed.seconds), Seconds(alone_s));
        let why = format!(
            "planned again for {who} alone: the first plan took {planned} per product, {who} alone {alone_time}"
        );
        return Ok(Some((alone, why)));
    }
    // After trials the shares are already adjusted.
    let is_open = busy.len() > 1 && observed.trials == Trials::default();
    if is_open { rebalanced(session, request, plan, observed) } else { Ok(None) }
}

/// The kind of devices that was faster alone than the plan, where the plan uses others too, and its seconds.
fn faster_alone(trials: &Trials, planned_s: f64, busy: &[Processor]) -> Option<(Processor, f64)> {
    let (kind, alone_s) = trials.faster()?;
    let others = busy.iter().any(|&other| other != kind);
    let worth = if busy.contains(&kind) { MIN_SHARING_GAIN } else { ALONE_MARGIN };
    (others && alone_s < worth * planned_s).then_some((kind, alone_s))
}

/// The request with the speeds of the devices corrected by the last product, where its plan is faster.
fn rebalanced<'a>(
    session: &Session,
    request: &PlanRequest<'a>,
    plan: &Plan,
    observed: &Observed<'_>,
) -> Result<Option<(PlanRequest<'a>, String)>> {
    let (corrected, words) = corrected_by(request, plan, observed.last, observed.seconds);
    let better_s = session.pool.install(|| make(&corrected))?.predicted_s;
    let saved_s = (observed.seconds - better_s) * observed.products as f64;
    let pays = saved_s > PREPARE_MARGIN * observed.prepare_s && better_s < REPLAN_MARGIN * observed.seconds;
    Ok(pays.then(|| (corrected, format!("planned again with measured speeds: {}", words.join("; ")))))
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOTH: [Processor; 2] = [Processor::Cpu, Processor::Gpu];

    #[test]
    fn one_kind_goes_on_alone_only_where_it_was_faster_than_the_plan() {
        let trials = Trials { cpu_s: Some(4.0), gpu_s: Some(3.0) };
        let gpu_alone = Some((Processor::Gpu, 3.0));
        assert_eq!(faster_alone(&trials, 2.5, &BOTH), None, "together they are faster");
        assert_eq!(faster_alone(&trials, 2.95, &BOTH), gpu_alone, "together they are hardly faster");
        assert_eq!(faster_alone(&trials, 3.01, &[Processor::Cpu]), None, "a difference of 1 % is noise");
        assert_eq!(faster_alone(&trials, 3.5, &BOTH), gpu_alone);
        assert_eq!(faster_alone(&trials, 3.5, &[Processor::Gpu]), None, "the plan uses nothing else");
        assert_eq!(faster_alone(&trials, 3.5, &[Processor::Cpu]), gpu_alone);
    }

    #[test]
    fn both_kinds_must_have_been_timed() {
        for trials in [Trials::default(), Trials { cpu_s: Some(1.0), gpu_s: None }] {
            assert_eq!(faster_alone(&trials, 9.0, &BOTH), None);
        }
    }
}
