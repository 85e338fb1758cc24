//! `rowloom demo`: runs the other commands on a generated matrix and shows each as it would be typed.

use std::ffi::OsString;
use std::path::Path;

use serde_json::Value;

use crate::args::{Arguments, Command, DemoArguments};
use crate::console::report::Report;
use crate::console::{Console, write_file};
use rowloom::internal::error::{Error, Result};
use rowloom::internal::files::read_regular;

/// Each step: a sentence, and the arguments of `rowloom`, where `{}` is the folder.
const STEPS: [(&str, &str); 7] = [
    (
        "Generate a matrix: a 27-point stencil on a 32 x 32 x 32 grid.",
        "generate stencil27,n=32 {}/stencil.mtx",
    ),
    ("Show its shape and row statistics, and draw it.", "inspect {}/stencil.mtx --spy {}/stencil.svg"),
    ("Write it as a cache, which opens without parsing.", "convert {}/stencil.mtx {}/stencil.rlm"),
    (
        "Multiply it by 32 vectors at once and verify the product.",
        "run {}/stencil.rlm -k 32 --repeat 20 --verify --output {}/y.npy --json={}/report.json",
    ),
    (
        "The same on the CPU and an emulated GPU together, recorded as a timeline; Y has the same bytes.",
        "run {}/stencil.rlm -k 32 --devices cpu,emu:0 --repeat 3 --verify --trace {}/trace.json",
    ),
    ("Summarise the timeline; Perfetto (ui.perfetto.dev) draws it.", "trace {}/trace.json"),
    (
        "Run a study from a file: threads, kernels, shares of the CPU, and simulated GPUs.",
        "study {}/study.toml --output {}/study",
    ),
];

/// The configuration of the last step.
const STUDY: &str = include_str!("demo_study.toml");

/// The file of [`STUDY`].
pub const STUDY_FILE: &str = "study.toml";

/// The JSON report of the first product.
const REPORT: &str = "report.json";

/// A step as it is run.
pub struct Step {
    sentence: &'static str,
    /// The command as it would be typed.
    line: String,
    /// The command.
    pub command: Command,
}

/// Runs all steps with `execute`, which runs a command.
pub fn run(
    arguments: &DemoArguments,
    console: &Console,
    execute: fn(&Command, &Console) -> Result<()>,
) -> Result<()> {
    let folder = &arguments.folder;
    let steps = steps(arguments)?;
    std::fs::create_dir_all(folder).map_err(|source| Error::write(folder, source))?;
    write_file(&folder.join(STUDY_FILE), STUDY.as_bytes())?;
    let mut commands = Vec::new();
    for Step { sentence, line, command } in steps {
        console.prose(&format!("{sentence}\n"))?;
        console.text(&format!("$ {line}\n"))?;
        execute(&command, &console.for_step(command.common()))?;
        console.text("\n")?;
        commands.push(line);
    }

    let files = files();
    let shown = folder.display();
    console.prose(&format!("The demo wrote these files to {shown}: {}.\n", files.join(", ")))?;
    console.prose(&format!(
        "Open in a browser: {shown}/study/report.html, the study with its plots, tables and timelines, and\n\
         {shown}/stencil.svg, the matrix. Open in ui.perfetto.dev: {shown}/trace.json.\n\
         Next: rowloom study quick, and rowloom run --help\n"
    ))?;
    console.json(
        &Report::new("demo")
            .with("folder", shown.to_string())
            .with("files", files)
            .with("commands", commands)
            .with("verify", verification(&folder.join(REPORT))?),
    )
}

/// The steps, in the folder and with the `--force` that were typed.
pub fn steps(arguments: &DemoArguments) -> Result<Vec<Step>> {
    let step = |(sentence, words): (&'static str, &str)| {
        let mut words = words_for(words, &arguments.folder);
        if arguments.common.force {
            words.push("--force".into());
        }
        let line = words.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ");
        let parsed = Arguments::read(&words)
            .map_err(|error| Error::Internal(format!("a step of the demo is wrong: {error}")))?;
        Ok(Step { sentence, line, command: parsed.command })
    };
    STEPS.into_iter().map(step).collect()
}

/// The words of a step. They are built one by one, because a folder's name may hold blanks or bytes that are no text.
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
    let text = read_regular(report)?;
    let report: Value = serde_json::from_slice(&text)
        .map_err(|error| Error::Internal(format!("the demo's report is not JSON: {error}")))?;
    Ok(report.get("verify").cloned().unwrap_or_default())
}
