//! What a plan of every kind of work shows: its chunks as tables, its parts as JSON.

use serde_json::{Value, json};

use super::groups;
use super::table::{all_chunks, chunk_groups, devices, kernels, name_of};
use crate::args::PlanArguments;
use crate::console::Console;
use crate::console::report::Report;
use crate::console::table::count;
use crate::operands::session::Session;
use rowloom::internal::error::Result;
use rowloom::internal::kernel::Processor;
use rowloom::internal::plan::{Chunk, Plan};
use rowloom::internal::work::ChunkRows;

/// Prints the devices and chunks: all of them if `wide`, else in groups with the reasons of their kernels.
pub fn show_devices_and_chunks(plan: &Plan, wide: bool, console: &Console) -> Result<()> {
    if groups::are_grouped(plan) && !wide {
        console.table(&groups::devices(plan))?;
        console.prose("\n")?;
        console.table(&groups::kernels(plan))?;
        console.prose(" --wide shows every device and chunk\n\n")?;
        return console.table(&kernels(plan, true));
    }
    console.table(&devices(plan, wide))?;
    console.prose("\n")?;
    if wide {
        return console.table(&all_chunks(plan));
    }
    let (groups, left_out) = chunk_groups(plan);
    console.table(&groups)?;
    console.prose(" per chunk: predicted time of one chunk, with its copies\n")?;
    if left_out > 0 {
        console.prose(&format!("… {} more groups; --wide shows every chunk\n", count(left_out as u64)))?;
    }
    console.prose("\n")?;
    console.table(&kernels(plan, false))
}

/// Every flag as resolved; `own` has those of one kind of work.
pub fn config(arguments: &PlanArguments, session: &Session, own: Value) -> Value {
    let planning = &arguments.planning;
    let mut config = planning.limits();
    let flags = json!({
        "repeat": arguments.repeat,
        "save": arguments.save.as_ref().map(|path| path.display().to_string()),
        "threads": session.pool.threads(),
        "dtype": arguments.matrix_arguments.dtype,
        "devices": planning.devices.name(),
        "mode": planning.mode,
        "chunks": planning.chunks,
        "kernel": planning.kernel,
    });
    for keys in [flags, own] {
        if let Value::Object(keys) = keys {
            config.extend(keys);
        }
    }
    Value::Object(config)
}

/// A report with the parts of a plan. `entries` is the key of the number of entries of a chunk; `product_words` are the parts of a product.
pub fn planned(report: Report, plan: &Plan, entries: &str, product_words: &str) -> Report {
    let set_up = &plan.set_up;
    report
        .with("fingerprint", &plan.matrix)
        .with("k", plan.k)
        .with("dtype", plan.dtype)
        .with("mode", plan.mode)
        .with(
            "set_up",
            json!({
                "open_s": set_up.open_s,
                "load_kernels_s": set_up.load_kernels_s,
                "register_s": set_up.register_s,
                "bring_a_s": set_up.bring_a_s,
                "total_s": set_up.total_s(),
                "first_compile_s": plan.first_compile_s(),
                "reason": plan.set_up_reason(),
            }),
        )
        .with("predicted_s", plan.predicted_s)
        .with("predicted_reason", product_words)
        .with("repeat", plan.repeat)
        .with("total_s", plan.total_s())
        .with("devices", &plan.devices)
        .with("chunks", plan.chunks.iter().map(|chunk| chunk_json(plan, chunk, entries)).collect::<Vec<_>>())
        .with("split_rows", &plan.split_rows)
}

fn chunk_json(plan: &Plan, chunk: &Chunk, entries: &str) -> Value {
    let (row_start, row_end, segments) = match chunk.rows {
        ChunkRows::Rows { begin, end } => (begin, end, Value::Null),
        ChunkRows::Segments { row, begin, end } => (row, row + 1, json!([begin, end])),
    };
    let kernel = plan.kernel_on(chunk, chunk.home).info();
    let processors =
        chunk.also.iter().chain([&chunk.home]).map(|&device| plan.devices[device as usize].profile.processor);
    let mut kernels = serde_json::Map::new();
    for processor in processors {
        let (key, id) = match processor {
            Processor::Cpu => ("cpu", chunk.cpu_kernel),
            Processor::Gpu => ("gpu", chunk.gpu_kernel),
        };
        kernels.insert(key.into(), json!(id));
    }
    json!({
        "row_start": row_start,
        "row_end": row_end,
        "segments": segments,
        entries: chunk.size.entries,
        "device": name_of(plan, chunk.home),
        "floats_to": chunk.also.iter().map(|&device| name_of(plan, device)).collect::<Vec<_>>(),
        "kernel": kernel.name,
        "kernels": kernels,
        "format": kernel.format,
        "order": kernel.order,
        "staged_bytes": chunk.staged_bytes,
        "features": chunk.features,
        "reason": chunk.full_reason(),
        "predicted_s": chunk.predicted_s,
        "measured_s": null,
    })
}
