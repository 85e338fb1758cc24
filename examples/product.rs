//! A complete product in twenty lines: a matrix, a plan for this machine's cores, Y, and a verification of Y.
//!
//! `cargo run --release --example product`

use rowloom::cost::{cpu_profile, host_rates};
use rowloom::kernel::verify;
use rowloom::machine::{Machine, memory_limit_bytes};
use rowloom::matrix::{MultiVector, generate};
use rowloom::plan::{DeviceSpec, PlanRequest};
use rowloom::runtime::{Pool, Prepared, Settings, open};
use rowloom::trace::Clock;
use rowloom::work::Work;

fn main() -> rowloom::Result<()> {
    let k = 32;
    let a = generate::<f64>("stencil27,n=24", 1, memory_limit_bytes())?.matrix;
    let x = MultiVector::from_fn(a.cols(), k, |row, column| ((row + 3 * column) % 7) as f64 - 3.0)?;
    let mut y = MultiVector::zeros(a.rows(), k)?;

    let pool = Pool::new(&Machine::detect(), None)?;
    let threads = pool.threads();
    let cpu = DeviceSpec::new("cpu", cpu_profile(threads, memory_limit_bytes())?);
    let request = PlanRequest::new(Work::spmm(&a.view(), k)?, vec![cpu], host_rates(threads)?);
    let settings = Settings::new(k, threads);
    let (job, opened) = open(&pool, a.view(), request, &settings, Clock::start())?;
    let mut product = Prepared::new(&pool, &job, opened, settings)?;
    let report = product.run(x.view(), y.view_mut(), None)?;

    let verified = pool.install(|| verify(a.view(), x.view(), y.view()))?;
    assert!(verified.passed, "the error of Y exceeds the rounding bound");
    println!("{} x {} times {k} columns in {:.3} ms", a.rows(), a.cols(), report.seconds() * 1e3);
    println!("verified: largest error {:.3} times the rounding bound", verified.max_bound_ratio);
    Ok(())
}
