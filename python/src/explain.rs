//! Plans in words: devices, kernels, reasons and predicted times, one line each, as `topic: words`.

use rowloom::internal::error::{Counted, Seconds};
use rowloom::internal::kernel::Format;
use rowloom::internal::plan::{Chunk, Plan};
use rowloom::internal::runtime::Product;

use crate::cache::Value;

/// The decisions of a plan.
pub fn plan_lines<T: Value>(product: &Product<'_, T>, plan: &Plan) -> Vec<String> {
    let shares = plan.devices.iter().filter(|device| device.chunks > 0).map(|device| {
        let (rows, chunks) = (Counted(device.rows, "row"), Counted(device.chunks, "chunk"));
        format!("device: {}: {rows} in {chunks}", device.name)
    });
    let kernels = kernels(plan).into_iter().flat_map(|kernel| {
        let Kernel { words, devices, chunks, largest } = kernel;
        let (chunks, devices) = (Counted(chunks, "chunk"), devices.join(" and "));
        [
            format!("kernel: {words}, {chunks} on {devices}"),
            format!("kernel: {}", reason(product, plan, largest)),
        ]
    });
    let reasons = plan.reasons.iter().cloned();
    let set_up_s = plan.set_up.total_s();
    let once = if set_up_s > 0.0 { format!("predicted {} once: ", Seconds(set_up_s)) } else { String::new() };
    let set_up = format!("set-up: {once}{}", plan.set_up_reason());
    let each = format!("product: predicted {} {}", Seconds(plan.predicted_s), plan.product_reason());
    shares.chain(kernels).chain(reasons).chain([set_up, each]).collect()
}

/// The decisions of a plan, the time of the last product, and what [`Product::explain`] adds: changes and faults.
pub fn product_lines<T: Value>(product: &Product<'_, T>, plan: &Plan) -> Vec<String> {
    let mut lines = plan_lines(product, plan);
    let measured = product.last_report().map(|report| Seconds(report.seconds()));
    lines.extend(measured.map(|seconds| format!("last product: measured {seconds}")));
    let of_product = product.explain();
    lines.extend(
        of_product.lines().filter(|line| !plan.reasons.iter().any(|known| known == line)).map(String::from),
    );
    lines
}

/// The names of the kernels of a plan, in the order of its chunks, each once.
pub fn kernel_names(plan: &Plan) -> Vec<&'static str> {
    let mut names = Vec::new();
    for chunk in &plan.chunks {
        let name = plan.kernel_on(chunk, chunk.home).name();
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// A kernel of a plan, its devices and its chunks.
struct Kernel<'a> {
    words: String,
    devices: Vec<&'a str>,
    chunks: u64,
    /// The index of its largest chunk, whose reason is shown.
    largest: usize,
}

fn kernels(plan: &Plan) -> Vec<Kernel<'_>> {
    let mut kernels: Vec<Kernel<'_>> = Vec::new();
    for (index, chunk) in plan.chunks.iter().enumerate() {
        let kernel = plan.kernel_on(chunk, chunk.home).info();
        let words = match kernel.format {
            Format::Dense => kernel.name.to_owned(),
            format => format!("{} on {}", kernel.name, format.name()),
        };
        let device = plan.devices.get(chunk.home as usize).map_or("", |device| &device.name);
        match kernels.iter_mut().find(|known| known.words == words) {
            Some(known) => {
                known.chunks += 1;
                if !known.devices.contains(&device) {
                    known.devices.push(device);
                }
                if chunk.size.entries > plan.chunks[known.largest].size.entries {
                    known.largest = index;
                }
            }
            None => kernels.push(Kernel { words, devices: vec![device], chunks: 1, largest: index }),
        }
    }
    kernels
}

/// The reason for the kernel of a chunk: the plan's, and what the host added if it has prepared the chunk.
fn reason<T: Value>(product: &Product<'_, T>, plan: &Plan, index: usize) -> String {
    let host = product.host_reason(index);
    plan.chunks.get(index).map_or_else(String::new, |chunk: &Chunk| chunk.kernel_reason_with(host.as_deref()))
}
