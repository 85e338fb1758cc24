//! What `rowloom bench` reports: the best kernel of each case, or all of them where there is one case, and a JSON object
//! with everything.

use serde_json::{Value, json};

use super::args::BenchArguments;
use super::console::Console;
use super::report::{Report, machine_report};
use super::session::Session;
use super::table::{Table, percent, seconds};
use crate::error::Result;
use crate::study::{BYTE_MODEL, CaseResult, Record, Summary, records_of};

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
pub fn show(cases: &[CaseResult], records: &[Record], console: &Console) -> Result<()> {
    if let [_] = cases {
        console.table(&kernels(records))?;
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
            case.dtype.name().into(),
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

/// Every kernel and peer of a case.
fn kernels(records: &[Record]) -> Table {
    let headings =
        ["kernel", "time", "spread", "runs", "GFLOP/s", "GB/s", "of roofline", "over serial", "check"];
    let mut table = Table::columns(headings, &[1, 2, 3, 4, 5, 6, 7]);
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".into());
    for record in records {
        let times = &record.times;
        let spread = times.stddev.zip(times.mean).filter(|&(_, mean)| mean > 0.0);
        table.row([
            record.kernel.clone(),
            or_dash(times.median.map(seconds)),
            or_dash(spread.map(|(stddev, mean)| percent(stddev / mean))),
            times.n.to_string(),
            or_dash(record.gflops().map(|gflops| format!("{gflops:.1}"))),
            or_dash(record.gb_per_s().map(|rate| format!("{rate:.1}"))),
            or_dash(record.roofline_fraction().map(percent)),
            or_dash(record.speedup.map(|speedup| format!("{speedup:.2} x"))),
            check(record),
        ]);
    }
    table
}

fn check(record: &Record) -> String {
    match (&record.reason, record.checked) {
        (Some(reason), _) => reason.clone(),
        (None, Some(checked)) if !checked.passed => format!("WRONG by {:.3} bounds", checked.max_bound_ratio),
        (None, Some(checked)) if checked.bitwise => "same bits".into(),
        (None, Some(checked)) => format!("{:.3} of the bound", checked.max_bound_ratio),
        (None, None) => "-".into(),
    }
}

/// The JSON object.
pub fn json(
    cases: &[CaseResult],
    records: &[Record],
    arguments: &BenchArguments,
    session: &Session,
) -> Report {
    let config = json!({
        "k": arguments.k, "kernels": arguments.kernels, "devices": arguments.devices.name(),
        "against": arguments.against, "dtype": arguments.dtype.iter().map(|dtype| dtype.name()).collect::<Vec<_>>(),
        "repeat": arguments.repeat, "warmup": arguments.warmup, "time_cap": arguments.time_cap,
        "seed": arguments.seed, "threads": session.pool.threads(),
        "matrices": arguments.matrices.iter().map(|matrix| matrix.to_string_lossy()).collect::<Vec<_>>(),
    });
    let mut left = records;
    let mut cases_json = Vec::new();
    for case in cases {
        let (own, others) = left.split_at(records_of(case).len().min(left.len()));
        cases_json.push(case_json(case, own));
        left = others;
    }
    Report::new("bench")
        .with("provenance", &session.provenance)
        .with("machine", machine_report(&session.machine))
        .with("config", config)
        .with("byte_model", BYTE_MODEL)
        .with("cases", cases_json)
        .with("summary", summary(cases))
}

/// A case, and of each of its kernels and peers what follows from its times.
fn case_json(case: &CaseResult, records: &[Record]) -> Value {
    let mut value = serde_json::to_value(case).unwrap_or(Value::Null);
    let best = case.best();
    let peer = case.best_peer();
    let Some(keys) = value.as_object_mut() else { return value };
    let mut records = records.iter();
    for list in ["kernels", "peers"] {
        for measured in keys.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            if let (Some(measured), Some(record)) = (measured.as_object_mut(), records.next()) {
                measured.insert("gflops".into(), json!(record.gflops()));
                measured.insert("gb_per_s".into(), json!(record.gb_per_s()));
                measured.insert("roofline_fraction".into(), json!(record.roofline_fraction()));
                measured.insert("speedup".into(), json!(record.speedup));
                measured.insert("doubts".into(), json!(record.doubts));
            }
        }
    }
    keys.insert("best_kernel".into(), json!(best.map(|(kernel, _)| &kernel.kernel)));
    keys.insert("best_s".into(), json!(best.map(|(_, time)| time)));
    keys.insert("gflops".into(), json!(best.map(|(_, time)| case.gflops(time))));
    keys.insert("compulsory_fraction".into(), json!(best.map(|(_, time)| case.fraction(time))));
    keys.insert("best_peer".into(), json!(peer.map(|(peer, _)| format!("{} {}", peer.peer, peer.algorithm))));
    keys.insert("best_peer_s".into(), json!(peer.map(|(_, time)| time)));
    keys.insert("ratio".into(), json!(case.ratio()));
    value
}
