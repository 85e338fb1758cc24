//! The report of the commands that compute: a short table, and the JSON object for scripts.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::repeat::CheckedRepetitions;
use super::repeat::simulated_s;
use super::request::Request;
use super::workload::Workload;
use crate::args::standard_stream::is_dash;
use crate::console::device_names::named;
use crate::console::reasons;
use crate::console::report::{Report, machine_report};
use crate::console::table::{Table, percent, seconds};
use crate::operands::session::Session;
use crate::statistics::Times;
use crate::trace::median_product::Described;
use rowloom::internal::error::{Counted, Seconds};
use rowloom::internal::kernel::{Format, KindOfWork, Verification};
use rowloom::internal::machine::peak_rss_bytes;
use rowloom::internal::plan::Plan;
use rowloom::internal::runtime::{Computed, FaultReport, RunReport};
use rowloom::internal::trace::{DeviceSummary, Summary};
use rowloom::internal::work::ChunkRows;

/// What a command computed, as it says itself.
pub struct Done {
    /// What was computed.
    pub workload: Workload,
    /// Seconds to read or generate the operands.
    pub load_s: f64,
    /// Seconds of planning.
    pub plan_s: f64,
    /// Seconds of preparing.
    pub prepare_s: f64,
    /// Seconds of each measured product.
    pub seconds: Vec<f64>,
    /// The error of the clock alignment of each device with its own clock.
    pub clock_errors: Vec<(String, u64)>,
    /// For each chunk the reason of the CPU's kernel, where the CPU may compute it.
    pub host_reasons: Vec<Option<String>>,
    /// The products that were checked.
    pub checked: CheckedRepetitions,
    /// Faults of all products.
    pub faults: Vec<FaultReport>,
    /// Whether the devices are simulated.
    pub simulated: bool,
    /// The result of `--verify`.
    pub verification: Option<Verification>,
    /// The part of the result that was compared, where it is not all of it.
    pub verified_part: Option<String>,
    /// Hash of the result; `None` where there is none.
    pub result_hash: Option<String>,
}

impl Done {
    /// A workload of which nothing else is known.
    pub fn new(workload: Workload) -> Self {
        Self {
            workload,
            load_s: 0.0,
            plan_s: 0.0,
            prepare_s: 0.0,
            seconds: Vec::new(),
            clock_errors: Vec::new(),
            host_reasons: Vec::new(),
            checked: CheckedRepetitions::default(),
            faults: Vec::new(),
            simulated: false,
            verification: None,
            verified_part: None,
            result_hash: None,
        }
    }
}

/// What is reported: what was done, as it was asked for, with its plan.
pub struct Outcome<'a> {
    /// The request.
    pub request: &'a Request<'a>,
    /// The machine and its threads.
    pub session: &'a Session,
    /// What was computed.
    pub done: Done,
    /// The plan.
    pub plan: &'a Plan,
    /// The product of median length.
    pub described: &'a Described<'a>,
    /// Statistics of the measured products.
    times: Times,
    /// Seconds of the plan in virtual time, where several devices work together.
    simulated_s: Option<f64>,
    /// Whether a signal ended the run early.
    interrupted: bool,
}

impl<'a> Outcome<'a> {
    /// The outcome of `done`.
    pub fn new(
        request: &'a Request<'a>,
        session: &'a Session,
        done: Done,
        plan: &'a Plan,
        described: &'a Described<'a>,
    ) -> Self {
        let simulated_s = if done.simulated || request.is_over_ranks { None } else { simulated_s(plan) };
        let (times, interrupted) = (Times::new(&done.seconds), session.interrupt.asked());
        Self { request, session, done, plan, described, times, simulated_s, interrupted }
    }
}

impl Outcome<'_> {
    /// Whether the only measured product is the first one, which is slower than later ones.
    fn is_cold(&self) -> bool {
        !self.done.simulated && self.times.n == 1 && self.request.repeated.warmup == 0
    }

    fn gflops(&self) -> Option<f64> {
        let operations = self.done.workload.operations;
        // An empty product may take no measurable time.
        self.times.median.map(|median| if operations == 0.0 { 0.0 } else { operations / median / 1e9 })
    }

    /// Compulsory bytes over time, as a share of the memory bandwidth of all devices with chunks. A dense product is bound by arithmetic,
    /// so there is none.
    fn roofline_fraction(&self) -> Option<f64> {
        let busy = self.plan.devices.iter().filter(|device| device.chunks > 0);
        let rate: f64 = busy.map(|device| device.profile.stream_gb_per_s * 1e9).sum();
        self.times
            .median
            .filter(|median| *median > 0.0 && rate > 0.0 && self.done.workload.work != KindOfWork::Gemm)
            .map(|median| self.done.workload.bytes as f64 / rate / median)
    }

    /// Compulsory bytes over time.
    fn gb_per_s(&self) -> Option<f64> {
        let median = self.times.median.filter(|median| *median > 0.0);
        median.map(|median| self.done.workload.bytes as f64 / median / 1e9)
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
        let kernel = self.kernel_reason(chunk);
        self.plan.chunks.get(chunk).map_or_else(String::new, |chunk| format!("{}; {kernel}", chunk.reason))
    }

    /// Why a chunk has its kernel, and what the host decided when it prepared the chunk.
    fn kernel_reason(&self, chunk: usize) -> String {
        let host = self.done.host_reasons.get(chunk).and_then(Option::as_deref);
        self.plan.chunks.get(chunk).map_or_else(String::new, |chunk| chunk.kernel_reason_with(host))
    }

    /// Each kernel, its devices, and its number of chunks, in the order of chunks.
    fn kernels(&self) -> Vec<(String, Vec<&str>, usize)> {
        let mut kernels: Vec<(String, Vec<&str>, usize)> = Vec::new();
        for (chunk, done) in self.plan.chunks.iter().zip(self.computed()) {
            let device = done.map_or(chunk.home, |done| done.device.0);
            let kernel = self.plan.kernel_on(chunk, device).info();
            let words = match kernel.format {
                Format::Dense => kernel.name.to_owned(),
                format => format!("{} on {}", kernel.name, format.name()),
            };
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

/// The table for people.
pub fn table(outcome: &Outcome<'_>) -> Table {
    let Outcome { done: Done { workload, .. }, times, plan, .. } = outcome;
    let unit = workload.unit();
    let mut table = Table::facts();
    for (name, value) in &workload.facts {
        table.fact(name, value);
    }
    for (kernel, devices, chunks) in outcome.kernels() {
        let chunks = Counted(chunks as u64, "chunk");
        table.fact("kernel", format!("{kernel}, {chunks} on {}", named(&devices)));
    }
    if let ([chunk], Some(Some(_))) = (&plan.chunks[..], outcome.done.host_reasons.first()) {
        let name = format!("{}: ", plan.kernel_on(chunk, chunk.home).name());
        let reason = outcome.kernel_reason(0);
        // The line above has the name.
        table.fact("", reason.strip_prefix(&name).unwrap_or(&reason));
    }
    reasons::add(&mut table, &workload.reasons(plan));
    let plan_s = format!(", plan {}", seconds(outcome.done.plan_s));
    if outcome.done.simulated {
        let set_up = plan.set_up_reason();
        table.fact("this command", format!("load {}{plan_s}", seconds(outcome.done.load_s)));
        table.fact("set-up", format!("predicted {}: {set_up}", Seconds(plan.set_up.total_s())));
    } else {
        let prepare = seconds(outcome.done.prepare_s);
        table.fact("set-up", format!("load {}{plan_s}, prepare {prepare}", seconds(outcome.done.load_s)));
    }
    if let (Some(median), Some(min), Some(max)) = (times.median, times.min, times.max) {
        let predicted = Seconds(plan.predicted_s);
        if outcome.done.simulated {
            table.fact("time", format!("{} per {unit} in virtual time", Seconds(median)));
            table.fact("predicted", format!("{predicted} per {unit}, simulated {}", Seconds(median)));
        } else {
            table.fact(
                "time",
                match times.n {
                    1 if outcome.is_cold() => {
                        format!("{} for the first {unit}, warm-up included; see --repeat", Seconds(median))
                    }
                    1 => format!("{} (1 {unit})", Seconds(median)),
                    n => format!(
                        "median {}, min {}, max {} ({})",
                        Seconds(median),
                        Seconds(min),
                        Seconds(max),
                        Counted(n as u64, unit)
                    ),
                },
            );
            table.fact("predicted", format!("{predicted} per {unit}, measured {}", Seconds(median)));
        }
    }
    let speed = match workload.work {
        KindOfWork::Colmean => outcome.gb_per_s().map(|rate| format!("{rate:.2} GB/s")),
        KindOfWork::Spmm | KindOfWork::Gemm => outcome.gflops().map(|rate| format!("{rate:.2} GFLOP/s")),
    };
    if let Some(speed) = speed.filter(|_| !outcome.is_cold()) {
        table.fact("speed", format!("{speed} on {}", computed_on(outcome)));
    }
    if plan.devices.len() > 1 {
        overlap(outcome, &mut table);
    }
    for fault in &outcome.done.faults {
        let rescued = fault.recovered_on.as_ref().map(|device| format!("; recovered on {device}"));
        let FaultReport { device, task, error, .. } = fault;
        table.fact("fault", format!("{device}, {task}: {error}{}", rescued.unwrap_or_default()));
    }
    if outcome.done.checked.products > 0 {
        let CheckedRepetitions { products, seconds } = outcome.done.checked;
        let (products, seconds) = (Counted(products, unit), Seconds(seconds));
        let how = "by weighted sums formed during the run (--check)";
        table.fact("checked", format!("{products}, {how}; comparing the sums took {seconds}"));
    }
    add_result(&mut table, outcome);
    table
}

/// The last lines of every table: the verdict, the result, its file and the trace.
pub fn add_result(table: &mut Table, outcome: &Outcome<'_>) {
    let Done { workload, .. } = &outcome.done;
    let result = workload.result();
    if let Some(verification) = &outcome.done.verification {
        let largest = verification.max_bound_ratio;
        let part = outcome.done.verified_part.as_ref().map_or(String::new(), |part| format!(", {part}"));
        let verdict = match verification.passed {
            true => {
                format!("yes: every error is within the rounding bound (largest {largest:.3} of it{part})")
            }
            false => format!("NO: the largest error is {largest:.3} × the rounding bound"),
        };
        table.fact("verified", verdict);
    } else if outcome.request.repeated.verify && outcome.interrupted {
        table.fact("verified", format!("no: the command was interrupted before {result} was verified"));
    }
    for (name, value) in &workload.results {
        table.fact(name, value);
    }
    if outcome.done.simulated {
        table.fact(result, "none: simulated devices compute nothing");
    }
    if let Some(hash) = &outcome.done.result_hash {
        let is_wrong = outcome.done.verification.as_ref().is_some_and(|verification| !verification.passed);
        let file = workload.output.as_ref().map(|path| match is_dash(path) {
            _ if is_wrong => ", not written, since it is wrong".into(),
            true => ", on standard output".into(),
            false => format!(", in {}", path.display()),
        });
        table.fact(result, format!("xxh3 {hash}{}", file.unwrap_or_default()));
    }
    if let Some(path) = &outcome.request.repeated.trace {
        table.fact("trace", format!("{}; open it with rowloom trace or ui.perfetto.dev", path.display()));
    }
}

/// The computing devices in words.
fn computed_on(outcome: &Outcome<'_>) -> String {
    let threads = outcome.session.pool.threads();
    let name = |device: &str| match device {
        "cpu" if !outcome.done.simulated => Counted(threads as u64, "thread").to_string(),
        other => other.to_string(),
    };
    let computing: Vec<String> =
        outcome.plan.computing().map(|device| name(outcome.device_name(device))).collect();
    named(&computing)
}

fn overlap(outcome: &Outcome<'_>, table: &mut Table) {
    let summary = outcome.summary();
    if let Some(hidden) = summary.hidden_fraction {
        table.fact(
            "overlap",
            format!("{} of copying or computing, whichever is shorter, is hidden", percent(hidden)),
        );
    }
    if let Some(together) = summary.together_fraction {
        table.fact("together", format!("two or more devices are busy {} of the time", percent(together)));
    }
    if let Some(idle) = summary.idle_fraction {
        table.fact("idle", format!("{} of the devices' time", percent(idle)));
    }
}

/// The command of a kind of work.
fn command_of(work: KindOfWork) -> &'static str {
    match work {
        KindOfWork::Spmm => "run",
        KindOfWork::Gemm => "gemm",
        KindOfWork::Colmean => "colmean",
    }
}

/// The JSON object for scripts.
pub fn json(outcome: &Outcome<'_>) -> Report {
    let Outcome { done: Done { workload, .. }, session, times, plan, .. } = outcome;
    let summary = outcome.summary();
    let computed = outcome.computed();
    let (up, down) = outcome.described.report.map_or((0, 0), RunReport::link_bytes);
    let is_as_loaded = computed.iter().zip(&plan.chunks).all(|(done, chunk)| {
        let device = done.map_or(chunk.home, |done| done.device.0);
        matches!(plan.kernel_on(chunk, device).info().format, Format::Csr | Format::Dense)
    });
    let report = Report::new(command_of(workload.work))
        .with("provenance", &session.provenance)
        .with("machine", machine_report(&session.machine))
        .with("config", config(outcome));
    let operands = |report: Report, (key, value): &(&str, Value)| report.with(key, value);
    let report = workload.keys.iter().fold(report, operands);
    let report = match workload.work {
        KindOfWork::Colmean => report.with("gb_per_s", outcome.gb_per_s()),
        KindOfWork::Spmm | KindOfWork::Gemm => report,
    };
    report
        .with("dtype", plan.dtype)
        .with("mode", plan.mode)
        .with("chunks", chunks(outcome, &computed))
        .with(
            "timing",
            json!({
                "load_s": outcome.done.load_s,
                "plan_s": outcome.done.plan_s,
                "prepare_s": outcome.done.prepare_s,
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
                "a": is_as_loaded.then_some(workload.a_bytes),
                "x": plan.matrix.cols.saturating_mul(plan.row_bytes()) / workload.parts,
                "y": plan.matrix.rows.saturating_mul(plan.row_bytes()),
            }),
        )
        .with("peak_rss_bytes", peak_rss_bytes())
        .with("devices", devices(outcome, &computed, &summary.devices))
        .with(
            "overlap",
            json!({
                "hidden_fraction": summary.hidden_fraction,
                "together_fraction": summary.together_fraction,
                "idle_fraction": summary.idle_fraction,
            }),
        )
        .with("check", outcome.done.checked)
        .with("faults", &outcome.done.faults)
        .with("verify", outcome.done.verification)
        .with(&format!("{}_hash", workload.result().to_lowercase()), &outcome.done.result_hash)
        .with("simulated", outcome.done.simulated)
        .with("reasons", workload.reasons(plan))
        .with("interrupted", outcome.interrupted)
        .with("notes", &workload.notes)
}

fn chunks(outcome: &Outcome<'_>, computed: &[Option<Computed>]) -> Vec<Value> {
    let (plan, entries) = (outcome.plan, outcome.done.workload.entries());
    let chunk_json = |(index, chunk): (usize, &rowloom::internal::plan::Chunk)| {
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
            (entries): chunk.size.entries / outcome.done.workload.parts,
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

fn devices(outcome: &Outcome<'_>, computed: &[Option<Computed>], summaries: &[DeviceSummary]) -> Vec<Value> {
    let (plan, entries) = (outcome.plan, outcome.done.workload.entries());
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
            (entries): nnz / outcome.done.workload.parts,
            "busy_s": summary.map_or(0.0, |summary| summary.busy_s),
            "compute_s": summary.map_or(0.0, |summary| summary.compute_s),
            "copy_s": summary.map_or(0.0, |summary| summary.copy_s),
        })
    };
    plan.computing().map(device_json).collect()
}

/// Every flag as resolved.
pub fn config(outcome: &Outcome<'_>) -> Value {
    let Outcome { done: Done { workload, .. }, request, session, plan, .. } = outcome;
    let (repeated, execution) = (request.repeated, request.execution);
    let path = |path: &Option<PathBuf>| path.as_ref().map(|path| path.display().to_string());
    let used: Vec<&str> = plan.computing().map(|device| outcome.device_name(device)).collect();
    let mut config = execution.limits();
    let flags = json!({
        "output": path(&workload.output),
        "verify": repeated.verify,
        "repeat": repeated.repeat,
        "warmup": repeated.warmup,
        "seed": session.seed,
        "devices": used.join(","),
        "devices_asked_for": execution.devices.name(),
        "threads": session.pool.threads(),
        "dtype": plan.dtype,
        "mode": plan.mode,
        "chunks": plan.chunks.len(),
        "check": execution.check,
        "kernel": workload.kernel,
        "trace": path(&repeated.trace),
    });
    for keys in [flags, workload.config.clone()] {
        if let Value::Object(keys) = keys {
            config.extend(keys);
        }
    }
    Value::Object(config)
}
