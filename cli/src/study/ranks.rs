//! A product over the ranks of an MPI job as a case of a study: `mpirun` starts this program, and its report is the result. Y is verified, or
//! the first product is checked.

use std::process::{Command, Stdio};

use serde::Deserialize;
use serde_json::Value;

use super::product::PLANNED_PRODUCTS;
use crate::console::launch::HOW_TO_BUILD;
use crate::measure::Checked;
use crate::operands::session::Session;
use crate::results::{Case, Record, StudyConfig};
use crate::statistics::{Times, doubts};
use rowloom::internal::error::{Error, Result};

/// The launcher.
const LAUNCHER: &str = "mpirun";

/// An error where ranks cannot be started: a build without MPI, or no launcher.
pub fn check() -> std::result::Result<(), String> {
    if !cfg!(feature = "mpi") {
        return Err(format!("ranks needs a build with MPI; {HOW_TO_BUILD}"));
    }
    let version =
        Command::new(LAUNCHER).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    version.map(drop).map_err(|error| format!("ranks needs {LAUNCHER}, which cannot be started: {error}"))
}

/// Runs a case over `ranks` ranks. `base` has the fields that all records of the case share.
pub fn run(
    case: &Case,
    config: &StudyConfig,
    session: &Session,
    base: &Record,
    ranks: usize,
) -> Result<Record> {
    let failed = |reason: String| Error::device(LAUNCHER, reason);
    let program =
        std::env::current_exe().map_err(|error| failed(format!("this program has no name: {error}")))?;
    let mut command = Command::new(LAUNCHER);
    command.args(["-n", &ranks.to_string()]);
    if ranks > session.machine.usable_threads {
        command.arg("--oversubscribe");
    }
    command.arg(program).args(words(case, config)).stdin(Stdio::null());
    let output = command.output().map_err(|error| failed(error.to_string()))?;
    session.interrupt.check()?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let first = said.lines().find_map(|line| line.strip_prefix("error: "));
        return Err(failed(first.unwrap_or("the job ended without a report").to_owned()));
    }
    let report: Value = serde_json::from_slice(&output.stdout)
        .map_err(|error| failed(format!("the report of the job cannot be read: {error}")))?;
    record(case, base, &report, ranks).ok_or_else(|| failed("the report of the job has no times".into()))
}

/// The command line of a case.
fn words(case: &Case, config: &StudyConfig) -> Vec<String> {
    let repeat = config.measure.repeat.unwrap_or(PLANNED_PRODUCTS).to_string();
    let (warmup, seed, threads) =
        (config.measure.warmup.to_string(), config.seed.to_string(), case.threads.to_string());
    let (dtype, k) = (case.dtype.to_string(), case.k.unwrap_or(1).to_string());
    let kernel = case.kernels.first().map_or("auto", String::as_str);
    let mut words: Vec<String> = ["run", &case.matrix, "--json"].map(String::from).into();
    for (flag, value) in [
        ("-k", k.as_str()),
        ("--dtype", &dtype),
        ("--devices", &case.devices),
        ("--threads", &threads),
        ("--kernel", kernel),
        ("--mode", &case.mode),
        ("--schedule", &case.schedule),
        ("--transfer", &case.transfer),
        ("--repeat", &repeat),
        ("--warmup", &warmup),
        ("--seed", &seed),
    ] {
        words.extend([flag.to_owned(), value.to_owned()]);
    }
    words.extend(case.chunk_bytes.iter().flat_map(|bytes| ["--chunk-bytes".to_owned(), bytes.clone()]));
    words.extend(case.cpu_share.iter().flat_map(|share| ["--cpu-share".to_owned(), share.to_string()]));
    words.extend(config.measure.verify.then(|| "--verify".to_owned()));
    words
}

/// The record of a report.
fn record(case: &Case, base: &Record, report: &Value, ranks: usize) -> Option<Record> {
    let times = Times::deserialize(report.get("timing")?.get("run_s")?).ok()?;
    let number =
        |keys: &[&str]| keys.iter().try_fold(report, |value, key| value.get(key)).and_then(Value::as_f64);
    let verified = report.get("verify").and_then(|verify| {
        let max_bound_ratio = verify.get("max_bound_ratio")?.as_f64();
        Some(Checked { passed: verify.get("passed")?.as_bool()?, bitwise: false, max_bound_ratio })
    });
    // A job in which a check found a wrong Y ends with an error, unless the Y was computed again and is right.
    let was_checked = number(&["check", "products"]).is_some_and(|products| products > 0.0);
    let checked = verified.or_else(|| was_checked.then(|| Checked::weighed(0)));
    let devices = report.get("devices").and_then(Value::as_array).map_or(ranks, Vec::len);
    Some(Record {
        mode: Some(case.mode.clone()),
        schedule: Some(case.schedule.clone()),
        transfer: Some(case.transfer.clone()),
        cpu_share: case.cpu_share,
        kernel: case.kernels.first().cloned().unwrap_or_default(),
        k: case.k,
        devices: case.devices.clone(),
        device_count: devices,
        ranks: Some(ranks),
        chunks: report.get("chunks").and_then(Value::as_array).map(Vec::len),
        flops: Some(2.0 * base.matrix.nnz as f64 * case.k.unwrap_or(1) as f64),
        predicted_s: number(&["timing", "predicted_s"]),
        hidden_fraction: number(&["overlap", "hidden_fraction"]),
        idle_fraction: number(&["overlap", "idle_fraction"]),
        doubts: doubts(&times),
        times,
        checked,
        ..base.clone()
    })
}
