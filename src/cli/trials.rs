//! Times the CPU alone and the GPUs alone before they share a product: how fast each is on this matrix decides what share it
//! gets, and whether sharing pays at all. Nothing that is known of other matrices tells as well.

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

/// Devices that are predicted to differ by more than this factor do not share a product, whatever the prediction is off by.
const ALIKE: f64 = 6.0;
/// Seconds that a trial takes, about: for the first tenth of a second a CPU that was idle is slower than ever after.
const TRIAL_S: f64 = 0.15;
/// Products of a trial that fit, at most.
const MOST_PRODUCTS: u64 = 150;
/// The same at least, unless they take long.
const PRODUCTS: u64 = 7;
/// Seconds that those may take.
const LONG_TRIAL_S: f64 = 0.3;
/// The fewest: the first finds nothing in the caches, and does not count.
const FEWEST_PRODUCTS: u64 = 2;
/// How many times what devices take together the CPU alone may take to be timed once more.
const HARDLY_LESS: f64 = 1.4;

/// Seconds of a product on the devices of one kind alone, where that was timed.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Trials {
    /// On the CPU.
    pub cpu_s: Option<f64>,
    /// On all GPUs.
    pub gpu_s: Option<f64>,
}

/// A product that was timed.
pub struct Timed {
    /// Seconds it took, once it took no less than before.
    pub seconds: f64,
    /// The last time it was computed.
    pub last: RunReport,
    /// How.
    pub plan: Plan,
}

/// How many products tell how long one takes that is predicted to take that long.
pub fn products(predicted_s: f64) -> u64 {
    let within = |seconds: f64| (seconds / predicted_s.max(1e-9)) as u64;
    let some = within(LONG_TRIAL_S).clamp(FEWEST_PRODUCTS, PRODUCTS);
    within(TRIAL_S).clamp(some, MOST_PRODUCTS)
}

/// What products take in the end, of all that were timed: in the middle of the later half.
pub fn in_the_end(seconds: &[f64]) -> Option<f64> {
    Times::new(&seconds[seconds.len() / 2..]).median
}

impl Trials {
    /// The kind of devices that was faster by itself, and its seconds.
    pub fn faster(&self) -> Option<(Processor, f64)> {
        let (cpu_s, gpu_s) = (self.cpu_s?, self.gpu_s?);
        Some(if cpu_s <= gpu_s { (Processor::Cpu, cpu_s) } else { (Processor::Gpu, gpu_s) })
    }
}

/// What a product is computed with.
pub struct Operands<'a, 'b, T: Kernels> {
    /// A.
    pub matrix: CsrView<'a, T>,
    /// X.
    pub x: &'b MultiVector<T>,
    /// Where Y goes.
    pub y: &'b mut MultiVector<T>,
}

/// Times both kinds of devices, and corrects `request` by what was seen, where they might share the product and the `warmup`
/// products that nobody measures leave room for that.
pub fn trials<'a, T: Kernels>(
    session: &Session,
    request: &mut PlanRequest<'a>,
    settings: &Settings,
    clock: Clock,
    operands: &mut Operands<'a, '_, T>,
    warmup: u64,
) -> Result<Trials> {
    let insists = request.cpu_share.is_some() || request.chunks.is_some() || request.kernel.is_some();
    let (Some(cpu), Some(gpu)) = (only(request, Processor::Cpu), only(request, Processor::Gpu)) else {
        return Ok(Trials::default());
    };
    if warmup < FEWEST_PRODUCTS || insists {
        return Ok(Trials::default());
    }
    let plan = |request: &PlanRequest<'_>| session.pool.install(|| make(request));
    let (cpu_plan, gpu_plan) = match (plan(&cpu), plan(&gpu)) {
        (Ok(cpu), Ok(gpu)) if are_alike(&cpu, &gpu) => (cpu, gpu),
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
        // A device that fails here fails again where somebody makes up for it.
        time(gpu, gpu_plan.predicted_s).unwrap_or_else(|error: Error| {
            tracing::warn!(%error, "the GPUs are not timed alone");
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
            slow_down(&mut device.profile, ratio);
        }
    }
    Ok(Trials { cpu_s, gpu_s })
}

/// Times the CPU once more, now that it has been busy for a while, where what was planned instead took `together_s`, hardly
/// less than the CPU took at first: the first products on a machine may take half as long again as all later ones.
pub fn cpu_once_more<'a, T: Kernels>(
    session: &Session,
    request: &PlanRequest<'a>,
    settings: &Settings,
    clock: Clock,
    operands: &mut Operands<'a, '_, T>,
    tried: Trials,
    together_s: f64,
) -> Result<Trials> {
    let (Some(cpu), Some(first_s)) = (only(request, Processor::Cpu), tried.cpu_s) else { return Ok(tried) };
    if first_s > HARDLY_LESS * together_s {
        return Ok(tried);
    }
    let _span = tracing::info_span!("time the CPU alone once more").entered();
    let again = time(session, cpu, settings, clock, operands, first_s)?;
    Ok(Trials { cpu_s: Some(again.map_or(first_s, |again| again.seconds.min(first_s))), ..tried })
}

/// Times a product that is predicted to take that long as `request` wants it; nothing where something went wrong.
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
    prepared.repeat(x, y, products(predicted_s), cancel, |run, report| {
        if run > 0 && !report.cancelled && report.faults.is_empty() {
            seconds.push(report.seconds());
            last = Some(report);
        }
    })?;
    let timed = in_the_end(&seconds).zip(last);
    Ok(timed.map(|(seconds, last)| Timed { seconds, last, plan: job.plan().clone() }))
}

/// The same request to the devices of one kind; nothing where there are none.
pub fn only<'a>(request: &PlanRequest<'a>, processor: Processor) -> Option<PlanRequest<'a>> {
    let mut only = request.clone();
    only.devices.retain(|device| device.profile.processor == processor);
    if processor == Processor::Cpu {
        only.mode = None;
    }
    (!only.devices.is_empty()).then_some(only)
}

fn are_alike(one: &Plan, other: &Plan) -> bool {
    let ratio = one.predicted_s / other.predicted_s.max(1e-12);
    (1.0 / ALIKE..=ALIKE).contains(&ratio)
}

/// Makes a device slower by a factor: a CPU in all its kernels, a GPU in everything.
pub fn slow_down(profile: &mut Profile, factor: f64) {
    match profile.processor {
        Processor::Gpu => *profile = profile.slowed(factor),
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
    fn short_products_are_tried_often_and_long_ones_twice() {
        let predicted_s = [0.0, 1e-6, 0.002, 0.01, 0.04, 0.09, 10.0, f64::INFINITY];
        assert_eq!(predicted_s.map(products), [150, 150, 75, 15, 7, 3, 2, 2]);
    }

    #[test]
    fn a_cpu_that_was_seen_to_be_slower_is_predicted_to_be_and_gets_less() {
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
            let alone = only(request, Processor::Cpu).unwrap();
            assert!(alone.devices.len() == 1 && alone.mode.is_none());
            make(&alone).unwrap().predicted_s
        };
        let rows = |request: &PlanRequest<'_>| {
            let plan = make(request).unwrap();
            plan.devices.iter().find(|device| device.name == "cpu").map_or(0, |device| device.rows)
        };
        let (before_s, before) = (alone_s(&request), rows(&request));
        slow_down(&mut request.devices[0].profile, 1.5);
        slow_down(&mut request.devices[0].profile, 2.0);
        assert!((alone_s(&request) / before_s - 3.0).abs() < 1e-9, "corrections multiply");
        assert!(rows(&request) < before, "{} rows of {before}", rows(&request));
        assert!(only(&only(&request, Processor::Gpu).unwrap(), Processor::Cpu).is_none());
    }
}
