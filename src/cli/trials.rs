//! Trials: times the CPU alone and the GPUs alone before they share a product. Their speed on this matrix decides the shares, and
//! whether sharing pays; it predicts both better than the cost model.

use super::session::Session;
use crate::cost::{Correction, Profile};
use crate::error::{Error, Result};
use crate::kernel::Processor;
use crate::kernel::cpu::Kernels;
use crate::matrix::{CsrView, MultiVector};
use crate::plan::{Plan, PlanRequest, make};
use crate::runtime::{Prepared, RunReport, Settings, open};
use crate::study::Times;
use crate::trace::Clock;

/// Devices whose predicted times differ by more than this factor are not timed: sharing would not pay even if the prediction were
/// wrong.
const MAX_SPEED_RATIO: f64 = 6.0;
/// Duration of a trial: an idle CPU needs about a tenth of a second to reach its full clock.
const TRIAL_SECONDS: f64 = 0.15;
/// Largest number of products of a trial.
const MAX_PRODUCTS: u64 = 150;
/// Smallest number of products of a trial that fit in `LONG_TRIAL_SECONDS`.
const WANTED_PRODUCTS: u64 = 7;
/// Longest duration of a trial for the sake of `WANTED_PRODUCTS`.
const LONG_TRIAL_SECONDS: f64 = 0.3;
/// Smallest number of products of any trial: the first runs with cold caches and does not count.
const MIN_PRODUCTS: u64 = 2;
/// The CPU is timed again if its first time is at most this multiple of the time of the shared product.
const RETIME_RATIO: f64 = 1.4;

/// Measured seconds of a product on the devices of one kind alone; `None` where not timed.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Trials {
    /// On the CPU.
    pub cpu_s: Option<f64>,
    /// On all GPUs.
    pub gpu_s: Option<f64>,
}

/// A timed product.
pub struct Timed {
    /// Its seconds in the steady state.
    pub seconds: f64,
    /// The report of the last product.
    pub last: RunReport,
    /// Its plan.
    pub plan: Plan,
}

/// The number of products of a trial whose products are predicted to take `predicted_s`.
pub fn trial_products(predicted_s: f64) -> u64 {
    let within = |seconds: f64| (seconds / predicted_s.max(1e-9)) as u64;
    let least = within(LONG_TRIAL_SECONDS).clamp(MIN_PRODUCTS, WANTED_PRODUCTS);
    within(TRIAL_SECONDS).clamp(least, MAX_PRODUCTS)
}

/// The steady-state time: the median of the later half of the measured products.
pub fn steady_state_median(seconds: &[f64]) -> Option<f64> {
    Times::new(&seconds[seconds.len() / 2..]).median
}

impl Trials {
    /// The kind of devices that was faster alone, and its seconds.
    pub fn faster(&self) -> Option<(Processor, f64)> {
        let (cpu_s, gpu_s) = (self.cpu_s?, self.gpu_s?);
        Some(if cpu_s <= gpu_s { (Processor::Cpu, cpu_s) } else { (Processor::Gpu, gpu_s) })
    }
}

/// The operands of a product.
pub struct Operands<'a, 'b, T: Kernels> {
    /// A.
    pub matrix: CsrView<'a, T>,
    /// X.
    pub x: &'b MultiVector<T>,
    /// Y.
    pub y: &'b mut MultiVector<T>,
}

/// Times both kinds of devices and corrects `request` by the measured times, where they could share the product and there are
/// enough `warmup` products.
pub fn trials<'a, T: Kernels>(
    session: &Session,
    request: &mut PlanRequest<'a>,
    settings: &Settings,
    clock: Clock,
    operands: &mut Operands<'a, '_, T>,
    warmup: u64,
) -> Result<Trials> {
    let is_fixed = request.cpu_share.is_some() || request.chunks.is_some() || request.kernel.is_some();
    let (Some(cpu), Some(gpu)) =
        (restricted_to(request, Processor::Cpu), restricted_to(request, Processor::Gpu))
    else {
        return Ok(Trials::default());
    };
    if warmup < MIN_PRODUCTS || is_fixed {
        return Ok(Trials::default());
    }
    let plan = |request: &PlanRequest<'_>| session.pool.install(|| make(request));
    let (cpu_plan, gpu_plan) = match (plan(&cpu), plan(&gpu)) {
        (Ok(cpu), Ok(gpu)) if have_similar_speed(&cpu, &gpu) => (cpu, gpu),
        _ => return Ok(Trials::default()),
    };
    let mut time = |request, predicted_s| {
        let timed = time(session, request, settings, clock, operands, predicted_s);
        timed.map(|timed| timed.map(|timed| timed.seconds))
    };
    let cpu_s = {
        let _span = tracing::info_span!("time the CPU alone").entered();
        time(cpu, cpu_plan.predicted_s)?
    };
    let gpu_s = {
        let _span = tracing::info_span!("time the GPUs alone").entered();
        // A device that fails here fails again in the product, where another device takes over.
        time(gpu, gpu_plan.predicted_s).unwrap_or_else(|error: Error| {
            tracing::warn!(%error, "the GPUs could not be timed alone");
            None
        })
    };
    let ratio = |measured_s: Option<f64>, plan: &Plan| measured_s.map(|s| s / plan.predicted_s.max(1e-9));
    for device in &mut request.devices {
        let (seconds, alone) = match device.profile.processor {
            Processor::Cpu => (cpu_s, &cpu_plan),
            Processor::Gpu => (gpu_s, &gpu_plan),
        };
        if let Some(ratio) = ratio(seconds, alone) {
            scale_times(&mut device.profile, ratio);
        }
    }
    Ok(Trials { cpu_s, gpu_s })
}

/// Times the CPU again, after it has been busy for a while, where the shared product took `together_s`, little less than the CPU
/// alone at first: the first products on a machine may take 1.5 times as long as later ones.
pub fn retime_cpu<'a, T: Kernels>(
    session: &Session,
    request: &PlanRequest<'a>,
    settings: &Settings,
    clock: Clock,
    operands: &mut Operands<'a, '_, T>,
    tried: Trials,
    together_s: f64,
) -> Result<Trials> {
    let (Some(cpu), Some(first_s)) = (restricted_to(request, Processor::Cpu), tried.cpu_s) else {
        return Ok(tried);
    };
    if first_s > RETIME_RATIO * together_s {
        return Ok(tried);
    }
    let _span = tracing::info_span!("time the CPU alone again").entered();
    let again = time(session, cpu, settings, clock, operands, first_s)?;
    Ok(Trials { cpu_s: Some(again.map_or(first_s, |again| again.seconds.min(first_s))), ..tried })
}

/// Times the product of `request`; `None` where a device failed or the run was cancelled.
pub fn time<'a, T: Kernels>(
    session: &Session,
    request: PlanRequest<'a>,
    settings: &Settings,
    clock: Clock,
    operands: &mut Operands<'a, '_, T>,
    predicted_s: f64,
) -> Result<Option<Timed>> {
    let (job, opened) = open(&session.pool, operands.matrix, request, settings, clock)?;
    let mut prepared = Prepared::new(&session.pool, &job, opened, settings.clone())?;
    let (mut seconds, mut last, cancel) = (Vec::new(), None, Some(session.interrupt.flag()));
    let (x, y) = (operands.x.view(), operands.y.view_mut());
    prepared.repeat(x, y, trial_products(predicted_s), cancel, |run, report| {
        if run > 0 && !report.cancelled && report.faults.is_empty() {
            seconds.push(report.seconds());
            last = Some(report);
        }
    })?;
    let timed = steady_state_median(&seconds).zip(last);
    Ok(timed.map(|(seconds, last)| Timed { seconds, last, plan: job.plan().clone() }))
}

/// The request restricted to the devices of one kind; `None` where there are none.
pub fn restricted_to<'a>(request: &PlanRequest<'a>, processor: Processor) -> Option<PlanRequest<'a>> {
    let mut restricted = request.clone();
    restricted.devices.retain(|device| device.profile.processor == processor);
    if processor == Processor::Cpu {
        restricted.mode = None;
    }
    (!restricted.devices.is_empty()).then_some(restricted)
}

fn have_similar_speed(one: &Plan, other: &Plan) -> bool {
    let ratio = one.predicted_s / other.predicted_s.max(1e-12);
    (1.0 / MAX_SPEED_RATIO..=MAX_SPEED_RATIO).contains(&ratio)
}

/// Multiplies the predicted times of a device by a factor: all kernels of a CPU, kernels and copies of a GPU. Below 1 it is faster.
pub fn scale_times(profile: &mut Profile, factor: f64) {
    match profile.processor {
        Processor::Gpu => *profile = profile.scaled(factor),
        Processor::Cpu => {
            let known = std::mem::take(&mut profile.corrections);
            let before =
                |kernel| known.iter().find(|known| known.kernel == kernel).map_or(1.0, |known| known.factor);
            let kernels = crate::cost::eligible(Processor::Cpu).iter();
            let corrected =
                kernels.map(|&kernel| Correction { kernel, variant: None, factor: before(kernel) * factor });
            profile.corrections = corrected.collect();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::preset;
    use crate::matrix::{Csr, generate};
    use crate::plan::{DeviceSpec, Mode};
    use crate::work::Work;

    #[test]
    fn trials_have_many_short_products_or_two_long_ones() {
        let predicted_s = [0.0, 1e-6, 0.002, 0.01, 0.04, 0.09, 10.0, f64::INFINITY];
        assert_eq!(predicted_s.map(trial_products), [150, 150, 75, 15, 7, 3, 2, 2]);
    }

    #[test]
    fn a_cpu_that_measured_slower_gets_a_smaller_share() {
        let matrix: Csr<f64> = generate("stencil27,n=40", 1, 1 << 30).unwrap().matrix;
        let work = Work::spmm(&matrix.view(), 8).unwrap();
        let machine = preset("h200").unwrap();
        let auto = |name: &str, profile: &crate::cost::Profile| DeviceSpec {
            required: false,
            ..DeviceSpec::new(name, profile.clone())
        };
        let devices = vec![auto("cpu", &machine.cpu), auto("sim:h200/0", &machine.gpus[0])];
        let mut request = PlanRequest::new(work, devices, machine.host.clone());
        (request.mode, request.repeat) = (Some(Mode::Oneshot), 1000);
        let alone_s = |request: &PlanRequest<'_>| {
            let alone = restricted_to(request, Processor::Cpu).unwrap();
            assert!(alone.devices.len() == 1 && alone.mode.is_none());
            make(&alone).unwrap().predicted_s
        };
        let rows = |request: &PlanRequest<'_>| {
            let plan = make(request).unwrap();
            plan.devices.iter().find(|device| device.name == "cpu").map_or(0, |device| device.rows)
        };
        let (before_s, before) = (alone_s(&request), rows(&request));
        scale_times(&mut request.devices[0].profile, 1.5);
        scale_times(&mut request.devices[0].profile, 2.0);
        assert!((alone_s(&request) / before_s - 3.0).abs() < 1e-9, "corrections multiply");
        assert!(rows(&request) < before, "{} rows of {before}", rows(&request));
        assert!(restricted_to(&restricted_to(&request, Processor::Gpu).unwrap(), Processor::Cpu).is_none());
    }
}
