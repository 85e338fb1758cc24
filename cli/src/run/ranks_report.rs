//! The report of `rowloom run` over ranks: the objects of all ranks merged into one, and a short table. Rank 0 makes both.

use serde_json::{Map, Value, json};

use super::report::{Outcome, add_result};
use crate::console::Console;
use crate::console::report::Report;
use crate::console::table::{Table, count, percent, seconds};
use crate::statistics::Times;
use rowloom::internal::error::{Bytes, Counted, Result, Seconds};

/// The outcome of one rank, as rank 0 gets it.
#[derive(Debug, serde::Serialize, serde::Deserialize)]
pub struct RankOutcome {
    /// Its own JSON object, of its own rows.
    pub report: Value,
    /// Its host.
    pub host: String,
    /// Its first row.
    pub row_start: u64,
    /// The row after its last.
    pub row_end: u64,
    /// Nonzeros of its rows.
    pub nnz: u64,
    /// Rows of X that it gets from other ranks with every product.
    pub received_rows: u64,
    /// Bytes that it sends with every product.
    pub sent_bytes: u64,
    /// Messages that it sends from a card or receives for one, with every product.
    pub device_messages: u64,
    /// Those of them that go directly from or to the memory of the card.
    pub direct_messages: u64,
    /// Seconds of each measured product.
    pub seconds: Vec<f64>,
    /// Its threads.
    pub threads: usize,
    /// Largest memory of its process.
    pub peak_rss_bytes: Option<u64>,
}

impl RankOutcome {
    /// A number of its report.
    fn number(&self, keys: &[&str]) -> f64 {
        keys.iter().try_fold(&self.report, |value, key| value.get(key)).and_then(Value::as_f64).unwrap_or(0.0)
    }

    fn list(&self, key: &str) -> &[Value] {
        self.report.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
    }

    /// Seconds in which its devices computed, of the product that is described.
    fn compute_s(&self) -> f64 {
        let device_s = |device: &Value| device.get("compute_s").and_then(Value::as_f64).unwrap_or(0.0);
        self.list("devices").iter().map(device_s).fold(0.0, f64::max)
    }

    fn median_s(&self) -> Option<f64> {
        Times::new(&self.seconds).median
    }
}

/// Sizes of the whole product.
pub struct Whole {
    /// Rows of A.
    pub rows: u64,
    /// Columns of A.
    pub cols: u64,
    /// Nonzeros of A.
    pub nnz: u64,
    /// Columns of X.
    pub k: u64,
    /// Bytes of a row of X.
    pub row_bytes: u64,
}

/// What the ranks have in common.
struct Summary {
    /// Of each product the seconds of the rank that took longest.
    times: Times,
    gflops: Option<f64>,
    /// The rank that computed longest.
    slowest: usize,
    /// Longest over mean compute time, minus one.
    imbalance: Option<f64>,
    exchanged_bytes: u64,
}

impl Summary {
    fn new(outcomes: &[RankOutcome], whole: &Whole) -> Self {
        let products = outcomes.iter().map(|rank| rank.seconds.len()).min().unwrap_or(0);
        let longest = |product: usize| outcomes.iter().map(|rank| rank.seconds[product]).fold(0.0, f64::max);
        let times = Times::new(&(0..products).map(longest).collect::<Vec<f64>>());
        let operations = 2.0 * whole.nnz as f64 * whole.k as f64;
        let compute: Vec<f64> = outcomes.iter().map(RankOutcome::compute_s).collect();
        let slowest = (0..compute.len()).max_by(|a, b| compute[*a].total_cmp(&compute[*b])).unwrap_or(0);
        let mean = compute.iter().sum::<f64>() / compute.len().max(1) as f64;
        Self {
            gflops: times.median.filter(|median| *median > 0.0).map(|median| operations / median / 1e9),
            times,
            slowest,
            imbalance: (mean > 0.0).then(|| compute[slowest] / mean - 1.0),
            exchanged_bytes: outcomes.iter().map(|rank| rank.received_rows).sum::<u64>() * whole.row_bytes,
        }
    }
}

/// Prints the table and the JSON object.
pub fn report(
    console: &Console,
    outcome: &Outcome<'_>,
    outcomes: &[RankOutcome],
    whole: &Whole,
) -> Result<()> {
    let summary = Summary::new(outcomes, whole);
    console.table(&table(outcome, outcomes, &summary))?;
    console.json(&json(outcome, outcomes, &summary, whole))
}

fn table(outcome: &Outcome<'_>, outcomes: &[RankOutcome], summary: &Summary) -> Table {
    let mut table = Table::facts();
    for (name, value) in &outcome.done.workload.facts {
        table.fact(name, value);
    }
    let mut hosts: Vec<&str> = outcomes.iter().map(|rank| rank.host.as_str()).collect();
    hosts.sort_unstable();
    hosts.dedup();
    let ranks = Counted(outcomes.len() as u64, "rank");
    table.fact("ranks", format!("{ranks} on {}", Counted(hosts.len() as u64, "host")));
    for (number, rank) in outcomes.iter().enumerate().take(MAX_LISTED_RANKS) {
        let rows = count(rank.row_end - rank.row_start);
        let names = rank.list("devices").iter().filter_map(|device| device.get("name")?.as_str());
        let devices = names.collect::<Vec<_>>().join(" and ");
        let nonzeros = count(rank.nnz);
        let threads = Counted(rank.threads as u64, "thread");
        table.fact(
            "",
            format!("rank {number} on {}: {rows} rows, {nonzeros} nonzeros, {devices}, {threads}", rank.host),
        );
    }
    if outcomes.len() > MAX_LISTED_RANKS {
        table.fact("", format!("and {} more; --json lists all", outcomes.len() - MAX_LISTED_RANKS));
    }
    let longest = |keys: &[&str]| seconds(outcomes.iter().map(|rank| rank.number(keys)).fold(0.0, f64::max));
    let [load, plan, prepare] = ["load_s", "plan_s", "prepare_s"].map(|key| longest(&["timing", key]));
    table.fact("set-up", format!("load {load}, plan {plan}, prepare {prepare} (longest rank)"));
    if let (Some(median), Some(min), Some(max)) = (summary.times.median, summary.times.min, summary.times.max)
    {
        let spread = format!("median {}, min {}, max {}", Seconds(median), Seconds(min), Seconds(max));
        table
            .fact("time", format!("{spread} ({}, longest rank)", Counted(summary.times.n as u64, "product")));
    }
    if let Some(gflops) = summary.gflops {
        table.fact("speed", format!("{gflops:.2} GFLOP/s on {ranks}"));
    }
    let rows: u64 = outcomes.iter().map(|rank| rank.received_rows).sum();
    table.fact(
        "exchange",
        format!(
            "{} of X, {}, per product{}",
            Counted(rows, "row"),
            Bytes(summary.exchanged_bytes),
            message_path(outcomes)
        ),
    );
    if let (Some(imbalance), true) = (summary.imbalance, outcomes.len() > 1) {
        let slowest = summary.slowest;
        let host = outcomes.get(slowest).map_or("?", |rank| &rank.host);
        table.fact(
            "imbalance",
            format!("rank {slowest} on {host} computes {} longer than the mean", percent(imbalance)),
        );
    }
    for (number, rank) in outcomes.iter().enumerate() {
        for fault in rank.list("faults") {
            let text = |key: &str| fault.get(key).and_then(Value::as_str).unwrap_or("?").to_owned();
            table.fact(
                "fault",
                format!("rank {number}, {}, {}: {}", text("device"), text("task"), text("error")),
            );
        }
    }
    add_result(&mut table, outcome);
    table
}

/// How the rows of cards reach other ranks; empty where no card sends or receives rows.
fn message_path(outcomes: &[RankOutcome]) -> String {
    let (all, direct) = outcomes
        .iter()
        .fold((0, 0), |(all, direct), rank| (all + rank.device_messages, direct + rank.direct_messages));
    match direct {
        _ if all == 0 => String::new(),
        0 => "; messages of cards go through host memory".into(),
        direct if direct == all => "; messages of cards go directly from and to device memory".into(),
        direct => format!("; {direct} of {all} messages of cards go directly from or to device memory"),
    }
}

/// Ranks that the table lists.
const MAX_LISTED_RANKS: usize = 8;

/// The object of rank 0 with the keys of all ranks merged.
fn json(outcome: &Outcome<'_>, outcomes: &[RankOutcome], summary: &Summary, whole: &Whole) -> Report {
    let empty = Map::new();
    let first = outcomes.first().and_then(|rank| rank.report.as_object()).unwrap_or(&empty);
    let mut report = Report::new("run");
    for (key, value) in first.iter().filter(|(key, _)| !["rowloom", "command"].contains(&key.as_str())) {
        let merged = match key.as_str() {
            "chunks" => json!(merged_chunks(outcomes)),
            "devices" => json!(merged(outcomes, "devices", "name", |_, _| {})),
            "faults" => json!(merged(outcomes, "faults", "device", |_, _| {})),
            "timing" => timing(value, outcomes, summary),
            "gflops" => json!(summary.gflops),
            "roofline_fraction" => roofline(outcomes, summary),
            "bytes" => json!({
                "h2d": total(outcomes, &["bytes", "h2d"]),
                "d2h": total(outcomes, &["bytes", "d2h"]),
                "a": total(outcomes, &["bytes", "a"]),
                "x": whole.cols.saturating_mul(whole.row_bytes),
                "y": whole.rows.saturating_mul(whole.row_bytes),
                "exchanged": summary.exchanged_bytes,
            }),
            "peak_rss_bytes" => json!(outcomes.iter().filter_map(|rank| rank.peak_rss_bytes).sum::<u64>()),
            "overlap" => json!({
                "hidden_fraction": mean(outcomes, &["overlap", "hidden_fraction"]),
                "idle_fraction": mean(outcomes, &["overlap", "idle_fraction"]),
            }),
            "verify" => json!(outcome.done.verification),
            "y_hash" => json!(outcome.done.result_hash),
            _ => value.clone(),
        };
        report = report.with(key, merged);
    }
    report
        .with("imbalance", summary.imbalance)
        .with("slowest_rank", summary.slowest)
        .with("ranks", ranks(outcomes, whole))
}

fn ranks(outcomes: &[RankOutcome], whole: &Whole) -> Vec<Value> {
    let rank_json = |(number, rank): (usize, &RankOutcome)| {
        json!({
            "rank": number,
            "host": rank.host,
            "row_start": rank.row_start,
            "row_end": rank.row_end,
            "nnz": rank.nnz,
            "threads": rank.threads,
            "load_s": rank.number(&["timing", "load_s"]),
            "prepare_s": rank.number(&["timing", "prepare_s"]),
            "run_s": rank.median_s(),
            "compute_s": rank.compute_s(),
            "received_bytes": rank.received_rows * whole.row_bytes,
            "sent_bytes": rank.sent_bytes,
            "device_messages": rank.device_messages,
            "direct_messages": rank.direct_messages,
            "peak_rss_bytes": rank.peak_rss_bytes,
        })
    };
    outcomes.iter().enumerate().map(rank_json).collect()
}

/// The lists of all ranks under `key`. The device of an element, under `name`, gets the number of its rank.
fn merged(
    outcomes: &[RankOutcome],
    key: &str,
    name: &str,
    change: impl Fn(&RankOutcome, &mut Map<String, Value>),
) -> Vec<Value> {
    let mut all = Vec::new();
    for (number, rank) in outcomes.iter().enumerate() {
        for element in rank.list(key) {
            let mut element = element.clone();
            if let Some(object) = element.as_object_mut() {
                let device = object.get(name).and_then(Value::as_str).unwrap_or("?").to_owned();
                object.insert(name.into(), json!(format!("rank {number} {device}")));
                change(rank, object);
            }
            all.push(element);
        }
    }
    all
}

/// The chunks of all ranks, with the rows of the whole matrix.
fn merged_chunks(outcomes: &[RankOutcome]) -> Vec<Value> {
    merged(outcomes, "chunks", "device", |rank, chunk| {
        for key in ["row_start", "row_end"] {
            let row = chunk.get(key).and_then(Value::as_u64).unwrap_or(0);
            chunk.insert(key.into(), json!(row + rank.row_start));
        }
    })
}

fn timing(own: &Value, outcomes: &[RankOutcome], summary: &Summary) -> Value {
    let mut timing = own.clone();
    let Some(object) = timing.as_object_mut() else { return timing };
    for key in ["load_s", "plan_s", "prepare_s", "predicted_s", "predicted_set_up_s", "predicted_total_s"] {
        let longest = outcomes.iter().map(|rank| rank.number(&["timing", key])).fold(0.0, f64::max);
        object.insert(key.into(), json!(longest));
    }
    let predicted = object.get("predicted_s").and_then(Value::as_f64);
    let measured = summary.times.median.filter(|median| *median > 0.0);
    let ratio = predicted.zip(measured).map(|(predicted, measured)| predicted / measured);
    object.insert("predicted_over_measured".into(), json!(ratio));
    object.insert("run_s".into(), json!(summary.times));
    timing
}

/// Compulsory bytes of the whole product over the time of the slowest rank, as a share of the bandwidth of all ranks.
fn roofline(outcomes: &[RankOutcome], summary: &Summary) -> Value {
    // The share of a rank is that of all bytes and its own bandwidth and time; bandwidths add up.
    let inverse = |rank: &RankOutcome| {
        let share = rank.number(&["roofline_fraction"]);
        (share > 0.0).then(|| rank.median_s().map(|median| 1.0 / (share * median))).flatten()
    };
    let bandwidth: Option<f64> = outcomes.iter().map(inverse).sum();
    let measured = summary.times.median.filter(|median| *median > 0.0);
    json!(bandwidth.zip(measured).map(|(bandwidth, measured)| 1.0 / (bandwidth * measured)))
}

fn total(outcomes: &[RankOutcome], keys: &[&str]) -> u64 {
    outcomes.iter().map(|rank| rank.number(keys) as u64).sum()
}

fn mean(outcomes: &[RankOutcome], keys: &[&str]) -> Option<f64> {
    let known: Vec<f64> = outcomes
        .iter()
        .filter_map(|rank| keys.iter().try_fold(&rank.report, |value, key| value.get(key))?.as_f64())
        .collect();
    (!known.is_empty()).then(|| known.iter().sum::<f64>() / known.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(row_start: u64, compute_s: f64, seconds: &[f64]) -> RankOutcome {
        RankOutcome {
            report: json!({
                "chunks": [{"row_start": 0, "row_end": 5, "device": "cpu"}],
                "devices": [{"name": "cpu", "compute_s": compute_s}],
                "roofline_fraction": 0.5,
            }),
            host: "node".into(),
            row_start,
            row_end: row_start + 5,
            nnz: 10,
            received_rows: 3,
            sent_bytes: 24,
            device_messages: 0,
            direct_messages: 0,
            seconds: seconds.to_vec(),
            threads: 1,
            peak_rss_bytes: Some(1),
        }
    }

    #[test]
    fn the_table_says_how_the_rows_of_cards_reach_other_ranks() {
        let of = |all, direct| {
            let rank = outcome(0, 1.0, &[1.0]);
            let rank = RankOutcome { device_messages: all, direct_messages: direct, ..rank };
            message_path(&[outcome(0, 1.0, &[1.0]), rank])
        };
        assert_eq!(of(0, 0), "", "no card sends or receives rows");
        assert_eq!(of(3, 0), "; messages of cards go through host memory");
        assert_eq!(of(3, 3), "; messages of cards go directly from and to device memory");
        assert_eq!(of(3, 2), "; 2 of 3 messages of cards go directly from or to device memory");
    }

    #[test]
    fn a_product_takes_as_long_as_its_slowest_rank() {
        let outcomes = [outcome(0, 1.0, &[1.0, 5.0]), outcome(5, 3.0, &[2.0, 4.0])];
        let whole = Whole { rows: 10, cols: 10, nnz: 20, k: 2, row_bytes: 16 };
        let summary = Summary::new(&outcomes, &whole);
        assert_eq!(summary.times.samples, [2.0, 5.0]);
        assert_eq!((summary.slowest, summary.imbalance), (1, Some(0.5)));
        assert_eq!(summary.exchanged_bytes, 6 * 16);
        let chunks = merged_chunks(&outcomes);
        assert_eq!(chunks[1], json!({"row_start": 5, "row_end": 10, "device": "rank 1 cpu"}));
    }
}
