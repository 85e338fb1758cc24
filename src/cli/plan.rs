//! `rowloom plan`: what `run` would do, and why, without doing it.

use std::time::Instant;

use serde_json::{Value, json};

use super::args::PlanArguments;
use super::console::{Console, check_target};
use super::no_effect;
use super::planning::{kernel, notes, request, resolve};
use super::report::{MatrixReport, Report, machine_report};
use super::session::{MatrixSource, Session, check_intact, describe, work};
use super::table::{Table, count, percent, seconds};
use super::tune::tune;
use crate::error::{Bytes, Result};
use crate::kernel::Processor;
use crate::kernel::cpu::Kernels;
use crate::matrix::Dtype;
use crate::plan::{Chunk, DevicePlan, Plan, XPlan, make};
use crate::work::ChunkRows;

/// Chunks shown to people; scripts get all of them.
const SHOWN_CHUNKS: usize = 12;

/// Plans, shows and saves.
pub fn run(arguments: &PlanArguments, console: &Console) -> Result<()> {
    match arguments.matrix_arguments.dtype {
        Dtype::F64 => run_typed::<f64>(arguments, console),
        Dtype::F32 => run_typed::<f32>(arguments, console),
    }
}

fn run_typed<T: Kernels>(arguments: &PlanArguments, console: &Console) -> Result<()> {
    let planning = &arguments.planning;
    planning.devices.check_known()?;
    kernel(&planning.kernel)?;
    arguments.save.as_deref().map(check_target).transpose()?;
    let session = Session::open(&arguments.matrix_arguments)?;
    let mut resolved = resolve(planning, &session)?;
    let mut told = notes(planning, &resolved);
    told.extend(no_effect::of_plan(arguments, resolved.kinds()));
    let source = MatrixSource::new(&arguments.matrix);
    let (loaded, load_s) = session.load::<T>(&source, arguments.finite, console)?;
    let matrix = loaded.matrix.view();

    if planning.tune {
        tune(&planning.devices, &session, console, matrix, arguments.k, &mut resolved)?;
    }
    let start = Instant::now();
    let request =
        request(planning, resolved, work(&matrix, &loaded.info, arguments.k)?, u64::from(arguments.repeat))?;
    let plan = session.pool.install(|| make(&request))?;
    let plan_s = start.elapsed().as_secs_f64();
    told.iter().for_each(|note| console.note(note));
    check_intact(&loaded.matrix, &source)?;
    if let Some(path) = &arguments.save {
        session.interrupt.defer();
        plan.save(path)?;
    }

    let mut facts = Table::facts();
    facts.fact("matrix", describe(&matrix, &loaded.info));
    facts.fact("X", format!("{} columns, {}", count(plan.k), plan.dtype));
    facts.fact("predicted", format!("{} a product", seconds(plan.predicted_s)));
    let of_devices = device_reasons(&plan).into_iter().map(|(names, reason)| format!("{names}: {reason}"));
    for (index, reason) in plan.reasons.iter().cloned().chain(of_devices).enumerate() {
        facts.fact(if index == 0 { "because" } else { "" }, reason);
    }
    facts.fact("set-up", format!("load {}, plan {}", seconds(load_s), seconds(plan_s)));
    if let Some(path) = &arguments.save {
        facts.fact("saved", path.display());
    }
    console.table(&facts)?;
    console.text("\n")?;
    console.table(&device_table(&plan))?;
    console.text("\n")?;
    console.table(&chunk_table(&plan))?;
    if plan.chunks.len() > SHOWN_CHUNKS {
        let more = count((plan.chunks.len() - SHOWN_CHUNKS) as u64);
        console.text(&format!("… {more} more; --json has all\n"))?;
    }

    let report = Report::new("plan")
        .with("provenance", &session.provenance)
        .with("machine", machine_report(&session.machine))
        .with("config", config(arguments, &session, &source))
        .with("matrix", MatrixReport::new(&loaded.info, matrix.rows(), matrix.cols(), matrix.nnz()))
        .with("fingerprint", &plan.matrix)
        .with("k", plan.k)
        .with("dtype", plan.dtype)
        .with("mode", plan.mode)
        .with("predicted_s", plan.predicted_s)
        .with("timing", json!({"load_s": load_s, "plan_s": plan_s}))
        .with("reasons", &plan.reasons)
        .with("devices", &plan.devices)
        .with("chunks", plan.chunks.iter().map(|chunk| chunk_json(&plan, chunk)).collect::<Vec<_>>())
        .with("split_rows", &plan.split_rows)
        .with("notes", &loaded.notes);
    console.json(&report)?;
    session.interrupt.check()
}

/// Every flag as it was resolved.
fn config(arguments: &PlanArguments, session: &Session, source: &MatrixSource) -> Value {
    let planning = &arguments.planning;
    json!({
        "matrix": source.name(),
        "k": arguments.k,
        "repeat": arguments.repeat,
        "finite": arguments.finite,
        "save": arguments.save.as_ref().map(|path| path.display().to_string()),
        "seed": session.seed,
        "threads": session.pool.threads(),
        "dtype": arguments.matrix_arguments.dtype,
        "devices": planning.devices.name(),
        "mode": planning.mode,
        "chunks": planning.chunks,
        "chunk_bytes": planning.chunk_bytes,
        "mem_limit": planning.mem_limit,
        "kernel": planning.kernel,
        "format": planning.format,
        "reproducible": planning.reproducible,
        "model": planning.model,
        "no_refine": planning.no_refine,
        "tune": planning.tune,
    })
}

fn device_table(plan: &Plan) -> Table {
    let headings = ["device", "rows", "nonzeros", "chunks", "memory", "X", "done after"];
    let mut table = Table::columns(headings, &[1, 2, 3, 6]);
    let share = |part: u64, of: u64| percent(if of == 0 { 0.0 } else { part as f64 / of as f64 });
    for device in &plan.devices {
        table.row([
            device.name.clone(),
            share(device.rows, plan.matrix.rows),
            share(device.nnz, plan.matrix.nnz),
            count(device.chunks),
            memory(device),
            x_words(device),
            if device.chunks == 0 { "-".into() } else { seconds(device.predicted_s) },
        ]);
    }
    table
}

/// What is said of devices, once for all of which it is true.
fn device_reasons(plan: &Plan) -> Vec<(String, String)> {
    let mut reasons: Vec<(String, String)> = Vec::new();
    let mut say = |name: &str, reason: &str| match reasons.iter_mut().find(|(_, known)| known == reason) {
        Some((names, _)) => *names = format!("{names}, {name}"),
        None => reasons.push((name.to_owned(), reason.to_owned())),
    };
    for device in &plan.devices {
        say(&device.name, &device.reason);
    }
    for device in plan.devices.iter().filter(|device| device.profile.link.is_some() && device.chunks > 0) {
        say(&device.name, &format!("X: {}", device.x_reason));
    }
    reasons
}

fn memory(device: &DevicePlan) -> String {
    let slots = &device.slots;
    if device.profile.link.is_none() || slots.y_slots == 0 {
        return "-".into();
    }
    let mut parts = Vec::new();
    if slots.resident_bytes > 0 {
        parts.push(format!("A {}", Bytes(slots.resident_bytes)));
    }
    if slots.a_slots > 0 {
        parts.push(format!("{} x {} for A", slots.a_slots, Bytes(slots.a_slot_bytes)));
    }
    parts.push(format!("{} x {} for Y", slots.y_slots, Bytes(slots.y_slot_bytes)));
    format!("{} of {}", parts.join(", "), Bytes(device.memory_budget_bytes))
}

fn x_words(device: &DevicePlan) -> String {
    match device.x {
        XPlan::Nothing => "-".into(),
        _ if device.profile.link.is_none() => "in place".into(),
        XPlan::Whole => format!("all, {}", Bytes(device.slots.x_bytes)),
        XPlan::Columns { first, end } => format!("rows {first}..{end}, {}", Bytes(device.slots.x_bytes)),
        XPlan::Gather { columns } => format!("{columns} rows, {}", Bytes(device.slots.x_bytes)),
    }
}

fn chunk_table(plan: &Plan) -> Table {
    let headings = ["chunk", "rows", "nonzeros", "device", "kernel", "predicted", "why"];
    let mut table = Table::columns(headings, &[0, 2, 5]);
    for (index, chunk) in plan.chunks.iter().take(SHOWN_CHUNKS).enumerate() {
        let rows = match chunk.rows {
            ChunkRows::Rows { begin, end } => format!("{}..{}", count(begin as u64), count(end as u64)),
            ChunkRows::Segments { row, begin, end } => format!("{row}, segments {begin}..{end}"),
        };
        let kernel = plan.kernel_on(chunk, chunk.home);
        table.row([
            count(index as u64),
            rows,
            count(chunk.nnz),
            name_of(plan, chunk.home).into(),
            kernel.name().into(),
            seconds(chunk.predicted_s),
            chunk.reason.split(';').next().unwrap_or_default().into(),
        ]);
    }
    table
}

fn name_of(plan: &Plan, device: u32) -> &str {
    plan.devices.get(device as usize).map_or("", |device| &device.name)
}

fn chunk_json(plan: &Plan, chunk: &Chunk) -> Value {
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
        "nnz": chunk.nnz,
        "device": name_of(plan, chunk.home),
        "floats_to": chunk.also.iter().map(|&device| name_of(plan, device)).collect::<Vec<_>>(),
        "kernel": kernel.name,
        "kernels": kernels,
        "format": kernel.format,
        "order": kernel.order,
        "staged_bytes": chunk.staged_bytes,
        "features": chunk.features,
        "reason": chunk.reason,
        "predicted_s": chunk.predicted_s,
        "measured_s": null,
    })
}
