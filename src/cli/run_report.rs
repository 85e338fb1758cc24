//! What `rowloom run` reports: a short table, and the JSON object that scripts rely on.

use serde_json::{Value, json};

use super::args::RunArguments;
use super::report::{MatrixReport, Report, machine_report};
use super::session::{MatrixSource, Session, describe};
use super::table::{Table, count, seconds};
use super::times::Times;
use crate::kernel::cpu::Kernels;
use crate::kernel::{Format, Verification};
use crate::machine::peak_rss_bytes;
use crate::matrix::Loaded;
use crate::runtime::Prepared;

/// Everything that happened.
pub struct Outcome<'a, T: Kernels> {
    /// What was asked for.
    pub arguments: &'a RunArguments,
    /// Where it ran.
    pub session: &'a Session,
    /// Where A came from.
    pub source: &'a MatrixSource,
    /// A.
    pub loaded: &'a Loaded<T>,
    /// Columns of X.
    pub k: usize,
    /// Seconds to read or generate A.
    pub load_s: f64,
    /// Seconds to decide, where that is measured apart.
    pub plan_s: Option<f64>,
    /// Seconds to prepare.
    pub prepare_s: f64,
    /// What was decided.
    pub prepared: &'a Prepared<'a, T>,
    /// The measured products.
    pub times: Times,
    /// What the check said, if there was one.
    pub verification: Option<&'a Verification>,
    /// Hash of Y, if there is one.
    pub y_hash: Option<String>,
    /// Whether a signal cut the repeats short.
    pub interrupted: bool,
}

impl<T: Kernels> Outcome<'_, T> {
    fn gflops(&self) -> Option<f64> {
        let operations = 2.0 * self.loaded.matrix.nnz() as f64 * self.k as f64;
        // An empty product can take no measurable time at all.
        self.times.median.map(|median| if operations == 0.0 { 0.0 } else { operations / median / 1e9 })
    }

    /// Each kernel on its format, how many chunks it computes and why it was chosen, in the order they come.
    fn kernels(&self) -> Vec<(String, usize, String)> {
        let mut kernels: Vec<(String, usize, String)> = Vec::new();
        for chunk in self.prepared.chunks() {
            let words = format!("{} on {}", chunk.kernel, chunk.format);
            match kernels.iter_mut().find(|(known, _, why)| *known == words && *why == chunk.reason) {
                Some((_, chunks, _)) => *chunks += 1,
                None => kernels.push((words, 1, chunk.reason)),
            }
        }
        kernels
    }
}

/// The outcome for people.
pub fn table<T: Kernels>(outcome: &Outcome<'_, T>) -> Table {
    let Outcome { arguments, times, .. } = outcome;
    let mut table = Table::facts();
    table.fact("matrix", describe(&outcome.loaded.matrix.view(), &outcome.loaded.info));
    table.fact("X", format!("{} columns, {}, {}", count(outcome.k as u64), T::DTYPE, arguments.x.name()));
    for (kernel, chunks, reason) in outcome.kernels() {
        let plural = if chunks == 1 { "" } else { "s" };
        table.fact("kernel", format!("{kernel}, {chunks} chunk{plural}")).fact("because", reason);
    }
    table.fact("set-up", format!("load {}, prepare {}", seconds(outcome.load_s), seconds(outcome.prepare_s)));
    if let (Some(median), Some(min), Some(max)) = (times.median, times.min, times.max) {
        let spread = format!("median {}, min {}, max {}", seconds(median), seconds(min), seconds(max));
        table.fact("time", format!("{spread} ({} runs)", times.n));
    }
    if let Some(gflops) = outcome.gflops() {
        let threads = outcome.session.pool.threads();
        let plural = if threads == 1 { "" } else { "s" };
        table.fact("speed", format!("{gflops:.2} GFLOP/s on {threads} thread{plural}"));
    }
    if let Some(verification) = outcome.verification {
        let verdict = if verification.passed { "yes" } else { "NO" };
        table.fact(
            "verified",
            format!(
                "{verdict}: relative error at most {:.1e}, {:.3} of the rounding bound",
                verification.max_rel_err, verification.max_bound_ratio
            ),
        );
    }
    if let Some(hash) = &outcome.y_hash {
        let file = arguments.output.as_ref().map(|path| format!(", in {}", path.display()));
        table.fact("Y", format!("xxh3 {hash}{}", file.unwrap_or_default()));
    }
    table
}

/// The outcome for scripts.
pub fn json<T: Kernels>(outcome: &Outcome<'_, T>) -> Report {
    let Outcome { session, loaded, times, .. } = outcome;
    let matrix = loaded.matrix.view();
    let value_bytes = size_of::<T>() as u64;
    let dense_bytes = |rows: usize| rows as u64 * outcome.k as u64 * value_bytes;
    let device = json!({
        "name": "cpu",
        "rows": matrix.rows(),
        "nnz": matrix.nnz(),
        "busy_s": times.median,
        "compute_s": times.median,
        "copy_s": 0.0,
    });
    Report::new("run")
        .with("machine", machine_report(&session.machine))
        .with("config", config(outcome))
        .with("matrix", MatrixReport::new(&loaded.info, matrix.rows(), matrix.cols(), matrix.nnz()))
        .with("k", outcome.k)
        .with("dtype", T::DTYPE)
        .with("mode", "resident")
        .with("chunks", outcome.prepared.chunks())
        .with(
            "timing",
            json!({
                "load_s": outcome.load_s,
                "plan_s": outcome.plan_s,
                "prepare_s": outcome.prepare_s,
                "run_s": times,
            }),
        )
        .with("gflops", outcome.gflops())
        .with("roofline_fraction", Value::Null)
        .with(
            "bytes",
            json!({
                "h2d": 0,
                "d2h": 0,
                "a": (outcome.prepared.kernel().info().format == Format::Csr).then(|| matrix.bytes()),
                "x": dense_bytes(matrix.cols()),
                "y": dense_bytes(matrix.rows()),
            }),
        )
        .with("peak_rss_bytes", peak_rss_bytes())
        .with("devices", [device])
        .with("overlap", json!({"hidden_fraction": null, "idle_fraction": null}))
        .with("faults", Vec::<Value>::new())
        .with("verify", outcome.verification)
        .with("y_hash", &outcome.y_hash)
        .with("interrupted", outcome.interrupted)
        .with("notes", &loaded.notes)
}

/// Every flag as it was resolved.
fn config<T: Kernels>(outcome: &Outcome<'_, T>) -> Value {
    let Outcome { arguments, session, .. } = outcome;
    json!({
        "matrix": outcome.source.name(),
        "k": outcome.k,
        "x": arguments.x.name(),
        "output": arguments.output.as_ref().map(|path| path.display().to_string()),
        "verify": arguments.verify,
        "finite": arguments.finite,
        "repeat": arguments.repeat,
        "warmup": arguments.warmup,
        "seed": session.seed,
        "devices": "cpu",
        "threads": session.pool.threads(),
        "dtype": T::DTYPE,
        "kernel": arguments.kernel,
        "format": arguments.format,
        "schedule": arguments.schedule,
    })
}
