//! The report of `rowloom run`: a short table, and the JSON object for scripts.

use serde_json::{Value, json};

use super::args::RunArguments;
use super::dash::is_dash;
use super::described::Described;
use super::reasons;
use super::report::{MatrixReport, Report, hash, machine_report};
use super::session::{MatrixSource, Session, describe};
use super::table::{Table, count, percent, seconds};
use crate::error::{Counted, Seconds};
use crate::kernel::{Format, Verification};
use crate::machine::peak_rss_bytes;
use crate::matrix::{Loaded, Scalar};
use crate::plan::Plan;
use crate::runtime::{Computed, FaultReport, RunReport};
use crate::study::{Times, compulsory_bytes, used_columns};
use crate::trace::{DeviceSummary, Summary};
use crate::work::ChunkRows;

/// The outcome of a run.
pub struct Outcome<'a, T: Scalar> {
    /// The flags.
    pub arguments: &'a RunArguments,
    /// The machine and its threads.
    pub session: &'a Session,
    /// The source of A.
    pub source: &'a MatrixSource,
    /// A.
    pub loaded: &'a Loaded<T>,
    /// Seconds to read or generate A.
    pub load_s: f64,
    /// Seconds of planning.
    pub plan_s: Option<f64>,
    /// Seconds of preparing.
    pub prepare_s: f64,
    /// The plan.
    pub plan: &'a Plan,
    /// The error of the clock alignment of each device with its own clock.
    pub clock_errors: Vec<(String, u64)>,
    /// For each chunk the reason of the CPU's kernel, where the CPU may compute it.
    pub host_reasons: Vec<Option<String>>,
    /// Statistics of the measured products.
    pub times: Times,
    /// Seconds of the plan in virtual time, where several devices work together.
    pub simulated_s: Option<f64>,
    /// The product of median length.
    pub described: &'a Described<'a>,
    /// Faults of all products.
    pub faults: Vec<FaultReport>,
    /// Whether the devices are simulated.
    pub simulated: bool,
    /// The result of `--verify`.
    pub verification: Option<&'a Verification>,
    /// Hash of Y; `None` where there is no Y.
    pub y_hash: Option<String>,
    /// Whether a signal ended the run early.
    pub interrupted: bool,
}

impl<T: Scalar> Outcome<'_, T> {
    fn gflops(&self) -> Option<f64> {
        let operations = 2.0 * self.loaded.matrix.nnz() as f64 * self.plan.k as f64;
        // An empty product may take no measurable time.
        self.times.median.map(|median| if operations == 0.0 { 0.0 } else { operations / median / 1e9 })
    }

    /// Compulsory bytes over time, as a share of the memory bandwidth of all devices with chunks.
    fn roofline_fraction(&self) -> Option<f64> {
        let matrix = self.loaded.matrix.view();
        let (rows, nnz) = (matrix.rows() as u64, matrix.nnz() as u64);
        let used = self.session.pool.install(|| used_columns(matrix));
        let bytes = compulsory_bytes(rows, nnz, used, self.plan.k, T::DTYPE);
        let busy = self.plan.devices.iter().filter(|device| device.chunks > 0);
        let rate: f64 = busy.map(|device| device.profile.stream_gb_per_s * 1e9).sum();
        self.times
            .median
            .filter(|median| *median > 0.0 && rate > 0.0)
            .map(|median| bytes as f64 / rate / median)
    }

    /// Predicted over measured time.
    fn predicted_ratio(&self) -> Option<f64> {
        self.times.median.filter(|median| *median > 0.0).map(|median| self.plan.predicted_s / median)
    }

    /// For each chunk the device that computed it, if it was computed.
    fn computed(&self) -> Vec<Option<Computed>> {
        let mut computed = vec![None; self.plan.chunks.len()];
        for done in self.described.report.into_iter().flat_map(RunReport::computed) {
            if let Some(place) = computed.get_mut(done.chunk) {
                *place = Some(done);
            }
        }
        computed
    }

    /// The summary of the described product.
    fn summary(&self) -> &Summary {
        &self.described.summary
    }

    fn device_name(&self, device: u32) -> &str {
        self.plan.devices.get(device as usize).map_or("?", |device| &device.name)
    }

    fn reason(&self, chunk: usize) -> String {
        let planned = self.plan.chunks.get(chunk).map_or_else(String::new, crate::plan::Chunk::full_reason);
        let planned = planned.as_str();
        let host = self.host_reasons.get(chunk).and_then(Option::as_ref);
        // Clauses that both reasons have are written once.
        let added = host.iter().flat_map(|host| host.split("; ")).filter(|words| !planned.contains(words));
        let words: Vec<&str> =
            Some(planned).into_iter().filter(|words| !words.is_empty()).chain(added).collect();
        words.join("; ")
    }

    /// Each kernel, its devices, and its number of chunks, in the order of chunks.
    fn kernels(&self) -> Vec<(String, Vec<&str>, usize)> {
        let mut kernels: Vec<(String, Vec<&str>, usize)> = Vec::new();
        for (chunk, done) in self.plan.chunks.iter().zip(self.computed()) {
            let device = done.map_or(chunk.home, |done| done.device.0);
            let kernel = self.plan.kernel_on(chunk, device).info();
            let words = format!("{} on {}", kernel.name, kernel.format.name());
            let name = self.device_name(device);
            match kernels.iter_mut().find(|(known, _, _)| *known == words) {
                Some((_, devices, chunks)) => {
                    *chunks += 1;
                    if !devices.contains(&name) {
                        devices.push(name);
                    }
                }
                None => kernels.push((words, vec![name], 1)),
            }
        }
        kernels
    }
}

/// The names of a few devices; of many the number, the first and the last.
pub fn named(devices: &[impl AsRef<str>]) -> String {
    const MAX_NAMED: usize = 3;
    match devices {
        [first, .., last] if devices.len() > MAX_NAMED => {
            format!("{} devices ({} to {})", devices.len(), first.as_ref(), last.as_ref())
        }
        few => few.iter().map(AsRef::as_ref).collect::<Vec<_>>().join(" and "),
    }
}

/// The table for people.
pub fn table<T: Scalar>(outcome: &Outcome<'_, T>) -> Table {
    let Outcome { arguments, times, plan, .. } = outcome;
    let mut table = Table::facts();
    table.fact("matrix", describe(&outcome.loaded.matrix.view(), &outcome.loaded.info));
    let x = if outcome.simulated { "not needed".into() } else { arguments.x.name() };
    table.fact("X", format!("{} columns, {}, {x}", count(plan.k), T::DTYPE));
    for (kernel, devices, chunks) in outcome.kernels() {
        let chunks = Counted(chunks as u64, "chunk");
        table.fact("kernel", format!("{kernel}, {chunks} on {}", named(&devices)));
    }
    if let ([_], Some(Some(reason))) = (&plan.chunks[..], outcome.host_reasons.first()) {
        table.fact("", reason);
    }
    reasons::add(&mut table, &plan.reasons);
    let plan_s = outcome.plan_s.map_or_else(String::new, |plan_s| format!(", plan {}", seconds(plan_s)));
    if outcome.simulated {
        let set_up = plan.set_up_reason();
        table.fact("this command", format!("load {}{plan_s}", seconds(outcome.load_s)));
        table.fact("set-up", format!("predicted {}: {set_up}", Seconds(plan.set_up.total_s())));
    } else {
        let prepare = seconds(outcome.prepare_s);
        table.fact("set-up", format!("load {}{plan_s}, prepare {prepare}", seconds(outcome.load_s)));
    }
    if let (Some(median), Some(min), Some(max)) = (times.median, times.min, times.max) {
        let predicted = Seconds(plan.predicted_s);
        if outcome.simulated {
            table.fact("time", format!("{} per product in virtual time", Seconds(median)));
            table.fact("predicted", format!("{predicted} per product, simulated {}", Seconds(median)));
        } else {
            let spread = format!("median {}, min {}, max {}", Seconds(median), Seconds(min), Seconds(max));
            table.fact("time", format!("{spread} ({})", Counted(times.n as u64, "product")));
            let simulated = outcome.simulated_s.map(|s| format!(", simulated {}", Seconds(s)));
            let words = format!("{predicted} per product, measured {}", Seconds(median));
            table.fact("predicted", format!("{words}{}", simulated.unwrap_or_default()));
        }
    }
    if let Some(gflops) = outcome.gflops() {
        table.fact("speed", format!("{gflops:.2} GFLOP/s on {}", computed_on(outcome)));
    }
    if plan.devices.len() > 1 {
        overlap(outcome, &mut table);
    }
    for fault in &outcome.faults {
        let rescued = fault.recovered_on.as_ref().map(|device| format!("; recovered on {device}"));
        let FaultReport { device, task, error, .. } = fault;
        table.fact("fault", format!("{device}, {task}: {error}{}", rescued.unwrap_or_default()));
    }
    if let Some(verification) = outcome.verification {
        let largest = verification.max_bound_ratio;
        let verdict = match verification.passed {
            true => format!("yes: every error is within the rounding bound (largest {largest:.3} of it)"),
            false => format!("NO: the largest error is {largest:.3} × the rounding bound"),
        };
        table.fact("verified", verdict);
    }
    if outcome.simulated {
        table.fact("Y", "none: simulated devices compute nothing");
    }
    if let Some(hash) = &outcome.y_hash {
        let file = arguments.output.as_ref().map(|path| match is_dash(path) {
            true => ", on standard output".into(),
            false => format!(", in {}", path.display()),
        });
        table.fact("Y", format!("xxh3 {hash}{}", file.unwrap_or_default()));
    }
    if let Some(path) = &arguments.trace {
        table.fact("trace", format!("{}; open it with rowloom trace or ui.perfetto.dev", path.display()));
    }
    table
}

/// The computing devices in words.
fn computed_on<T: Scalar>(outcome: &Outcome<'_, T>) -> String {
    let threads = outcome.session.pool.threads();
    let name = |device: &str| match device {
        "cpu" if !outcome.simulated => Counted(threads as u64, "thread").to_string(),
        other => other.to_string(),
    };
    let computing: Vec<String> =
        outcome.plan.computing().map(|device| name(outcome.device_name(device))).collect();
    named(&computing)
}

fn overlap<T: Scalar>(outcome: &Outcome<'_, T>, table: &mut Table) {
    let summary = outcome.summary();
    if let Some(hidden) = summary.hidden_fraction {
        table.fact(
            "overlap",
            format!("{} of the shorter of copy and compute hidden behind the other", percent(hidden)),
        );
    }
    if let Some(idle) = summary.idle_fraction {
        table.fact("idle", format!("{} of the devices' time", percent(idle)));
    }
}

/// The JSON object for scripts.
pub fn json<T: Scalar>(outcome: &Outcome<'_, T>) -> Report {
    let Outcome { session, loaded, times, plan, .. } = outcome;
    let matrix = loaded.matrix.view();
    let summary = outcome.summary();
    let computed = outcome.computed();
    let (up, down) = outcome.described.report.map_or((0, 0), RunReport::link_bytes);
    let all_csr = computed.iter().zip(&plan.chunks).all(|(done, chunk)| {
        let device = done.map_or(chunk.home, |done| done.device.0);
        plan.kernel_on(chunk, device).info().format == Format::Csr
    });
    Report::new("run")
        .with("provenance", &session.provenance)
        .with("machine", machine_report(&session.machine))
        .with("config", config(outcome))
        .with("matrix", MatrixReport::new(&loaded.info, matrix.rows(), matrix.cols(), matrix.nnz()))
        .with("matrix_hash", hash(&matrix))
        .with("k", plan.k)
        .with("dtype", T::DTYPE)
        .with("mode", plan.mode)
        .with("chunks", chunks(outcome, &computed))
        .with(
            "timing",
            json!({
                "load_s": outcome.load_s,
                "plan_s": outcome.plan_s,
                "prepare_s": outcome.prepare_s,
                "predicted_s": plan.predicted_s,
                "predicted_over_measured": outcome.predicted_ratio(),
                "predicted_set_up_s": plan.set_up.total_s(),
                "predicted_total_s": plan.total_s(),
                "simulated_s": outcome.simulated_s,
                "run_s": times,
            }),
        )
        .with("gflops", outcome.gflops())
        .with("roofline_fraction", outcome.roofline_fraction())
        .with(
            "bytes",
            json!({
                "h2d": up,
                "d2h": down,
                "a": all_csr.then(|| matrix.bytes()),
                "x": plan.matrix.cols.saturating_mul(plan.row_bytes()),
                "y": plan.matrix.rows.saturating_mul(plan.row_bytes()),
            }),
        )
        .with("peak_rss_bytes", peak_rss_bytes())
        .with("devices", devices(outcome, &computed, &summary.devices))
        .with(
            "overlap",
            json!({"hidden_fraction": summary.hidden_fraction, "idle_fraction": summary.idle_fraction}),
        )
        .with("faults", &outcome.faults)
        .with("verify", outcome.verification)
        .with("y_hash", &outcome.y_hash)
        .with("simulated", outcome.simulated)
        .with("reasons", &plan.reasons)
        .with("interrupted", outcome.interrupted)
        .with("notes", &loaded.notes)
}

fn chunks<T: Scalar>(outcome: &Outcome<'_, T>, computed: &[Option<Computed>]) -> Vec<Value> {
    let plan = outcome.plan;
    let chunk_json = |(index, chunk): (usize, &crate::plan::Chunk)| {
        let done = computed.get(index).copied().flatten();
        let device = done.map_or(chunk.home, |done| done.device.0);
        let kernel = plan.kernel_on(chunk, device).info();
        let (row_start, row_end, segments) = match chunk.rows {
            ChunkRows::Rows { begin, end } => (begin, end, Value::Null),
            ChunkRows::Segments { row, begin, end } => (row, row + 1, json!([begin, end])),
        };
        json!({
            "row_start": row_start,
            "row_end": row_end,
            "segments": segments,
            "nnz": chunk.size.entries,
            "device": outcome.device_name(device),
            "kernel": kernel.name,
            "format": kernel.format,
            "order": kernel.order,
            "reason": outcome.reason(index),
            "predicted_s": chunk.predicted_s,
            "measured_s": done.map(|done| done.ns as f64 / 1e9),
        })
    };
    plan.chunks.iter().enumerate().map(chunk_json).collect()
}

fn devices<T: Scalar>(
    outcome: &Outcome<'_, T>,
    computed: &[Option<Computed>],
    summaries: &[DeviceSummary],
) -> Vec<Value> {
    let plan = outcome.plan;
    let device_json = |device: u32| {
        let name = outcome.device_name(device);
        let (mut rows, mut nnz) = (0, 0);
        for (chunk, done) in plan.chunks.iter().zip(computed) {
            if done.is_some_and(|done| done.device.0 == device) {
                nnz += chunk.size.entries;
                rows += if matches!(chunk.rows, ChunkRows::Rows { .. }) { chunk.slice_rows() } else { 0 };
            }
        }
        let summary = summaries.iter().find(|summary| summary.name == name);
        json!({
            "name": name,
            "rows": rows,
            "nnz": nnz,
            "busy_s": summary.map_or(0.0, |summary| summary.busy_s),
            "compute_s": summary.map_or(0.0, |summary| summary.compute_s),
            "copy_s": summary.map_or(0.0, |summary| summary.copy_s),
        })
    };
    plan.computing().map(device_json).collect()
}

/// Every flag as resolved.
pub fn config<T: Scalar>(outcome: &Outcome<'_, T>) -> Value {
    let Outcome { arguments, session, plan, .. } = outcome;
    let planning = &arguments.planning;
    let path = |path: &Option<std::path::PathBuf>| path.as_ref().map(|path| path.display().to_string());
    let used: Vec<&str> = plan.computing().map(|device| outcome.device_name(device)).collect();
    json!({
        "matrix": outcome.source.name(),
        "k": plan.k,
        "x": arguments.x.name(),
        "output": path(&arguments.output),
        "verify": arguments.verify,
        "finite": arguments.finite,
        "repeat": arguments.repeat,
        "warmup": arguments.warmup,
        "seed": session.seed,
        "devices": used.join(","),
        "devices_asked_for": planning.devices.name(),
        "threads": session.pool.threads(),
        "dtype": T::DTYPE,
        "mode": plan.mode,
        "chunks": plan.chunks.len(),
        "chunk_bytes": planning.chunk_bytes,
        "cpu_share": planning.cpu_share,
        "transfer": planning.transfer,
        "mem_limit": planning.mem_limit,
        "kernel": planning.kernel,
        "format": planning.format,
        "reproducible": planning.reproducible,
        "model": planning.model,
        "no_refine": planning.no_refine,
        "tune": planning.tune,
        "schedule": arguments.schedule,
        "plan": path(&arguments.plan),
        "trace": path(&arguments.trace),
    })
}
