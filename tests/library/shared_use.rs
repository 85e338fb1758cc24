//! Several threads that use one runtime, and files that change while a program uses their matrix.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use rowloom::internal::matrix::generate;
use rowloom::internal::matrix::io::cache::write_cache;
use rowloom::internal::plan::{Mode, Plan};
use rowloom::{Csr, Error, MultiVector, Runtime};

/// Runs `work` in a thread; fails, and does not hang, if it has not ended after a minute.
fn ends(what: &str, work: impl FnOnce() + Send + 'static) {
    let (sender, receiver) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        work();
        sender.send(()).unwrap();
    });
    match receiver.recv_timeout(Duration::from_secs(60)) {
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("{what}: the threads wait for each other"),
        _ => thread.join().unwrap(),
    }
}

fn numbers(rows: usize, k: usize, seed: usize) -> MultiVector<f64> {
    MultiVector::from_fn(rows, k, |row, column| ((row * 7 + column * 3 + seed) % 11) as f64 - 5.0).unwrap()
}

#[test]
fn threads_that_share_vectors_get_their_own_sums_and_rows() {
    for devices in ["cpu", "emu:0", "cpu,emu:0"] {
        ends(devices, move || {
            let runtime = Runtime::builder().devices(devices).threads(2).refine(false).open().unwrap();
            let a = Csr::<f64>::generate("stencil5,n=24").unwrap();
            let (rows, k) = (a.rows(), 3);
            let mut product = runtime.product(a).columns(k).build().unwrap();
            let (mut x, mut y) = (product.vectors().unwrap(), product.vectors().unwrap());
            let (x_host, y_host) = (numbers(rows, k, 1), numbers(rows, k, 5));
            x.copy_from(&x_host).unwrap();
            y.copy_from(&y_host).unwrap();
            let column = |left: &MultiVector<f64>, right: &MultiVector<f64>, at: usize| -> f64 {
                (0..rows).map(|row| left.row(row)[at] * right.row(row)[at]).sum()
            };
            let of_both: Vec<f64> = (0..k).map(|at| column(&x_host, &y_host, at)).collect();
            let of_x: Vec<f64> = (0..k).map(|at| column(&x_host, &x_host, at)).collect();
            let (x, y, of_both, of_x, x_host) = (&x, &y, &of_both, &of_x, &x_host);
            std::thread::scope(|scope| {
                for thread in 0..4 {
                    scope.spawn(move || {
                        for _ in 0..40 {
                            match thread {
                                0 => assert_eq!(x.dot(y).unwrap(), *of_both),
                                1 => assert_eq!(y.dot(x).unwrap(), *of_both),
                                2 => assert_eq!(x.dot(x).unwrap(), *of_x),
                                _ => {
                                    let mut copy = MultiVector::zeros(rows, k).unwrap();
                                    x.copy_rows_to(0, copy.view_mut()).unwrap();
                                    assert!(copy.data() == x_host.data(), "rows of another operation");
                                }
                            }
                        }
                    });
                }
            });
        });
    }
}

#[test]
fn products_of_plans_with_other_orders_of_devices_do_not_wait_for_each_other() {
    let a = Arc::new(Csr::<f64>::generate("stencil5,n=12").unwrap());
    let plan_of = |devices: &str| {
        let runtime = Runtime::builder().devices(devices).threads(2).refine(false).open().unwrap();
        let product = runtime.product(a.clone()).columns(2).mode(Mode::Resident).build().unwrap();
        product.plan().clone()
    };
    let plans = [plan_of("emu:0,emu:1"), plan_of("emu:1,emu:0")];
    let names = |plan: &Plan| plan.devices.iter().map(|device| device.name.clone()).collect::<Vec<_>>();
    assert_eq!(names(&plans[0])[1..], ["emu:0", "emu:1"]);
    assert_eq!(names(&plans[1])[1..], ["emu:1", "emu:0"]);
    let a = a.clone();
    ends("products of two plans", move || {
        let runtime = Runtime::builder().devices("emu:0,emu:1").threads(2).refine(false).open().unwrap();
        std::thread::scope(|scope| {
            for plan in plans {
                let (runtime, a) = (&runtime, &a);
                scope.spawn(move || {
                    let x = numbers(a.cols(), 2, 3);
                    let mut product = runtime.product(a.clone()).columns(2).plan(plan).build().unwrap();
                    let first = product.apply(&x).unwrap();
                    for _ in 0..60 {
                        assert!(product.apply(&x).unwrap().data() == first.data());
                    }
                });
            }
        });
    });
}

/// A matrix in a `.rlm` that is large enough to be mapped.
fn mapped(folder: &tempfile::TempDir) -> (PathBuf, Csr<f64>) {
    let path = folder.path().join("a.rlm");
    let generated = generate::<f64>("stencil27,n=20", 1, u64::MAX).unwrap();
    write_cache(&path, &generated.matrix.view(), &generated.info, None).unwrap();
    (path.clone(), Csr::read(&path).unwrap())
}

fn cut(path: &PathBuf) {
    std::fs::File::options().write(true).open(path).unwrap().set_len(5000).unwrap();
}

#[track_caller]
fn assert_names_the_file<R>(result: Result<R, Error>) {
    match result {
        Err(error) => assert!(error.to_string().contains("a.rlm"), "{error}"),
        Ok(_) => panic!("the file has changed, and the result is not an error"),
    }
}

#[test]
fn a_matrix_file_that_is_cut_is_an_error_of_products_transposed_products_and_vectors() {
    let folder = tempfile::tempdir().unwrap();
    for devices in ["cpu", "emu:0"] {
        let runtime = Runtime::builder().devices(devices).threads(2).refine(false).open().unwrap();
        let (path, a) = mapped(&folder);
        let x = numbers(a.cols(), 2, 1);
        let mut owned = runtime.product(a).columns(2).build().unwrap();
        let (_, a) = mapped(&folder);
        let mut borrowed = runtime.product(&a).columns(2).build().unwrap();
        let (mut x_vectors, mut y_vectors) = (borrowed.vectors().unwrap(), borrowed.vectors().unwrap());
        x_vectors.copy_from(&x).unwrap();
        borrowed.apply_into(&x_vectors, &mut y_vectors).unwrap();
        borrowed.apply(&x).unwrap();
        cut(&path);
        assert_names_the_file(borrowed.apply(&x));
        assert_names_the_file(borrowed.transposed());
        assert_names_the_file(borrowed.apply_into(&x_vectors, &mut y_vectors));
        // Its file was replaced, not changed: it still has the old one.
        owned.apply(&x).unwrap();
    }
}
