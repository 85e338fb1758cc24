//! Matrices with long rows or with equal values where A is copied with each product: the kernel that cuts long rows, and the one that
//! leaves the values out, are chosen, and Y has the bytes of the canonical order however A gets to the devices.

use proptest::prelude::*;
use rowloom::internal::adapt::ResolvedDevices;
use rowloom::internal::cost::{emulated_profile, host_rates, preset};
use rowloom::internal::kernel::{KernelId, reference};
use rowloom::internal::matrix::{Csr, MultiVector, generate};
use rowloom::internal::plan::{DeviceSpec, Mode, Plan, PlanRequest, make};
use rowloom::internal::runtime::{ProductOptions, Runtime, Transfer};
use rowloom::internal::work::Work;

/// How A gets to the devices, and how it is computed there.
#[derive(Debug, Clone)]
pub struct Way {
    pub devices: &'static [&'static str],
    pub mode: Mode,
    pub transfer: Transfer,
    pub chunks: Option<usize>,
    pub kernel: Option<KernelId>,
}

/// An emulated device that registers memory at no cost.
fn device(name: &str) -> DeviceSpec {
    let mut profile = emulated_profile().unwrap();
    profile.link.as_mut().unwrap().register_s_per_gb = Some(0.0);
    DeviceSpec { name: name.into(), profile, memory_limit_bytes: None, taken_bytes: 0, required: true }
}

pub fn x_for(rows: usize, k: usize, seed: usize) -> MultiVector<f64> {
    MultiVector::from_fn(rows, k, |row, k| ((row * 31 + k * 17 + seed) % 101) as f64 / 37.0 - 1.3).unwrap()
}

fn bits(values: &MultiVector<f64>) -> Vec<u64> {
    values.data().iter().map(|value| value.to_bits()).collect()
}

/// The plan for two products with different X. Fails unless each Y has the bits of the reference.
pub fn assert_canonical(a: &Csr<f64>, k: usize, way: &Way) -> Plan {
    let resolved = ResolvedDevices {
        devices: way.devices.iter().map(|name| device(name)).collect(),
        host: host_rates(2).unwrap(),
        cluster: None,
        factors_path: None,
        has_model: false,
    };
    let options = ProductOptions {
        mode: Some(way.mode),
        chunks: way.chunks,
        transfer: way.transfer,
        kernel: way.kernel,
        reproducible: true,
        uses: Some(2),
        host_memory_limit_bytes: Some(u64::MAX),
        fixed: true,
        ..ProductOptions::default()
    };
    let runtime = Runtime::builder().devices(way.devices.join(",")).model("none").open().unwrap();
    let product = runtime.product(a).columns(k).options(options).resolved(resolved);
    let mut product = product.build().unwrap();
    for seed in [0, 7] {
        let x = x_for(a.cols(), k, seed);
        let mut want = MultiVector::zeros(a.rows(), k).unwrap();
        reference::csr(a.view(), x.view(), &mut want.view_mut()).unwrap();
        let mut y = MultiVector::zeros(a.rows(), k).unwrap();
        product.apply_into(&x, &mut y).unwrap();
        assert!(bits(&y) == bits(&want), "k = {k}, X {seed}: other bits with {way:?}");
    }
    product.plan().clone()
}

/// The same pattern with this value everywhere.
pub fn with_value(a: &Csr<f64>, value: f64) -> Csr<f64> {
    let (pointers, columns) = (a.view().row_pointers().to_vec(), a.view().columns().to_vec());
    Csr::try_new(a.rows(), a.cols(), pointers, columns, vec![value; a.nnz()]).unwrap()
}

pub fn matrix(lengths: &[usize], cols: usize) -> Csr<f64> {
    let (mut pointers, mut columns) = (vec![0], Vec::new());
    for (row, &length) in lengths.iter().enumerate() {
        let length = length.min(cols);
        let first = (row * 13) % (cols - length + 1);
        columns.extend((0..length).map(|at| (first + at) as u32));
        pointers.push(columns.len() as u64);
    }
    let values: Vec<f64> = (0..columns.len()).map(|at| ((at * 7 % 23) as f64 - 10.6) / 3.0).collect();
    Csr::try_new(lengths.len(), cols, pointers, columns, values).unwrap()
}

pub fn ways(kernel: KernelId) -> impl Strategy<Value = Way> {
    let devices = prop_oneof![Just(&["emu:0"][..]), Just(&["emu:0", "emu:1"][..])];
    let mode = prop_oneof![Just(Mode::Oneshot), Just(Mode::Stream)];
    let transfer = prop_oneof![Just(Transfer::Registered), Just(Transfer::Staged), Just(Transfer::Auto)];
    let chunks = prop_oneof![Just(None), (1..9usize).prop_map(Some)];
    let kernel = prop_oneof![3 => Just(Some(kernel)), 1 => Just(None)];
    (devices, mode, transfer, chunks, kernel).prop_map(|(devices, mode, transfer, chunks, kernel)| Way {
        devices,
        mode,
        transfer,
        chunks,
        kernel,
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn products_that_copy_an_a_with_long_rows_have_the_bits_of_the_canonical_order(
        lengths in proptest::collection::vec(
            prop_oneof![0..9usize, 120..140usize, 250..262usize, 400..1100usize, 1900..2600usize, 8000..10000usize],
            1..24,
        ),
        k in prop_oneof![Just(1usize), Just(3), Just(8), Just(33)],
        way in ways(KernelId::CsrCuts),
    ) {
        assert_canonical(&matrix(&lengths, 10_100), k, &way);
    }

    #[test]
    fn products_that_copy_an_a_with_one_value_have_the_bits_of_the_canonical_order(
        lengths in proptest::collection::vec(
            prop_oneof![4 => 0..9usize, 2 => 120..140usize, 1 => 250..262usize, 1 => 1900..2600usize],
            1..60,
        ),
        k in prop_oneof![Just(1usize), Just(3), Just(8), Just(33)],
        value in prop_oneof![Just(1.0), Just(-0.7), Just(-0.0)],
        way in ways(KernelId::CsrPattern),
    ) {
        assert_canonical(&with_value(&matrix(&lengths, 10_100), value), k, &way);
    }
}

#[test]
fn a_lost_device_leaves_its_lists_of_long_rows_to_the_others() {
    let a = generate::<f64>("hub,rows=3000,degree=2,hubs=4", 3, u64::MAX).unwrap().matrix;
    let both = [(&a, KernelId::CsrCuts), (&with_value(&a, -0.7), KernelId::CsrPattern)];
    let transfers = [Transfer::Registered, Transfer::Staged];
    for ((a, kernel), transfer) in both.iter().flat_map(|both| transfers.map(|transfer| (*both, transfer))) {
        let way = Way {
            devices: &["emu:0", "emu:1?lost_at_operation=9"],
            mode: Mode::Oneshot,
            transfer,
            chunks: Some(12),
            kernel: Some(kernel),
        };
        assert_canonical(a, 5, &way);
    }
}

/// The plan of ten products for a simulated H200.
fn h200(a: &Csr<f64>, k: usize, reproducible: bool) -> Plan {
    let machine = preset("h200").unwrap();
    let device = DeviceSpec::new("sim:h200", machine.gpus[0].clone());
    let work = Work::spmm(&a.view(), k).unwrap();
    let request = PlanRequest::new(work, vec![device], machine.host);
    // Without memory for a packed copy of A.
    let request = PlanRequest { host_memory_bytes: 0, ..request };
    make(&PlanRequest { mode: Some(Mode::Oneshot), repeat: 10, reproducible, ..request }).unwrap()
}

#[test]
fn chunks_with_long_rows_get_the_kernel_that_cuts_them_and_the_plan_says_why() {
    let a = generate::<f64>("hub,rows=200000,degree=5,hubs=20", 1, u64::MAX).unwrap().matrix;
    for (k, reproducible) in [(1, false), (8, false), (32, false), (8, true)] {
        let plan = h200(&a, k, reproducible);
        assert!(plan.devices[1].registered.a, "A keeps its arrays, and the lists are copied beside them");
        let longest = |begin: usize, end: usize| (begin..end).map(|row| a.view().row_length(row)).max();
        for chunk in &plan.chunks {
            let rowloom::internal::work::ChunkRows::Rows { begin, end } = chunk.rows else { continue };
            let has_long = longest(begin, end) > Some(50_000);
            assert_eq!(chunk.gpu_kernel == KernelId::CsrCuts, has_long, "k = {k}: {}", chunk.kernel_reason);
            assert!(!has_long || chunk.kernel_reason.contains("long rows cut"), "{}", chunk.kernel_reason);
        }
    }
}

#[test]
fn an_a_with_one_value_is_copied_without_the_others_and_the_plan_says_what_that_saves() {
    for spec in ["hub,rows=200000,degree=5,hubs=20", "stencil5,n=500", "rmat,scale=15,degree=12"] {
        let general = generate::<f64>(spec, 1, u64::MAX).unwrap().matrix;
        let general = with_other_last_value(&general);
        let pattern = with_value(&general, 1.0);
        for (k, reproducible) in [(1, false), (8, true), (32, false)] {
            let (plan, plain) = (h200(&pattern, k, reproducible), h200(&general, k, reproducible));
            let is_pattern =
                |plan: &Plan| plan.chunks.iter().all(|chunk| chunk.gpu_kernel == KernelId::CsrPattern);
            assert!(is_pattern(&plan), "{spec}, K = {k}: {}", plan.chunks[0].kernel_reason);
            assert!(!plain.chunks.iter().any(|chunk| chunk.gpu_kernel == KernelId::CsrPattern));
            assert!(plan.predicted_s < plain.predicted_s, "{spec}, K = {k}");
            let bytes = |plan: &Plan| plan.chunks.iter().map(|chunk| chunk.staged_bytes).sum::<u64>();
            let left_out = pattern.nnz() as u64 * 8;
            // Lists of long rows and padding.
            assert!(
                bytes(&plan) <= pattern.bytes() - left_out + pattern.bytes() / 20,
                "{spec}: {}",
                bytes(&plan)
            );
            let reason = plan.reasons.iter().find(|reason| reason.starts_with("values: "));
            assert!(
                reason.is_some_and(|reason| reason.contains("4 bytes per nonzero instead of 12")),
                "{reason:?}"
            );
            assert!(!plain.reasons.iter().any(|reason| reason.starts_with("values: ")));
        }
    }
}

/// The same matrix with another number as its last value.
fn with_other_last_value(a: &Csr<f64>) -> Csr<f64> {
    let (pointers, columns) = (a.view().row_pointers().to_vec(), a.view().columns().to_vec());
    let mut values = a.view().values().to_vec();
    *values.last_mut().unwrap() += 1.0;
    Csr::try_new(a.rows(), a.cols(), pointers, columns, values).unwrap()
}

#[test]
fn the_kernel_for_one_value_is_refused_for_a_matrix_with_another_at_the_latest_when_the_product_is_prepared()
{
    let pattern = with_value(&generate::<f64>("stencil5,n=30", 1, u64::MAX).unwrap().matrix, 2.5);
    let other = with_other_last_value(&pattern);
    let runtime = Runtime::builder().devices("emu:0").model("none").open().unwrap();
    for mode in [Mode::Oneshot, Mode::Stream, Mode::Resident] {
        let options = || ProductOptions {
            mode: Some(mode),
            kernel: Some(KernelId::CsrPattern),
            ..ProductOptions::default()
        };
        let refused = runtime.product(&other).columns(3).options(options()).build().err().unwrap();
        assert_eq!(refused.exit_code(), 2, "{refused}");
        assert!(refused.to_string().contains("are not all equal"), "{refused}");
        // A plan of another matrix with the same pattern passes all other checks.
        let plan = runtime.product(&pattern).columns(3).options(options()).build().unwrap().plan().clone();
        assert!(plan.chunks.iter().all(|chunk| chunk.gpu_kernel == KernelId::CsrPattern));
        assert!(runtime.product(&pattern).plan(plan.clone()).build().is_ok());
        // Before the first product, where the plan is compared with the whole matrix.
        let mut product = runtime.product(&other).plan(plan).build().unwrap();
        let refused = product.apply(&x_for(other.cols(), 3, 0)).err();
        let refused = refused.unwrap_or_else(|| panic!("{mode:?}: a plan for equal values was taken"));
        assert!(refused.to_string().contains("are not all equal"), "{refused}");
    }
}
