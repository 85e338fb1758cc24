//! Claims about whole plans and their graphs.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::cost::{Correction, cpu_profile, emulated_profile, host_rates, preset};
use crate::graph::{Graph, GraphBuilder, Role, TaskId, TaskKind};
use crate::kernel::{Format, KernelId, Order};
use crate::matrix::{Csr, Dtype, generate};
use crate::work::spmm::{Features, Spmm};
use crate::work::{Facts, Work, XOrder};

pub(super) fn matrix(spec: &str) -> Csr<f64> {
    generate(spec, 1, 1 << 32).unwrap().matrix
}

/// `cpu`, `emu` and presets by name, all required.
pub(super) fn devices(words: &[&str]) -> Vec<DeviceSpec> {
    let mut devices = Vec::new();
    for (index, &word) in words.iter().enumerate() {
        let profiles = match word {
            "cpu" => vec![cpu_profile(2, 1 << 34).unwrap()],
            "emu" => vec![emulated_profile().unwrap()],
            name => preset(name).unwrap().gpus,
        };
        for (gpu, profile) in profiles.into_iter().enumerate() {
            let name = if word == "cpu" { word.into() } else { format!("{word}:{index}/{gpu}") };
            devices.push(DeviceSpec {
                name,
                profile,
                memory_limit_bytes: None,
                taken_bytes: 0,
                required: true,
            });
        }
    }
    devices
}

pub(super) fn request<'a>(work: Work<'a>, words: &[&str]) -> PlanRequest<'a> {
    PlanRequest::new(work, devices(words), host_rates(2).unwrap())
}

fn task_ids(graph: &Graph) -> impl Iterator<Item = TaskId> {
    (0..graph.tasks().len() as u32).map(TaskId)
}

#[test]
fn a_cpu_is_predicted_no_faster_than_its_memory_beyond_the_caches() {
    let matrix = matrix("band,rows=400000,width=9");
    let work = || Work::spmm(&matrix.view(), 8).unwrap();
    let bytes = (3_600_000 * 12 + 400_000 * 8 + 2 * 400_000 * 64) as f64;
    let predicted_s = |gb_per_s: f64, factor: f64| {
        let mut request = request(work(), &["cpu"]);
        request.host.memory_gb_per_s = gb_per_s;
        let known = crate::work::spmm::cost::eligible(crate::kernel::Processor::Cpu).iter();
        let corrections = known.map(|&kernel| Correction { kernel, variant: None, factor });
        request.devices[0].profile.corrections = corrections.collect();
        make(&request).unwrap().predicted_s
    };
    let unbounded_s = predicted_s(1e6, 1.0);
    let cache = cpu_profile(2, 1 << 34).unwrap().cache_bytes as f64;
    let slow_s = (bytes - cache) / 1e9;
    assert!(unbounded_s < 0.5 * slow_s, "{unbounded_s} {slow_s}");
    assert!((predicted_s(1.0, 1.0) / slow_s - 1.0).abs() < 0.01, "{} {slow_s}", predicted_s(1.0, 1.0));
    assert!(
        (predicted_s(1.0, 1.5) / slow_s - 1.5).abs() < 0.01,
        "the correction of the kernel still applies"
    );
    assert!((predicted_s(1e6, 1.5) / unbounded_s - 1.5).abs() < 0.01);
}

#[test]
fn the_cpu_alone_gets_one_chunk() {
    let matrix = matrix("stencil5,n=20");
    let plan = make(&request(Work::spmm(&matrix.view(), 8).unwrap(), &["cpu"])).unwrap();
    assert_eq!((plan.chunks.len(), plan.devices.len()), (1, 1));
    assert_eq!(plan.mode, Mode::Resident);
    assert!(plan.devices[0].reason.contains("one chunk"), "{}", plan.devices[0].reason);
    let graph = plan.graph(&Remaining::all(&plan)).unwrap().graph;
    assert_eq!(graph.tasks().len(), 1);
    assert_eq!(graph.tasks()[0].kind, TaskKind::CpuCompute);
}

#[test]
fn the_part_of_the_cpu_has_small_chunks_only_where_other_devices_can_take_them() {
    let matrix = matrix("stencil27,n=40");
    let of_cpu = |mode| {
        let mut request = request(Work::spmm(&matrix.view(), 8).unwrap(), &["cpu", "h200"]);
        (request.mode, request.repeat, request.cpu_share) = (Some(mode), 1000, Some(0.5));
        let plan = make(&request).unwrap();
        plan.chunks.iter().filter(|chunk| chunk.home == 0).count()
    };
    assert_eq!(of_cpu(Mode::Resident), 1);
    assert!(of_cpu(Mode::Oneshot) > 1);
}

#[test]
fn the_requested_number_of_chunks_is_made_while_rows_are_light() {
    let (light, heavy) = (matrix("stencil5,n=60"), matrix("rmat,scale=12,degree=8"));
    for chunks in [1, 2, 7, 64, 512] {
        for words in [&["cpu"][..], &["cpu", "emu"], &["emu"]] {
            let count = |matrix: &Csr<f64>| {
                let work = Work::spmm(&matrix.view(), 8).unwrap();
                make(&PlanRequest { chunks: Some(chunks), ..request(work, words) }).unwrap().chunks.len()
            };
            assert_eq!(count(&light), chunks, "{words:?}");
            assert!(
                (chunks / 2..3 * chunks).contains(&count(&heavy)),
                "{words:?} {chunks} {}",
                count(&heavy)
            );
        }
    }
}

#[test]
fn every_required_device_gets_a_chunk() {
    for (spec, words) in [
        ("stencil5,n=20", &["cpu", "emu"][..]),
        ("rmat,scale=10,degree=8", &["cpu", "emu", "emu"]),
        ("rmat,scale=10,degree=8", &["cpu", "node8"]),
        ("diagonal,rows=3", &["cpu", "emu", "emu"]),
        ("arrow,rows=5000", &["emu", "emu"]),
        ("hub,rows=3000,degree=3,hubs=2", &["cpu", "emu"]),
    ] {
        let matrix = matrix(spec);
        let plan = make(&request(Work::spmm(&matrix.view(), 8).unwrap(), words)).unwrap();
        for device in plan.devices.iter().filter(|device| device.computes) {
            assert!(device.chunks > 0, "{spec} {words:?}: {} has nothing", device.name);
        }
    }
}

#[test]
fn a_device_that_would_not_help_is_left_out_unless_required() {
    let matrix = matrix("stencil5,n=40");
    let work = Work::spmm(&matrix.view(), 8).unwrap();
    let mut offered = request(work.clone(), &["cpu", "emu"]);
    offered.devices.iter_mut().for_each(|device| device.required = false);
    let plan = make(&offered).unwrap();
    let alone = make(&request(work, &["cpu"])).unwrap();
    assert!(plan.predicted_s <= alone.predicted_s * 1.001, "{} {}", plan.predicted_s, alone.predicted_s);
}

#[test]
fn a_is_resident_where_it_fits_and_is_used_again() {
    let matrix = matrix("rmat,scale=14,degree=16");
    let mode = |repeat, memory_limit_bytes| {
        let mut request = request(Work::spmm(&matrix.view(), 8).unwrap(), &["h200"]);
        request.repeat = repeat;
        request.devices[0].memory_limit_bytes = memory_limit_bytes;
        make(&request).unwrap().mode
    };
    assert_eq!(mode(20, None), Mode::Resident);
    assert_eq!(mode(1, None), Mode::Oneshot);
    assert_eq!(mode(20, Some(2 << 20)), Mode::Stream);
    assert_eq!(mode(1, Some(2 << 20)), Mode::Stream);
}

#[test]
fn rows_that_do_not_fit_on_a_device_go_to_the_cpu() {
    let matrix = matrix("rmat,scale=14,degree=16");
    let mut request = request(Work::spmm(&matrix.view(), 8).unwrap(), &["cpu", "h200"]);
    request.mode = Some(Mode::Resident);
    request.repeat = 100;
    request.devices[1].memory_limit_bytes = Some(2 << 20);
    let plan = make(&request).unwrap();
    assert!(plan.devices[1].slots.device_bytes() <= 2 << 20);
    assert!(plan.devices[0].size.entries > plan.devices[1].size.entries && plan.devices[1].size.entries > 0);
}

#[test]
fn too_little_memory_is_refused_with_the_numbers() {
    let matrix = matrix("stencil5,n=40");
    for (mode, limit) in [(None, 1000), (Some(Mode::Resident), 150_000), (Some(Mode::Stream), 110_000)] {
        let mut request = request(Work::spmm(&matrix.view(), 8).unwrap(), &["emu"]);
        request.mode = mode;
        request.devices[0].memory_limit_bytes = Some(limit);
        match make(&request) {
            Ok(plan) => assert!(plan.devices[1].slots.device_bytes() <= limit, "{mode:?} {limit}"),
            Err(error) => {
                assert_eq!(error.exit_code(), 3);
                assert!(error.to_string().contains("KiB") && error.to_string().contains("use "), "{error}");
            }
        }
    }
    let mut request = request(Work::spmm(&matrix.view(), 8).unwrap(), &["emu"]);
    request.devices[0].memory_limit_bytes = Some(1000);
    assert_eq!(make(&request).unwrap_err().exit_code(), 3);
}

#[test]
fn chunks_shrink_until_they_fit() {
    let matrix = matrix("uniform,rows=20000,degree=16");
    let mut request = request(Work::spmm(&matrix.view(), 1).unwrap(), &["emu"]);
    request.devices[0].memory_limit_bytes = Some(400_000);
    let plan = make(&request).unwrap();
    assert!(plan.chunks.len() > 8 && plan.devices[1].slots.device_bytes() <= 400_000);
    assert_eq!(plan.mode, Mode::Stream);
}

#[test]
fn kernels_formats_and_devices_must_agree() {
    let matrix = matrix("stencil5,n=20");
    let work = Work::spmm(&matrix.view(), 4).unwrap();
    let plan = |words: &[&str], kernel, format| {
        make(&PlanRequest { kernel, format, ..request(work.clone(), words) })
            .map(|plan| (plan.chunks[0].cpu_kernel, plan.chunks[0].gpu_kernel))
    };
    let (cpu, gpu) = plan(&["cpu", "emu"], None, None).unwrap();
    assert_eq!((cpu, gpu.info().order), (KernelId::CpuCsr, Order::Canonical));
    assert_eq!(plan(&["emu"], Some(KernelId::CsrVector), None).unwrap().1, KernelId::CsrVector);
    assert_eq!(plan(&["emu"], None, Some(Format::EllPadded)).unwrap().1, KernelId::Ellpack);
    assert_eq!(plan(&["cpu"], None, Some(Format::Sell)).unwrap().0, KernelId::CpuSell);
    for wrong in [
        plan(&["cpu"], Some(KernelId::CsrVector), None),
        plan(&["emu"], Some(KernelId::CpuSell), None),
        plan(&["emu"], None, Some(Format::Sell)),
        plan(&["cpu"], Some(KernelId::CpuSell), Some(Format::Csr)),
        plan(&[], None, None),
        plan(&["cpu", "cpu"], None, None),
    ] {
        assert_eq!(wrong.unwrap_err().exit_code(), 2);
    }
}

#[test]
fn devices_of_one_kind_get_equal_parts_and_finish_together() {
    let matrix = matrix("uniform,rows=200000,degree=16");
    let plan = make(&request(Work::spmm(&matrix.view(), 32).unwrap(), &["h200x4"])).unwrap();
    let computing: Vec<&DevicePlan> = plan.devices.iter().filter(|device| device.computes).collect();
    for device in &computing {
        assert!(
            (device.size.entries as f64 * 4.0 / plan.matrix.entries as f64 - 1.0).abs() < 0.02,
            "{}",
            device.name
        );
        assert!((device.predicted_s / computing[0].predicted_s - 1.0).abs() < 0.05);
        assert!(device.chunks >= 8);
    }
}

#[test]
fn a_saved_plan_loads_unchanged() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.plan");
    let matrix = matrix("arrow,rows=9000");
    let work = Work::spmm(&matrix.view(), 7).unwrap();
    let plan = make(&PlanRequest { chunks: Some(20), ..request(work.clone(), &["cpu", "emu"]) }).unwrap();
    assert!(!plan.split_rows.is_empty());
    plan.save(&path).unwrap();
    assert_eq!(Plan::load(&path).unwrap(), plan);

    assert!(plan.check_fits(&work.fingerprint(), 7, Dtype::F64).is_ok());
    let other = generate::<f64>("arrow,rows=9001", 1, 1 << 30).unwrap().matrix;
    let other = Work::spmm(&other.view(), 7).unwrap().fingerprint();
    for wrong in [
        plan.check_fits(&other, 7, Dtype::F64),
        plan.check_fits(&work.fingerprint(), 8, Dtype::F64),
        plan.check_fits(&work.fingerprint(), 7, Dtype::F32),
    ] {
        assert_eq!(wrong.unwrap_err().exit_code(), 2);
    }
}

#[test]
fn a_damaged_plan_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.plan");
    let matrix = matrix("arrow,rows=9000");
    let work = Work::spmm(&matrix.view(), 7).unwrap();
    let plan = make(&PlanRequest { chunks: Some(20), ..request(work.clone(), &["cpu", "emu"]) }).unwrap();
    type Damage = (&'static str, fn(&mut Plan));
    let damages: [Damage; 15] = [
        ("a chunk is missing", |plan| drop(plan.chunks.pop())),
        ("a device is missing", |plan| drop(plan.devices.pop())),
        ("a cut row is missing", |plan| drop(plan.split_rows.pop())),
        ("no device at all", |plan| plan.devices.clear()),
        ("another version", |plan| plan.version += 1),
        ("a chunk without a device", |plan| plan.chunks[3].home = 99),
        ("chunks overlap", |plan| plan.chunks[2].rows = plan.chunks[1].rows),
        ("other rows", |plan| features(&mut plan.chunks[0]).rows = u64::MAX),
        ("other nonzeros", |plan| features(on_gpu(plan)).nnz = u64::MAX),
        ("no such form", |plan| on_gpu(plan).gpu_variant.ways = 0),
        ("a block of many threads", |plan| on_gpu(plan).gpu_variant.threads = 1 << 31),
        ("a chunk larger than its slot", |plan| on_gpu(plan).staged_bytes = 1 << 40),
        ("a device with an endless time", |plan| plan.devices[1].profile.product_ns = 1e18),
        ("a link without bandwidth", |plan| {
            plan.devices[1].profile.link.as_mut().unwrap().to_device_gb_per_s = 0.0;
        }),
        ("memory without bandwidth", |plan| plan.host.memory_gb_per_s = 1e-300),
    ];
    fn features(chunk: &mut Chunk) -> &mut Features {
        match &mut chunk.features {
            Facts::Spmm(features) => features,
            Facts::Uniform(_) => panic!("the matrix is sparse"),
        }
    }
    fn on_gpu(plan: &mut Plan) -> &mut Chunk {
        plan.chunks.iter_mut().find(|chunk| chunk.home == 1).unwrap()
    }
    for (what, damage) in damages {
        let mut damaged = plan.clone();
        damage(&mut damaged);
        damaged.save(&path).unwrap();
        assert_eq!(Plan::load(&path).unwrap_err().exit_code(), 3, "{what}");
    }
    // Only the matrix contradicts these.
    let damages: [Damage; 13] = [
        ("a chunk smaller than its rows", |plan| on_gpu(plan).staged_bytes -= 64),
        ("a longest row that no row has", |plan| features(on_gpu(plan)).max += 1),
        ("scratch memory that no kernel needs", |plan| on_gpu(plan).scratch_bytes += 1),
        ("other segments of a row", |plan| plan.split_rows[0].segments += 1),
        ("a registered X by columns", |plan| {
            (plan.x_order, plan.devices[1].registered.x) = (XOrder::Columns, true);
        }),
        ("a registered X of padded rows", |plan| plan.devices[1].registered.x = true),
        ("a registered Y of padded rows", |plan| plan.devices[1].registered.y = true),
        ("slots without number", |plan| plan.devices[1].slots.y_slots = u32::MAX),
        ("no slot at all", |plan| plan.devices[1].slots.pinned_in_slots = 0),
        ("a slot that is too small", |plan| plan.devices[1].slots.pinned_out_slot_bytes -= 1),
        ("a slot that is too large", |plan| plan.devices[1].slots.pinned_in_slot_bytes = 1 << 60),
        ("slots of the host", |plan| plan.devices[0].slots.a_slots = 1),
        ("a part of X", |plan| plan.devices[1].x = XPlan::Columns { first: 0, end: 1 }),
    ];
    for (what, damage) in damages {
        let mut damaged = plan.clone();
        damage(&mut damaged);
        assert_eq!(damaged.check_matrix(&work).unwrap_err().exit_code(), 3, "{what}");
    }
    plan.check_matrix(&work).unwrap();
    let text = serde_json::to_string(&plan).unwrap();
    for text in ["", "{}", "[1,2]", &text[..text.len() / 2], "\u{0}"] {
        std::fs::write(&path, text).unwrap();
        assert_eq!(Plan::load(&path).unwrap_err().exit_code(), 3);
    }
    assert_eq!(Plan::load(&folder.path().join("none")).unwrap_err().exit_code(), 3);
}

/// Checks a graph independently of its validator: writers of Y, slots in pairs and in ascending order, reads after writes.
fn check_graph(planned: &PlannedGraph) {
    let graph = &planned.graph;
    graph.validate().unwrap();
    for id in task_ids(graph) {
        let task = &graph.tasks()[id.index()];
        assert!((task.item as usize) < planned.items.len());
        let (takes, gives) = (task.takes.map(|pool| pool.0), task.gives.map(|pool| pool.0));
        if let (Some(takes), Some(gives)) = (takes, gives) {
            assert!(gives < takes, "slots are taken in ascending order");
        }
    }
    let taken: Vec<_> =
        graph.tasks().iter().filter_map(|task| task.takes.map(|pool| (task.strand, pool))).collect();
    let given: BTreeSet<_> =
        graph.tasks().iter().filter_map(|task| task.gives.map(|pool| (task.strand, pool))).collect();
    assert_eq!(taken.iter().copied().collect::<BTreeSet<_>>(), given);
}

/// The same graph without its edge number `left_out`.
pub(super) fn without_edge(graph: &Graph, left_out: usize) -> Graph {
    let mut builder = GraphBuilder::new();
    for pool in graph.pools() {
        builder.pool(pool.name.clone(), pool.device, pool.slots);
    }
    for buffer in graph.buffers() {
        builder.buffer(buffer.role, buffer.bytes);
    }
    for _ in 0..graph.choices() {
        builder.choice();
    }
    for &choice in graph.strands() {
        builder.strand(choice);
    }
    for id in task_ids(graph) {
        builder.task(graph.tasks()[id.index()], &[], graph.reads(id), graph.writes(id));
    }
    for (index, (from, to)) in graph.edges().enumerate() {
        if index != left_out {
            builder.edge(from, to);
        }
    }
    builder.freeze()
}

#[test]
fn every_edge_is_needed() {
    let matrix = matrix("arrow,rows=6000");
    let mut edges = 0;
    for (words, mode) in [
        (&["cpu", "emu", "emu"][..], Mode::Oneshot),
        (&["cpu", "h200x4"], Mode::Resident),
        (&["h200x4"], Mode::Oneshot),
    ] {
        let work = Work::spmm(&matrix.view(), 8).unwrap();
        let request = PlanRequest { chunks: Some(40), mode: Some(mode), ..request(work, words) };
        let plan = make(&request).unwrap();
        assert!(!plan.split_rows.is_empty());
        for planned in
            [plan.graph(&Remaining::all(&plan)).unwrap(), plan.prepare_graph(&vec![true; plan.devices.len()])]
        {
            planned.graph.validate().unwrap();
            for edge in 0..planned.graph.edges().count() {
                let broken = without_edge(&planned.graph, edge);
                assert!(broken.validate().is_err(), "{words:?}: edge {edge} is not needed");
                edges += 1;
            }
        }
    }
    assert!(edges > 200, "{edges}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn plans_are_valid_and_deterministic_and_give_valid_graphs(
        lengths in prop::collection::vec(prop_oneof![9 => 0u64..30, 1 => 0u64..4000], 1..200),
        words in prop::sample::select(vec![
            vec!["cpu"], vec!["emu"], vec!["cpu", "emu"], vec!["emu", "emu"], vec!["cpu", "emu", "emu"],
            vec!["cpu", "h200x4"], vec!["node8"], vec!["h200", "a100"], vec!["emu", "cpu"],
        ]),
        chunks in prop::option::of(1usize..64),
        mode in prop::sample::select(vec![None, Some(Mode::Resident), Some(Mode::Oneshot), Some(Mode::Stream)]),
        repeat in 1u64..30,
        k in 0usize..40,
        scattered in any::<bool>(),
        dead in 0usize..9,
        done in prop::collection::vec(any::<bool>(), 64),
    ) {
        let cols = 5000usize;
        let mut pointers = vec![0u64];
        let mut columns = Vec::new();
        for (row, &length) in lengths.iter().enumerate() {
            let step = if scattered { 37 } else { 1 };
            columns.extend((0..length as usize).map(|entry| ((row + entry * step) % cols) as u32));
            pointers.push(columns.len() as u64);
        }
        let work = Work::from(Spmm::of_pattern(&pointers, Some(&columns), cols, k, Dtype::F64).unwrap());
        let request = PlanRequest { chunks, mode, repeat, ..request(work.clone(), &words) };
        let plan = make(&request).unwrap();
        prop_assert_eq!(&make(&request).unwrap(), &plan, "the same request gives the same plan");
        plan.check_matrix(&work).unwrap();

        let planned = plan.graph(&Remaining::all(&plan)).unwrap();
        check_graph(&planned);
        check_graph(&plan.prepare_graph(&vec![true; plan.devices.len()]));
        let outputs: Vec<_> = planned.graph.buffers().iter().filter(|buffer| buffer.role == Role::Output).collect();
        prop_assert_eq!(outputs.iter().map(|buffer| buffer.bytes).sum::<u64>(), work.rows() as u64 * work.row_bytes());
        prop_assert_eq!(outputs.len(), 1, "all of Y is one buffer");

        // The work that remains after a fault gives a valid graph too, or a device error where no device can continue.
        let mut remaining = Remaining::all(&plan);
        let dead = dead % plan.devices.len();
        remaining.alive[dead] = false;
        for (index, chunk) in remaining.chunks.iter_mut().enumerate() {
            *chunk = !done[index % done.len()];
        }
        match plan.graph(&remaining) {
            Ok(planned) => {
                check_graph(&planned);
                let on_lost = planned.graph.tasks().iter().filter(|task| {
                    let computes = matches!(task.kind, TaskKind::Kernel | TaskKind::CpuCompute);
                    computes && task.device.index() == dead
                });
                prop_assert_eq!(on_lost.count(), 0);
            }
            Err(error) => prop_assert_eq!(error.exit_code(), 4),
        }
    }
}
