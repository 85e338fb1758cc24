//! The product itself: any small matrix, number of columns, devices, modes and faults give the Y of the reference, or a typed error.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use rowloom::internal::kernel::reference;
use rowloom::internal::machine::Machine;
use rowloom::internal::matrix::{Csr, MultiVector, generate};
use rowloom::internal::plan::{Mode, Plan};
use rowloom::internal::runtime::{Pool, ProductOptions, Runtime, Transfer};
use rowloom::{Error, Result};

const DEVICES: [&str; 5] = ["cpu", "emu:0", "cpu,emu:0", "emu:0,emu:1", "cpu,emu:0,emu:1"];
const FAULTS: [&str; 6] = [
    "out_of_memory_at_allocation",
    "refuse_registration",
    "fail_launch",
    "fail_copy",
    "lost_at_operation",
    "delay_seed",
];

static HOST: LazyLock<(Machine, Arc<Pool>)> = LazyLock::new(|| {
    let machine = Machine::detect();
    let pool = Pool::new(&machine, Some(2)).expect("two threads can be started");
    (machine, Arc::new(pool))
});

/// Numbers from the bytes of an execution; zeros after their end.
struct Numbers<'a>(std::slice::Iter<'a, u8>);

impl Numbers<'_> {
    fn below(&mut self, end: usize) -> usize {
        usize::from(self.0.next().copied().unwrap_or(0)) % end.max(1)
    }
}

/// A random product.
pub fn product(bytes: &[u8]) {
    let mut numbers = Numbers(bytes.iter());
    let (rows, cols, k) = (numbers.below(40), 1 + numbers.below(40), 1 + numbers.below(9));
    let mut list = DEVICES[numbers.below(DEVICES.len())].to_string();
    for device in ["emu:0", "emu:1"] {
        let fault = numbers.below(2 * FAULTS.len());
        let at = 1 + numbers.below(40);
        if let (Some(name), true) = (FAULTS.get(fault), list.contains(device)) {
            list = list.replace(device, &format!("{device}?{name}={at}"));
        }
    }
    let mode = [None, Some(Mode::Oneshot), Some(Mode::Stream), Some(Mode::Resident)][numbers.below(4)];
    let chunks = 1 + numbers.below(7);
    let transfer = [Transfer::Auto, Transfer::Staged, Transfer::Registered][numbers.below(3)];
    let uses = 1 + numbers.below(3) as u64;
    let matrix = matrix(&mut numbers, rows, cols);
    let x = MultiVector::from_fn(cols, k, |row, column| ((row * 31 + column * 17) % 101) as f64 / 37.0 - 1.3);
    let x = x.expect("memory");
    let compute = || -> Result<()> {
        let runtime = runtime(&list)?;
        let options = ProductOptions {
            uses: Some(uses),
            mode,
            chunks: Some(chunks),
            transfer,
            reproducible: true,
            watchdog_timeout: Some(Duration::from_secs(20)),
            ..ProductOptions::default()
        };
        let mut product = runtime.product(&matrix).columns(k).options(options).build()?;
        for _ in 0..uses {
            let y = product.apply(&x)?;
            assert_eq!(bits(&y), bits(&expected(&matrix, &x)), "{list}");
        }
        Ok(())
    };
    check(compute(), list.contains('?'), &list);
}

/// A product with a plan from a file.
pub fn with_plan(plan: Plan) {
    let matrix: Csr<f64> = generate("rmat,scale=5,degree=4", 1, u64::MAX).expect("it exists").matrix;
    let x = MultiVector::filled(matrix.cols(), plan.k.min(64) as usize, 0.7).expect("memory");
    let names: Vec<&str> = plan.devices.iter().map(|device| device.name.as_str()).collect();
    if plan.k > 64 || names.iter().any(|name| !matches!(*name, "cpu" | "emu:0" | "emu:1")) {
        return;
    }
    let compute = || -> Result<()> {
        let runtime = runtime(&names.join(","))?;
        let mut product = runtime.product(&matrix).columns(x.k()).plan(plan.clone()).build()?;
        let y = product.apply(&x)?;
        for (computed, expected) in y.data().iter().zip(expected(&matrix, &x).data()) {
            assert!((computed - expected).abs() <= 1e-12 * (1.0 + expected.abs()), "a plan gives a wrong Y");
        }
        Ok(())
    };
    check(compute(), true, "a plan");
}

fn check(outcome: Result<()>, may_fail: bool, what: &str) {
    match outcome {
        Ok(()) => {}
        Err(Error::Internal(reason)) => panic!("internal error with {what}: {reason}"),
        Err(error) => assert!(may_fail, "{what}: {error}"),
    }
}

fn runtime(devices: &str) -> Result<Runtime> {
    let (machine, pool) = &*HOST;
    let builder = Runtime::builder().devices(devices).model("none").refine(false);
    builder.pool(machine.clone(), pool.clone()).open()
}

fn matrix(numbers: &mut Numbers<'_>, rows: usize, cols: usize) -> Csr<f64> {
    let (mut pointers, mut columns, mut values) = (vec![0], Vec::new(), Vec::new());
    for _ in 0..rows {
        let mut own: Vec<u32> = (0..numbers.below(12)).map(|_| numbers.below(cols) as u32).collect();
        own.sort_unstable();
        own.dedup();
        values.extend(own.iter().map(|column| f64::from(*column) * 0.37 - 3.1));
        columns.extend(own);
        pointers.push(columns.len() as u64);
    }
    Csr::try_new(rows, cols, pointers, columns, values).expect("the matrix is valid")
}

fn expected(matrix: &Csr<f64>, x: &MultiVector<f64>) -> MultiVector<f64> {
    let mut y = MultiVector::zeros(matrix.rows(), x.k()).expect("memory");
    reference::csr(matrix.view(), x.view(), &mut y.view_mut()).expect("the shapes agree");
    y
}

fn bits(values: &MultiVector<f64>) -> Vec<u64> {
    values.data().iter().map(|value| value.to_bits()).collect()
}
