//! Lets devices share a product for a while before it is measured: beside each other they are not as fast as alone, and shares
//! go to where they are done together.

use super::session::Session;
use super::trials::{Operands, Timed, slow_down, time};
use crate::error::Result;
use crate::graph::DeviceId;
use crate::kernel::cpu::Kernels;
use crate::plan::{Plan, PlanRequest, make};
use crate::runtime::{RunReport, Settings};
use crate::trace::Clock;

/// Plans that are tried, at most.
const ROUNDS: usize = 3;
/// A shared product must take no more than this share of what the faster device takes alone.
const WORTH_SHARING: f64 = 0.95;
/// A change that moves less than this share of the nonzeros is not worth a trial.
const HARDLY_MOVED: f64 = 0.02;
/// How many times faster than it is known to be the host's memory is taken to be at first: whether it holds devices up that
/// share a product is what a trial tells, and it is made only where they would gain otherwise.
const HOPED: f64 = 2.0;
/// By how much the rate of the host's memory is raised at a time.
const RAISED: f64 = 1.05;
/// How many times it may be.
const MOST_RAISES: usize = 60;

/// Corrects `request` by what devices do while they share a product, as long as that makes it faster than the fastest of them
/// was by itself, in `alone_s`, and then faster than before.
pub fn share<'a, T: Kernels>(
    session: &Session,
    request: &mut PlanRequest<'a>,
    settings: &Settings,
    clock: Clock,
    operands: &mut Operands<'a, '_, T>,
    alone_s: f64,
) -> Result<()> {
    let plan = |request: &PlanRequest<'_>| session.pool.install(|| make(request));
    let (mut candidate, mut best_s, mut best) = (request.clone(), WORTH_SHARING * alone_s, None);
    candidate.host.memory_gb_per_s *= HOPED;
    for _ in 0..ROUNDS {
        let planned = plan(&candidate)?;
        if !is_shared(&planned) {
            break;
        }
        let _span = tracing::info_span!("time all devices together").entered();
        let timed = time(session, candidate.clone(), settings, clock, operands, planned.predicted_s)?;
        let Some(Timed { seconds, last, plan: done }) = timed.filter(|timed| timed.seconds < best_s) else {
            break;
        };
        let (seen, _) = as_seen(&candidate, &done, &last, seconds);
        if moved(&done, &plan(&seen)?) < HARDLY_MOVED {
            *request = seen;
            return Ok(());
        }
        (best_s, best) = (seconds, Some((candidate, seconds / done.predicted_s)));
        candidate = seen;
    }
    // All of them slowed down alike have the same shares, and take what they took.
    if let Some((best, ratio)) = best {
        *request = best;
        request.devices.iter_mut().for_each(|device| slow_down(&mut device.profile, ratio));
    }
    Ok(())
}

/// The same request for devices as fast as the last product of `plan`, of which most took that long, showed them, and in words
/// how fast.
pub fn as_seen<'a>(
    request: &PlanRequest<'a>,
    plan: &Plan,
    last: &RunReport,
    seconds: f64,
) -> (PlanRequest<'a>, Vec<String>) {
    let (mut seen, mut words) = (request.clone(), Vec::new());
    // Whatever held up this very product held up all of them.
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
        for spec in seen.devices.iter_mut().filter(|spec| spec.name == device.name) {
            slow_down(&mut spec.profile, ratio);
        }
        words.push(format!("{} took {ratio:.2} times what was predicted", device.name));
    }
    // It was seen to move all of this in that time.
    let mut raises = 0..MOST_RAISES;
    while plan.memory_s(&seen.host) > seconds && raises.next().is_some() {
        seen.host.memory_gb_per_s *= RAISED;
    }
    (seen, words)
}

/// Whether the host and others have a part in it.
fn is_shared(plan: &Plan) -> bool {
    let on_host = |device: u32| device == DeviceId::HOST.0;
    let mut homes = plan.chunks.iter().map(|chunk| chunk.home);
    homes.any(on_host) && plan.chunks.iter().any(|chunk| !on_host(chunk.home))
}

/// The share of the nonzeros that one plan gives to others than the other does.
fn moved(one: &Plan, other: &Plan) -> f64 {
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

    /// A request to share a product between a CPU and a GPU, through whose link A has to go each time.
    fn shared(matrix: &Csr<f64>) -> PlanRequest<'_> {
        let mut machine = preset("h200").unwrap();
        slow_down(&mut machine.cpu, 3.0);
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
    fn devices_that_took_as_long_as_predicted_keep_their_shares_and_a_slower_one_gets_less() {
        let matrix = stencil();
        let request = shared(&matrix);
        let plan = make(&request).unwrap();
        assert!(is_shared(&plan));
        // The plan comes true in virtual time, but for what the GPU's first and last chunks overlap.
        let last = Simulated::new(&plan).unwrap().run().unwrap();
        let (same, words) = as_seen(&request, &plan, &last, last.seconds());
        let again = make(&same).unwrap();
        assert!(moved(&plan, &again) < 0.1, "{words:?}");
        assert!((again.predicted_s / last.seconds() - 1.0).abs() < 0.15, "{words:?}");
        // This very product was a lucky one.
        let (usual, words) = as_seen(&request, &plan, &last, 2.0 * last.seconds());
        let usual_s = make(&usual).unwrap().predicted_s;
        assert!((usual_s / again.predicted_s - 2.0).abs() < 0.2, "{words:?}");

        let mut faster = request.clone();
        slow_down(&mut faster.devices[0].profile, 0.5);
        let hoped = make(&faster).unwrap();
        let rows = |plan: &Plan| plan.devices[0].rows;
        assert!(rows(&hoped) > rows(&plan));
        let mut as_it_is = hoped.clone();
        as_it_is.devices[0].profile = plan.devices[0].profile.clone();
        let last = Simulated::new(&as_it_is).unwrap().run().unwrap();
        let (seen, words) = as_seen(&faster, &hoped, &last, last.seconds());
        let mended = make(&seen).unwrap();
        assert!(rows(&mended) < rows(&hoped), "{words:?}");
        assert!(moved(&plan, &mended) < moved(&plan, &hoped), "{words:?}");
    }

    #[test]
    fn memory_that_was_seen_to_move_more_is_taken_to_be_that_fast() {
        let matrix = stencil();
        let request = shared(&matrix);
        let plan = make(&request).unwrap();
        let last = Simulated::new(&plan).unwrap().run().unwrap();
        let (calm, _) = as_seen(&request, &plan, &last, 10.0);
        assert_eq!(calm.host, request.host, "a long product tells nothing of memory");
        // Part of what a CPU moves is known only as a share of its time.
        let less_s = 0.9 * plan.memory_s(&request.host);
        let (busy, _) = as_seen(&request, &plan, &last, less_s);
        assert!(busy.host.memory_gb_per_s > request.host.memory_gb_per_s);
        assert!(plan.memory_s(&busy.host) <= less_s);
    }

    #[test]
    fn half_of_what_differs_has_moved() {
        let matrix = stencil();
        let mut request = shared(&matrix);
        let with_share = |request: &mut PlanRequest<'_>, share| {
            request.cpu_share = Some(share);
            make(request).unwrap()
        };
        let (quarter, half) = (with_share(&mut request, 0.25), with_share(&mut request, 0.5));
        assert!((moved(&quarter, &half) - 0.25).abs() < 0.02);
        assert_eq!(moved(&half, &half), 0.0);
        request.devices.iter_mut().for_each(|device| device.required = false);
        for share in [0.0, 1.0] {
            assert!(!is_shared(&with_share(&mut request, share)));
        }
    }
}
