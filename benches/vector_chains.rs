//! Times of operations on vectors in a chain: the time of many calls of one operation and one wait at the end, divided by their number.
//!
//! `cargo bench --bench vector_chains -- cuda:0 gen:stencil27,n=96 ...`: the devices, then matrices; K = 1, 8 and 32. The product and the
//! sums are compared with those of the host.

use std::time::Instant;

use rowloom::internal::kernel::vectors::{Sum, sums};
use rowloom::internal::kernel::verify;
use rowloom::internal::matrix::{Csr, MultiVector};
use rowloom::internal::runtime::{Check, Product, Runtime, Scalars, Vectors};
use rowloom::{Error, Result};

const MATRICES: [&str; 2] = ["stencil5,n=100", "stencil27,n=96"];
const COLUMNS: [usize; 3] = [1, 8, 32];
const TURNS: usize = 7;
const CALLS: u32 = 200;

/// What every operation works on.
struct Subject<'a> {
    product: Product<'a, f64>,
    x: Vectors<f64>,
    y: Vectors<f64>,
    /// A rotation of the columns, and factors of the columns, which keep the size of numbers.
    small: MultiVector<f64>,
    factors: Vec<f64>,
    one_row: MultiVector<f64>,
    p: Vectors<f64>,
    r: Vectors<f64>,
    q: Vectors<f64>,
    rr: Scalars<f64>,
    old_rr: Scalars<f64>,
    pq: Scalars<f64>,
}

type Call = fn(&mut Subject<'_>) -> Result<()>;

/// The name of each operation and a call of it.
const OPERATIONS: [(&str, Call); 14] = [
    ("product", |of| of.product.apply_into(&of.x, &mut of.y)),
    ("axpby", |of| of.y.axpby(0.5, &of.x, 0.5)),
    ("scale", |of| of.y.scale(-1.0)),
    ("scale_columns", |of| of.y.scale_columns(&of.factors)),
    ("fill", |of| of.y.fill(1.0)),
    ("times", |of| of.x.times(&of.small, &mut of.y)),
    ("copy_rows_from, 1 row", |of| of.y.copy_rows_from(0, &of.one_row.view())),
    ("dot", |of| of.x.dot(&of.y).map(drop)),
    ("norm", |of| of.x.norm().map(drop)),
    ("dot_into", |of| of.x.dot_into(&of.y, &mut of.pq)),
    ("norm_into", |of| of.x.norm_into(&mut of.pq)),
    ("axpby of a quotient", |of| of.y.axpby(&of.rr / &of.old_rr, &of.x, 0.5)),
    ("iteration of conjugate gradients", |of| {
        of.product.apply_into(&of.p, &mut of.q)?;
        of.p.dot_into(&of.q, &mut of.pq)?;
        of.y.axpby(&of.rr / &of.pq, &of.p, 1.0)?;
        of.r.axpby(-(&of.rr / &of.pq), &of.q, 1.0)?;
        std::mem::swap(&mut of.old_rr, &mut of.rr);
        of.r.dot_into(&of.r, &mut of.rr)?;
        of.p.axpby(1.0, &of.r, &of.rr / &of.old_rr)
    }),
    ("product and scale", |of| {
        of.product.apply_into(&of.x, &mut of.y)?;
        of.y.scale(-1.0)
    }),
];

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Seconds of a call of each operation.
fn seconds(runtime: &Runtime, a: &Csr<f64>, k: usize) -> Result<Vec<f64>> {
    let mut product = runtime.product(a).columns(k).uses(100_000).check(Check::Never).build()?;
    let host = MultiVector::<f64>::random(a.cols(), k, 5)?;
    let (mut x, mut y) = (product.vectors()?, product.vectors()?);
    x.copy_from(&host)?;
    product.apply_into(&x, &mut y)?;
    let mut found = MultiVector::zeros(a.rows(), k)?;
    y.copy_to(&mut found)?;
    let wrong = || Error::Verification("no time of a wrong result is printed".into());
    if !runtime.pool().install(|| verify(a.view(), host.view(), found.view()))?.passed {
        return Err(wrong());
    }
    if x.dot(&y)? != sums::sum(Sum::Dot, host.view(), found.view())? {
        return Err(wrong());
    }
    let small = MultiVector::from_fn(k, k, |row, column| f64::from(u8::from((row + 1) % k == column)))?;
    let factors = (0..k).map(|column| if column % 2 == 0 { -1.0 } else { 1.0 }).collect();
    let one_row = MultiVector::filled(1, k, 1.0)?;
    let (mut p, mut r, q) = (product.vectors()?, product.vectors()?, product.vectors()?);
    p.copy_from(&host)?;
    r.copy_from(&host)?;
    let (rr, old_rr, pq) = (r.scalars()?, r.scalars()?, r.scalars()?);
    let mut subject = Subject { product, x, y, small, factors, one_row, p, r, q, rr, old_rr, pq };
    let mut all = Vec::new();
    for (_, call) in OPERATIONS {
        let mut turns = Vec::new();
        for _ in 0..TURNS {
            subject.y.copy_from(&host)?;
            call(&mut subject)?;
            subject.y.synchronize()?;
            let start = Instant::now();
            for _ in 0..CALLS {
                call(&mut subject)?;
            }
            subject.y.synchronize()?;
            turns.push(start.elapsed().as_secs_f64() / f64::from(CALLS));
        }
        all.push(median(turns));
    }
    Ok(all)
}

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    let devices = words.first().map_or("cpu", String::as_str);
    let given = words.iter().skip(1).map(|word| word.trim_start_matches("gen:"));
    let matrices: Vec<&str> = if words.len() > 1 { given.collect() } else { MATRICES.to_vec() };
    let runtime = Runtime::builder().devices(devices).model("none").refine(false).open()?;
    println!("µs of a call in a chain of {CALLS}, on {devices}; medians of {TURNS}");
    println!();
    println!("| matrix | K | {} |", OPERATIONS.map(|(name, _)| name).join(" | "));
    println!("|---|---:|{}", "---:|".repeat(OPERATIONS.len()));
    for matrix in matrices {
        let a = Csr::<f64>::generate(matrix)?;
        for k in COLUMNS {
            let times = seconds(&runtime, &a, k)?;
            let times: Vec<String> = times.iter().map(|seconds| format!("{:.1}", seconds * 1e6)).collect();
            println!("| {matrix} | {k} | {} |", times.join(" | "));
        }
    }
    Ok(())
}
