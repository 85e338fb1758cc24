//! Plans again between products, once it is seen how long devices take.

use super::session::Session;
use super::sharing::as_seen;
use super::trials::{Trials, only, slow_down};
use crate::error::Result;
use crate::kernel::Processor;
use crate::plan::{Plan, PlanRequest, make};
use crate::runtime::RunReport;

/// A new plan must be predicted to take no more than this share of what the old one took.
const WORTH_CHANGING: f64 = 0.97;
/// Devices by themselves must have taken no more than this share: that was measured.
const WORTH_LEAVING: f64 = 0.99;
/// The same where they had a part in it: what gains as little as this by being shared is not worth it, as whatever else the
/// machine does holds up two kinds of devices instead of one.
const WORTH_SHARING: f64 = 1.03;
/// And what it saves must be so many times what getting ready again costs, where that counts.
const WORTH_PREPARING: f64 = 1.5;

/// What was seen before the products that count.
pub struct Seen<'a> {
    /// The last product.
    pub last: &'a RunReport,
    /// Seconds that products took, in the middle.
    pub seconds: f64,
    /// What devices took by themselves.
    pub trials: Trials,
    /// Seconds that getting ready took.
    pub prepare_s: f64,
    /// Products that are left.
    pub products: u64,
}

/// Another request that should be faster than `plan`, and why, where planning anew should pay. Nothing where something went
/// wrong.
pub fn replanned<'a>(
    session: &Session,
    request: &PlanRequest<'a>,
    plan: &Plan,
    seen: &Seen<'_>,
) -> Result<Option<(PlanRequest<'a>, String)>> {
    let last = seen.last;
    if last.cancelled || !last.faults.is_empty() {
        return Ok(None);
    }
    let busy = plan.devices.iter().filter(|device| device.chunks > 0);
    let busy: Vec<Processor> = busy.map(|device| device.profile.processor).collect();
    let named = request.devices.iter().any(|device| device.required);
    if let Some((kind, alone_s)) = worth_leaving(&seen.trials, seen.seconds, &busy).filter(|_| !named)
        && let Some(mut alone) = only(request, kind)
    {
        let predicted_s = session.pool.install(|| make(&alone))?.predicted_s;
        alone.devices.iter_mut().for_each(|device| slow_down(&mut device.profile, alone_s / predicted_s));
        let who = if kind == Processor::Cpu { "the CPU" } else { "the GPUs" };
        let (together_ms, alone_ms) = (seen.seconds * 1e3, alone_s * 1e3);
        let why =
            format!("planned again: what was planned took {together_ms:.3} ms, {who} alone {alone_ms:.3} ms");
        return Ok(Some((alone, why)));
    }
    // Where devices were timed, they have found their shares.
    let is_open = busy.len() > 1 && seen.trials == Trials::default();
    if is_open { slowed(session, request, plan, seen) } else { Ok(None) }
}

/// The kind of devices that was faster by itself than what was planned took, where others had a part in that, and its seconds.
fn worth_leaving(trials: &Trials, planned_s: f64, busy: &[Processor]) -> Option<(Processor, f64)> {
    let (kind, alone_s) = trials.faster()?;
    let others = busy.iter().any(|&other| other != kind);
    let worth = if busy.contains(&kind) { WORTH_SHARING } else { WORTH_LEAVING };
    (others && alone_s < worth * planned_s).then_some((kind, alone_s))
}

/// The same request for devices as fast as the last product showed them.
fn slowed<'a>(
    session: &Session,
    request: &PlanRequest<'a>,
    plan: &Plan,
    seen: &Seen<'_>,
) -> Result<Option<(PlanRequest<'a>, String)>> {
    let (slowed, words) = as_seen(request, plan, seen.last, seen.seconds);
    let better_s = session.pool.install(|| make(&slowed))?.predicted_s;
    let saved_s = (seen.seconds - better_s) * seen.products as f64;
    let pays = saved_s > WORTH_PREPARING * seen.prepare_s && better_s < WORTH_CHANGING * seen.seconds;
    Ok(pays.then(|| (slowed, format!("planned again: {}", words.join(", ")))))
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOTH: [Processor; 2] = [Processor::Cpu, Processor::Gpu];

    #[test]
    fn the_faster_kind_is_left_alone_only_where_it_beat_what_was_planned() {
        let trials = Trials { cpu_s: Some(4.0), gpu_s: Some(3.0) };
        let gpu_alone = Some((Processor::Gpu, 3.0));
        assert_eq!(worth_leaving(&trials, 2.5, &BOTH), None, "together they are faster");
        assert_eq!(worth_leaving(&trials, 2.95, &BOTH), gpu_alone, "together they are hardly faster");
        assert_eq!(worth_leaving(&trials, 3.01, &[Processor::Cpu]), None, "a hundredth is noise");
        assert_eq!(worth_leaving(&trials, 3.5, &BOTH), gpu_alone);
        assert_eq!(worth_leaving(&trials, 3.5, &[Processor::Gpu]), None, "that is what was planned");
        assert_eq!(worth_leaving(&trials, 3.5, &[Processor::Cpu]), gpu_alone);
    }

    #[test]
    fn nothing_is_left_where_only_one_kind_was_timed() {
        for trials in [Trials::default(), Trials { cpu_s: Some(1.0), gpu_s: None }] {
            assert_eq!(worth_leaving(&trials, 9.0, &BOTH), None);
        }
    }
}
