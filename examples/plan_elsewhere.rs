//! Plans a product for another machine, with four H200, and simulates the plan.
//!
//! `cargo run --release --example plan_elsewhere`

use rowloom::runtime::Simulated;
use rowloom::{Csr, Runtime};

const K: usize = 32;

fn main() -> rowloom::Result<()> {
    // The planner reads A's pattern, not its values, and opens no device.
    let runtime = Runtime::open("sim:h200x4")?;
    let a = Csr::<f64>::generate("rmat,scale=14,degree=16")?;
    let product = runtime.product(&a).columns(K).uses(100).build()?;
    let plan = product.plan();
    println!("{} nonzeros, {K} columns, mode {}", a.nnz(), plan.mode.name());
    println!("{}", product.explain());

    let report = Simulated::new(plan)?.run()?;
    println!("predicted {:.1} µs per product, {:.3} s in all", plan.predicted_s * 1e6, plan.total_s());
    println!("simulated {:.1} µs per product", report.seconds() * 1e6);
    Ok(())
}
