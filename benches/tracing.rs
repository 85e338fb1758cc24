//! Times the cost of tracing: the same products with and without a trace, in interleaved rounds.
//!
//! ```text
//! cargo bench --bench tracing
//! ```
//!
//! Chunks take about a millisecond each. Prints the median product with and without a trace in every round, and the ratio of
//! the medians of all rounds; the limit is 1.02. Y is checked after every round, before its ratio is printed. This program asserts no
//! speed.

#[path = "support/verified.rs"]
mod verified;

use rowloom::internal::matrix::{MultiVector, generate};
use rowloom::internal::runtime::{Product, ProductOptions, RunReport, Runtime, Timeline};
use rowloom::internal::trace::{Clock, Trace};
use rowloom_cli::HostSpans;

const SPEC: &str = "stencil27,n=64";
const K: usize = 32;
const CHUNKS: usize = 10;
const ROUNDS: usize = 20;
const RUNS: u64 = 20;

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

fn main() -> rowloom::Result<()> {
    let clock = Clock::start();
    let runtime = Runtime::builder().devices("cpu").model("none").clock(clock).open()?;
    let threads = runtime.pool().threads();
    let a = runtime.pool().install(|| generate::<f64>(SPEC, 1, u64::MAX))?.matrix;
    let x = MultiVector::from_fn(a.cols(), K, |row, k| (row % 7 + k) as f64)?;
    let mut y = MultiVector::zeros(a.rows(), K)?;
    let options = ProductOptions { chunks: Some(CHUNKS), uses: Some(RUNS), ..ProductOptions::default() };
    let mut product = runtime.product(a.view()).columns(K).options(options).build()?;
    let mut repeat = |product: &mut Product<'_, f64>| -> rowloom::Result<Vec<RunReport>> {
        let mut run = |_| {
            product.apply_into(&x, &mut y)?;
            Ok(product.take_report())
        };
        let reports = (0..RUNS).map(&mut run).collect::<rowloom::Result<Vec<_>>>()?;
        verified::require(runtime.pool(), SPEC, a.view(), x.view(), y.view())?;
        y.data_mut().fill(f64::NAN);
        Ok(reports.into_iter().flatten().collect())
    };
    repeat(&mut product)?;
    let (plan, descriptions) = (product.plan().clone(), product.descriptions());

    println!("{SPEC}, K = {K}, {CHUNKS} chunks on {threads} threads, {RUNS} products per round");
    let (mut plain, mut traced) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let (mut off_ms, mut on_ms) = (0.0, 0.0);
        // Products slow down or speed up with time, so each kind is first in every other round.
        for with_trace in [round % 2 == 1, round % 2 == 0] {
            if !with_trace {
                off_ms = 1e3 * median(repeat(&mut product)?.iter().map(RunReport::seconds).collect());
                continue;
            }
            let mut trace = Trace::default();
            let timeline = Timeline::new(&mut trace, &plan, &descriptions);
            let spans = HostSpans::start(&clock)?;
            let reports = repeat(&mut product)?;
            on_ms = 1e3 * median(reports.iter().map(RunReport::seconds).collect());
            spans.finish(&mut trace)?;
            for (run, report) in reports.iter().enumerate() {
                timeline.add_run(&mut trace, report, run as u64);
            }
        }
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
