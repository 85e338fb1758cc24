//! The output of a study: a folder with tables, plots and one page, and a summary on standard output.

use std::path::{Path, PathBuf};

use serde_json::json;

use super::refusals::is_measured;
use crate::console::overwrite::Output;
use crate::console::report::Report;
use crate::console::table::{Table, count_of, seconds};
use crate::console::{Console, write_file};
use crate::measure::{MatrixDescription, Provenance};
use crate::plots;
use crate::plots::{Answer, Timeline};
use crate::results::{
    BYTE_MODEL, Record, Results, StudyConfig, add_peer_speedups, add_speedups, csv, markdown, page,
};
use rowloom::internal::error::{Error, Result};

/// The configuration of the study, with every key.
const CONFIGURATION: &str = "configuration.toml";

/// The results as tables for a paper.
const RESULTS: &str = "results.md";

/// Answers that the summary has; the report has all of them.
const SHOWN_ANSWERS: usize = 4;

/// The files that a study may replace in `folder`, except its own configuration file `config`.
pub fn outputs(folder: &Path, config: &Path) -> Vec<(PathBuf, Output)> {
    let mut outputs = vec![
        (folder.join(CONFIGURATION), Output::Configuration),
        (folder.join("results.csv"), Output::Csv),
        (folder.join("results.json"), Output::Json),
        (folder.join(RESULTS), Output::Markdown),
        (folder.join("report.html"), Output::Html),
    ];
    // The figures are known at the end only, so every .svg file in the folder must be a study's.
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let pictures = entries.filter(|path| path.extension().is_some_and(|ending| ending == "svg"));
    outputs.extend(pictures.map(|path| (path, Output::Svg)));
    let is_config =
        |path: &Path| path.canonicalize().ok().is_some_and(|path| config.canonicalize().ok() == Some(path));
    outputs.retain(|(path, _)| !is_config(path));
    outputs
}

/// A study with its results so far.
pub struct Finished<'a> {
    /// The study.
    pub config: &'a StudyConfig,
    /// The file it was read from.
    pub file: &'a Path,
    /// The folder for the results.
    pub folder: &'a Path,
    /// The program, machine and arguments they come from.
    pub provenance: &'a Provenance,
    /// The results.
    pub records: Vec<Record>,
    /// The number of cases.
    pub cases: usize,
    /// Finished cases, in this run or earlier.
    pub finished: usize,
    /// Cases that an earlier run finished.
    pub kept: usize,
    /// The timelines that the report shows.
    pub timelines: Vec<Timeline>,
    /// The sparse matrices.
    pub matrices: Vec<MatrixDescription>,
    /// Notes.
    pub notes: Vec<String>,
    /// Whether a signal ended the study.
    pub interrupted: bool,
}

/// Writes the folder and prints the summary.
pub fn write(finished: Finished<'_>, console: &Console) -> Result<()> {
    let Finished { config, file, folder, provenance, mut records, cases, kept, notes, .. } = finished;
    add_speedups(&mut records, config.baseline);
    add_peer_speedups(&mut records);
    let shell = |path: &Path| {
        let text = path.display().to_string();
        let plain = text.chars().all(|c| c.is_ascii_alphanumeric() || "/._-".contains(c));
        if plain { text } else { format!("'{}'", text.replace('\'', "'\\''")) }
    };
    let configuration = folder.join(CONFIGURATION);
    let (output, again) = (shell(folder), shell(&configuration));
    let commands = vec![
        (
            "Continue this study, or draw the report again".into(),
            format!("rowloom study {} --output {output}", shell(file)),
        ),
        (
            "Measure everything again, into another folder".into(),
            format!("rowloom study {again} --output {output}-again"),
        ),
    ];
    let shown = page(Results {
        config,
        provenance,
        records: &records,
        cases,
        finished: finished.finished,
        timelines: finished.timelines,
        commands,
        notes,
    })?;
    let mut files = Vec::new();
    let mut put = |name: String, content: String| -> Result<()> {
        write_file(&folder.join(&name), content.as_bytes())?;
        files.push(name);
        Ok(())
    };
    let head = "# Written by rowloom study: the configuration with every key.\n";
    put(CONFIGURATION.into(), format!("{head}{}", config.to_toml()?))?;
    put("results.csv".into(), csv(&records, &provenance.lines()))?;
    put(RESULTS.into(), tables(config, &records, provenance))?;
    let whole = Report::new("study")
        .with("provenance", provenance)
        .with("config", config)
        .with("byte_model", BYTE_MODEL)
        .with("cases", json!({"all": cases, "finished": finished.finished, "kept": kept}))
        .with("interrupted", finished.interrupted)
        .with("records", records.iter().map(record_json).collect::<Vec<_>>())
        .with("matrices", &finished.matrices);
    let text = serde_json::to_string_pretty(&whole)
        .map_err(|error| Error::Internal(format!("results cannot be written as JSON: {error}")))?;
    put("results.json".into(), text + "\n")?;
    for figure in &shown.figures {
        put(format!("{}.svg", figure.id), plots::svg(figure))?;
    }
    for (number, timeline) in (1..).zip(&shown.timelines) {
        put(format!("timeline-{number}.svg"), plots::timeline_svg(timeline))?;
    }
    put("report.html".into(), plots::html(&shown))?;

    let mut table = Table::facts();
    table.fact("study", &config.title);
    let before = if kept > 0 { format!(", {kept} of them earlier") } else { String::new() };
    table.fact("cases", format!("{} of {cases} finished{before}", finished.finished));
    table.fact("results", records.iter().filter(|record| is_measured(record)).count());
    for answer in shown.answers.iter().take(SHOWN_ANSWERS) {
        table.fact("answer", first_sentences(answer));
    }
    if let Some(more) = shown.answers.len().checked_sub(SHOWN_ANSWERS).filter(|&more| more > 0) {
        table.fact(
            "",
            format!("report.html answers {}", count_of(more as u64, "more question", "more questions")),
        );
    }
    if let Some((record, median)) = slowest(&records) {
        table.fact("longest", format!("{} on {}, {}", record.kernel, record.matrix.name, seconds(median)));
    }
    let refused = records.iter().filter(|record| record.reason.is_some()).count();
    if refused > 0 {
        table.fact("not measured", format!("{refused} (results.csv has the reasons)"));
    }
    let doubtful = records.iter().filter(|record| !record.doubts.is_empty()).count();
    if doubtful > 0 {
        table.fact("doubtful", format!("{doubtful} (report.html has the reasons)"));
    }
    let unverified = records.iter().filter(|record| record.unverified_reason().is_some()).count();
    if unverified > 0 {
        table
            .fact("not verified", format!("{unverified} (no rates and ratios; results.csv has the reasons)"));
    }
    table.fact("folder", folder.display());
    table.fact("plots", shown.figures.len() + shown.timelines.len());
    table.fact("open", folder.join("report.html").display());
    console.table(&table)?;
    console.json(&whole.with("folder", folder.display().to_string()).with("files", &files))
}

/// The question of an answer and its first sentences, which name the winner, its lead and the noise: `threads: The fastest is 2 threads in all
/// 4 cases. The winner is …`
fn first_sentences(answer: &Answer) -> String {
    const SENTENCES: usize = 3;
    let sweep = answer.question.split(": which ").next().unwrap_or_default();
    let sentences: String = answer.sentence.split_inclusive(". ").take(SENTENCES).collect();
    format!("{sweep}: {}", sentences.trim_end())
}

/// The results of each sweep as a Markdown table, behind their origin.
fn tables(config: &StudyConfig, records: &[Record], provenance: &Provenance) -> String {
    let mut text: String = provenance.lines().iter().map(|line| format!("- {line}\n")).collect();
    text += &format!("\n# {}\n", config.title);
    for sweep in &config.sweep {
        let own: Vec<Record> = records.iter().filter(|record| record.sweep == sweep.name).cloned().collect();
        if !own.is_empty() {
            text += &format!("\n## {}\n\n{}", sweep.name, markdown(&own));
        }
    }
    text
}

/// A record with the rates that follow from its times; without ratios if its result was not verified.
fn record_json(record: &Record) -> serde_json::Value {
    let mut value = serde_json::to_value(record).unwrap_or_default();
    if let Some(keys) = value.as_object_mut() {
        keys.insert("hidden_fraction".into(), json!(record.verified_hidden_fraction()));
        keys.insert("idle_fraction".into(), json!(record.verified_idle_fraction()));
        keys.insert("gflops".into(), json!(record.gflops()));
        keys.insert("gb_per_s".into(), json!(record.gb_per_s()));
        keys.insert("roofline_fraction".into(), json!(record.roofline_fraction()));
    }
    value
}

/// The record with the longest median.
fn slowest(records: &[Record]) -> Option<(&Record, f64)> {
    let timed = records.iter().filter_map(|record| Some((record, record.times.median?)));
    timed.max_by(|a, b| a.1.total_cmp(&b.1))
}
