//! `rowloom demo`: a short tour of the other commands, each shown as one would type it.

use std::ffi::OsString;
use std::path::Path;

use clap::Parser;
use serde_json::Value;

use super::args::{Arguments, DemoArguments};
use super::console::{Console, write_file};
use super::report::Report;
use crate::error::{Error, Result};

/// One step: a sentence, and the words behind `rowloom`, where `{}` stands for the folder.
type Step = (&'static str, &'static str);

const STEPS: [Step; 7] = [
    ("Make a matrix: a 27-point stencil on a 32 x 32 x 32 grid.", "generate stencil27,n=32 {}/stencil.mtx"),
    ("Look at it.", "inspect {}/stencil.mtx --spy {}/stencil.svg"),
    ("Keep it as a cache, which opens without parsing.", "convert {}/stencil.mtx {}/stencil.rlm"),
    (
        "Multiply it by 32 vectors at once and check the product.",
        "run {}/stencil.rlm -k 32 --verify --output {}/y.npy --json={}/report.json",
    ),
    (
        "The same on the CPU and an emulated GPU together, recorded as a timeline: Y has the same bytes.",
        "run {}/stencil.rlm -k 32 --devices cpu,emu:0 --repeat 3 --verify --trace {}/trace.json",
    ),
    ("Sum the timeline up; Perfetto (ui.perfetto.dev) draws it.", "trace {}/trace.json"),
    (
        "Measure what a file asks for: threads, kernels, shares of the CPU, and GPUs that are not here.",
        "study {}/study.toml --output {}/study",
    ),
];

/// What the last step measures.
const STUDY: &str = include_str!("demo_study.toml");

/// The report that the run leaves.
const REPORT: &str = "report.json";

/// Walks through the steps.
pub fn run(arguments: &DemoArguments, console: &Console) -> Result<()> {
    let folder = &arguments.folder;
    std::fs::create_dir_all(folder).map_err(|source| Error::write(folder, source))?;
    write_file(&folder.join("study.toml"), STUDY.as_bytes())?;
    let mut commands = Vec::new();
    for (sentence, words) in STEPS {
        let words = words_for(words, folder);
        let line = words.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ");
        console.text(&format!("{sentence}\n$ {line}\n"))?;
        let step = Arguments::try_parse_from(&words)
            .map_err(|error| Error::Internal(format!("a step of the tour is wrong: {error}")))?;
        super::execute(&step.command, &console.for_step(step.command.common()))?;
        console.text("\n")?;
        commands.push(line);
    }

    let files = files();
    let shown = folder.display();
    console.text(&format!("The tour made these files in {shown}: {}.\n", files.join(", ")))?;
    console.text(&format!(
        "Open in a browser: {shown}/study/report.html, the study with its plots, tables and timelines, and\n\
         {shown}/stencil.svg, the matrix. Open in ui.perfetto.dev: {shown}/trace.json.\n\
         Next: rowloom study configs/quick.toml, and rowloom run --help\n"
    ))?;
    console.json(
        &Report::new("demo")
            .with("folder", shown.to_string())
            .with("files", files)
            .with("commands", commands)
            .with("verify", verification(&folder.join(REPORT))?),
    )
}

/// The words of a step; a folder's name may hold blanks or no text at all, so they are put together one by one.
fn words_for(words: &str, folder: &Path) -> Vec<OsString> {
    let word = |word: &str| match word.split_once("{}/") {
        Some((flag, name)) => {
            let mut word = OsString::from(flag);
            word.push(folder.join(name));
            word
        }
        None => word.into(),
    };
    std::iter::once("rowloom".into()).chain(words.split(' ').map(word)).collect()
}

/// The files that the steps name.
fn files() -> Vec<&'static str> {
    let words = STEPS.iter().flat_map(|(_, words)| words.split(' '));
    let mut names: Vec<&str> = words.filter_map(|word| Some(word.split_once("{}/")?.1)).collect();
    names.sort_unstable();
    names.dedup();
    names
}

fn verification(report: &Path) -> Result<Value> {
    let text = std::fs::read(report).map_err(|source| Error::read(report, source))?;
    let report: Value = serde_json::from_slice(&text)
        .map_err(|error| Error::Internal(format!("the tour's report is no JSON: {error}")))?;
    Ok(report.get("verify").cloned().unwrap_or_default())
}
