//! X and Y in page-locked memory are copied in place, with the same bits; large staged copies by all threads have the same bits too.

use rowloom::internal::graph::TaskKind;
use rowloom::internal::kernel::reference;
use rowloom::internal::plan::Mode;
use rowloom::internal::runtime::{PageLocked, Product, ProductOptions, Transfer};
use rowloom::{Csr, MultiVector, Runtime};

fn open(devices: &str) -> Runtime {
    Runtime::builder().devices(devices).threads(2).model("none").open().unwrap()
}

fn product<'a>(runtime: &Runtime, a: &'a Csr<f64>, k: usize, mode: Mode) -> Product<'a, f64> {
    runtime.product(a).columns(k).mode(mode).adaptive(false).reproducible(true).build().unwrap()
}

fn expected(a: &Csr<f64>, x: &MultiVector<f64>) -> MultiVector<f64> {
    let mut y = MultiVector::zeros(a.rows(), x.k()).unwrap();
    reference::csr(a.view(), x.view(), &mut y.view_mut()).unwrap();
    y
}

fn same_bits(left: &[f64], right: &[f64]) -> bool {
    left.iter().map(|value| value.to_bits()).eq(right.iter().map(|value| value.to_bits()))
}

/// The number of tasks of a kind in the last product.
fn tasks(product: &Product<'_, f64>, kind: TaskKind) -> usize {
    let rounds = &product.last_report().unwrap().rounds;
    let of_round = |graph: &rowloom::internal::graph::Graph| {
        graph.tasks().iter().filter(|task| task.kind == kind).count()
    };
    rounds.iter().map(|round| of_round(round.planned.graph())).sum()
}

#[test]
fn page_locked_x_and_y_are_copied_in_place_with_the_same_bits() {
    let a = Csr::<f64>::generate("stencil5,n=24").unwrap();
    let x = MultiVector::random(a.cols(), 4, 7).unwrap();
    let want = expected(&a, &x);
    for devices in ["emu:0", "cpu,emu:0", "emu:0,emu:1"] {
        for mode in [Mode::Resident, Mode::Oneshot] {
            let runtime = open(devices);
            let mut product = product(&runtime, &a, 4, mode);
            let what = format!("{devices}, {mode:?}");
            let mut y = product.page_locked_y().unwrap().expect("a GPU copies Y");
            product.apply_into(&x, &mut y).unwrap();
            assert!(same_bits(y.view().data(), want.data()), "{what}");
            assert_eq!(tasks(&product, TaskKind::Merge), 0, "{what}");
            // The result is X of the next product.
            let mut next = product.page_locked_y().unwrap().expect("a GPU copies Y");
            product.apply_into(&y, &mut next).unwrap();
            let mut copied = MultiVector::zeros(a.rows(), 4).unwrap();
            copied.data_mut().copy_from_slice(y.view().data());
            assert!(same_bits(next.view().data(), expected(&a, &copied).data()), "{what}, second product");
            if mode == Mode::Resident {
                assert_eq!(tasks(&product, TaskKind::Stage), 0, "{what}");
            }
            // Arrays in other memory are staged by the same product, and so is a Y that is updated.
            let mut plain = MultiVector::zeros(a.rows(), 4).unwrap();
            product.apply_into(&x, &mut plain).unwrap();
            assert!(same_bits(plain.data(), want.data()), "{what}, staged");
            product.apply_scaled(1.0, &x, 0.0, &mut y).unwrap();
            product.apply_scaled(0.0, &x, 2.0, &mut y).unwrap();
            let doubled: Vec<f64> = want.data().iter().map(|value| 2.0 * value).collect();
            assert!(y.view().data().iter().eq(doubled.iter()), "{what}, updated");
        }
    }
}

#[test]
fn rows_that_devices_pad_are_not_page_locked() {
    let a = Csr::<f64>::generate("stencil5,n=12").unwrap();
    let runtime = open("emu:0");
    assert!(product(&runtime, &a, 5, Mode::Resident).page_locked_y().unwrap().is_none());
    // A view that claims page-locked memory is staged then.
    let mut padded = product(&runtime, &a, 5, Mode::Resident);
    let x = MultiVector::random(a.cols(), 5, 3).unwrap();
    let mut y = MultiVector::zeros(a.rows(), 5).unwrap();
    padded.apply_into(&PageLocked(x.view()), &mut PageLocked(y.view_mut())).unwrap();
    assert!(same_bits(y.data(), expected(&a, &x).data()));
    assert!(product(&open("cpu"), &a, 4, Mode::Resident).page_locked_y().unwrap().is_none());
}

#[test]
fn memory_that_a_device_refuses_to_page_lock_is_staged() {
    let a = Csr::<f64>::generate("stencil5,n=12").unwrap();
    let runtime = open("emu:0?refuse_registration=1");
    assert!(product(&runtime, &a, 4, Mode::Resident).page_locked_y().unwrap().is_none());
}

#[test]
fn a_device_lost_while_it_copies_in_place_is_survived() {
    let a = Csr::<f64>::generate("stencil5,n=24").unwrap();
    let x = MultiVector::random(a.cols(), 4, 7).unwrap();
    let want = expected(&a, &x);
    let mut recovered = 0;
    for operation in 1..12 {
        let runtime = open(&format!("cpu,emu:0?lost_at_operation={operation}"));
        let mut product = product(&runtime, &a, 4, Mode::Oneshot);
        let mut y = MultiVector::zeros(a.rows(), 4).unwrap();
        for _ in 0..2 {
            y.data_mut().fill(f64::NAN);
            product.apply_into(&PageLocked(x.view()), &mut PageLocked(y.view_mut())).unwrap();
            assert!(same_bits(y.data(), want.data()), "lost at operation {operation}");
        }
        recovered += product.faults().len();
    }
    assert!(recovered > 5, "{recovered} faults");
}

#[test]
fn large_slices_merged_by_all_threads_have_the_same_bits() {
    let a = Csr::<f64>::generate("diagonal,rows=80000").unwrap();
    let k = 32;
    let x = MultiVector::random(a.cols(), k, 5).unwrap();
    let want = expected(&a, &x);
    let runtime = open("emu:0");
    let builder = runtime.product(&a).columns(k).mode(Mode::Resident).adaptive(false).reproducible(true);
    let mut product = builder.build().unwrap();
    for leading_dimension in [k, k + 3] {
        let mut y = MultiVector::zeros_with_leading_dimension(a.rows(), k, leading_dimension).unwrap();
        y.data_mut().fill(1.0);
        product.apply_scaled(1.0, &x, 3.0, &mut y).unwrap();
        let added = (0..a.rows()).all(|row| {
            y.row(row).iter().zip(want.row(row)).all(|(&got, &sum)| got == 1.0f64.mul_add(3.0, sum))
        });
        assert!(added, "leading dimension {leading_dimension}");
        product.apply_into(&x, &mut y).unwrap();
        assert!((0..a.rows()).all(|row| same_bits(y.row(row), want.row(row))), "{leading_dimension}");
        // The padding between rows is the caller's.
        let padding = |row: usize| &y.data()[row * leading_dimension + k..(row + 1) * leading_dimension];
        assert!((0..a.rows()).all(|row| padding(row).iter().all(|&value| value == 1.0)));
    }
    let largest = product.plan().chunks.iter().map(|chunk| chunk.slice_rows()).max().unwrap();
    assert!(largest * 8 * k as u64 >= 2 << 20, "slices of {largest} rows are merged by one thread");
}

#[test]
fn scaled_products_on_bound_arrays_have_the_bits_of_scaled_products() {
    const FACTORS: [(f64, f64); 4] = [(0.5, -1.0), (1.0, 0.0), (-2.0 / 3.0, 1.0), (1.5, 0.25)];
    let a = Csr::<f64>::generate("stencil5,n=24").unwrap();
    let x = MultiVector::random(a.cols(), 4, 7).unwrap();
    let start = MultiVector::random(a.rows(), 4, 8).unwrap();
    for devices in ["cpu", "emu:0", "cpu,emu:0"] {
        for transfer in [Transfer::Auto, Transfer::Staged] {
            let runtime = open(devices);
            let build =
                || runtime.product(&a).columns(4).uses(1000).transfer(transfer).reproducible(true).build();
            let (mut want, mut product) = (start.clone(), build().unwrap());
            product.apply_into(&x, &mut want).unwrap();
            for (alpha, beta) in FACTORS {
                product.apply_scaled(alpha, &x, beta, &mut want).unwrap();
            }
            let (mut y, mut product) = (start.clone(), build().unwrap());
            let scaled = product.bind(&x, &mut y, |bound| {
                bound.apply()?;
                FACTORS.iter().try_for_each(|&(alpha, beta)| bound.apply_scaled(alpha, beta))
            });
            scaled.unwrap();
            assert!(same_bits(y.data(), want.data()), "{devices}, {transfer:?}");
        }
    }
}

#[test]
fn a_registered_y_is_staged_from_the_first_scaled_product_that_reads_it() {
    let a = Csr::<f64>::generate("stencil5,n=24").unwrap();
    let (x, mut y) = (MultiVector::random(a.cols(), 4, 7).unwrap(), MultiVector::zeros(a.rows(), 4).unwrap());
    let runtime = open("emu:0");
    let mut resolved = runtime.resolve(&ProductOptions::default()).unwrap();
    // Slow host copies, a fast link and free registration make the plan choose registered memory.
    (resolved.host.memory_gb_per_s, resolved.host.copy_gb_per_s) = (0.01, 0.01);
    for link in resolved.devices.iter_mut().filter_map(|device| device.profile.link.as_mut()) {
        (link.to_device_gb_per_s, link.from_device_gb_per_s, link.latency_us) = (500.0, 500.0, 0.0);
        link.register_s_per_gb = Some(0.0);
    }
    let builder = runtime.product(&a).columns(4).uses(1000).reproducible(true);
    let mut product = builder.resolved(resolved).build().unwrap();
    let is_registered =
        |product: &Product<'_, f64>| product.plan().devices.iter().any(|device| device.registered.y);
    let bound = product.bind(&x, &mut y, |bound| {
        bound.apply()?;
        assert!(is_registered(bound.product()), "{:?}", bound.product().plan().reasons);
        bound.apply_scaled(0.5, 2.0)?;
        assert!(!is_registered(bound.product()));
        bound.apply_scaled(1.0, 0.0)
    });
    bound.unwrap();
    assert!(same_bits(y.data(), expected(&a, &x).data()));
}
