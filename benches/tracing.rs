//! Times the cost of tracing: the same products with and without a trace, in interleaved rounds.
//!
//! ```text
//! cargo bench --bench tracing
//! ```
//!
//! Chunks take about a millisecond each. Prints the median product with and without a trace in every round, and the ratio of
//! the medians of all rounds; the limit is 1.02. This program asserts no speed.

use std::time::Duration;

use rowloom::cost::{cpu_profile, host_rates};
use rowloom::kernel::Schedule;
use rowloom::kernel::cpu::CpuSettings;
use rowloom::machine::{Isa, Machine};
use rowloom::matrix::{MultiVector, generate};
use rowloom::plan::{DeviceSpec, PlanRequest};
use rowloom::runtime::{Pool, Prepared, Settings, Timeline, open};
use rowloom::trace::{Clock, HostSpans, Trace};
use rowloom::work::Work;

const SPEC: &str = "stencil27,n=64";
const K: usize = 32;
const CHUNKS: usize = 10;
const ROUNDS: usize = 9;
const RUNS: u64 = 20;

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

fn main() -> rowloom::Result<()> {
    let pool = Pool::new(&Machine::detect(), None)?;
    let threads = pool.threads();
    let a = pool.install(|| generate::<f64>(SPEC, 1, u64::MAX))?.matrix;
    let x = MultiVector::from_fn(a.cols(), K, |row, k| (row % 7 + k) as f64)?;
    let mut y = MultiVector::zeros(a.rows(), K)?;
    let cpu = DeviceSpec {
        name: "cpu".into(),
        profile: cpu_profile(threads, 1 << 40)?,
        memory_limit_bytes: None,
        required: true,
    };
    let request = PlanRequest {
        chunks: Some(CHUNKS),
        repeat: RUNS,
        ..PlanRequest::new(Work::spmm(&a.view(), K)?, vec![cpu], host_rates(threads)?)
    };
    let settings = Settings {
        cpu: CpuSettings { k: K, threads, isa: Isa::detect(), schedule: Schedule::Balanced },
        memory_limit_bytes: u64::MAX,
        watchdog_timeout: Duration::from_secs(30),
        emulated: Vec::new(),
        cuda: Vec::new(),
    };
    let clock = Clock::start();
    let (job, opened) = open(&pool, a.view(), request, &settings, clock)?;
    let mut prepared = Prepared::new(&pool, &job, opened, settings)?;
    let descriptions = prepared.descriptions();
    prepared.repeat(x.view(), y.view_mut(), RUNS, None, |_, _| {})?;

    println!("{SPEC}, K = {K}, {CHUNKS} chunks on {threads} threads, {RUNS} products per round");
    let (mut plain, mut traced) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let mut without = Vec::new();
        prepared.repeat(x.view(), y.view_mut(), RUNS, None, |_, report| without.push(report.seconds()))?;
        let mut trace = Trace::default();
        let timeline = Timeline::new(&mut trace, job.plan(), &descriptions);
        let spans = HostSpans::start(&clock)?;
        let (mut with, mut reports) = (Vec::new(), Vec::new());
        prepared.repeat(x.view(), y.view_mut(), RUNS, None, |run, report| {
            with.push(report.seconds());
            reports.push((run, report));
        })?;
        spans.finish(&mut trace)?;
        for (run, report) in &reports {
            timeline.add_run(&mut trace, report, *run);
        }
        let (off_ms, on_ms) = (median(without) * 1e3, median(with) * 1e3);
        println!("round {round}: without {off_ms:.3} ms, with {on_ms:.3} ms, ratio {:.4}", on_ms / off_ms);
        plain.push(off_ms);
        traced.push(on_ms);
    }
    let (off_ms, on_ms) = (median(plain), median(traced));
    println!(
        "without {off_ms:.3} ms, with {on_ms:.3} ms, ratio {:.4}; {:.2} ms per chunk",
        on_ms / off_ms,
        on_ms / CHUNKS as f64
    );
    Ok(())
}
