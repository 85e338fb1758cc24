//! Results go to standard output; notes, progress and errors go to standard error.
//!
//! With `--json` and no file, standard output gets the JSON object and nothing else. Where a matrix or Y goes to standard
//! output, tables go to standard error. Nothing here panics when a stream is closed: a result that cannot be written is an
//! [`Error::Write`], a note that cannot be written is dropped.

use std::collections::BTreeSet;
use std::fmt;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use indicatif::{HumanDuration, ProgressBar, ProgressState, ProgressStyle};
use serde::Serialize;
use serde_json::json;

use super::advice;
use super::launch::MpiLaunch;
use super::prose::wrapped;
use super::report::Report;
use super::table::{Table, note_width, printable, prose_width};
use crate::args::standard_stream;
use crate::args::{ColorChoice, Command, CommonArguments};
use rowloom::internal::error::{Error, Result};
use rowloom::internal::files;
use rowloom::internal::threads;

/// Where the JSON object goes.
#[derive(Debug, Clone, PartialEq, Eq)]
enum JsonTarget {
    StandardOutput,
    File(PathBuf),
}

/// Where text for people goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TextTarget {
    StandardOutput,
    StandardError,
    Nowhere,
}

/// The streams of one command.
#[derive(Debug, Clone)]
pub struct Console {
    /// The command's name.
    command: &'static str,
    json: Option<JsonTarget>,
    /// Whether standard output has a JSON object.
    has_printed_json: Arc<AtomicBool>,
    /// Where tables and lines for people go.
    text: TextTarget,
    quiet: bool,
    color_output: bool,
    color_errors: bool,
    /// Collects notes that are not shown at once.
    gathered: Option<Arc<Mutex<Vec<String>>>>,
    /// The notes so far, shared by the consoles of one command.
    told: Arc<Mutex<BTreeSet<String>>>,
    /// Whether the error that ends the command is not shown: another process shows it, or it was shown.
    is_error_shown: Arc<AtomicBool>,
    /// The progress bar that is shown.
    bar: Option<ProgressBar>,
}

impl Console {
    /// The streams that the flags of a command ask for.
    pub fn new(command: &Command) -> Self {
        let common = command.common();
        // A launcher gives its ranks a terminal of its own and passes on what they write to it.
        let is_launched = MpiLaunch::detect().is_some();
        let color = |terminal: bool| match common.color {
            ColorChoice::Always => true,
            ColorChoice::Never => false,
            ColorChoice::Auto => {
                terminal && !is_launched && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
            }
        };
        let json = common.json.as_ref().map(|target| {
            if standard_stream::is_dash(target) {
                JsonTarget::StandardOutput
            } else {
                JsonTarget::File(target.clone())
            }
        });
        let text = match &json {
            Some(JsonTarget::StandardOutput) => TextTarget::Nowhere,
            _ if !command.writes_data_to_standard_output() => TextTarget::StandardOutput,
            _ if common.quiet => TextTarget::Nowhere,
            _ => TextTarget::StandardError,
        };
        Self {
            command: command.name(),
            text,
            json,
            has_printed_json: Arc::default(),
            quiet: common.quiet,
            color_output: color(io::stdout().is_terminal()),
            color_errors: color(io::stderr().is_terminal()),
            gathered: None,
            told: Arc::default(),
            is_error_shown: Arc::default(),
            bar: None,
        }
    }

    /// The same without any output, for a process of a job whose rank 0 prints.
    pub fn silenced(self) -> Self {
        let is_error_shown = Arc::new(AtomicBool::new(true));
        Self { json: None, text: TextTarget::Nowhere, quiet: true, is_error_shown, ..self }
    }

    /// Shows a message as the error that ends the command, instead of the one that [`Self::error`] is called with later.
    pub fn error_message(&self, text: &str) {
        self.labelled("error", "1;31", text);
        self.hide_error();
    }

    /// Hides the error that ends the command, which was shown.
    pub fn hide_error(&self) {
        self.is_error_shown.store(true, Ordering::SeqCst);
    }

    /// The same streams for a step of this command; the step's JSON object goes to a file or nowhere.
    pub fn for_step(&self, common: &CommonArguments) -> Self {
        Self { json: common.json.clone().map(JsonTarget::File), ..self.clone() }
    }

    /// Shows a note on standard error, unless `--quiet` was given. The same text is shown once.
    pub fn note(&self, text: &str) {
        if let Ok(mut told) = self.told.lock() {
            if told.contains(text) {
                return;
            }
            told.insert(text.to_owned());
        }
        if let Some(mut gathered) = self.gathered.as_ref().and_then(|gathered| gathered.lock().ok()) {
            gathered.push(text.into());
        }
        if !self.quiet {
            self.labelled("note", "1;36", text);
        }
    }

    /// Shows the error that ends the command, once. With `--json` standard output gets it as an object, unless it has the command's already.
    pub fn error(&self, error: &Error) {
        let message = advice::text_for(error, self.command);
        if !self.is_error_shown.swap(true, Ordering::SeqCst) {
            self.labelled("error", "1;31", &message);
        }
        let is_wanted = matches!(self.json, Some(JsonTarget::StandardOutput));
        if is_wanted && !self.has_printed_json.load(Ordering::SeqCst) {
            let error = json!({"message": message, "exit_code": error.exit_code()});
            // The command has failed already; that its error cannot be printed changes nothing.
            let _ = self.json(&Report::new(self.command).with("error", error));
        }
    }

    fn labelled(&self, label: &str, style: &str, text: &str) {
        let text = &printable(text);
        match &self.bar {
            Some(bar) => bar.suspend(|| self.write_labelled(label, style, text)),
            None => self.write_labelled(label, style, text),
        }
    }

    fn write_labelled(&self, label: &str, style: &str, text: &str) {
        let text = wrapped(&format!("{label}: {text}"), note_width());
        let text = match text.strip_prefix(&format!("{label}:")) {
            Some(rest) if self.color_errors => format!("\x1b[{style}m{label}:\x1b[0m{rest}"),
            _ => text,
        };
        // If standard error is closed, the message cannot be shown anywhere.
        let _ = writeln!(io::stderr().lock(), "{text}");
    }

    /// A spinner on a terminal, nothing elsewhere; dropping it removes it.
    pub fn spinner(&self, doing: impl Into<String>) -> Spinner {
        if let Some(bar) = &self.bar {
            bar.set_message(printable(&doing.into()));
            return Spinner(ProgressBar::hidden());
        }
        if self.quiet || !io::stderr().is_terminal() {
            return Spinner(ProgressBar::hidden());
        }
        let bar = ProgressBar::new_spinner().with_message(printable(&doing.into()));
        if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} {elapsed}") {
            bar.set_style(style);
        }
        redraw_every(&bar, Duration::from_millis(100));
        Spinner(bar)
    }

    /// A progress bar for a number of things on a terminal, with their rate and the time left; nothing elsewhere.
    pub fn bar(&self, things: u64, name: &str) -> Bar {
        if self.quiet || !io::stderr().is_terminal() {
            return Bar(ProgressBar::hidden());
        }
        let bar = ProgressBar::new(things);
        let template = format!("{{bar:20}} {{pos}} of {{len}} {name}{{pace}}  {{wide_msg}}");
        if let Ok(style) = ProgressStyle::with_template(&template) {
            let pace = |state: &ProgressState, text: &mut dyn fmt::Write| {
                // A text that cannot be written is not shown.
                let _ = text.write_str(&pace(state.pos(), state.per_sec(), state.eta()));
            };
            bar.set_style(style.with_key("pace", pace));
        }
        redraw_every(&bar, Duration::from_millis(200));
        Bar(bar)
    }

    /// A progress bar for the bytes of a file on a terminal; under another bar only its message.
    pub fn byte_bar(&self, path: &Path, doing: &str) -> Bar {
        let bytes = path.metadata().map_or(0, |metadata| metadata.len());
        self.bar_of_bytes(format!("{doing} {}", path.display()), bytes)
    }

    fn bar_of_bytes(&self, message: String, bytes: u64) -> Bar {
        let message = printable(&message);
        if let Some(bar) = &self.bar {
            bar.set_message(message);
            return Bar(ProgressBar::hidden());
        }
        if self.quiet || !io::stderr().is_terminal() {
            return Bar(ProgressBar::hidden());
        }
        let bar = ProgressBar::new(bytes).with_message(message);
        let template = "{bar:30} {bytes} of {total_bytes}, {bytes_per_sec}, {eta} left  {wide_msg}";
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        redraw_every(&bar, Duration::from_millis(200));
        Bar(bar)
    }

    /// A bar for a download, whose size is known once it has begun.
    pub fn download_bar(&self, message: &str) -> Bar {
        self.bar_of_bytes(message.into(), 0)
    }

    /// The same console while a bar is shown: notes appear above it, messages beside it.
    pub fn under(&self, bar: &Bar) -> Self {
        Self { bar: Some(bar.0.clone()), ..self.clone() }
    }

    /// The same console without progress, which collects notes instead of showing them: for work under a bar.
    pub fn gathering(&self) -> (Self, Arc<Mutex<Vec<String>>>) {
        let notes = Arc::new(Mutex::new(Vec::new()));
        (Self { quiet: true, gathered: Some(notes.clone()), told: Arc::default(), ..self.clone() }, notes)
    }

    /// Shows a table.
    pub fn table(&self, table: &Table) -> Result<()> {
        let color = match self.text {
            TextTarget::StandardError => self.color_errors,
            _ => self.color_output,
        };
        self.text(&format!("{}\n", table.render(color)))
    }

    /// Shows sentences, which are wrapped at the width of the terminal.
    pub fn prose(&self, text: &str) -> Result<()> {
        self.text(&wrapped(text, prose_width()))
    }

    /// Shows lines of text.
    pub fn text(&self, text: &str) -> Result<()> {
        match self.text {
            TextTarget::StandardOutput => write_standard_output(text.as_bytes()),
            TextTarget::StandardError => {
                // As for notes, a closed standard error is no failure.
                let _ = io::stderr().lock().write_all(text.as_bytes());
                Ok(())
            }
            TextTarget::Nowhere => Ok(()),
        }
    }

    /// Writes the JSON object, if `--json` was given.
    pub fn json(&self, report: &impl Serialize) -> Result<()> {
        let Some(target) = &self.json else { return Ok(()) };
        let mut text = serde_json::to_vec_pretty(report)
            .map_err(|error| Error::Internal(format!("the report cannot be written as JSON: {error}")))?;
        text.push(b'\n');
        match target {
            JsonTarget::StandardOutput => {
                self.has_printed_json.store(true, Ordering::SeqCst);
                write_standard_output(&text)
            }
            JsonTarget::File(path) => write_file(path, &text),
        }
    }

    /// An error if the JSON file cannot be written.
    pub fn check_json_target(&self) -> Result<()> {
        match &self.json {
            Some(JsonTarget::File(path)) => check_target(path),
            _ => Ok(()),
        }
    }
}

/// Characters beside the message of a bar of cases, and the fewest of the message.
const BESIDE: usize = 64;
const MESSAGE: usize = 24;

/// Rate and time left; empty before the first thing is done, when both are unknown.
fn pace(done: u64, per_second: f64, left: Duration) -> String {
    let left = HumanDuration(left);
    if done == 0 { String::new() } else { format!(", {per_second:.2}/s, {left:#} left") }
}

/// The text, or its end behind `…` where it has more than `width` characters.
fn end_of(text: &str, width: usize) -> String {
    let length = text.chars().count();
    if length <= width {
        return text.into();
    }
    std::iter::once('…').chain(text.chars().skip(length + 1 - width)).collect()
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
    /// Sets the message beside the bar; a long one loses its beginning, such as the folders of a file.
    pub fn say(&self, doing: &str) {
        let width =
            note_width().map_or(MESSAGE, |width| usize::from(width).saturating_sub(BESIDE).max(MESSAGE));
        self.0.set_message(end_of(&printable(doing), width));
    }

    /// Sets what is done, and the whole where it is known.
    pub fn set(&self, done: u64, whole: Option<u64>) {
        whole.into_iter().for_each(|whole| self.0.set_length(whole));
        self.0.set_position(done);
    }

    /// Advances the bar by a number of things.
    pub fn advance(&self, things: u64) {
        self.0.inc(things);
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

/// Redraws a bar in the background; where no thread can be started for it, the bar is redrawn only when it advances.
fn redraw_every(bar: &ProgressBar, interval: Duration) {
    if threads::check().is_ok() {
        bar.enable_steady_tick(interval);
    }
}

/// Writes to standard output.
pub fn write_standard_output(bytes: &[u8]) -> Result<()> {
    files::Target::StandardOutput.write(|stream| stream.write_all(bytes))
}

/// The folder of a file.
fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// An error if `path` cannot be written, so that a command fails before its work instead of after it.
pub fn check_target(path: &Path) -> Result<()> {
    if path.is_dir() {
        return Err(Error::write(path, io::Error::from(io::ErrorKind::IsADirectory)));
    }
    // A file is written under another name in the same folder and then renamed, so the folder must accept new files.
    tempfile::tempfile_in(folder_of(path)).map(drop).map_err(|source| Error::write(path, source))
}

/// Replaces the content of a file; if that fails, the old content stays.
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
    fn a_bar_has_no_rate_before_the_first_case_and_keeps_the_end_of_its_message() {
        assert_eq!(pace(0, 0.0, Duration::ZERO), "");
        assert_eq!(pace(3, 0.5, Duration::from_secs(18)), ", 0.50/s, 18s left");
        assert_eq!(end_of("/a/folder/cant.mtx on cpu", 18), "…r/cant.mtx on cpu");
        assert_eq!(end_of("cant.mtx on cpu", 15), "cant.mtx on cpu");
    }

    #[test]
    fn missing_folders_are_noticed_before_the_work() {
        let folder = tempfile::tempdir().unwrap();
        assert!(check_target(&folder.path().join("y.mtx")).is_ok());
        assert_eq!(check_target(&folder.path().join("none/y.mtx")).unwrap_err().exit_code(), 1);
        assert_eq!(check_target(folder.path()).unwrap_err().exit_code(), 1);
    }
}
