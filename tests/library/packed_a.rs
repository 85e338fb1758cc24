//! A packed A that is copied with each product: it is chosen where many products pay for packing it, Y has the bytes of the canonical
//! order however A gets to the devices, and what cannot be packed is refused.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use proptest::prelude::*;
use rowloom::internal::cost::preset;
use rowloom::internal::kernel::{KernelId, reference};
use rowloom::internal::matrix::array::SharedBytes;
use rowloom::internal::matrix::{Array, Csr, MultiVector, generate};
use rowloom::internal::plan::{DeviceSpec, Mode, Plan, PlanRequest, make};
use rowloom::internal::runtime::{ProductOptions, Runtime, Transfer};
use rowloom::internal::work::Work;

use crate::long_rows::{Way, assert_canonical, matrix, ways, with_value, x_for};

/// The same pattern with `distinct` values, or with general ones where there are 0.
fn with_values(a: &Csr<f64>, distinct: usize) -> Csr<f64> {
    let (pointers, columns) = (a.view().row_pointers().to_vec(), a.view().columns().to_vec());
    let value = |at: usize| match distinct {
        0 => (at as f64 - 40.3) / 7.0,
        _ => (at * 31 % distinct) as f64 - 0.7,
    };
    let values: Vec<f64> = (0..a.nnz()).map(value).collect();
    Csr::try_new(a.rows(), a.cols(), pointers, columns, values).unwrap()
}

fn packed(mode: Mode) -> ProductOptions {
    ProductOptions { mode: Some(mode), kernel: Some(KernelId::CsrPacked), ..ProductOptions::default() }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn products_that_copy_a_packed_a_have_the_bits_of_the_canonical_order(
        lengths in proptest::collection::vec(
            prop_oneof![4 => 0..9usize, 2 => 120..140usize, 1 => 250..262usize, 1 => 1900..2600usize],
            1..60,
        ),
        cols in prop_oneof![Just(2_700usize), Just(65_536), Just(65_537), Just(90_000)],
        distinct in prop_oneof![Just(0usize), Just(1), Just(7), Just(256), Just(257)],
        k in prop_oneof![Just(1usize), Just(3), Just(8), Just(33)],
        way in ways(KernelId::CsrPacked),
    ) {
        let k = if cols > 65_000 { k.min(3) } else { k };
        let plan = assert_canonical(&with_values(&matrix(&lengths, cols), distinct), k, &way);
        let is_packed = |plan: &Plan| plan.chunks.iter().all(|chunk| chunk.gpu_kernel == KernelId::CsrPacked);
        prop_assert!(way.kernel.is_none() || is_packed(&plan));
    }
}

#[test]
fn parts_of_one_long_row_are_packed_and_a_lost_device_leaves_its_chunks_to_the_others() {
    let long = with_values(&matrix(&[3, 60_000, 5], 70_000), 200);
    for chunks in [1, 5, 40] {
        let way = Way {
            devices: &["emu:0"],
            mode: Mode::Stream,
            transfer: Transfer::Auto,
            chunks: Some(chunks),
            kernel: Some(KernelId::CsrPacked),
        };
        assert_canonical(&long, 2, &way);
    }
    let hubs = generate::<f64>("hub,rows=3000,degree=2,hubs=4", 3, u64::MAX).unwrap().matrix;
    for (distinct, transfer) in
        [(9, Transfer::Registered), (0, Transfer::Registered), (9, Transfer::Staged), (0, Transfer::Staged)]
    {
        let way = Way {
            devices: &["emu:0", "emu:1?lost_at_operation=9"],
            mode: Mode::Oneshot,
            transfer,
            chunks: Some(12),
            kernel: Some(KernelId::CsrPacked),
        };
        assert_canonical(&with_values(&hubs, distinct), 5, &way);
    }
}

/// The plan of so many products for a simulated H200.
fn h200(a: &Csr<f64>, k: usize, repeat: u64, host_memory_bytes: u64) -> Plan {
    let machine = preset("h200").unwrap();
    let device = DeviceSpec::new("sim:h200", machine.gpus[0].clone());
    let request = PlanRequest::new(Work::spmm(&a.view(), k).unwrap(), vec![device], machine.host);
    make(&PlanRequest { mode: Some(Mode::Oneshot), repeat, host_memory_bytes, ..request }).unwrap()
}

fn is_packed(plan: &Plan) -> bool {
    plan.chunks.iter().all(|chunk| chunk.gpu_kernel == KernelId::CsrPacked)
}

#[test]
fn many_products_pay_for_packing_and_the_plan_says_what_it_costs_and_gains() {
    let stencil = generate::<f64>("stencil27,n=30", 1, u64::MAX).unwrap().matrix;
    let general = with_values(&stencil, 0);
    for (a, entry_bytes, words) in [
        (&with_value(&stencil, 1.0), 2.4, "packing: 2."),
        (&with_values(&stencil, 5), 3.4, "packing: 3."),
        (&general, 10.4, "packing: 10."),
    ] {
        let plan = h200(a, 1, 1000, u64::MAX);
        assert!(is_packed(&plan), "{}", plan.chunks[0].kernel_reason);
        let bytes: u64 = plan.chunks.iter().map(|chunk| chunk.staged_bytes).sum();
        assert!(bytes as f64 <= entry_bytes * a.nnz() as f64, "{bytes}");
        let reason = plan.reasons.iter().find(|reason| reason.starts_with("packing: ")).unwrap();
        assert!(
            reason.starts_with(words) && reason.contains(" bytes per nonzero cross instead of 12.3"),
            "{reason}"
        );
        assert!(reason.contains("once (1000 products); a product is predicted"), "{reason}");
        assert!(!is_packed(&h200(a, 1, 1000, bytes / 2)), "a copy that exceeds the memory of the host");
        assert!(plan.predicted_s < h200(a, 1, 1000, bytes / 2).predicted_s);
    }
    let once = h200(&general, 1, 1, u64::MAX);
    assert!(!is_packed(&once) && !once.reasons.iter().any(|reason| reason.starts_with("packing: ")));
}

#[test]
fn a_packed_a_that_stays_on_a_device_or_exceeds_the_memory_of_the_host_is_refused() {
    let a = with_values(&generate::<f64>("stencil5,n=30", 1, u64::MAX).unwrap().matrix, 3);
    let runtime = Runtime::builder().devices("emu:0").model("none").open().unwrap();
    let refused = runtime.product(&a).columns(3).options(packed(Mode::Resident)).build().err().unwrap();
    assert_eq!(refused.exit_code(), 2, "{refused}");
    assert!(
        refused.to_string().contains("csr_packed reads an A that is copied with each product"),
        "{refused}"
    );
    let options = ProductOptions { host_memory_limit_bytes: Some(1000), ..packed(Mode::Oneshot) };
    let mut product = runtime.product(&a).columns(3).options(options).build().unwrap();
    let refused = product.apply(&x_for(a.cols(), 3, 0)).err().unwrap();
    assert_eq!(refused.exit_code(), 3, "{refused}");
    assert!(refused.to_string().contains("the packed copy of A"), "{refused}");
}

#[test]
fn a_plan_of_a_matrix_that_is_packed_in_another_way_is_refused() {
    let near = with_values(&matrix(&[4; 900], 90_000), 3);
    let far: Vec<u32> = near.view().columns().iter().map(|column| column * 7919 % 90_000).collect();
    let a = near.clone().with_columns(90_000, far).unwrap();
    let runtime = Runtime::builder().devices("emu:0").model("none").open().unwrap();
    let plan = |a: &Csr<f64>| {
        runtime.product(a).columns(2).options(packed(Mode::Oneshot)).build().unwrap().plan().clone()
    };
    let view = a.view();
    let general = with_values(&a, 0);
    for other in [&near, &general] {
        let mut product = runtime.product(other).plan(plan(&a)).build().unwrap();
        let refused = product.apply(&x_for(a.cols(), 2, 0)).err();
        let refused = refused.unwrap_or_else(|| panic!("a plan for another packed A was taken"));
        assert!([2, 3].contains(&refused.exit_code()), "{refused}");
        let mut back = runtime.product(&a).plan(plan(other)).build().unwrap();
        assert!(back.apply(&x_for(a.cols(), 2, 0)).is_err());
    }
    // Other values of the same number are those of the product, not of the plan.
    let negated: Vec<f64> = view.values().iter().map(|value| -value).collect();
    let negated =
        Csr::try_new(a.rows(), a.cols(), view.row_pointers().to_vec(), view.columns().to_vec(), negated)
            .unwrap();
    let x = x_for(a.cols(), 2, 0);
    let y = runtime.product(&negated).plan(plan(&a)).build().unwrap().apply(&x).unwrap();
    assert!(y.data() == expected(&negated, &x).data());
}

fn expected(a: &Csr<f64>, x: &MultiVector<f64>) -> MultiVector<f64> {
    let mut y = MultiVector::zeros(a.rows(), x.k()).unwrap();
    reference::csr(a.view(), x.view(), &mut y.view_mut()).unwrap();
    y
}

/// Values that become others.
struct Changing([Vec<f64>; 2], Arc<AtomicUsize>);

impl SharedBytes for Changing {
    fn bytes(&self) -> &[u8] {
        bytemuck::cast_slice(&self.0[self.1.load(Ordering::Relaxed)])
    }
}

#[test]
fn values_that_may_change_are_not_packed_and_products_use_those_of_the_moment() {
    let few = with_values(&matrix(&[30; 300], 5000), 4);
    let other = with_values(&few, 6);
    let (first, second) = (few.view().values().to_vec(), other.view().values().to_vec());
    for transfer in [Transfer::Registered, Transfer::Staged] {
        let number = Arc::new(AtomicUsize::new(0));
        let shared = Arc::new(Changing([first.clone(), second.clone()], number.clone()));
        let values = Array::<f64>::window(shared, 0..8 * few.nnz()).unwrap();
        let (pointers, columns) = (few.view().row_pointers().to_vec(), few.view().columns().to_vec());
        let a = Csr::try_new(few.rows(), few.cols(), pointers, columns, values).unwrap();
        let runtime = Runtime::builder().devices("emu:0").model("none").open().unwrap();
        let options = ProductOptions { transfer, uses: Some(3), fixed: true, ..packed(Mode::Oneshot) };
        let mut product = runtime.product(a).columns(3).options(options).build().unwrap();
        let bytes: u64 = product.plan().chunks.iter().map(|chunk| chunk.staged_bytes).sum();
        assert!(bytes > 10 * few.nnz() as u64 && bytes < 12 * few.nnz() as u64, "{bytes}");
        let x = x_for(few.cols(), 3, 1);
        assert!(product.apply(&x).unwrap().data() == expected(&few, &x).data());
        if transfer == Transfer::Registered {
            // Other memory than the registered one.
            continue;
        }
        number.store(1, Ordering::Relaxed);
        assert!(product.apply(&x).unwrap().data() == expected(&other, &x).data(), "{transfer:?}");
    }
}
