//! A device has one copy of A for all products of a matrix, whatever their number of columns, and for its vectors. Memory of products
//! that do not run is evicted if another one needs it.

use std::sync::{Arc, Barrier};

use rowloom::internal::plan::Mode;
use rowloom::internal::runtime::Round;
use rowloom::{Csr, MultiVector, Product, Runtime};

const MATRIX: &str = "uniform,rows=1500,degree=60";

fn numbers(rows: usize, k: usize, seed: usize) -> MultiVector<f64> {
    MultiVector::from_fn(rows, k, |row, column| ((row * 7 + column * 3 + seed) % 11) as f64 - 5.0).unwrap()
}

/// A runtime on `devices`, of which `emu:0` has memory for so many times A.
fn runtime(devices: &str, a: &Csr<f64>, times_a: f64) -> Runtime {
    let memory_bytes = (a.bytes() as f64 * times_a) as u64;
    let devices = devices.replace("emu:0", &format!("emu:0?memory_bytes={memory_bytes}"));
    Runtime::builder().devices(devices).threads(2).model("none").refine(false).open().unwrap()
}

fn expected(a: &Csr<f64>, x: &MultiVector<f64>) -> MultiVector<f64> {
    let runtime = Runtime::builder().devices("cpu").threads(2).model("none").refine(false).open().unwrap();
    runtime.product(a).columns(x.k()).build().unwrap().apply(x).unwrap()
}

#[track_caller]
fn assert_close(y: &MultiVector<f64>, expected: &MultiVector<f64>) {
    let differences = y.data().iter().zip(expected.data()).map(|(y, expected)| (y - expected).abs());
    assert!(differences.fold(0.0, f64::max) < 1e-9, "a wrong product");
}

/// Computes a product and asserts that it is right, and that the device alone computed it, from a resident A.
#[track_caller]
fn apply_on_device(product: &mut Product<'_, f64>, a: &Csr<f64>, seed: usize) {
    let x = numbers(a.cols(), product.columns(), seed);
    assert_close(&product.apply(&x).unwrap(), &expected(a, &x));
    let words = product.explain();
    assert!(product.faults().is_empty() && !words.contains("fault:"), "{words}");
    assert_eq!(product.plan().mode, Mode::Resident, "K = {}: {words}", product.columns());
    let report = product.last_report().unwrap();
    let computed: Vec<_> = report.rounds.iter().flat_map(Round::computed).collect();
    assert!(!computed.is_empty() && computed.iter().all(|chunk| chunk.device.0 == 1), "{words}");
}

#[test]
fn products_with_1_to_16_columns_share_one_copy_of_a() {
    let a = Arc::new(Csr::<f64>::generate(MATRIX).unwrap());
    let runtime = runtime("emu:0", &a, 1.5);
    let build = |k| runtime.product(a.clone()).columns(k).uses(100).build().unwrap();
    // Half of them are planned before the device has A.
    let mut products: Vec<_> = (1..=8).map(build).collect();
    let mut copies = 0;
    for k in 0..16 {
        if k == 8 {
            products.extend((9..=16).map(build));
        }
        apply_on_device(&mut products[k], &a, 1);
        copies += usize::from(products[k].take_set_up().is_some());
        let words = products[k].explain();
        assert!(k < 8 || words.contains("A: stored once"), "K = {}: {words}", k + 1);
    }
    assert_eq!(copies, 1, "A was copied for several products");
    // All are alive, and each of them finds A in place.
    products.iter_mut().rev().for_each(|product| apply_on_device(product, &a, 2));
}

#[test]
fn a_borrowed_matrix_has_one_copy_and_products_may_end_in_any_order() {
    let a = Csr::<f64>::generate(MATRIX).unwrap();
    let runtime = runtime("emu:0", &a, 1.5);
    let mut first = runtime.product(&a).columns(2).uses(100).build().unwrap();
    apply_on_device(&mut first, &a, 1);
    let mut second = runtime.product(&a).columns(5).uses(100).build().unwrap();
    apply_on_device(&mut second, &a, 1);
    assert!(second.take_set_up().is_none(), "A was copied again");
    drop(first);
    apply_on_device(&mut second, &a, 2);
    let mut third = runtime.product(a.view()).columns(7).uses(100).build().unwrap();
    drop(second);
    apply_on_device(&mut third, &a, 3);
    assert!(third.take_set_up().is_some(), "the copy of A was not freed with its last product");
}

#[test]
fn vectors_and_products_on_host_memory_share_one_copy_of_a() {
    let a = Arc::new(Csr::<f64>::generate(MATRIX).unwrap());
    for vectors_first in [false, true] {
        let runtime = runtime("emu:0", &a, 1.6);
        let mut on_host = runtime.product(a.clone()).columns(4).uses(100).build().unwrap();
        let mut on_device = runtime.product(a.clone()).columns(3).uses(100).build().unwrap();
        if !vectors_first {
            apply_on_device(&mut on_host, &a, 1);
        }
        let (mut x, mut y) = (on_device.vectors().unwrap(), on_device.vectors().unwrap());
        let x_host = numbers(a.cols(), 3, 1);
        x.copy_from(&x_host).unwrap();
        for _ in 0..2 {
            on_device.apply_into(&x, &mut y).unwrap();
            apply_on_device(&mut on_host, &a, 2);
            let mut y_host = MultiVector::zeros(a.rows(), 3).unwrap();
            y.copy_to(&mut y_host).unwrap();
            assert_close(&y_host, &expected(&a, &x_host));
        }
        assert!(on_device.faults().is_empty(), "{:?}", on_device.faults());
        let of_vectors = on_device.vector_plan().unwrap().reasons.join("\n");
        let shared = [on_host.explain(), of_vectors].map(|words| words.contains("A: stored once"));
        assert_eq!(shared, [vectors_first, !vectors_first], "the second plan uses the layout of the first");
    }
}

#[test]
fn two_matrices_that_do_not_fit_together_take_turns_on_the_device() {
    let matrices = [MATRIX, "uniform,rows=1500,degree=59"].map(|spec| Csr::<f64>::generate(spec).unwrap());
    let runtime = runtime("emu:0", &matrices[0], 1.5);
    let mut products = Vec::new();
    for a in &matrices {
        products.push((runtime.product(a).columns(3).uses(100).build().unwrap(), a));
    }
    for seed in 0..3 {
        products.iter_mut().for_each(|(product, a)| apply_on_device(product, a, seed));
    }
    // Vectors stay, and layouts are evicted for them.
    let mut vectors = products[0].0.vectors().unwrap();
    vectors.fill(1.0).unwrap();
    apply_on_device(&mut products[1].0, &matrices[1], 4);
    let mut y = products[0].0.vectors().unwrap();
    products[0].0.apply_into(&vectors, &mut y).unwrap();
    let (mut y_host, ones) =
        (MultiVector::zeros(1500, 3).unwrap(), MultiVector::filled(1500, 3, 1.0).unwrap());
    y.copy_to(&mut y_host).unwrap();
    assert_close(&y_host, &expected(&matrices[0], &ones));
}

#[test]
fn threads_that_begin_at_once_with_one_matrix_share_its_copy() {
    let a = Arc::new(Csr::<f64>::generate(MATRIX).unwrap());
    for _ in 0..4 {
        let runtime = runtime("emu:0", &a, 1.5);
        let (barrier, threads) = (Barrier::new(4), 4);
        let copies: usize = std::thread::scope(|scope| {
            let work = |thread: usize| {
                let mut product =
                    runtime.product(a.clone()).columns(thread % 2 + 2).uses(100).build().unwrap();
                barrier.wait();
                for seed in 0..4 {
                    apply_on_device(&mut product, &a, seed);
                }
                usize::from(product.take_set_up().is_some())
            };
            let spawned: Vec<_> = (0..threads).map(|thread| scope.spawn(move || work(thread))).collect();
            spawned.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        // Two numbers of columns that are planned at the same time may have a layout each.
        assert!((1..=2).contains(&copies), "{copies} copies for {threads} threads");
    }
}

#[test]
fn the_copy_of_a_lost_device_is_not_used_again() {
    let a = Arc::new(Csr::<f64>::generate(MATRIX).unwrap());
    let runtime = Runtime::builder().devices("cpu,emu:0?lost_at_operation=60").threads(2).model("none");
    let runtime = runtime.refine(false).open().unwrap();
    let build = |k: usize| {
        runtime.product(a.clone()).columns(k).uses(100).mode(Mode::Resident).cpu_share(0.3).build().unwrap()
    };
    let mut first = build(2);
    let x = numbers(a.cols(), 2, 1);
    let want = expected(&a, &x);
    for _ in 0..40 {
        assert_close(&first.apply(&x).unwrap(), &want);
    }
    assert!(first.faults().iter().any(|fault| fault.device == "emu:0"), "the device was not lost");
    let mut second = build(2);
    assert_close(&second.apply(&x).unwrap(), &want);
    assert!(second.take_set_up().is_some(), "a device that was opened again has no copy of A");
    assert_close(&first.apply(&x).unwrap(), &want);
}

#[test]
fn another_matrix_in_the_memory_of_a_freed_one_is_not_taken_for_it() {
    let rows = 400;
    let matrix = |value: f64| {
        let columns = (0..rows as u32).collect::<Vec<_>>();
        Csr::try_new(rows, rows, (0..=rows as u64).collect::<Vec<_>>(), columns, vec![value; rows]).unwrap()
    };
    let runtime = Runtime::builder().devices("emu:0").threads(2).model("none").refine(false).open().unwrap();
    let x = numbers(rows, 2, 1);
    for value in 1..=8 {
        let a = matrix(f64::from(value));
        let mut product = runtime.product(&a).columns(2).uses(100).build().unwrap();
        let y = product.apply(&x).unwrap();
        assert!(y.data().iter().zip(x.data()).all(|(y, x)| *y == f64::from(value) * x), "value {value}");
        // A leaked product never frees its copy, and its matrix is freed all the same.
        std::mem::forget(product);
    }
}

#[test]
fn a_part_of_a_matrix_is_not_taken_for_the_whole() {
    let a = Csr::<f64>::generate("stencil5,n=24").unwrap();
    let runtime = Runtime::builder().devices("emu:0").threads(2).model("none").refine(false).open().unwrap();
    let x = numbers(a.cols(), 2, 1);
    let want = expected(&a, &x);
    let mut whole = runtime.product(&a).columns(2).uses(100).build().unwrap();
    whole.apply(&x).unwrap();
    let (begin, end) = (100, 300);
    let mut part = runtime.product(a.view().slice_rows(begin..end)).columns(2).uses(100).build().unwrap();
    let y = part.apply(&x).unwrap();
    assert_eq!(y.data(), &want.data()[begin * 2..end * 2]);
}

#[test]
fn explain_names_a_device_that_had_too_little_memory() {
    let a = Csr::<f64>::generate(MATRIX).unwrap();
    let devices = "cpu,emu:0?out_of_memory_at_allocation=1";
    let runtime = Runtime::builder().devices(devices).threads(2).model("none").refine(false).open().unwrap();
    let mut product = runtime.product(&a).columns(2).uses(100).build().unwrap();
    let x = numbers(a.cols(), 2, 1);
    assert_close(&product.apply(&x).unwrap(), &expected(&a, &x));
    let fault = product.faults().into_iter().next().unwrap();
    assert_eq!(fault.device, "emu:0");
    assert!(product.explain().contains(&fault.error), "{}", product.explain());
}
