//! The files that one command names: no input is written over, no two outputs share a file, standard input and output
//! are used once, and existing files of others are kept.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use crate::args::MatrixSource;
use crate::args::options::XSource;
use crate::args::standard_stream::is_dash;
use crate::args::{ColmeanArguments, Command, InspectArguments};
use crate::bench::transfers;
use crate::console::overwrite::{self, Output};
use crate::guide::{demo, man};
use crate::study;
use rowloom::internal::cost::Model;
use rowloom::internal::error::{Error, Result};

/// A file to be written, and the flag or argument that names it.
struct Written {
    flag: &'static str,
    path: PathBuf,
    /// What is checked before the file is replaced; nothing where the command only adds to it.
    output: Option<Output>,
}

/// An error where a command would write over an input or a file that Rowloom did not write, or twice to one file.
pub fn check(command: &Command) -> Result<()> {
    let inputs = inputs(command);
    let outputs = outputs(command);
    check_standard_streams(command, &inputs, &outputs)?;
    let read: Vec<PathBuf> = inputs.iter().filter_map(|path| resolved(path)).collect();
    let mut written: Vec<(&str, PathBuf)> = Vec::new();
    for Written { flag, path, output } in &outputs {
        let Some(file) = resolved(path) else { continue };
        if read.contains(&file) {
            let path = path.display();
            return Err(Error::usage(format!(
                "{flag} would write over {path}, which is an input; name another file"
            )));
        }
        if let Some((other, _)) = written.iter().find(|(_, taken)| *taken == file) {
            let path = path.display();
            return Err(Error::usage(format!(
                "{other} and {flag} both name {path}; each needs a file of its own"
            )));
        }
        if let (Some(output), false) = (output, command.common().force) {
            overwrite::check(flag, path, *output)?;
        }
        written.push((flag, file));
    }
    check_picture(command)
}

/// An error where `--spy` or `--plot` names a file that picture viewers would not take for SVG.
fn check_picture(command: &Command) -> Result<()> {
    let (flag, path) = match command {
        Command::Inspect(InspectArguments { spy: Some(path), .. }) => ("--spy", path),
        Command::Colmean(ColmeanArguments { plot: Some(path), .. }) => ("--plot", path),
        _ => return Ok(()),
    };
    let is_svg = path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("svg"));
    // A pipe or device has no ending.
    if is_svg || resolved(path).is_none() {
        return Ok(());
    }
    Err(Error::usage(format!("{flag} writes SVG: {} must end in .svg", path.display())))
}

fn check_standard_streams(command: &Command, inputs: &[PathBuf], outputs: &[Written]) -> Result<()> {
    let refuse = |reason: String| Err(Error::usage(reason));
    if inputs.iter().filter(|path| is_dash(path)).count() > 1 {
        return refuse("standard input can be read only once: '-' is named twice".into());
    }
    let data = command.writes_data_to_standard_output();
    if data && command.common().json.as_deref().is_some_and(is_dash) {
        return refuse("'-' and --json both write to standard output; write --json=FILE".into());
    }
    match outputs.iter().find(|written| is_dash(&written.path)) {
        Some(Written { flag, .. }) if !data => refuse(format!(
            "{flag} needs a file: '-' is for --output of run and gemm and OUT of convert and generate"
        )),
        _ => Ok(()),
    }
}

/// The file that a path leads to, existing or not; none for `-` and for anything but a file, such as `/dev/null`.
fn resolved(path: &Path) -> Option<PathBuf> {
    if is_dash(path) {
        return None;
    }
    match path.canonicalize() {
        Ok(found) => found.is_file().then_some(found),
        Err(_) => {
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
            Some(folder.unwrap_or(Path::new(".")).canonicalize().ok()?.join(path.file_name()?))
        }
    }
}

fn matrix(typed: &OsStr) -> Option<PathBuf> {
    match MatrixSource::new(typed) {
        MatrixSource::File(path) => Some(path),
        MatrixSource::Generated(_) | MatrixSource::Collection(_) => None,
    }
}

fn inputs(command: &Command) -> Vec<PathBuf> {
    match command {
        Command::Gemm(arguments) => {
            let matrices = [Some(&arguments.a), Some(&arguments.b), arguments.c.as_ref()];
            let files = matrices.into_iter().flatten().filter_map(|typed| matrix(typed));
            files.chain(arguments.dense.plan.clone()).collect()
        }
        Command::Colmean(arguments) => {
            matrix(&arguments.table).into_iter().chain(arguments.dense.plan.clone()).collect()
        }
        Command::Run(arguments) => {
            let x = match &arguments.x {
                XSource::File(path) => Some(path.clone()),
                _ => None,
            };
            matrix(&arguments.matrix).into_iter().chain(x).chain(arguments.plan.clone()).collect()
        }
        Command::Plan(arguments) => matrix(&arguments.matrix).into_iter().collect(),
        Command::Bench(arguments) if transfers::is_asked(arguments) => Vec::new(),
        Command::Bench(arguments) => arguments.matrices.iter().filter_map(|typed| matrix(typed)).collect(),
        Command::Calibrate(arguments) => arguments.from.clone(),
        Command::Study(arguments) => {
            let file = arguments.config.as_deref().and_then(study::built_in::file);
            file.filter(|_| !arguments.save).map(PathBuf::from).into_iter().collect()
        }
        Command::Inspect(arguments) => matrix(&arguments.matrix).into_iter().collect(),
        Command::Convert(arguments) => matrix(&arguments.input).into_iter().collect(),
        Command::Trace(arguments) => vec![arguments.file.clone()],
        Command::Report(arguments) => arguments.files.clone(),
        _ => Vec::new(),
    }
}

fn outputs(command: &Command) -> Vec<Written> {
    let written = |flag, path: Option<&PathBuf>, output: Output| {
        path.map(|path| Written { flag, path: path.clone(), output: Some(output) })
    };
    let files = |flag, files: Vec<(PathBuf, Output)>| -> Vec<Written> {
        files.into_iter().map(|(path, output)| Written { flag, path, output: Some(output) }).collect()
    };
    let json = command.common().json.as_ref().filter(|path| !is_dash(path));
    let mut all: Vec<Written> = written("--json", json, Output::Json).into_iter().collect();
    match command {
        Command::Run(arguments) => {
            all.extend(written("--output", arguments.output.as_ref(), Output::Array));
            all.extend(written("--trace", arguments.repeated.trace.as_ref(), Output::Trace));
        }
        Command::Gemm(arguments) => {
            all.extend(written("--output", arguments.output.as_ref(), Output::Array));
            all.extend(written("--save", arguments.dense.save.as_ref(), Output::Plan));
            all.extend(written("--trace", arguments.dense.repeated.trace.as_ref(), Output::Trace));
        }
        Command::Colmean(arguments) => {
            let is_csv = |path: &&PathBuf| path.extension().is_some_and(|ending| ending == "csv");
            let output = arguments.output.as_ref();
            let kind = if output.as_ref().is_some_and(is_csv) { Output::Csv } else { Output::Array };
            all.extend(written("--output", output, kind));
            all.extend(written("--plot", arguments.plot.as_ref(), Output::Svg));
            all.extend(written("--save", arguments.dense.save.as_ref(), Output::Plan));
            all.extend(written("--trace", arguments.dense.repeated.trace.as_ref(), Output::Trace));
        }
        Command::Plan(arguments) => all.extend(written("--save", arguments.save.as_ref(), Output::Plan)),
        Command::Bench(arguments) => {
            let keep = arguments.keep.clone();
            all.extend(keep.map(|path| Written { flag: "--keep", path, output: None }));
            all.extend(written("--csv", arguments.csv.as_ref(), Output::Csv));
            all.extend(written("--markdown", arguments.markdown.as_ref(), Output::Markdown));
            all.extend(written("--svg", arguments.svg.as_ref(), Output::Svg));
        }
        Command::Calibrate(arguments) => {
            all.extend(written("--output", arguments.output.as_ref(), Output::Model));
            // The model in the user's configuration folder is the program's own: a damaged one is replaced, with a note.
            let own = Model::of_user().filter(|_| arguments.output.is_none());
            all.extend(own.map(|path| Written { flag: "--output", path, output: None }));
        }
        Command::Inspect(arguments) => all.extend(written("--spy", arguments.spy.as_ref(), Output::Svg)),
        Command::Convert(arguments) => all.extend(written("OUT", arguments.output.as_ref(), Output::Matrix)),
        Command::Generate(arguments) => all.extend(written("OUT", Some(&arguments.output), Output::Matrix)),
        Command::Study(arguments) => {
            all.extend(files("study", study::command::outputs(arguments)));
            // `study --save` replaces no file without --force, not even one that Rowloom wrote.
            let saved = study::built_in::saved_file(arguments);
            all.extend(saved.map(|path| Written { flag: "--save", path, output: None }));
        }
        Command::Demo(arguments) => {
            let study = arguments.folder.join(demo::STUDY_FILE);
            all.extend(written("demo", Some(&study), Output::Configuration));
            // A step that cannot be parsed is an internal error, which `demo::run` reports.
            let steps = demo::steps(arguments).unwrap_or_default();
            all.extend(steps.iter().flat_map(|step| outputs(&step.command)));
        }
        Command::Report(arguments) => {
            all.extend(written("--output", Some(&arguments.output), Output::Html));
        }
        Command::Man(arguments) => all.extend(files("man", man::outputs(arguments))),
        _ => {}
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_to_one_file_resolve_to_one_path_and_devices_to_none() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("inner")).unwrap();
        let there = folder.path().join("there");
        std::fs::write(&there, "").unwrap();
        assert_eq!(resolved(&folder.path().join("inner/../there")), resolved(&there));
        assert_eq!(resolved(&folder.path().join("inner/../new")), resolved(&folder.path().join("new")));
        assert_ne!(resolved(&folder.path().join("new")), resolved(&there));
        assert_eq!(resolved(Path::new("/dev/null")), None);
        assert_eq!(resolved(folder.path()), None);
    }
}
