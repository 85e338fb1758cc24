//! A study's results as a report: facts, notes, figures, tables, a timeline, and the commands that make it again.

use super::config::StudyConfig;
use super::facts::MatrixFacts;
use super::figures::figures;
use super::provenance::Provenance;
use super::record::{BYTE_MODEL, Record};
use crate::error::Result;
use crate::report::{Cell, Column, Report, Table, Timeline};

/// Notes that are shown; more of a kind are only counted.
const MOST_NOTES: usize = 12;

/// What a report is made of.
pub struct Results<'a> {
    /// The study.
    pub config: &'a StudyConfig,
    /// Where the results come from.
    pub provenance: &'a Provenance,
    /// All records, speed-ups included.
    pub records: &'a [Record],
    /// Cases of the study.
    pub cases: usize,
    /// Cases that are finished.
    pub finished: usize,
    /// Runs to look into.
    pub timelines: Vec<Timeline>,
    /// What a shell command does, and the command.
    pub commands: Vec<(String, String)>,
    /// What else is to be said.
    pub notes: Vec<String>,
}

/// The report.
pub fn page(results: Results<'_>) -> Result<Report> {
    let Results { config, provenance, records, cases, finished, timelines, commands, mut notes } = results;
    let mut facts = provenance.facts();
    let measure = &config.measure;
    let rule = match measure.repeat {
        Some(repeat) => format!("{repeat} runs"),
        None => "at least 10 runs and 0.5 s, until they spread by less than 0.5 %".into(),
    };
    facts.push((
        "Study".into(),
        vec![
            ("cases".into(), format!("{finished} of {cases} finished")),
            (
                "sweeps".into(),
                config.sweep.iter().map(|sweep| sweep.name.clone()).collect::<Vec<_>>().join(", "),
            ),
            (
                "measured".into(),
                format!("{rule}, or {} s, after {} to warm up", measure.time_cap_s, measure.warmup),
            ),
            ("bytes".into(), BYTE_MODEL.into()),
        ],
    ));
    if finished < cases {
        notes.insert(
            0,
            format!("{} of {cases} cases are not finished; the same command goes on.", cases - finished),
        );
    }
    notes.extend(limited(
        records.iter().filter_map(|record| Some(format!("{}: {}", name(record), record.reason.as_ref()?))),
    ));
    notes.extend(limited(
        records
            .iter()
            .flat_map(|record| record.doubts.iter().map(move |doubt| format!("{}: {doubt}", name(record)))),
    ));
    Ok(Report {
        title: config.title.clone(),
        subtitle: config.question.clone(),
        facts,
        configuration: config.to_toml()?,
        commands,
        notes,
        figures: figures(config, records),
        tables: vec![results_table(records), matrices_table(records)],
        timelines,
    })
}

/// The first of many, and how many more there are.
fn limited(notes: impl Iterator<Item = String>) -> Vec<String> {
    let mut notes: Vec<String> = notes.collect();
    notes.dedup();
    let more = notes.len().saturating_sub(MOST_NOTES);
    notes.truncate(MOST_NOTES);
    if more > 0 {
        notes.push(format!("… and {more} more like these; results.csv has them all."));
    }
    notes
}

/// A record in a few words.
fn name(record: &Record) -> String {
    let k = record.k.map_or(String::new(), |k| format!(" k={k}"));
    format!("{} {}{k} on {}", record.kernel, record.matrix.name, record.devices)
}

fn column(name: &str, unit: Option<&str>, numeric: bool) -> Column {
    Column { name: name.into(), unit: unit.map(Into::into), numeric }
}

fn number(value: Option<f64>, digits: usize) -> Cell {
    value.filter(|value| value.is_finite()).map_or(Cell::Empty, |value| Cell::Number(value, digits))
}

fn results_table(records: &[Record]) -> Table {
    let columns = vec![
        column("matrix", None, false),
        column("K", None, true),
        column("kernel", None, false),
        column("devices", None, false),
        column("threads", None, true),
        column("how", None, false),
        column("median", Some("ms"), true),
        column("spread", Some("%"), true),
        column("rate", Some("GFLOP/s"), true),
        column("of roofline", Some("%"), true),
        column("over serial", Some("×"), true),
        column("bytes", Some("GB/s"), true),
        column("predicted", Some("ms"), true),
        column("hidden", Some("%"), true),
        column("runs", None, true),
        column("type", None, false),
        column("check", None, false),
        column("sweep", None, false),
    ];
    let row = |record: &Record| {
        let times = &record.times;
        let spread =
            times.stddev.zip(times.mean.filter(|&mean| mean > 0.0)).map(|(dev, mean)| 100.0 * dev / mean);
        let check = match (&record.reason, record.checked) {
            (Some(reason), _) => Cell::Text(reason.clone()),
            (None, Some(checked)) => Cell::Text(if checked.passed { "right" } else { "WRONG" }.into()),
            (None, None) if record.simulated => Cell::Text("simulated".into()),
            (None, None) => Cell::Empty,
        };
        let kernel = match &record.chosen {
            Some(chosen) if *chosen != record.kernel => format!("{}: {chosen}", record.kernel),
            _ => record.kernel.clone(),
        };
        vec![
            Cell::Text(record.matrix.name.clone()),
            number(record.k.map(|k| k as f64), 0),
            Cell::Text(kernel),
            Cell::Text(record.devices.clone()),
            number(Some(record.threads as f64), 0),
            Cell::Text(how(record)),
            number(times.median.map(|median| 1e3 * median), 4),
            number(spread, 1),
            number(record.gflops(), 2),
            number(record.roofline_fraction().map(|share| 100.0 * share), 1),
            number(record.speedup, 2),
            number(record.gb_per_s(), 2),
            number(record.predicted_s.map(|seconds| 1e3 * seconds), 4),
            number(record.hidden_fraction.map(|share| 100.0 * share), 1),
            number(Some(times.n as f64), 0),
            record.dtype.map_or(Cell::Empty, |dtype| Cell::Text(dtype.name().into())),
            check,
            Cell::Text(record.sweep.clone()),
        ]
    };
    let rows = records.iter().map(row).collect();
    Table { id: "results".into(), title: "All results".into(), columns, rows }
}

/// What was asked for beside kernel and devices.
fn how(record: &Record) -> String {
    let words = [
        record.mode.clone().filter(|mode| mode != "auto"),
        record.schedule.clone().filter(|schedule| schedule != "balanced"),
        record.transfer.clone().filter(|transfer| transfer != "auto"),
        record.chunk_bytes.map(|bytes| format!("chunks of {:.2} MiB", bytes as f64 / (1u64 << 20) as f64)),
        record.cpu_share.map(|share| format!("{:.0}% by the CPU", 100.0 * share)),
    ];
    words.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

fn matrices_table(records: &[Record]) -> Table {
    let mut matrices: Vec<&MatrixFacts> = Vec::new();
    for record in records {
        if !matrices.contains(&&record.matrix) {
            matrices.push(&record.matrix);
        }
    }
    let row = |matrix: &&MatrixFacts| {
        vec![
            Cell::Text(matrix.name.clone()),
            number(Some(matrix.rows as f64), 0),
            number(Some(matrix.cols as f64), 0),
            number(Some(matrix.nnz as f64), 0),
            Cell::Text(matrix.hash.clone()),
        ]
    };
    Table {
        id: "matrices".into(),
        title: "Matrices".into(),
        columns: vec![
            column("matrix", None, false),
            column("rows", None, true),
            column("columns", None, true),
            column("nonzeros", None, true),
            column("xxh3", None, false),
        ],
        rows: matrices.iter().map(row).collect(),
    }
}
