//! Claims about dense products and column sums on any devices: the same bits for every split, right results for every shape, factor, mode
//! and transfer, plans that can be saved, and traces.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, LazyLock};

use proptest::prelude::*;

use crate::adapt::ResolvedDevices;
use crate::cost::{cpu_profile, emulated_profile, host_rates};
use crate::error::Result;
use crate::kernel::colmean::{self, Totals, block_rows};
use crate::kernel::cpu::Kernels;
use crate::kernel::gemm::tests::{bits, matrix};
use crate::kernel::gemm::{self, PackedProduct};
use crate::kernel::scaling::scaling;
use crate::kernel::{KernelId, KindOfWork, Order, Processor, kernels_for};
use crate::machine::Machine;
use crate::matrix::{Dtype, MultiVector, Scalar};
use crate::plan::{DeviceSpec, Mode, Plan};
use crate::runtime::{ColumnSums, Gemm, Pool, ProductOptions, Runtime, Timeline, Transfer};
use crate::trace::{Category, Trace};

const LISTS: [&str; 3] = ["cpu", "cpu,emu:0", "emu:0,emu:1"];

static POOL: LazyLock<Arc<Pool>> =
    LazyLock::new(|| Arc::new(Pool::new(&Machine::detect(), Some(2)).unwrap()));

fn runtime(devices: &str) -> Runtime {
    let builder = Runtime::builder().devices(devices).model("none");
    builder.pool(Machine::detect(), POOL.clone()).open().unwrap()
}

/// Devices of equal speed, so that each gets a share. All of them can register memory.
fn resolved(devices: &str) -> ResolvedDevices {
    let spec = |name: &str| {
        let emulated = emulated_profile().unwrap();
        let mut profile =
            if name == "cpu" { cpu_profile(2, 1 << 34).unwrap() } else { emulated_profile().unwrap() };
        profile.product_ns = emulated.product_ns;
        (profile.f64_gflop_per_s, profile.f32_gflop_per_s) =
            (emulated.f64_gflop_per_s, emulated.f32_gflop_per_s);
        if let Some(link) = &mut profile.link {
            link.register_s_per_gb = Some(0.0);
        }
        DeviceSpec::new(name, profile)
    };
    let devices = devices.split(',').map(spec).collect();
    ResolvedDevices {
        devices,
        host: host_rates(2).unwrap(),
        cluster: None,
        factors_path: None,
        has_model: false,
    }
}

/// Split number `split`: its number of chunks.
fn chunks(split: usize) -> ProductOptions {
    ProductOptions { chunks: Some(split), ..ProductOptions::default() }
}

fn canonical(work: KindOfWork) -> impl Iterator<Item = KernelId> {
    kernels_for(work).filter(|info| info.order == Order::Canonical).map(|info| info.id)
}

/// Whether a device list can run a kernel, with the kernels of the other processor left to the planner.
fn can_run(devices: &str, kernel: KernelId) -> bool {
    match kernel.info().runs_on {
        Processor::Cpu => devices.contains("cpu"),
        Processor::Gpu => devices.contains("emu"),
    }
}

fn product<'a, T: PackedProduct>(
    a: &'a MultiVector<T>,
    columns: usize,
    devices: &str,
    options: ProductOptions,
) -> Result<Gemm<'a, T>> {
    let builder = runtime(devices).gemm(a, columns).options(options);
    builder.resolved(resolved(devices)).build()
}

fn sums<'a>(a: &'a MultiVector<f64>, devices: &str, options: ProductOptions) -> Result<ColumnSums<'a, f64>> {
    let builder = runtime(devices).column_sums(a).deviations(true).options(options);
    builder.resolved(resolved(devices)).build()
}

/// The totals of the serial reference.
fn reference_totals(a: &MultiVector<f64>) -> Totals {
    reference_totals_of(a, true)
}

fn reference_totals_of<T: Scalar>(a: &MultiVector<T>, with_deviations: bool) -> Totals {
    let block_rows = block_rows(a.rows() as u64, a.k() as u64) as usize;
    let partial = colmean::reference::partial_sums(a.view(), block_rows);
    let (sums, deviations): (Vec<T>, Vec<T>) =
        partial.iter().map(|moments| (moments.sum, moments.deviations)).unzip();
    let deviations = with_deviations.then_some(&deviations[..]);
    Totals::merge(a.rows(), a.k(), block_rows, &sums, deviations).unwrap()
}

/// Products with every canonical kernel on every list of devices, in 30 splits.
fn products_in_splits<T: PackedProduct>() {
    let (rows, depth, columns) = (31, 9, 5);
    let a = matrix::<T>(rows, depth, 1, 1);
    let b = matrix::<T>(depth, columns, 0, 2);
    let mut expected = matrix::<T>(rows, columns, 2, 3);
    gemm::reference::multiply(scaling(0.7, -1.1), a.view(), b.view(), expected.view_mut()).unwrap();
    for kernel in canonical(KindOfWork::Gemm) {
        for devices in LISTS.into_iter().filter(|devices| can_run(devices, kernel)) {
            for split in 1..=30 {
                let options = ProductOptions { kernel: Some(kernel), reproducible: true, ..chunks(split) };
                let mut product = product(&a, columns, devices, options).unwrap();
                let mut c = matrix::<T>(rows, columns, 2, 3);
                product.apply_scaled(0.7, &b, -1.1, &mut c).unwrap();
                let what = format!("{} {} on {devices} in {split} chunks", kernel.name(), T::DTYPE);
                assert_eq!(product.plan().chunks.len(), split.min(rows), "{what}");
                assert_eq!(bits(&c), bits(&expected), "{what}");
            }
        }
    }
}

#[test]
fn a_dense_product_has_the_same_bits_for_every_canonical_kernel_device_list_and_split() {
    products_in_splits::<f64>();
}

#[test]
fn a_dense_product_in_single_precision_has_the_same_bits_for_every_split() {
    products_in_splits::<f32>();
}

#[test]
fn column_sums_have_the_same_bits_for_every_kernel_device_list_and_split() {
    let a = matrix::<f64>(30 * 64 + 7, 3, 1, 5);
    let expected = reference_totals(&a);
    for kernel in canonical(KindOfWork::Colmean) {
        for devices in LISTS.into_iter().filter(|devices| can_run(devices, kernel)) {
            for split in 1..=30 {
                let mut sums =
                    sums(&a, devices, ProductOptions { kernel: Some(kernel), ..chunks(split) }).unwrap();
                let what = format!("{} on {devices} in {split} chunks", kernel.name());
                assert_eq!(sums.apply().unwrap(), expected, "{what}");
                assert_eq!(sums.plan().chunks.len(), split, "{what}");
            }
        }
    }
}

#[test]
fn column_sums_of_both_precisions_with_and_without_deviations_have_the_same_bits_for_every_split() {
    fn check<T: Kernels>(deviations: bool) {
        let a = matrix::<T>(30 * 64 + 7, 3, 0, 5);
        let expected = reference_totals_of(&a, deviations);
        for devices in LISTS {
            for split in [1, 2, 3, 7, 30] {
                let builder = runtime(devices).column_sums(&a).deviations(deviations).options(chunks(split));
                let mut sums = builder.resolved(resolved(devices)).build().unwrap();
                let what = format!("{} on {devices} in {split} chunks", T::DTYPE);
                assert_eq!(sums.apply().unwrap(), expected, "{what}, deviations: {deviations}");
            }
        }
    }
    check::<f64>(false);
    check::<f32>(false);
    check::<f32>(true);
}

#[test]
fn every_mode_and_transfer_gives_the_same_results_again_and_again() {
    let (rows, depth) = (40, 7);
    let (a, b) = (matrix::<f64>(rows, depth, 2, 1), matrix::<f64>(depth, 4, 0, 2));
    let recording = matrix::<f64>(500, 5, 3, 4);
    let totals = reference_totals(&recording);
    for mode in [Mode::Oneshot, Mode::Stream, Mode::Resident] {
        for transfer in [Transfer::Auto, Transfer::Staged, Transfer::Registered] {
            for devices in &LISTS[1..] {
                let options = ProductOptions {
                    mode: Some(mode),
                    transfer,
                    reproducible: true,
                    uses: Some(2),
                    ..chunks(6)
                };
                let what = format!("{mode:?}, {transfer:?}, {devices}");
                let mut product = product(&a, 4, devices, options.clone()).unwrap();
                let mut sums = sums(&recording, devices, options).unwrap();
                let mut c = matrix::<f64>(rows, 4, 0, 3);
                let mut expected = matrix::<f64>(rows, 4, 0, 3);
                for (alpha, beta) in [(1.0, 0.0), (2.0, 0.5), (1.0, 0.0), (1.0, 1.0)] {
                    let factors = scaling(alpha, beta);
                    gemm::reference::multiply(factors, a.view(), b.view(), expected.view_mut()).unwrap();
                    product.apply_scaled(alpha, &b, beta, &mut c).unwrap();
                    assert_eq!(bits(&c), bits(&expected), "{what}, {alpha} A B + {beta} C");
                    assert_eq!(sums.apply().unwrap(), totals, "{what}");
                }
                assert_eq!(product.faults(), [], "{what}");
                let registers = |plan: &Plan| plan.devices.iter().any(|device| device.registered.a);
                let wanted = transfer == Transfer::Registered && mode != Mode::Resident;
                assert_eq!((registers(product.plan()), registers(sums.plan())), (wanted, wanted), "{what}");
            }
        }
    }
}

#[test]
fn a_resident_matrix_is_staged_in_parts_if_its_chunk_is_larger_than_page_locked_memory() {
    let (a, b) = (matrix::<f64>(500, 5, 3, 4), matrix::<f64>(5, 4, 0, 2));
    let mut expected = matrix::<f64>(500, 4, 0, 3);
    gemm::reference::multiply(scaling(1.0, 0.0), a.view(), b.view(), expected.view_mut()).unwrap();
    let options =
        ProductOptions { mode: Some(Mode::Resident), reproducible: true, uses: Some(2), ..chunks(1) };
    for part_bytes in [24, 1000, 20_001] {
        let in_parts = |plan: &Plan| {
            let mut plan = plan.clone();
            plan.devices[1].slots.pinned_in_slot_bytes = part_bytes;
            plan
        };
        let plan = in_parts(sums(&a, "emu:0", options.clone()).unwrap().plan());
        let parts = plan.chunks[0].staged_bytes.div_ceil(part_bytes) as usize;
        let mut sums = runtime("emu:0").column_sums(&a).deviations(true).plan(plan).build().unwrap();
        assert_eq!(sums.apply().unwrap(), reference_totals(&a), "{part_bytes}");
        let set_up = sums.take_set_up().unwrap();
        assert_eq!(set_up.outcome.records.len(), 2 * parts, "{part_bytes}");
        let plan = in_parts(product(&a, 4, "emu:0", options.clone()).unwrap().plan());
        let mut product = runtime("emu:0").gemm(&a, 4).plan(plan).build().unwrap();
        let mut c = matrix::<f64>(500, 4, 0, 3);
        product.apply(&b, &mut c).unwrap();
        assert_eq!(bits(&c), bits(&expected), "{part_bytes}");
    }
}

#[test]
fn shapes_around_the_tiles_and_empty_ones_are_right_on_all_devices() {
    let sizes = [0, 1, 31, 32, 33];
    for (at, rows) in sizes.into_iter().enumerate() {
        // Each size meets each other one in some place.
        for (depth, columns) in [(sizes[at], sizes[(at + 2) % 5]), (sizes[(at + 1) % 5], sizes[(at + 4) % 5])]
        {
            let (a, b) = (matrix::<f64>(rows, depth, 1, 1), matrix::<f64>(depth, columns, 2, 2));
            for devices in LISTS {
                let mut c = matrix::<f64>(rows, columns, 1, 3);
                let old = matrix::<f64>(rows, columns, 1, 3);
                let mut product = product(&a, columns, devices, ProductOptions::default()).unwrap();
                product.apply_scaled(-0.5, &b, 2.0, &mut c).unwrap();
                let all: Vec<usize> = (0..rows).collect();
                let factors = scaling(-0.5, 2.0);
                let found =
                    gemm::verify(factors, a.view(), b.view(), Some(old.view()), c.view(), &all).unwrap();
                assert!(found.passed, "{rows} × {depth} × {columns} on {devices}: {found:?}");
            }
        }
        for columns in sizes {
            let a = matrix::<f64>(rows, columns, 1, 7);
            for devices in LISTS {
                let found = sums(&a, devices, ProductOptions::default()).unwrap().apply().unwrap();
                assert_eq!(found, reference_totals(&a), "{rows} × {columns} on {devices}");
            }
        }
    }
}

#[test]
fn bound_products_register_their_matrices_once_and_a_cancelled_run_says_so() {
    let (a, b) = (matrix::<f64>(40, 8, 0, 1), matrix::<f64>(8, 4, 0, 2));
    let options = ProductOptions {
        transfer: Transfer::Registered,
        mode: Some(Mode::Oneshot),
        bound: true,
        reproducible: true,
        uses: Some(3),
        ..chunks(6)
    };
    let mut expected = matrix::<f64>(40, 4, 0, 3);
    let mut c = matrix::<f64>(40, 4, 0, 3);
    let runtime = runtime("cpu,emu:0");
    let builder = runtime.gemm(&a, 4).options(options).resolved(resolved("cpu,emu:0"));
    let mut product = builder.build().unwrap();
    product.prepare().unwrap();
    let device = runtime.device("emu:0").unwrap();
    let in_use = || device.lock().device().resources_in_use();
    let before = in_use();
    let during = product.bind(&b, &mut c, |bound| {
        bound.apply_scaled(1.0, 0.0)?;
        // A, B and C.
        let written = in_use();
        bound.apply_scaled(1.0, 0.0)?;
        assert_eq!(in_use(), written);
        bound.apply_scaled(-1.5, 2.0)?;
        Ok(written)
    });
    assert_eq!(during.unwrap(), before + 3);
    for (alpha, beta) in [(1.0, 0.0), (-1.5, 2.0)] {
        let factors = scaling(alpha, beta);
        gemm::reference::multiply(factors, a.view(), b.view(), expected.view_mut()).unwrap();
    }
    assert_eq!(bits(&c), bits(&expected));

    let cancel = AtomicBool::new(true);
    product.bind(&b, &mut c, |bound| bound.apply_scaled_until(1.0, 0.0, Some(&cancel))).unwrap();
    assert!(product.last_report().unwrap().cancelled);
    let recording = matrix::<f64>(500, 5, 3, 4);
    let mut sums = sums(&recording, "cpu,emu:0", chunks(6)).unwrap();
    assert_eq!(sums.apply_until(Some(&cancel)).unwrap(), None);
    assert_eq!(sums.apply().unwrap(), reference_totals(&recording));
}

#[test]
fn bound_products_send_b_once_and_again_after_a_fault_or_another_product() {
    let (a, b, other) = (matrix::<f64>(40, 8, 0, 1), matrix::<f64>(8, 4, 0, 2), matrix::<f64>(8, 4, 0, 9));
    let mut expected = matrix::<f64>(40, 4, 0, 3);
    for _ in 0..4 {
        gemm::reference::multiply(scaling(0.5, 1.0), a.view(), b.view(), expected.view_mut()).unwrap();
    }
    let b_bytes = 8 * 4 * 8;
    // Early faults hit products that send B, later ones products that do not.
    for fault in std::iter::once(String::new()).chain((1..=12).map(|place| format!("?fail_launch={place}"))) {
        for (list, mode) in [("cpu,emu:0", Mode::Resident), ("emu:0,emu:1", Mode::Oneshot)] {
            let devices = list.replace("emu:0", &format!("emu:0{fault}"));
            let options = ProductOptions { mode: Some(mode), reproducible: true, uses: Some(4), ..chunks(6) };
            let builder = runtime(&devices).gemm(&a, 4).options(options).resolved(resolved(list));
            let mut product = builder.updates_c(true).build().unwrap();
            let mut c = matrix::<f64>(40, 4, 0, 3);
            let sent = product.bind(&b, &mut c, |bound| {
                let mut sent = Vec::new();
                for run in 0..4 {
                    if run == 2 {
                        bound.product().apply(&other, &mut matrix::<f64>(40, 4, 0, 3))?;
                    }
                    bound.apply_scaled(0.5, 1.0)?;
                    sent.push(bound.last_report().unwrap().link_bytes().0);
                }
                Ok(sent)
            });
            let (sent, gpus) = (sent.unwrap(), list.matches("emu").count() as u64);
            assert_eq!(bits(&c), bits(&expected), "{devices}, {mode:?}");
            if fault.is_empty() {
                assert_eq!(sent[0], sent[1] + gpus * b_bytes, "{devices}, {mode:?}: {sent:?}");
                assert_eq!((sent[2], sent[3]), (sent[0], sent[1]), "{devices}, {mode:?}: {sent:?}");
            }
        }
    }
}

#[test]
fn operands_of_other_shapes_are_refused() {
    let (a, b) = (matrix::<f64>(5, 3, 0, 1), matrix::<f64>(4, 2, 0, 2));
    let mut c = matrix::<f64>(5, 2, 0, 3);
    let mut product = product(&a, 2, "cpu", ProductOptions::default()).unwrap();
    let error = product.apply(&b, &mut c).unwrap_err();
    assert!(
        error.exit_code() == 2 && error.to_string().starts_with("the product of 5 × 3 and 4 × 2"),
        "{error}"
    );
    let mut short = matrix::<f64>(4, 2, 0, 3);
    assert_eq!(product.apply(&matrix::<f64>(3, 2, 0, 2), &mut short).unwrap_err().exit_code(), 2);
}

#[test]
fn kernels_that_the_devices_or_the_order_exclude_are_refused() {
    let a = matrix::<f64>(9, 3, 0, 1);
    let with =
        |kernel, reproducible| ProductOptions { kernel: Some(kernel), reproducible, ..Default::default() };
    for (kernel, devices, reproducible) in [
        (KernelId::GemmNaive, "cpu", false),
        (KernelId::CpuGemm, "emu:0", false),
        (KernelId::CpuGemm, "cpu", true),
        (KernelId::Cublas, "emu:0", false),
        (KernelId::CpuCsr, "cpu", false),
        (KernelId::ColmeanLoop, "emu:0", false),
    ] {
        let error = product(&a, 2, devices, with(kernel, reproducible)).map(drop).unwrap_err();
        assert_eq!(error.exit_code(), 2, "{} on {devices}: {error}", kernel.name());
    }
}

#[test]
fn a_saved_plan_gives_the_same_result_and_one_of_another_job_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.plan");
    let (a, b) = (matrix::<f64>(20, 6, 0, 1), matrix::<f64>(6, 3, 0, 2));
    let mut expected = matrix::<f64>(20, 3, 0, 3);
    gemm::reference::multiply(scaling(1.0, 0.0), a.view(), b.view(), expected.view_mut()).unwrap();
    let options = ProductOptions { reproducible: true, ..chunks(5) };
    let first = product(&a, 3, "cpu,emu:0", options.clone()).unwrap();
    first.plan().save(&path).unwrap();
    let loaded = Plan::load(&path).unwrap();
    assert_eq!(loaded, *first.plan());
    let mut again = runtime("cpu,emu:0").gemm(&a, 3).plan(loaded.clone()).build().unwrap();
    let mut c = matrix::<f64>(20, 3, 0, 3);
    again.apply(&b, &mut c).unwrap();
    assert_eq!(bits(&c), bits(&expected));
    let error = again.apply_scaled(1.0, &b, 1.0, &mut c).unwrap_err();
    assert_eq!(error.exit_code(), 2, "the plan is for C = A B");
    let other = matrix::<f64>(21, 6, 0, 1);
    assert_eq!(
        runtime("cpu").gemm(&other, 3).plan(loaded.clone()).build().map(drop).unwrap_err().exit_code(),
        2
    );
    assert_eq!(
        runtime("cpu").column_sums(&a).plan(loaded.clone()).build().map(drop).unwrap_err().exit_code(),
        2
    );
    let mut damaged = loaded;
    damaged.chunks.last_mut().unwrap().staged_bytes -= 8;
    assert_eq!(runtime("cpu").gemm(&a, 3).plan(damaged).build().map(drop).unwrap_err().exit_code(), 3);

    let recording = matrix::<f64>(700, 4, 0, 1);
    let first = sums(&recording, "cpu,emu:0", options).unwrap();
    first.plan().save(&path).unwrap();
    let builder = runtime("cpu,emu:0").column_sums(&recording).deviations(true);
    let mut again = builder.plan(Plan::load(&path).unwrap()).build().unwrap();
    assert_eq!(again.apply().unwrap(), reference_totals(&recording));
}

#[test]
fn a_trace_has_the_tasks_of_dense_work() {
    let a = matrix::<f64>(64 * 8, 3, 0, 1);
    let mut sums = sums(&a, "cpu,emu:0", chunks(6)).unwrap();
    sums.apply().unwrap();
    let mut trace = Trace::default();
    let descriptions = sums.descriptions();
    let timeline = Timeline::new(&mut trace, sums.plan(), &descriptions);
    timeline.add_run(&mut trace, sums.last_report().unwrap(), 1);
    let count = |category| trace.spans().iter().filter(|span| span.category == category).count();
    assert!(count(Category::Kernel) >= 1 && count(Category::CpuCompute) >= 1 && count(Category::Merge) >= 1);
    assert!(count(Category::Upload) >= 1 && count(Category::Download) >= 1);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20))]

    #[test]
    fn products_and_sums_are_within_the_rounding_bound(
        rows in 1usize..70,
        depth in 0usize..20,
        columns in 1usize..20,
        padding in 0usize..3,
        chunks in 1usize..9,
        list in 0usize..3,
        alpha in -2.0f64..2.0,
        beta in -2.0f64..2.0,
        single: bool,
    ) {
        let devices = LISTS[list];
        let options = ProductOptions { chunks: Some(chunks), ..ProductOptions::default() };
        fn check<T: PackedProduct>(
            [rows, depth, columns, padding]: [usize; 4],
            (alpha, beta): (f64, f64),
            devices: &str,
            options: ProductOptions,
        ) -> bool {
            let (a, b) = (matrix::<T>(rows, depth, padding, 1), matrix::<T>(depth, columns, padding, 2));
            let (old, mut c) = (matrix::<T>(rows, columns, padding, 3), matrix::<T>(rows, columns, padding, 3));
            product(&a, columns, devices, options).unwrap().apply_scaled(alpha, &b, beta, &mut c).unwrap();
            let all: Vec<usize> = (0..rows).collect();
            let factors = scaling(alpha, beta);
            gemm::verify(factors, a.view(), b.view(), Some(old.view()), c.view(), &all).unwrap().passed
        }
        let shape = [rows, depth, columns, padding];
        let right = match if single { Dtype::F32 } else { Dtype::F64 } {
            Dtype::F64 => check::<f64>(shape, (alpha, beta), devices, options.clone()),
            Dtype::F32 => check::<f32>(shape, (alpha, beta), devices, options.clone()),
        };
        prop_assert!(right, "{:?} on {}", shape, devices);
        let a = matrix::<f64>(7 * rows, columns, padding, 5);
        let totals = sums(&a, devices, options).unwrap().apply().unwrap();
        prop_assert!(colmean::verify(a.view(), &totals, true).unwrap().passed);
    }
}
