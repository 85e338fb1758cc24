//! Vectors on simulated devices: products and operations take predicted time, and values do not exist.

use rowloom::internal::graph::TaskKind;
use rowloom::internal::matrix::{Csr, MultiVector, generate};
use rowloom::solver::{PowerSettings, power_iteration, start_vectors};
use rowloom::{Product, Runtime};

fn matrix() -> Csr<f64> {
    generate::<f64>("stencil27,n=24", 1, u64::MAX).unwrap().matrix
}

fn build<'a>(devices: &str, a: &'a Csr<f64>) -> Product<'a, f64> {
    let runtime = Runtime::builder().devices(devices).threads(2).model("none").open().unwrap();
    runtime.product(a).columns(8).uses(10).build().unwrap()
}

#[test]
fn products_and_operations_advance_the_simulated_clock_by_predicted_times() {
    let a = matrix();
    for devices in ["sim:h200", "sim:h200x4", "cpu,sim:h200"] {
        let mut product = build(devices, &a);
        let (mut x, mut y) = (product.vectors().unwrap(), product.vectors().unwrap());
        x.copy_from(&MultiVector::zeros(a.rows(), 8).unwrap()).unwrap();
        let mut seconds = |product: &mut Product<'_, f64>| {
            let before = product.simulated_seconds().unwrap();
            product.apply_into(&x, &mut y).unwrap();
            product.simulated_seconds().unwrap() - before
        };
        let (first, again) = (seconds(&mut product), seconds(&mut product));
        assert!(again > 0.0, "{devices}");
        let reported = product.last_report().unwrap().seconds();
        assert!((reported - again).abs() < 1e-12, "{devices}: {reported} and {again}");
        // Rows are exchanged once; one owner exchanges none.
        let several = devices != "sim:h200";
        assert_eq!(first > again, several, "{devices}: {first} and {again}");
        assert_eq!(product.exchanged_rows().unwrap() > 0, several, "{devices}");
        let before = product.simulated_seconds().unwrap();
        y.axpby(1.0, &x, 2.0).unwrap();
        y.scale(0.5).unwrap();
        assert!(product.simulated_seconds().unwrap() > before, "{devices}");
    }
}

#[test]
fn a_simulated_product_runs_the_same_tasks_as_an_emulated_one() {
    let a = matrix();
    let kinds = |devices: &str| {
        let mut product = build(devices, &a);
        let (x, mut y) = (product.vectors().unwrap(), product.vectors().unwrap());
        product.apply_into(&x, &mut y).unwrap();
        let report = product.last_report().unwrap();
        let graph = report.rounds[0].planned.graph();
        let mut kinds: Vec<TaskKind> = graph.tasks().iter().map(|task| task.kind).collect();
        kinds.sort_by_key(|kind| kind.name());
        kinds
    };
    assert_eq!(kinds("sim:h200x2"), kinds("emu:0,emu:1"));
}

#[test]
fn values_of_simulated_vectors_are_an_error() {
    let a = matrix();
    let mut product = build("sim:h200x2", &a);
    let x = product.vectors().unwrap();
    let mut host = MultiVector::zeros(a.rows(), 8).unwrap();
    for error in [x.copy_to(&mut host).unwrap_err(), x.norm().unwrap_err(), x.gram(&x).map(drop).unwrap_err()]
    {
        assert_eq!(error.exit_code(), 2, "{error}");
        assert!(error.to_string().contains("no values") && error.to_string().contains("use cpu"), "{error}");
    }
}

#[test]
fn solvers_and_products_on_host_memory_refuse_simulated_devices_with_the_reason() {
    let a = matrix();
    let settings = PowerSettings::new(2).tolerance(1e-6).iterations(10);
    let mut product = build("sim:h200x2", &a);
    let solved =
        start_vectors(&mut product).and_then(|mut x| power_iteration(&mut product, &mut x, &settings));
    let applied = build("sim:h200", &a).apply(&MultiVector::zeros(a.rows(), 8).unwrap());
    for error in [solved.map(drop).unwrap_err(), applied.map(drop).unwrap_err()] {
        assert_eq!(error.exit_code(), 2, "{error}");
        assert!(error.to_string().contains("simulated devices compute no values"), "{error}");
    }
}

#[test]
fn vectors_that_exceed_the_memory_of_a_simulated_device_are_refused() {
    let a = matrix();
    let runtime = Runtime::builder().devices("sim:h200").threads(2).model("none").open().unwrap();
    let builder = runtime.product(&a).columns(8).uses(10).memory_limit(40 << 20);
    let mut product = builder.build().unwrap();
    let mut kept = Vec::new();
    let refused = (0..100).find_map(|_| match product.vectors() {
        Ok(vectors) => {
            kept.push(vectors);
            None
        }
        Err(error) => Some(error),
    });
    assert_eq!(refused.unwrap().exit_code(), 4);
    // Dropped vectors leave room for others.
    kept.pop();
    product.vectors().unwrap();
}
