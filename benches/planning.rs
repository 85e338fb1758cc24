//! Times planning, as a share of reading the matrix from the cache and computing one product.
//!
//! ```text
//! cargo bench --bench planning
//! cargo bench --bench planning -- GENERATOR CHUNKS
//! ```
//!
//! Prints the median of several rounds of each, and the share, if the product's Y is right; the limit is 5 % for `rmat,scale=20,degree=16` into 512
//! chunks. This program asserts no speed.

#[path = "support/verified.rs"]
mod verified;

use std::time::Instant;

use rowloom::internal::cost::{cpu_profile, emulated_profile, host_rates};
use rowloom::internal::kernel::cpu::{CpuProduct, CpuSettings};
use rowloom::internal::kernel::{KernelId, Schedule};
use rowloom::internal::machine::{Isa, Machine};
use rowloom::internal::matrix::io::{self, ReadOptions, cache};
use rowloom::internal::matrix::{Csr, MultiVector, generate};
use rowloom::internal::plan::{DeviceSpec, PlanRequest, make};
use rowloom::internal::runtime::Pool;
use rowloom::internal::work::Work;

const ROUNDS: usize = 9;
const K: usize = 32;

fn median(mut body: impl FnMut() -> rowloom::Result<()>) -> rowloom::Result<f64> {
    let mut seconds = Vec::with_capacity(ROUNDS);
    for _ in 0..ROUNDS {
        let start = Instant::now();
        body()?;
        seconds.push(start.elapsed().as_secs_f64());
    }
    seconds.sort_by(f64::total_cmp);
    Ok(seconds[ROUNDS / 2])
}

fn main() -> rowloom::Result<()> {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with("--")).collect();
    let spec = words.first().map_or("rmat,scale=20,degree=16", String::as_str);
    let chunks: usize = words.get(1).and_then(|word| word.parse().ok()).unwrap_or(512);

    let machine = Machine::detect();
    let pool = Pool::new(&machine, None)?;
    let folder = tempfile::tempdir().map_err(|source| rowloom::Error::write("a temporary folder", source))?;
    let path = folder.path().join("matrix.rlm");
    let loaded = pool.install(|| generate::<f64>(spec, 1, u64::MAX))?;
    pool.install(|| cache::write_cache(&path, &loaded.matrix.view(), &loaded.info, None))?;
    drop(loaded);

    let limits = ReadOptions { memory_limit_bytes: u64::MAX, ..ReadOptions::default() };
    let read_s = median(|| pool.install(|| io::read::<f64>(&path, &limits)).map(drop))?;
    let matrix: Csr<f64> = pool.install(|| io::read(&path, &limits))?.matrix;

    let x = MultiVector::from_fn(matrix.cols(), K, |row, k| (row % 7 + k) as f64)?;
    let mut y = MultiVector::filled(matrix.rows(), K, f64::NAN)?;
    let threads = pool.threads();
    let settings = CpuSettings { k: K, threads, isa: Isa::detect(), schedule: Schedule::Balanced };
    let mut product =
        pool.install(|| CpuProduct::prepare(matrix.view(), KernelId::CpuCsr, settings, u64::MAX))?;
    let product_s = median(|| pool.install(|| product.run(x.view(), y.view_mut())))?;
    verified::require(&pool, spec, matrix.view(), x.view(), y.view())?;

    let spec_of = |name: &str, profile| DeviceSpec {
        name: name.into(),
        profile,
        memory_limit_bytes: None,
        taken_bytes: 0,
        required: true,
    };
    let cpu = spec_of("cpu", cpu_profile(threads, u64::MAX)?);
    let emulated = spec_of("emu:0", emulated_profile()?);
    println!("{spec}, K = {K}: read {:.1} ms, product {:.1} ms", read_s * 1e3, product_s * 1e3);
    for devices in [vec![cpu.clone()], vec![cpu, emulated]] {
        let names: Vec<&str> = devices.iter().map(|device| device.name.as_str()).collect();
        let names = names.join(",");
        let work = Work::spmm(&matrix.view(), K)?;
        let request =
            PlanRequest { chunks: Some(chunks), ..PlanRequest::new(work, devices, host_rates(threads)?) };
        let mut made = 0;
        let plan_s = median(|| {
            made = pool.install(|| make(&request))?.chunks.len();
            Ok(())
        })?;
        let share = plan_s / (read_s + product_s) * 100.0;
        println!(
            "plan for {names}, {made} chunks: {:.2} ms, {share:.1} % of reading and product",
            plan_s * 1e3
        );
    }
    Ok(())
}
