//! Times the CPU alone before a product is shared with GPUs: how fast it is on this matrix decides what share it gets, and
//! nothing that is known of other matrices tells as well.

use super::session::Session;
use crate::cost::Correction;
use crate::error::Result;
use crate::kernel::Processor;
use crate::kernel::cpu::Kernels;
use crate::matrix::{CsrView, MultiVector};
use crate::plan::{Plan, PlanRequest, make};
use crate::runtime::{Prepared, Settings, open};
use crate::trace::Clock;

/// Devices that are predicted to differ by more than this factor do not share a product, whatever the prediction is off by.
const ALIKE: f64 = 6.0;
/// Products that are computed to time one; the last counts.
const PRODUCTS: u64 = 2;

/// Seconds of a product on the CPU alone, and `request` corrected by it, where it might share the product with others and the
/// `warmup` products that nobody measures leave room for that. Nothing where it would not help to know.
pub fn time_cpu<'a, T: Kernels>(
    session: &Session,
    matrix: CsrView<'a, T>,
    request: &mut PlanRequest<'a>,
    settings: &Settings,
    clock: Clock,
    (x, y): (&MultiVector<T>, &mut MultiVector<T>),
    warmup: u64,
) -> Result<Option<f64>> {
    let insists = request.cpu_share.is_some() || request.chunks.is_some() || request.kernel.is_some();
    if warmup < PRODUCTS || insists {
        return Ok(None);
    }
    let (Some(alone), Some(others)) = (only(request, Processor::Cpu), only(request, Processor::Gpu)) else {
        return Ok(None);
    };
    let plan = |request: &PlanRequest<'_>| session.pool.install(|| make(request));
    let predicted_s = match (plan(&alone), plan(&others)) {
        (Ok(alone), Ok(others)) if are_alike(&alone, &others) => alone.predicted_s,
        _ => return Ok(None),
    };
    let _span = tracing::info_span!("time the CPU alone").entered();
    let (job, opened) = open(&session.pool, matrix, alone, settings, clock)?;
    let mut prepared = Prepared::new(&session.pool, &job, opened, settings.clone())?;
    let mut measured_s = None;
    let cancel = Some(session.interrupt.flag());
    prepared.repeat(x.view(), y.view_mut(), PRODUCTS, cancel, |_, report| {
        measured_s = (!report.cancelled).then(|| report.seconds());
    })?;
    if let Some(measured_s) = measured_s {
        correct(request, measured_s / predicted_s.max(1e-9));
    }
    Ok(measured_s)
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

/// Makes all kernels of the CPU slower by `factor`.
fn correct(request: &mut PlanRequest<'_>, factor: f64) {
    let on_cpu = request.devices.iter_mut().filter(|device| device.profile.processor == Processor::Cpu);
    for device in on_cpu {
        let known = std::mem::take(&mut device.profile.corrections);
        let before =
            |kernel| known.iter().find(|known| known.kernel == kernel).map_or(1.0, |known| known.factor);
        let kernels = crate::cost::eligible(Processor::Cpu).iter();
        let corrected =
            kernels.map(|&kernel| Correction { kernel, variant: None, factor: before(kernel) * factor });
        device.profile.corrections = corrected.collect();
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
        correct(&mut request, 1.5);
        correct(&mut request, 2.0);
        assert!((alone_s(&request) / before_s - 3.0).abs() < 1e-9, "corrections multiply");
        assert!(rows(&request) < before, "{} rows of {before}", rows(&request));
        assert!(only(&only(&request, Processor::Gpu).unwrap(), Processor::Cpu).is_none());
    }
}
