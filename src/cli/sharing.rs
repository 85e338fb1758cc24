//! Finds the shares of devices by running shared products before the measured ones: devices that run together are slower than alone,
//! and the shares are adjusted until they finish together.

use super::session::Session;
use super::trials::{Operands, Timed, scale_times, time};
use crate::error::{Result, Seconds};
use crate::graph::DeviceId;
use crate::kernel::cpu::Kernels;
use crate::plan::{Plan, PlanRequest, make};
use crate::runtime::{RunReport, Settings};
use crate::trace::Clock;

/// Largest number of plans to try.
const MAX_ROUNDS: usize = 3;
/// A shared product must take at most this share of the time of the faster device alone.
const SHARING_MARGIN: f64 = 0.95;
/// A new plan is tried only if it moves at least this share of the nonzeros.
const MIN_MOVED_SHARE: f64 = 0.02;
/// Factor on the bandwidth of the host's memory in the first trial: the trial measures whether that memory is the limit, so the plan
/// must not assume it.
const FIRST_TRIAL_BANDWIDTH_FACTOR: f64 = 2.0;
/// Step by which the bandwidth of the host's memory is raised to match a measurement.
const BANDWIDTH_STEP: f64 = 1.05;
/// Largest number of steps.
const MAX_BANDWIDTH_STEPS: usize = 60;

/// Corrects `request` by measurements of shared products, as long as each is faster than the best before it and than `alone_s`, the
/// time of the fastest kind of devices alone.
pub fn adjust_shares<'a, T: Kernels>(
    session: &Session,
    request: &mut PlanRequest<'a>,
    settings: &Settings,
    clock: Clock,
    operands: &mut Operands<'a, '_, T>,
    alone_s: f64,
) -> Result<()> {
    let plan = |request: &PlanRequest<'_>| session.pool.install(|| make(request));
    let (mut candidate, mut best_s, mut best) = (request.clone(), SHARING_MARGIN * alone_s, None);
    candidate.host.memory_gb_per_s *= FIRST_TRIAL_BANDWIDTH_FACTOR;
    for _ in 0..MAX_ROUNDS {
        let planned = plan(&candidate)?;
        if !is_shared(&planned) {
            break;
        }
        let _span = tracing::info_span!("time all devices together").entered();
        let timed = time(session, candidate.clone(), settings, clock, operands, planned.predicted_s)?;
        let Some(Timed { seconds, last, plan: done }) = timed.filter(|timed| timed.seconds < best_s) else {
            break;
        };
        let (corrected, _) = corrected_by(&candidate, &done, &last, seconds);
        if moved_share(&done, &plan(&corrected)?) < MIN_MOVED_SHARE {
            *request = corrected;
            return Ok(());
        }
        (best_s, best) = (seconds, Some((candidate, seconds / done.predicted_s)));
        candidate = corrected;
    }
    // Scaling all devices by the same factor keeps the shares and makes the prediction match the measurement.
    if let Some((best, ratio)) = best {
        *request = best;
        request.devices.iter_mut().for_each(|device| scale_times(&mut device.profile, ratio));
    }
    Ok(())
}

/// The request with the speeds of the devices corrected by the last product of `plan`, and the corrections in words. `seconds` is the
/// steady-state time of that product.
pub fn corrected_by<'a>(
    request: &PlanRequest<'a>,
    plan: &Plan,
    last: &RunReport,
    seconds: f64,
) -> (PlanRequest<'a>, Vec<String>) {
    let (mut corrected, mut words) = (request.clone(), Vec::new());
    // The last product may have been slower or faster than usual, on all devices.
    let usual = seconds / last.seconds();
    let computed: Vec<_> = last.computed().collect();
    for (index, device) in plan.devices.iter().enumerate() {
        let id = DeviceId(index as u32);
        let own = computed.iter().filter(|done| done.device == id);
        let took_s = match device.profile.link {
            Some(_) => last.finish_s(id),
            None => own.clone().map(|done| done.ns as f64 * 1e-9).sum(),
        };
        let ratio = usual * took_s / plan.finish_s(id.0, own.map(|done| done.chunk));
        if !(ratio.is_finite() && ratio > 0.0) {
            continue;
        }
        for spec in corrected.devices.iter_mut().filter(|spec| spec.name == device.name) {
            scale_times(&mut spec.profile, ratio);
        }
        let (predicted, measured) = (Seconds(usual * took_s / ratio), Seconds(usual * took_s));
        words.push(format!("{} predicted {predicted}, measured {measured}", device.name));
    }
    // The memory moved these bytes in the measured time, so it is at least that fast.
    let mut steps = 0..MAX_BANDWIDTH_STEPS;
    while plan.memory_s(&corrected.host) > seconds && steps.next().is_some() {
        corrected.host.memory_gb_per_s *= BANDWIDTH_STEP;
    }
    (corrected, words)
}

/// Whether the host and at least one other device have chunks.
fn is_shared(plan: &Plan) -> bool {
    let on_host = |device: u32| device == DeviceId::HOST.0;
    let mut homes = plan.chunks.iter().map(|chunk| chunk.home);
    homes.any(on_host) && plan.chunks.iter().any(|chunk| !on_host(chunk.home))
}

/// The share of the nonzeros that two plans give to different devices.
fn moved_share(one: &Plan, other: &Plan) -> f64 {
    let all = one.devices.iter().map(|device| device.nnz).sum::<u64>().max(1) as f64;
    let of = |device: &str| other.devices.iter().find(|other| other.name == device).map_or(0, |on| on.nnz);
    let differ = one.devices.iter().map(|device| device.nnz.abs_diff(of(&device.name)));
    differ.sum::<u64>() as f64 / (2.0 * all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::preset;
    use crate::matrix::{Csr, generate};
    use crate::plan::{DeviceSpec, Mode};
    use crate::runtime::Simulated;
    use crate::work::Work;

    fn stencil() -> Csr<f64> {
        generate("stencil27,n=60", 1, 1 << 30).unwrap().matrix
    }

    /// A request for a one-shot product on a CPU and a GPU.
    fn shared(matrix: &Csr<f64>) -> PlanRequest<'_> {
        let mut machine = preset("h200").unwrap();
        scale_times(&mut machine.cpu, 3.0);
        let devices = vec![
            DeviceSpec::new("cpu", machine.cpu.clone()),
            DeviceSpec::new("sim:h200/0", machine.gpus[0].clone()),
        ];
        let work = Work::spmm(&matrix.view(), 8).unwrap();
        let mut request = PlanRequest::new(work, devices, machine.host.clone());
        (request.mode, request.repeat) = (Some(Mode::Oneshot), 1000);
        request
    }

    #[test]
    fn correct_predictions_keep_the_shares_and_a_slower_device_gets_less() {
        let matrix = stencil();
        let request = shared(&matrix);
        let plan = make(&request).unwrap();
        assert!(is_shared(&plan));
        // Virtual time matches the prediction, apart from pipeline fill and drain.
        let last = Simulated::new(&plan).unwrap().run().unwrap();
        let (same, words) = corrected_by(&request, &plan, &last, last.seconds());
        let again = make(&same).unwrap();
        assert!(moved_share(&plan, &again) < 0.1, "{words:?}");
        assert!((again.predicted_s / last.seconds() - 1.0).abs() < 0.15, "{words:?}");
        // The last product was twice as fast as usual.
        let (usual, words) = corrected_by(&request, &plan, &last, 2.0 * last.seconds());
        let usual_s = make(&usual).unwrap().predicted_s;
        assert!((usual_s / again.predicted_s - 2.0).abs() < 0.2, "{words:?}");

        let mut faster = request.clone();
        scale_times(&mut faster.devices[0].profile, 0.5);
        let optimistic = make(&faster).unwrap();
        let rows = |plan: &Plan| plan.devices[0].rows;
        assert!(rows(&optimistic) > rows(&plan));
        let mut actual = optimistic.clone();
        actual.devices[0].profile = plan.devices[0].profile.clone();
        let last = Simulated::new(&actual).unwrap().run().unwrap();
        let (corrected, words) = corrected_by(&faster, &optimistic, &last, last.seconds());
        let mended = make(&corrected).unwrap();
        assert!(rows(&mended) < rows(&optimistic), "{words:?}");
        assert!(moved_share(&plan, &mended) < moved_share(&plan, &optimistic), "{words:?}");
    }

    #[test]
    fn a_measured_bandwidth_above_the_assumed_one_raises_it() {
        let matrix = stencil();
        let request = shared(&matrix);
        let plan = make(&request).unwrap();
        let last = Simulated::new(&plan).unwrap().run().unwrap();
        let (calm, _) = corrected_by(&request, &plan, &last, 10.0);
        assert_eq!(calm.host, request.host, "a long product gives no bound on the bandwidth");
        // Part of the CPU's traffic is modelled as a share of its time.
        let less_s = 0.9 * plan.memory_s(&request.host);
        let (busy, _) = corrected_by(&request, &plan, &last, less_s);
        assert!(busy.host.memory_gb_per_s > request.host.memory_gb_per_s);
        assert!(plan.memory_s(&busy.host) <= less_s);
    }

    #[test]
    fn moved_nonzeros_are_counted_once() {
        let matrix = stencil();
        let mut request = shared(&matrix);
        let with_share = |request: &mut PlanRequest<'_>, share| {
            request.cpu_share = Some(share);
            make(request).unwrap()
        };
        let (quarter, half) = (with_share(&mut request, 0.25), with_share(&mut request, 0.5));
        assert!((moved_share(&quarter, &half) - 0.25).abs() < 0.02);
        assert_eq!(moved_share(&half, &half), 0.0);
        request.devices.iter_mut().for_each(|device| device.required = false);
        for share in [0.0, 1.0] {
            assert!(!is_shared(&with_share(&mut request, share)));
        }
    }
}
