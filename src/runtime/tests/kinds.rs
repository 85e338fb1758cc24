//! Claims about kinds of work other than products with a sparse matrix: the same code plans, validates and simulates them.

use crate::cost::{Form, cpu_profile, host_rates, preset};
use crate::graph::{DeviceId, Role, TaskId, TaskKind};
use crate::kernel::KernelId;
use crate::matrix::Dtype;
use crate::plan::{DeviceSpec, Mode, Plan, PlanRequest, Remaining, XPlan, make};
use crate::runtime::run::{Planned, Simulated};
use crate::work::colmean::Colmean;
use crate::work::gemm::Gemm;
use crate::work::{ChunkRows, Work};

fn column_sums(rows: usize, columns: usize) -> Colmean {
    Colmean { rows, columns, dtype: Dtype::F64, deviations: false }
}

fn updated_product(rows: usize, depth: usize, columns: usize) -> Gemm {
    Gemm { rows, depth, columns, dtype: Dtype::F64, updated: true }
}

/// The request for a job on the CPU and on cards of the preset `gpus`.
fn request(job: impl Into<Work<'static>>, gpus: Option<&str>) -> PlanRequest<'static> {
    let mut devices = vec![DeviceSpec::new("cpu", cpu_profile(2, 1 << 34).unwrap())];
    let cards = gpus.map(|name| preset(name).unwrap().gpus).unwrap_or_default();
    devices.extend(
        cards.into_iter().enumerate().map(|(card, profile)| DeviceSpec::new(format!("sim:{card}"), profile)),
    );
    PlanRequest::new(job.into(), devices, host_rates(2).unwrap())
}

/// What a saved plan is after it was loaded again.
fn reloaded(plan: &Plan) -> Plan {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("plan.json");
    plan.save(&path).unwrap();
    Plan::load(&path).unwrap()
}

#[test]
fn partial_sums_are_planned_for_all_devices_that_help_and_merged_once() {
    for (gpus, mode) in [("h200", Mode::Oneshot), ("h200", Mode::Resident), ("h200x4", Mode::Stream)] {
        let job = column_sums(200_000, 500);
        let plan = make(&PlanRequest { mode: Some(mode), repeat: 100, ..request(job, Some(gpus)) }).unwrap();
        let cpu_helps = mode != Mode::Resident;
        assert!(plan.devices.iter().all(|device| device.slots.x_bytes == 0), "{plan:?}");
        assert!(plan.devices[1..].iter().all(|device| device.chunks > 0), "{plan:?}");
        assert_eq!(plan.devices[0].chunks > 0, cpu_helps, "{plan:?}");
        assert_eq!(plan.devices[0].reason.contains("finish before it could help"), !cpu_helps);
        assert!(plan.chunks.iter().all(|chunk| matches!(chunk.rows, ChunkRows::Segments { row: 0, .. })));
        assert_eq!((plan.split_rows.len(), plan.split_rows[0].chunks.len()), (1, plan.chunks.len()));
        plan.check_matrix(&Work::new(job)).unwrap();
        assert_eq!(reloaded(&plan), plan);
        let report = Simulated::new(&plan).unwrap().run().unwrap();
        let round = &report.rounds[0];
        let kind = |of: TaskKind| {
            let tasks = round.planned.graph().tasks().iter();
            tasks.filter(|task| task.kind == of && task.device == DeviceId::HOST).count()
        };
        assert_eq!(round.outcome.records.len(), round.planned.graph().tasks().len());
        assert_eq!(kind(TaskKind::CpuCompute) > 0, cpu_helps);
        assert!(kind(TaskKind::Merge) > 0);
        assert!(report.end_ns > 0);
    }
}

#[test]
fn plans_of_dense_work_say_what_sharing_is_worth_and_slow_cpus_get_no_rows() {
    let worth = |plan: &Plan| plan.reasons.iter().find(|reason| reason.starts_with("sharing: ")).cloned();
    let plan_of = |devices: std::ops::Range<usize>| {
        let all = request(updated_product(2000, 2000, 2000), Some("h200"));
        let mut devices = all.devices[devices].to_vec();
        // Cards that are not much faster than two cores.
        let cards = devices.iter_mut().filter(|device| device.profile.link.is_some());
        cards.for_each(|card| card.profile.f64_gflop_per_s = 200.0);
        make(&PlanRequest { devices, repeat: 100, ..all }).unwrap()
    };
    let (both, alone) = (plan_of(0..2), plan_of(0..1));
    let sentence = worth(&both).unwrap();
    let cpu = format!("{} on cpu alone", crate::error::Seconds(alone.predicted_s));
    assert!(sentence.contains(" sim:0 alone: ") && sentence.contains(&cpu), "{sentence}");
    let is_faster = both.predicted_s < plan_of(1..2).predicted_s;
    assert_eq!(sentence.contains("times faster"), is_faster, "{sentence}");
    assert_eq!(worth(&alone), None);
    let cpu_rows = |plan: &Plan| -> usize {
        let rows = |rows: &ChunkRows| match *rows {
            ChunkRows::Rows { begin, end } => end - begin,
            ChunkRows::Segments { .. } => 0,
        };
        plan.chunks.iter().filter(|chunk| chunk.home == 0).map(|chunk| rows(&chunk.rows)).sum()
    };
    assert!(cpu_rows(&both) > 0);
    // Balanced finish times would give the two cores fewer than 1/64 of the rows.
    let large = request(updated_product(20_000, 20_000, 20_000), Some("h200"));
    let alone = PlanRequest { devices: large.devices[1..].to_vec(), repeat: 100, ..large.clone() };
    let plan = make(&PlanRequest { repeat: 100, ..large }).unwrap();
    assert_eq!(cpu_rows(&plan), 0);
    assert_eq!(plan.predicted_s, make(&alone).unwrap().predicted_s);
    let sentence = worth(&plan).unwrap();
    assert!(sentence.starts_with("sharing: none") && sentence.contains(" on cpu alone"), "{sentence}");
    let shares = plan.reasons.iter().find(|reason| reason.starts_with("shares: ")).unwrap();
    assert!(shares.contains("nothing for cpu: a share below"), "{shares}");
}

#[test]
fn wide_results_are_divided_too_and_resident_sums_have_few_chunks() {
    let wide = Gemm { rows: 1 << 20, depth: 16, columns: 1000, dtype: Dtype::F64, updated: false };
    let plan = make(&request(wide, Some("h200"))).unwrap();
    let largest = plan.chunks.iter().filter(|chunk| chunk.home == 1);
    let largest = largest.map(|chunk| chunk.slice_bytes(plan.k, plan.dtype)).max().unwrap();
    assert!(largest <= 65 << 20, "{largest}");
    let rows = |rows: &ChunkRows| match *rows {
        ChunkRows::Rows { begin, .. } => begin,
        ChunkRows::Segments { .. } => panic!("a row of a product is divided"),
    };
    let first = plan.chunks.iter().find(|chunk| chunk.home == 1).map(|chunk| rows(&chunk.rows)).unwrap();
    let inner = plan.chunks.iter().filter(|chunk| chunk.home == 1).map(|chunk| rows(&chunk.rows) - first);
    assert!(inner.take(8).all(|begin| begin.is_multiple_of(128)), "chunks consist of whole tiles");
    let sums = column_sums(1 << 17, 4096);
    let plan = make(&PlanRequest { mode: Some(Mode::Resident), repeat: 9, ..request(sums, Some("h200")) });
    let device = &plan.unwrap().devices[1];
    assert_eq!(device.chunks, 1, "only sums are copied");
    assert!(device.slots.pinned_in_slot_bytes <= 64 << 20, "A is staged in parts");
    let of_two = request(sums, Some("h200x4"));
    let plan = make(&PlanRequest { mode: Some(Mode::Resident), repeat: 9, ..of_two }).unwrap();
    let largest = plan.chunks.iter().map(|chunk| chunk.staged_bytes).max().unwrap();
    assert!(largest <= 1 << 30, "each card has memory for a chunk of another: {largest}");
}

#[test]
fn the_first_chunk_of_a_sum_copies_one_row_and_the_others_one_for_each_segment() {
    for (dtype, rows) in [(Dtype::F64, 1), (Dtype::F32, 2)] {
        let sums = Colmean { dtype, deviations: true, ..column_sums(1 << 17, 4096) };
        let all = PlanRequest { mode: Some(Mode::Resident), repeat: 9, ..request(sums, Some("h200x4")) };
        let work = PlanRequest { devices: all.devices[1..].to_vec(), ..all };
        let plan = make(&work).unwrap();
        let copied: Vec<u64> = plan.chunks.iter().map(|chunk| plan.result_rows(chunk)).collect();
        let all: Vec<u64> = plan.chunks.iter().map(|chunk| chunk.slice_rows()).collect();
        assert_eq!((copied[0], &copied[1..]), (rows, &all[1..]));
        let alone = PlanRequest { devices: work.devices[..1].to_vec(), ..work };
        let plan = make(&alone).unwrap();
        let graph = plan.graph(&Remaining::all(&plan)).unwrap().graph;
        let copied: u64 = graph.tasks().iter().map(|task| task.demand.link_bytes).sum();
        assert_eq!(copied, rows * 2 * 4096 * dtype.bytes() as u64);
    }
}

#[test]
fn resident_products_have_few_chunks_of_decreasing_size() {
    let plan = |size: usize, dtype: Dtype| {
        let product = Gemm { rows: size, depth: size, columns: size, dtype, updated: false };
        let mut all = request(product, Some("h200"));
        all.devices.remove(0);
        all.devices[0].profile.cublas = true;
        make(&PlanRequest { mode: Some(Mode::Resident), always_register: true, repeat: 20, ..all }).unwrap()
    };
    let lengths = |plan: &Plan| -> Vec<u64> { plan.chunks.iter().map(|chunk| chunk.slice_rows()).collect() };
    for (size, dtype, most) in [(10_000, Dtype::F64, 5), (10_000, Dtype::F32, 4), (4096, Dtype::F32, 5)] {
        let plan = plan(size, dtype);
        let lengths = lengths(&plan);
        assert!(lengths.len() <= most && lengths.is_sorted_by(|one, next| one >= next), "{lengths:?}");
        assert_eq!(lengths.iter().sum::<u64>(), size as u64);
        // The copy of the last chunk is what the copies add.
        let kernels: f64 =
            plan.chunks.iter().map(|chunk| chunk.kernel_s(&plan.devices[1].profile, plan.k, dtype)).sum();
        let copies_b = plan.devices[1].profile.upload_s(plan.devices[1].slots.x_bytes);
        assert!(plan.predicted_s < copies_b + 1.1 * kernels, "{} {kernels}", plan.predicted_s);
    }
    // The copies take about as long as the kernels.
    assert_eq!(lengths(&plan(4096, Dtype::F64)), [512; 8]);
}

#[test]
fn a_product_is_limited_by_arithmetic_and_sums_by_memory() {
    let machine = preset("h200").unwrap();
    let gpu = &machine.gpus[0];
    let product = Gemm { rows: 10_000, depth: 10_000, columns: 10_000, dtype: Dtype::F64, updated: false };
    let seconds = |work: Work<'_>, kernel| {
        let facts = work.all_facts();
        facts.kernel_s(gpu, &Form::cpu(kernel), work.k() as u64, work.dtype())
    };
    let blocked_s = seconds(product.into(), KernelId::GemmBlocked);
    // Below the peak of the tensor cores.
    assert!((2e12 / blocked_s) < 67e12 && blocked_s < 0.1, "{blocked_s}");
    assert!(seconds(product.into(), KernelId::Cublas) < blocked_s);
    assert!(seconds(product.into(), KernelId::GemmNaive) > 5.0 * blocked_s);
    let single = Gemm { dtype: Dtype::F32, ..product };
    let naive_s = seconds(product.into(), KernelId::GemmNaive);
    assert!(seconds(single.into(), KernelId::GemmNaive) < 0.6 * naive_s);
    let sums_s = seconds(column_sums(1 << 17, 4096).into(), KernelId::ColmeanReduce);
    let bytes_s = (1u64 << 32) as f64 / (gpu.stream_gb_per_s * 1e9);
    assert!((bytes_s..1.2 * bytes_s).contains(&sums_s), "{sums_s} {bytes_s}");
}

#[test]
fn every_device_gets_a_segment_of_a_short_sum() {
    let job = column_sums(5 * 64, 3);
    let plan = make(&request(job, Some("h200x4"))).unwrap();
    assert!(plan.devices.iter().all(|device| device.chunks == 1), "{plan:?}");
}

#[test]
fn an_updated_output_is_staged_and_no_task_that_updates_it_may_run_again() {
    let job = updated_product(50_000, 300, 64);
    let plan =
        make(&PlanRequest { mode: Some(Mode::Oneshot), repeat: 1000, ..request(job, Some("h200")) }).unwrap();
    assert!(plan.devices.iter().all(|device| device.x == XPlan::Whole && !device.registered.y), "{plan:?}");
    plan.check_matrix(&Work::new(job)).unwrap();
    assert_eq!(reloaded(&plan), plan);
    let planned = Planned::new(plan.graph(&Remaining::all(&plan)).unwrap()).unwrap();
    let graph = planned.graph();
    assert!(graph.buffers().iter().any(|buffer| buffer.role == Role::InOut));
    assert!(graph.buffers().iter().all(|buffer| buffer.role != Role::Output));
    for (number, task) in graph.tasks().iter().enumerate() {
        let updates = matches!(task.kind, TaskKind::CpuCompute | TaskKind::Merge);
        assert_eq!(graph.may_run_again(TaskId(number as u32)), !updates, "{task:?}");
    }
    Simulated::new(&plan).unwrap().run().unwrap();
    let written = Gemm { updated: false, ..job };
    let plan =
        make(&PlanRequest { mode: Some(Mode::Oneshot), repeat: 1000, ..request(written, Some("h200")) })
            .unwrap();
    assert!(plan.devices[1].registered.y, "a written output of the same job is copied in place");
    assert!(plan.check_matrix(&Work::new(job)).is_err(), "the jobs differ in their output");
}

#[test]
fn a_plan_with_a_kernel_of_another_kind_of_work_is_refused() {
    let job = updated_product(500, 300, 64);
    let work = job.into();
    let plan = make(&request(job, Some("h200"))).unwrap();
    plan.check_matrix(&work).unwrap();
    type Damage = fn(&mut Plan);
    let damages: [(&str, Damage); 5] = [
        ("a sparse kernel on the CPU", |plan| plan.chunks[0].cpu_kernel = KernelId::CpuCsr),
        ("a kernel of sums on the GPU", |plan| {
            plan.chunks.last_mut().unwrap().gpu_kernel = KernelId::ColmeanWarp
        }),
        ("a library that is not installed", |plan| {
            plan.chunks.last_mut().unwrap().gpu_kernel = KernelId::Cublas
        }),
        ("a device without arithmetic", |plan| plan.devices[1].profile.f64_gflop_per_s = 0.0),
        ("other bytes", |plan| plan.chunks.last_mut().unwrap().staged_bytes -= 8),
    ];
    for (what, damage) in damages {
        let mut damaged = plan.clone();
        damage(&mut damaged);
        assert_eq!(damaged.check_matrix(&work).unwrap_err().exit_code(), 3, "{what}");
    }
    let other = Gemm { columns: 65, ..job };
    assert_eq!(plan.check_matrix(&other.into()).unwrap_err().exit_code(), 2);
    assert_eq!(plan.check_matrix(&column_sums(500, 64).into()).unwrap_err().exit_code(), 2);
}
