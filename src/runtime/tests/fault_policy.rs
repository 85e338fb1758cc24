//! The executor and the queue of operations on vectors follow one policy of faults: [`completion`](crate::device::completion).

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::error::Result;
use crate::matrix::{Csr, MultiVector};
use crate::runtime::devices::OpenDevice;
use crate::runtime::{Check, Product, ProductOptions, Runtime, Vectors};

const K: usize = 3;

fn matrix() -> Csr<f64> {
    Csr::generate("stencil5,n=12").unwrap()
}

fn x() -> MultiVector<f64> {
    MultiVector::random(144, K, 1).unwrap()
}

fn open(devices: &str) -> Runtime {
    Runtime::builder().devices(devices).threads(2).model("none").open().unwrap()
}

/// A product and two vectors of it. It does not check its results, so that every operation is one of the product.
fn with_vectors(runtime: &Runtime, timeout: Duration) -> Result<(Product<'static, f64>, [Vectors<f64>; 2])> {
    let options =
        ProductOptions { watchdog_timeout: Some(timeout), fixed: true, ..ProductOptions::default() };
    let builder = runtime.product(matrix()).options(options).columns(K).uses(10);
    let mut product = builder.check(Check::Never).build()?;
    let vectors = [product.vectors()?, product.vectors()?];
    Ok((product, vectors))
}

/// The result of a use of vectors whose operations wait for nothing until the last.
fn used([x, y]: &mut [Vectors<f64>; 2]) -> Result<Vec<f64>> {
    for _ in 0..3 {
        x.fill(1.5)?;
        y.axpby(2.0, x, 0.0)?;
    }
    y.dot(x)
}

fn device(runtime: &Runtime) -> Arc<OpenDevice> {
    runtime.device("emu:0").unwrap()
}

const LONG: Duration = Duration::from_secs(30);

#[test]
fn a_failed_launch_or_copy_of_one_products_vectors_does_not_fail_those_of_another() {
    let mut failed = [0; 2];
    for fault in ["fail_launch", "fail_copy"] {
        for operation in 1..40 {
            let runtime = open(&format!("emu:0?{fault}={operation}"));
            let made = (with_vectors(&runtime, LONG), with_vectors(&runtime, LONG));
            let (Ok((_one, mut one)), Ok((_other, mut other))) = made else { continue };
            // Several uses, in turns: the faults of the one arrive while the other submits.
            let mut errors = [0; 2];
            for _ in 0..3 {
                for (errors, result) in errors.iter_mut().zip([used(&mut one), used(&mut other)]) {
                    match result {
                        Ok(sums) => assert_eq!(sums, [144.0 * 3.0 * 1.5; K]),
                        Err(error) => {
                            assert_eq!(error.exit_code(), 4, "{error}");
                            *errors += 1;
                        }
                    }
                }
            }
            assert!(errors.contains(&0), "{fault}={operation} failed the vectors of both products");
            // Its own vectors stay an error, since their values may be wrong.
            for (failed, errors) in failed.iter_mut().zip(errors) {
                *failed += usize::from(errors > 0);
            }
            assert!(device(&runtime).is_open(), "{fault}={operation}");
        }
    }
    assert!(failed.iter().all(|&failed| failed > 3), "{failed:?}");
}

#[test]
fn only_a_lost_device_is_closed_by_the_executor_and_by_the_queue_of_vectors() {
    let (a, x) = (matrix(), x());
    let want =
        open("cpu").product(a.clone()).columns(K).reproducible(true).build().unwrap().apply(&x).unwrap();
    for (fault, closes) in [("fail_launch", false), ("fail_copy", false), ("lost_at_operation", true)] {
        let mut effective = 0;
        for operation in 1..14 {
            let runtime = open(&format!("cpu,emu:0?{fault}={operation}"));
            let before = device(&runtime);
            // Half of the rows each, by the executor.
            let options = ProductOptions { cpu_share: Some(0.5), fixed: true, ..ProductOptions::default() };
            let builder = runtime.product(a.clone()).options(options).columns(K).reproducible(true).uses(10);
            let mut product = builder.check(Check::Never).build().unwrap();
            for _ in 0..2 {
                assert_eq!(product.apply(&x).unwrap().data(), want.data(), "{fault}={operation}");
            }
            if !product.faults().is_empty() {
                effective += 1;
                assert_eq!(before.is_open(), !closes, "{fault}={operation}, executor");
            }
        }
        assert!(effective > 1, "{fault}: {effective} faults of the executor");
        let mut effective = 0;
        for operation in 1..14 {
            let runtime = open(&format!("emu:0?{fault}={operation}"));
            let before = device(&runtime);
            let Ok((_product, mut vectors)) = with_vectors(&runtime, LONG) else { continue };
            let failed = used(&mut vectors).is_err();
            effective += usize::from(if closes { before.lock().is_lost() } else { failed });
            assert_eq!(before.is_open(), !before.lock().is_lost(), "{fault}={operation}, queue");
            assert!(before.is_open() || closes, "{fault}={operation}, queue");
        }
        assert!(effective > 0, "{fault}: no fault of the queue");
    }
}

#[test]
fn memory_that_is_refused_does_not_close_a_device() {
    let mut refused = 0;
    for allocation in 1..8 {
        let runtime = open(&format!("cpu,emu:0?out_of_memory_at_allocation={allocation}"));
        let before = device(&runtime);
        let options = ProductOptions { cpu_share: Some(0.5), fixed: true, ..ProductOptions::default() };
        let built = runtime.product(matrix()).options(options).columns(K).uses(10).build();
        let applied = built.and_then(|mut product| product.apply(&x()).map(|_| product.faults().len()));
        refused += applied.unwrap_or(1);
        assert!(before.is_open(), "allocation {allocation}");
    }
    assert!(refused > 0);
}

#[test]
fn queued_operations_have_the_watchdog_timeout_of_their_product() {
    let mut hung = 0;
    for operation in 1..14 {
        let runtime = open(&format!("emu:0?hang_at_operation={operation}"));
        let (before, start) = (device(&runtime), Instant::now());
        if let Ok((_product, mut vectors)) = with_vectors(&runtime, Duration::from_millis(300)) {
            let _ = used(&mut vectors);
            hung += usize::from(!before.is_open());
        }
        assert!(start.elapsed() < Duration::from_secs(20), "{operation}: {:?}", start.elapsed());
    }
    assert!(hung > 1, "{hung}");
}
