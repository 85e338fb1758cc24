//! What `rowloom bench` reports: the best kernel of each case, or all of them where there is one case, and a JSON object
//! with everything.

use serde_json::{Value, json};

use super::args::BenchArguments;
use super::console::Console;
use super::report::{Report, machine_report};
use super::session::Session;
use super::table::{Table, percent, seconds};
use crate::error::Result;
use crate::study::{CaseResult, KernelResult, Summary};

/// Ratios of all cases that have one, by name.
fn summary(cases: &[CaseResult]) -> Option<Summary> {
    let ratios: Vec<(String, f64)> =
        cases.iter().filter_map(|case| Some((case.name(), case.ratio()?))).collect();
    Summary::of(&ratios)
}

/// A case in one line.
pub fn line(case: &CaseResult) -> String {
    let best = case.best().map_or_else(
        || "no kernel ran".into(),
        |(kernel, time)| format!("{} {}, {:.1} GFLOP/s", kernel.kernel, seconds(time), case.gflops(time)),
    );
    let peer = case.best_peer().map(|(peer, time)| format!("; {} {}", peer.peer, seconds(time)));
    let ratio = case.ratio().map(|ratio| format!(", {ratio:.2} times as fast"));
    format!("{}: {best}{}{}", case.name(), peer.unwrap_or_default(), ratio.unwrap_or_default())
}

/// The tables.
pub fn show(cases: &[CaseResult], console: &Console) -> Result<()> {
    if let [case] = cases {
        console.table(&kernels(case))?;
        console.text("\n")?;
    }
    let headings = [
        "device",
        "matrix",
        "type",
        "k",
        "best kernel",
        "time",
        "GFLOP/s",
        "of memory",
        "best peer",
        "time",
        "ratio",
    ];
    let mut table = Table::columns(headings, &[3, 5, 6, 7, 9, 10]);
    for case in cases {
        let best = case.best();
        let peer = case.best_peer();
        let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".into());
        table.row([
            case.device.clone(),
            case.matrix.clone(),
            case.dtype.into(),
            case.k.to_string(),
            or_dash(best.map(|(kernel, _)| kernel.kernel.clone())),
            or_dash(best.map(|(_, time)| seconds(time))),
            or_dash(best.map(|(_, time)| format!("{:.1}", case.gflops(time)))),
            or_dash(best.map(|(_, time)| percent(case.fraction(time)))),
            or_dash(peer.map(|(peer, _)| format!("{} {}", peer.peer, peer.algorithm))),
            or_dash(peer.map(|(_, time)| seconds(time))),
            or_dash(case.ratio().map(|ratio| format!("{ratio:.2}"))),
        ]);
    }
    console.table(&table)?;
    let Some(Summary { cases, geomean, worst, worst_case, below }) = summary(cases) else { return Ok(()) };
    console.text(&format!(
        "\n{cases} ratios: geometric mean {geomean:.2}, worst {worst:.2} ({worst_case}), {below} below 0.95\n"
    ))
}

/// Every kernel of a case.
fn kernels(case: &CaseResult) -> Table {
    let mut table = Table::columns(["kernel", "time", "GFLOP/s", "of memory", "check"], &[1, 2, 3]);
    for kernel in &case.kernels {
        let time = kernel.times.median;
        let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".into());
        table.row([
            kernel.kernel.clone(),
            or_dash(time.map(seconds)),
            or_dash(time.map(|time| format!("{:.1}", case.gflops(time)))),
            or_dash(time.map(|time| percent(case.fraction(time)))),
            check(kernel),
        ]);
    }
    for peer in &case.peers {
        let time = peer.times.median.unwrap_or(f64::NAN);
        let (gflops, fraction) = (format!("{:.1}", case.gflops(time)), percent(case.fraction(time)));
        table.row([format!("{} {}", peer.peer, peer.algorithm), seconds(time), gflops, fraction, "-".into()]);
    }
    table
}

fn check(kernel: &KernelResult) -> String {
    match (&kernel.reason, kernel.checked) {
        (Some(reason), _) => reason.clone(),
        (None, Some(checked)) if !checked.passed => format!("WRONG by {:.3} bounds", checked.max_bound_ratio),
        (None, Some(checked)) if checked.bitwise => "same bits".into(),
        (None, Some(checked)) => format!("{:.3} of the bound", checked.max_bound_ratio),
        (None, None) => "-".into(),
    }
}

/// The JSON object.
pub fn json(cases: &[CaseResult], arguments: &BenchArguments, session: &Session) -> Report {
    let config = json!({
        "k": arguments.k, "kernels": arguments.kernels, "devices": arguments.devices.name(),
        "against": arguments.against, "dtype": arguments.dtype.iter().map(|dtype| dtype.name()).collect::<Vec<_>>(),
        "repeat": arguments.repeat, "warmup": arguments.warmup, "seed": arguments.seed,
        "threads": session.pool.threads(),
    });
    Report::new("bench")
        .with("machine", machine_report(&session.machine))
        .with("config", config)
        .with("cases", cases.iter().map(case_json).collect::<Vec<_>>())
        .with("summary", summary(cases))
}

fn case_json(case: &CaseResult) -> Value {
    let mut value = serde_json::to_value(case).unwrap_or(Value::Null);
    let best = case.best();
    let peer = case.best_peer();
    let Some(keys) = value.as_object_mut() else { return value };
    keys.insert("best_kernel".into(), json!(best.map(|(kernel, _)| &kernel.kernel)));
    keys.insert("best_s".into(), json!(best.map(|(_, time)| time)));
    keys.insert("gflops".into(), json!(best.map(|(_, time)| case.gflops(time))));
    keys.insert("compulsory_fraction".into(), json!(best.map(|(_, time)| case.fraction(time))));
    keys.insert("best_peer".into(), json!(peer.map(|(peer, _)| format!("{} {}", peer.peer, peer.algorithm))));
    keys.insert("best_peer_s".into(), json!(peer.map(|(_, time)| time)));
    keys.insert("ratio".into(), json!(case.ratio()));
    value
}
