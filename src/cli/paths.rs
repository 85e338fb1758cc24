//! Files of one command: what is read must not be written, and what is written needs a file of its own.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use super::args::Command;
use super::options::XSource;
use super::session::MatrixSource;
use crate::error::{Error, Result};

/// An error where a command would write over what it reads, or twice to one file.
pub fn check(command: &Command) -> Result<()> {
    let read: Vec<PathBuf> = inputs(command).iter().filter_map(|path| place(path)).collect();
    let mut written: Vec<(&str, PathBuf)> = Vec::new();
    for (name, path) in outputs(command) {
        let Some(at) = place(path) else { continue };
        if read.contains(&at) {
            let path = path.display();
            return Err(Error::Usage(format!(
                "{name} would write over {path}, which is read; take another file"
            )));
        }
        if let Some((other, _)) = written.iter().find(|(_, taken)| *taken == at) {
            let path = path.display();
            return Err(Error::Usage(format!(
                "{other} and {name} both name {path}; each needs a file of its own"
            )));
        }
        written.push((name, at));
    }
    Ok(())
}

/// Where a path leads, whether the file is there yet or not; nowhere for what is no file, such as `/dev/null`.
fn place(path: &Path) -> Option<PathBuf> {
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
        MatrixSource::Generated(_) => None,
    }
}

fn inputs(command: &Command) -> Vec<PathBuf> {
    match command {
        Command::Run(arguments) => {
            let x = match &arguments.x {
                XSource::File(path) => Some(path.clone()),
                _ => None,
            };
            matrix(&arguments.matrix).into_iter().chain(x).chain(arguments.plan.clone()).collect()
        }
        Command::Plan(arguments) => matrix(&arguments.matrix).into_iter().collect(),
        Command::Bench(arguments) => arguments.matrices.iter().filter_map(|typed| matrix(typed)).collect(),
        Command::Calibrate(arguments) => arguments.from.clone(),
        Command::Study(arguments) => vec![arguments.config.clone()],
        Command::Inspect(arguments) => matrix(&arguments.matrix).into_iter().collect(),
        Command::Convert(arguments) => matrix(&arguments.input).into_iter().collect(),
        Command::Trace(arguments) => vec![arguments.file.clone()],
        _ => Vec::new(),
    }
}

fn outputs(command: &Command) -> Vec<(&'static str, &Path)> {
    let named: Vec<(&'static str, Option<&PathBuf>)> = match command {
        Command::Run(arguments) => {
            vec![("--output", arguments.output.as_ref()), ("--trace", arguments.trace.as_ref())]
        }
        Command::Plan(arguments) => vec![("--save", arguments.save.as_ref())],
        Command::Bench(arguments) => vec![
            ("--keep", arguments.keep.as_ref()),
            ("--csv", arguments.csv.as_ref()),
            ("--markdown", arguments.markdown.as_ref()),
        ],
        Command::Calibrate(arguments) => vec![("--output", arguments.output.as_ref())],
        Command::Inspect(arguments) => vec![("--spy", arguments.spy.as_ref())],
        Command::Convert(arguments) => vec![("OUT", arguments.output.as_ref())],
        Command::Generate(arguments) => vec![("OUT", Some(&arguments.output))],
        _ => Vec::new(),
    };
    let json = command.common().json.as_ref().filter(|path| path.as_os_str() != "-");
    let all = named.into_iter().chain([("--json", json)]);
    all.filter_map(|(name, path)| Some((name, path?.as_path()))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ways_to_one_file_lead_to_one_place_and_what_is_no_file_nowhere() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("inner")).unwrap();
        let there = folder.path().join("there");
        std::fs::write(&there, "").unwrap();
        assert_eq!(place(&folder.path().join("inner/../there")), place(&there));
        assert_eq!(place(&folder.path().join("inner/../new")), place(&folder.path().join("new")));
        assert_ne!(place(&folder.path().join("new")), place(&there));
        assert_eq!(place(Path::new("/dev/null")), None);
        assert_eq!(place(folder.path()), None);
    }
}
