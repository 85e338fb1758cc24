//! What checks of products on vectors cost: times with every product checked over times without checks, in turns.
//!
//! `cargo bench --bench checked_vectors -- cuda:0 gen:stencil27,n=64 ...`: the devices, then matrices; K = 1, 8, 32 and 128. Every Y is
//! verified.

use std::time::Instant;

use rowloom::internal::kernel::verify;
use rowloom::internal::matrix::{Csr, MultiVector};
use rowloom::internal::runtime::{Check, Runtime};
use rowloom::{Error, Result};

const MATRICES: [&str; 4] =
    ["stencil27,n=64", "rmat,scale=17,degree=12", "uniform,rows=200000,degree=16", "road,n=400000"];
const COLUMNS: [usize; 4] = [1, 8, 32, 128];
const TURNS: usize = 5;
const PRODUCTS: u32 = 20;

/// Seconds of a product, and of the first one with its preparation: the medians of several turns.
fn seconds(runtime: &Runtime, a: &Csr<f64>, k: usize, check: Check) -> Result<(f64, f64)> {
    let (mut first, mut later) = (Vec::new(), Vec::new());
    for _ in 0..TURNS {
        let mut product = runtime.product(a).columns(k).uses(1000).check(check).build()?;
        let host = MultiVector::<f64>::random(a.cols(), k, 5)?;
        let (mut x, mut y) = (product.x_vectors()?, product.vectors()?);
        x.copy_from(&host)?;
        x.synchronize()?;
        let start = Instant::now();
        product.apply_into(&x, &mut y)?;
        y.synchronize()?;
        first.push(start.elapsed().as_secs_f64());
        let start = Instant::now();
        for _ in 0..PRODUCTS {
            product.apply_into(&x, &mut y)?;
        }
        y.synchronize()?;
        later.push(start.elapsed().as_secs_f64() / f64::from(PRODUCTS));
        let mut found = MultiVector::zeros(a.rows(), k)?;
        y.copy_to(&mut found)?;
        let verified = runtime.pool().install(|| verify(a.view(), host.view(), found.view()))?;
        if !verified.passed {
            return Err(Error::Verification("no time of a wrong product is printed".into()));
        }
    }
    let median = |mut values: Vec<f64>| {
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    Ok((median(later), median(first)))
}

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    let devices = words.first().map_or("cpu", String::as_str);
    let given = words.iter().skip(1).map(|word| word.trim_start_matches("gen:"));
    let matrices: Vec<&str> = if words.len() > 1 { given.collect() } else { MATRICES.to_vec() };
    let runtime = Runtime::builder().devices(devices).model("none").refine(false).open()?;
    println!("| matrix | K | never | always | ratio | first, never | first, checked | ratio |");
    println!("|---|---|---|---|---|---|---|---|");
    for matrix in matrices {
        let a = Csr::<f64>::generate(matrix)?;
        for k in COLUMNS {
            let (never, first_never) = seconds(&runtime, &a, k, Check::Never)?;
            let (always, first) = seconds(&runtime, &a, k, Check::Always)?;
            println!(
                "| {matrix} | {k} | {:.1} µs | {:.1} µs | {:.2} | {:.1} µs | {:.1} µs | {:.2} |",
                never * 1e6,
                always * 1e6,
                always / never,
                first_never * 1e6,
                first * 1e6,
                first / first_never
            );
        }
    }
    Ok(())
}
