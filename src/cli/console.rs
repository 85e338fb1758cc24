//! Where words go: results to standard output, notes, progress and errors to standard error.
//!
//! With `--json` and no file the one JSON object is all that standard output gets. Nothing here panics when a stream
//! is closed: a failed result is an error of kind [`Error::Write`], a failed note is dropped.

use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

use super::args::{ColorChoice, CommonArguments};
use super::table::Table;
use crate::error::{Error, Result};
use crate::files;

/// Where the JSON object goes.
#[derive(Debug, Clone, PartialEq, Eq)]
enum JsonTarget {
    StandardOutput,
    File(PathBuf),
}

/// The streams of one command.
#[derive(Debug, Clone)]
pub struct Console {
    json: Option<JsonTarget>,
    /// Whether standard output is for people.
    shows_text: bool,
    quiet: bool,
    color_output: bool,
    color_errors: bool,
    /// Where notes go that are not shown at once.
    gathered: Option<Arc<Mutex<Vec<String>>>>,
    /// The bar that is shown meanwhile.
    bar: Option<ProgressBar>,
}

impl Console {
    /// The streams as the common flags ask for them.
    pub fn new(common: &CommonArguments) -> Self {
        let color = |terminal: bool| match common.color {
            ColorChoice::Always => true,
            ColorChoice::Never => false,
            ColorChoice::Auto => {
                terminal && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
            }
        };
        let json = common.json.as_ref().map(|target| {
            if target.as_os_str() == "-" {
                JsonTarget::StandardOutput
            } else {
                JsonTarget::File(target.clone())
            }
        });
        Self {
            shows_text: json != Some(JsonTarget::StandardOutput),
            json,
            quiet: common.quiet,
            color_output: color(io::stdout().is_terminal()),
            color_errors: color(io::stderr().is_terminal()),
            gathered: None,
            bar: None,
        }
    }

    /// The same streams for a step of this command, whose own JSON object goes to a file if anywhere.
    pub fn for_step(&self, common: &CommonArguments) -> Self {
        Self { json: common.json.clone().map(JsonTarget::File), ..self.clone() }
    }

    /// Something worth knowing that is not the result.
    pub fn note(&self, text: &str) {
        if let Some(mut gathered) = self.gathered.as_ref().and_then(|gathered| gathered.lock().ok()) {
            gathered.push(text.into());
        }
        if !self.quiet {
            self.labelled("note", "1;36", text);
        }
    }

    /// What the command failed with.
    pub fn error(&self, error: &Error) {
        self.labelled("error", "1;31", &error.to_string());
    }

    fn labelled(&self, label: &str, style: &str, text: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| self.write_labelled(label, style, text)),
            None => self.write_labelled(label, style, text),
        }
    }

    fn write_labelled(&self, label: &str, style: &str, text: &str) {
        let mut stream = io::stderr().lock();
        // A closed standard error leaves nobody to tell.
        let _ = if self.color_errors {
            writeln!(stream, "\x1b[{style}m{label}:\x1b[0m {text}")
        } else {
            writeln!(stream, "{label}: {text}")
        };
    }

    /// A spinner on a terminal, nothing elsewhere; it goes away when dropped.
    pub fn spinner(&self, doing: impl Into<String>) -> Spinner {
        if let Some(bar) = &self.bar {
            bar.set_message(doing.into());
            return Spinner(ProgressBar::hidden());
        }
        if self.quiet || !io::stderr().is_terminal() {
            return Spinner(ProgressBar::hidden());
        }
        let bar = ProgressBar::new_spinner().with_message(doing.into());
        if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} {elapsed}") {
            bar.set_style(style);
        }
        bar.enable_steady_tick(Duration::from_millis(100));
        Spinner(bar)
    }

    /// A bar on a terminal for so many things, with their rate and the time that is left; nothing elsewhere.
    pub fn bar(&self, things: u64, name: &str) -> Bar {
        if self.quiet || !io::stderr().is_terminal() {
            return Bar(ProgressBar::hidden());
        }
        let bar = ProgressBar::new(things);
        let template =
            format!("{{bar:30}} {{pos}} of {{len}} {name}, {{per_sec}}, {{eta}} left  {{wide_msg}}");
        if let Ok(style) = ProgressStyle::with_template(&template) {
            bar.set_style(style);
        }
        bar.enable_steady_tick(Duration::from_millis(200));
        Bar(bar)
    }

    /// A bar on a terminal for the bytes of a file; under another bar its message only.
    pub fn byte_bar(&self, path: &Path, doing: &str) -> Bar {
        let message = format!("{doing} {}", path.display());
        if let Some(bar) = &self.bar {
            bar.set_message(message);
            return Bar(ProgressBar::hidden());
        }
        if self.quiet || !io::stderr().is_terminal() {
            return Bar(ProgressBar::hidden());
        }
        let bar =
            ProgressBar::new(path.metadata().map_or(0, |metadata| metadata.len())).with_message(message);
        let template = "{bar:30} {bytes} of {total_bytes}, {bytes_per_sec}, {eta} left  {wide_msg}";
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        bar.enable_steady_tick(Duration::from_millis(200));
        Bar(bar)
    }

    /// The same console while a bar is shown: notes stand above it, and what is being done beside it.
    pub fn under(&self, bar: &Bar) -> Self {
        Self { bar: Some(bar.0.clone()), ..self.clone() }
    }

    /// The same console without progress, whose notes are gathered and not shown: for work under a bar.
    pub fn gathering(&self) -> (Self, Arc<Mutex<Vec<String>>>) {
        let notes = Arc::new(Mutex::new(Vec::new()));
        (Self { quiet: true, gathered: Some(notes.clone()), ..self.clone() }, notes)
    }

    /// A table for people.
    pub fn table(&self, table: &Table) -> Result<()> {
        self.text(&format!("{}\n", table.render(self.color_output)))
    }

    /// Lines for people.
    pub fn text(&self, text: &str) -> Result<()> {
        if self.shows_text { write_standard_output(text.as_bytes()) } else { Ok(()) }
    }

    /// The JSON object, where one was asked for.
    pub fn json(&self, report: &impl Serialize) -> Result<()> {
        let Some(target) = &self.json else { return Ok(()) };
        let mut text = serde_json::to_vec_pretty(report)
            .map_err(|error| Error::Internal(format!("the report cannot be written as JSON: {error}")))?;
        text.push(b'\n');
        match target {
            JsonTarget::StandardOutput => write_standard_output(&text),
            JsonTarget::File(path) => write_file(path, &text),
        }
    }

    /// Fails now if the JSON file could not be written later.
    pub fn check_json_target(&self) -> Result<()> {
        match &self.json {
            Some(JsonTarget::File(path)) => check_target(path),
            _ => Ok(()),
        }
    }
}

/// A running spinner.
#[derive(Debug)]
pub struct Spinner(ProgressBar);

impl Drop for Spinner {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

/// A running bar.
#[derive(Debug)]
pub struct Bar(ProgressBar);

impl Bar {
    /// Says what is being done.
    pub fn say(&self, doing: &str) {
        self.0.set_message(doing.to_owned());
    }

    /// So many more are done.
    pub fn advance(&self, things: u64) {
        self.0.inc(things);
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

/// Writes to standard output and makes sure it arrived.
pub fn write_standard_output(bytes: &[u8]) -> Result<()> {
    let mut stream = io::stdout().lock();
    stream
        .write_all(bytes)
        .and_then(|()| stream.flush())
        .map_err(|source| Error::write("standard output", source))
}

/// The folder a file is in.
fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// Fails now if `path` could not be written later, so that no long work is lost.
pub fn check_target(path: &Path) -> Result<()> {
    if path.is_dir() {
        return Err(Error::write(path, io::Error::from(io::ErrorKind::IsADirectory)));
    }
    // The file is written beside its place and then renamed, so the folder must take new files.
    tempfile::tempfile_in(folder_of(path)).map(drop).map_err(|source| Error::write(path, source))
}

/// Writes a file so that it is there whole or as it was before.
pub fn write_file(path: &Path, bytes: &[u8]) -> Result<()> {
    files::replace(path, |file| file.write_all(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_cannot_be_replaced_keeps_its_content() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("report.json");
        write_file(&path, b"old").unwrap();
        write_file(&path, b"new").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"new");
        let taken = folder.path().join("folder");
        std::fs::create_dir(&taken).unwrap();
        assert_eq!(write_file(&taken, b"x").unwrap_err().exit_code(), 1);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2, "no temporary file is left");
    }

    #[test]
    fn missing_folders_are_noticed_before_the_work() {
        let folder = tempfile::tempdir().unwrap();
        assert!(check_target(&folder.path().join("y.mtx")).is_ok());
        assert_eq!(check_target(&folder.path().join("none/y.mtx")).unwrap_err().exit_code(), 1);
        assert_eq!(check_target(folder.path()).unwrap_err().exit_code(), 1);
    }
}
