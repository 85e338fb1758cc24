//! Plans a product for another machine, with four H200, and simulates the plan.
//!
//! `cargo run --release --example plan_elsewhere`

use rowloom::cost::preset;
use rowloom::machine::memory_limit_bytes;
use rowloom::matrix::generate;
use rowloom::plan::{DeviceSpec, PlanRequest, make};
use rowloom::runtime::Simulated;
use rowloom::work::Work;

const MACHINE: &str = "h200x4";
const K: usize = 32;

fn main() -> rowloom::Result<()> {
    let a = generate::<f64>("rmat,scale=14,degree=16", 1, memory_limit_bytes())?.matrix;
    let machine = preset(MACHINE)?;
    let gpus = machine.gpus.into_iter().enumerate();
    let devices = gpus.map(|(index, gpu)| DeviceSpec::new(format!("sim:{MACHINE}/{index}"), gpu)).collect();

    // The planner reads A's pattern, not its values, and opens no device.
    let request = PlanRequest::new(Work::spmm(&a.view(), K)?, devices, machine.host);
    let plan = make(&request)?;
    println!("{} nonzeros, {K} columns, mode {}", a.nnz(), plan.mode.name());
    for reason in &plan.reasons {
        println!("{reason}");
    }
    for device in &plan.devices {
        println!(
            "{}: {} chunks, {} rows, {} nonzeros",
            device.name, device.chunks, device.rows, device.size.entries
        );
    }
    for (index, chunk) in plan.chunks.iter().enumerate() {
        let kernel = plan.kernel_on(chunk, chunk.home).name();
        println!(
            "chunk {index}: {} nonzeros with {kernel}, {:.1} µs",
            chunk.size.entries,
            chunk.predicted_s * 1e6
        );
    }

    let report = Simulated::new(&plan)?.run()?;
    println!("set-up: {}", plan.set_up_reason());
    println!("predicted {:.1} µs per product: {}", plan.predicted_s * 1e6, plan.product_reason());
    println!("simulated {:.1} µs per product, {} tasks", report.seconds() * 1e6, report.tasks());
    Ok(())
}
