//! Records as tables in files: comma-separated values, Markdown.

use super::record::Record;
use crate::statistics::noise_interval;

/// One cell.
#[derive(Debug, Clone, PartialEq)]
pub enum Field {
    /// Text.
    Text(String),
    /// A number.
    Number(f64),
    /// A whole number.
    Count(u64),
    /// No value.
    Nothing,
}

/// A column: its name, and its value in a record.
type Column = (&'static str, fn(&Record) -> Field);

/// The columns of every table of records.
const COLUMNS: [Column; 54] = [
    ("sweep", |r| text(&r.sweep)),
    ("measured", |r| text(r.measured.name())),
    ("matrix", |r| text(&r.matrix.name)),
    ("rows", |r| Field::Count(r.matrix.rows)),
    ("cols", |r| Field::Count(r.matrix.cols)),
    ("nnz", |r| Field::Count(r.matrix.nnz)),
    ("matrix_hash", |r| text(&r.matrix.hash)),
    ("dtype", |r| words(r.dtype.map(|dtype| dtype.name()))),
    ("k", |r| count(r.k.map(|k| k as u64))),
    ("devices", |r| text(&r.devices)),
    ("device_count", |r| Field::Count(r.device_count as u64)),
    ("threads", |r| Field::Count(r.used_threads() as u64)),
    ("ranks", |r| count(r.ranks.map(|ranks| ranks as u64))),
    ("kernel", |r| text(&r.kernel)),
    ("chosen", |r| words(r.chosen.as_deref())),
    ("mode", |r| words(r.mode.as_deref())),
    ("schedule", |r| words(r.schedule.as_deref())),
    ("chunk_bytes", |r| count(r.chunk_bytes)),
    ("chunks", |r| count(r.chunks.map(|chunks| chunks as u64))),
    ("cpu_share", |r| number(r.cpu_share)),
    ("transfer", |r| words(r.transfer.as_deref())),
    ("simulated", |r| text(if r.simulated { "yes" } else { "no" })),
    ("n", |r| Field::Count(r.times.n as u64)),
    ("median_s", |r| number(r.times.median)),
    ("mean_s", |r| number(r.times.mean)),
    ("stddev_s", |r| number(r.times.stddev)),
    ("min_s", |r| number(r.times.min)),
    ("max_s", |r| number(r.times.max)),
    ("p95_s", |r| number(r.times.p95)),
    ("mad_s", |r| number(r.times.mad)),
    ("median_low_s", |r| number(noise_interval(&r.times).map(|(low, _)| low))),
    ("median_high_s", |r| number(noise_interval(&r.times).map(|(_, high)| high))),
    ("predicted_s", |r| number(r.predicted_s)),
    ("gflops", |r| number(r.gflops())),
    ("gflops_mean", |r| number(r.mean_gflops())),
    ("gflops_variance", |r| number(r.each_gflops().and_then(|times| times.variance))),
    ("compulsory_gb_per_s", |r| number(r.gb_per_s())),
    ("roofline_fraction", |r| number(r.roofline_fraction())),
    ("speedup", |r| number(r.speedup)),
    ("speedup_over", |r| words(r.speedup_over.as_deref())),
    ("peer_speedup", |r| number(r.peer_speedup)),
    ("fastest_peer", |r| words(r.fastest_peer.as_deref())),
    ("hidden_fraction", |r| number(r.verified_hidden_fraction())),
    ("idle_fraction", |r| number(r.verified_idle_fraction())),
    ("kernels_s", |r| number(r.time_parts.map(|parts| parts.kernels_s))),
    ("imbalance_s", |r| number(r.time_parts.map(|parts| parts.imbalance_s))),
    ("packing_s", |r| number(r.time_parts.map(|parts| parts.packing_s))),
    ("network_bandwidth_s", |r| number(r.time_parts.map(|parts| parts.bandwidth_s))),
    ("network_latency_s", |r| number(r.time_parts.map(|parts| parts.latency_s))),
    ("exchanged_bytes", |r| count(r.time_parts.map(|parts| parts.exchanged_bytes))),
    ("network_bytes", |r| count(r.time_parts.map(|parts| parts.network_bytes))),
    ("passed", |r| words(r.checked.map(|checked| if checked.passed { "yes" } else { "no" }))),
    ("reason", |r| words(r.reason.as_deref().or(r.unverified_reason()))),
    ("doubts", |r| text(&r.doubts.join("; "))),
];

fn text(text: &str) -> Field {
    if text.is_empty() { Field::Nothing } else { Field::Text(text.into()) }
}

fn words(text: Option<&str>) -> Field {
    text.map_or(Field::Nothing, |text| Field::Text(text.into()))
}

fn number(number: Option<f64>) -> Field {
    number.filter(|number| number.is_finite()).map_or(Field::Nothing, Field::Number)
}

fn count(count: Option<u64>) -> Field {
    count.map_or(Field::Nothing, Field::Count)
}

/// All records as comma-separated values (RFC 4180), with one comment line for each of `comments` first.
pub fn csv(records: &[Record], comments: &[String]) -> String {
    let mut csv = String::new();
    for comment in comments {
        csv += &format!("# {}\n", comment.replace(['\n', '\r'], " "));
    }
    csv += &COLUMNS.map(|(name, _)| name).join(",");
    csv.push('\n');
    for record in records {
        let cells = COLUMNS.map(|(_, field)| match field(record) {
            Field::Text(text) => quoted(&text),
            Field::Number(number) => number.to_string(),
            Field::Count(count) => count.to_string(),
            Field::Nothing => String::new(),
        });
        csv += &cells.join(",");
        csv.push('\n');
    }
    csv
}

fn quoted(text: &str) -> String {
    let plain = !text.contains([',', '"', '\n', '\r', '#']);
    if plain { text.into() } else { format!("\"{}\"", text.replace('"', "\"\"")) }
}

/// Options of a product; a table shows those that differ.
const OPTIONS: [&str; 5] = ["mode", "schedule", "chunk_bytes", "cpu_share", "transfer"];

/// The columns of [`markdown`]; those without any value are left out, and options that do not differ.
const SHOWN: [&str; 27] = [
    "matrix",
    "dtype",
    "k",
    "devices",
    "threads",
    "ranks",
    "kernel",
    "chosen",
    "mode",
    "schedule",
    "chunk_bytes",
    "cpu_share",
    "transfer",
    "n",
    "median_s",
    "stddev_s",
    "median_low_s",
    "median_high_s",
    "gflops",
    "compulsory_gb_per_s",
    "roofline_fraction",
    "speedup",
    "speedup_over",
    "peer_speedup",
    "fastest_peer",
    "passed",
    "reason",
];

/// The heading of `passed` for people.
const VERIFIED: &str = "verified";

/// A Markdown table of the most important columns; numbers have four digits.
pub fn markdown(records: &[Record]) -> String {
    let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    let has_values = |(name, field): &&Column| {
        let first = records.first().map(field);
        let differs = || records.iter().any(|record| Some(field(record)) != first);
        records.iter().any(|record| field(record) != Field::Nothing) && (!OPTIONS.contains(name) || differs())
    };
    let shown = COLUMNS.iter().filter(|(name, _)| SHOWN.contains(name));
    let columns: Vec<_> = shown.filter(has_values).collect();
    let heading = |name: &str| if name == "passed" { VERIFIED.into() } else { name.to_owned() };
    let mut markdown = line(columns.iter().map(|(name, _)| heading(name)).collect());
    markdown += &line(columns.iter().map(|_| "---".into()).collect());
    for record in records {
        let cell = |field: Field| match field {
            Field::Text(text) => text.replace('|', "\\|").replace(['\n', '\r'], " "),
            Field::Number(number) => four_digits(number),
            Field::Count(count) => count.to_string(),
            Field::Nothing => String::new(),
        };
        markdown += &line(columns.iter().map(|(_, field)| cell(field(record))).collect());
    }
    markdown
}

fn four_digits(number: f64) -> String {
    if (1e-2..1e6).contains(&number.abs()) || number == 0.0 {
        let decimals = (3 - number.abs().max(1e-9).log10().floor() as i32).clamp(0, 6);
        format!("{number:.*}", decimals as usize)
    } else {
        format!("{number:.3e}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::{Checked, MatrixFacts};
    use crate::results::record::Measured;
    use crate::statistics::Times;

    #[test]
    fn names_with_commas_and_quotes_are_one_cell() {
        let matrix = MatrixFacts { name: "gen:a,\"n\"=3".into(), ..MatrixFacts::default() };
        let record = Record { matrix, times: Times::new(&[0.5]), ..Record::default() };
        let csv = csv(&[record], &["made by\nhand".into()]);
        let lines: Vec<&str> = csv.lines().collect();
        assert_eq!(lines[0], "# made by hand");
        assert!(lines[1].starts_with("sweep,measured,matrix,rows"));
        assert!(lines[2].starts_with(",run,\"gen:a,\"\"n\"\"=3\",0,0,0,"), "{}", lines[2]);
    }

    #[test]
    fn an_unverified_result_has_a_reason_and_no_rate_or_ratio() {
        let right = Record {
            times: Times::new(&[0.5]),
            flops: Some(1e9),
            hidden_fraction: Some(0.75),
            checked: Some(Checked::weighed(0)),
            ..Record::default()
        };
        for (checked, reason) in [(None, "Y was not verified"), (Some(Checked::weighed(3)), "Y is wrong")] {
            let record = Record { checked, ..right.clone() };
            let text = csv(std::slice::from_ref(&record), &[]);
            let (head, row) = text.trim_end().split_once('\n').unwrap();
            let cells: Vec<(&str, &str)> = head.split(',').zip(row.split(',')).collect();
            let cell = |name: &str| cells.iter().find(|(column, _)| *column == name).unwrap().1;
            assert_eq!((cell("median_s"), cell("reason")), ("0.5", reason));
            for name in
                ["gflops", "gflops_mean", "gflops_variance", "hidden_fraction", "speedup", "speedup_over"]
            {
                assert_eq!(cell(name), "", "{name}");
            }
            assert!(markdown(&[record]).contains(reason));
        }
        assert!(csv(&[right], &[]).contains(",2,2,"), "a right result has a rate");
    }

    #[test]
    fn a_markdown_table_says_what_was_verified_and_compares_with_the_fastest_peer() {
        let record = Record {
            kernel: "cpu_csr".into(),
            times: Times::new(&[0.5]),
            checked: Some(Checked::weighed(0)),
            threads: 2,
            ..Record::default()
        };
        let alone = markdown(std::slice::from_ref(&record));
        assert!(alone.contains(" verified |") && !alone.contains("peer"), "{alone}");
        let peer = "scipy on 1 thread";
        let own = Record { peer_speedup: Some(2.0), fastest_peer: Some(peer.into()), ..record.clone() };
        let compared = markdown(&[own, Record { measured: Measured::Peer, kernel: peer.into(), ..record }]);
        assert!(compared.contains("| peer_speedup | fastest_peer | verified |"), "{compared}");
        assert!(compared.contains("| 2.000 | scipy on 1 thread | yes |"), "{compared}");
        assert!(compared.contains("| 1 | scipy on 1 thread |"), "the threads of both: {compared}");
        assert!(compared.contains("| 2 | cpu_csr |"), "{compared}");
    }

    #[test]
    fn numbers_in_markdown_have_four_digits() {
        assert_eq!(
            [0.0, 1.23456, 0.0123456, 123456.7, 1.5e-6].map(four_digits),
            ["0.000000", "1.235", "0.01235", "123457", "1.500e-6"]
        );
    }
}
