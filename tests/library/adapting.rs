//! Shares and rates follow measured times. The times are those of simulated devices.

use rowloom::Runtime;
use rowloom::internal::adapt::{corrected_by, is_shared, moved_share, scale_times};
use rowloom::internal::cost::preset;
use rowloom::internal::kernel::{KernelId, Processor};
use rowloom::internal::matrix::{Csr, generate};
use rowloom::internal::plan::{DeviceSpec, Mode, Plan, PlanRequest, make};
use rowloom::internal::runtime::{ProductOptions, RunReport, Simulated};
use rowloom::internal::work::Work;

fn stencil() -> Csr<f64> {
    generate("stencil27,n=60", 1, 1 << 30).unwrap().matrix
}

/// A request for a one-shot product on a CPU and a GPU.
fn shared(matrix: &Csr<f64>) -> PlanRequest<'_> {
    let mut machine = preset("h200").unwrap();
    let work = Work::spmm(&matrix.view(), 8).unwrap();
    scale_times(&mut machine.cpu, work.kernels(Processor::Cpu), 3.0);
    let devices = vec![
        DeviceSpec::new("cpu", machine.cpu.clone()),
        DeviceSpec::new("sim:h200/0", machine.gpus[0].clone()),
    ];
    let mut request = PlanRequest::new(work, devices, machine.host.clone());
    (request.mode, request.repeat) = (Some(Mode::Oneshot), 1000);
    request
}

fn simulated(plan: &Plan) -> RunReport {
    Simulated::new(plan).unwrap().run().unwrap()
}

/// The request corrected by a product, and the corrections in words.
fn corrected<'a>(
    request: &PlanRequest<'a>,
    plan: &Plan,
    last: &RunReport,
    steady_state_s: f64,
) -> (PlanRequest<'a>, Vec<String>) {
    corrected_by(request, plan, &last.observation(plan.devices.len(), steady_state_s))
}

#[test]
fn correct_predictions_keep_the_shares_and_a_slower_device_gets_less() {
    let matrix = stencil();
    let request = shared(&matrix);
    let plan = make(&request).unwrap();
    assert!(is_shared(&plan));
    // Virtual time matches the prediction, apart from pipeline fill and drain.
    let last = simulated(&plan);
    let (same, words) = corrected(&request, &plan, &last, last.seconds());
    let again = make(&same).unwrap();
    assert!(moved_share(&plan, &again) < 0.1, "{words:?}");
    assert!((again.predicted_s / last.seconds() - 1.0).abs() < 0.15, "{words:?}");
    // The last product was twice as fast as usual.
    let (usual, words) = corrected(&request, &plan, &last, 2.0 * last.seconds());
    let usual_s = make(&usual).unwrap().predicted_s;
    assert!((usual_s / again.predicted_s - 2.0).abs() < 0.2, "{words:?}");

    let mut faster = request.clone();
    scale_times(&mut faster.devices[0].profile, request.work.kernels(Processor::Cpu), 0.5);
    let optimistic = make(&faster).unwrap();
    let rows = |plan: &Plan| plan.devices[0].rows;
    assert!(rows(&optimistic) > rows(&plan));
    let mut actual = optimistic.clone();
    actual.devices[0].profile = plan.devices[0].profile.clone();
    let last = simulated(&actual);
    let (corrected, words) = corrected(&faster, &optimistic, &last, last.seconds());
    let mended = make(&corrected).unwrap();
    assert!(rows(&mended) < rows(&optimistic), "{words:?}");
    assert!(moved_share(&plan, &mended) < moved_share(&plan, &optimistic), "{words:?}");
}

#[test]
fn a_measured_bandwidth_above_the_assumed_one_raises_it() {
    let matrix = stencil();
    let request = shared(&matrix);
    let plan = make(&request).unwrap();
    let last = simulated(&plan);
    let (calm, _) = corrected(&request, &plan, &last, 10.0);
    assert_eq!(calm.host, request.host, "a long product gives no bound on the bandwidth");
    // Part of the CPU's traffic is modelled as a share of its time.
    let less_s = 0.9 * plan.memory_s(&request.host);
    let (busy, _) = corrected(&request, &plan, &last, less_s);
    assert!(busy.host.memory_gb_per_s > request.host.memory_gb_per_s);
    assert!(plan.memory_s(&busy.host) <= less_s);
}

#[test]
fn a_product_that_no_device_can_compute_gets_the_same_refusal_every_time() {
    // Groups of rows cannot have the same column twice in a row.
    let a = Csr::try_new(1, 1, vec![0, 2], vec![0, 0], vec![1.0, 1.0]).unwrap();
    let runtime = Runtime::builder().devices("emu:0").threads(1).model("none").open().unwrap();
    let options = ProductOptions { kernel: Some(KernelId::RowGroupsCut), ..ProductOptions::default() };
    let mut product = runtime.product(&a).columns(2).options(options).build().unwrap();
    let mut refusals = (0..3).map(|_| product.apply(&[1.0, 2.0][..]).err().unwrap());
    let first = refusals.next().unwrap();
    assert_eq!(first.exit_code(), 2, "{first}");
    for refusal in refusals {
        assert_eq!(refusal.to_string(), first.to_string());
    }
}
