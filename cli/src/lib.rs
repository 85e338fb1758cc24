//! The program `rowloom`: the grammar, the meaning of the flags, the commands; measurements, studies and plots.
//!
//! Every folder uses earlier ones only, and no files of one folder use each other in a circle; a test reads this table and the sources.
//!
//! | folder | holds |
//! |---|---|
//! | `skip` | how tests skip what a machine lacks; of the tests only |
//! | `plots` | figures and timelines as SVG, and the page of a study as HTML |
//! | `statistics` | times: samples, medians, intervals, noise, ratios, warnings |
//! | `measure` | measurements of kernels, forms and copies; checks; other libraries |
//! | `results` | a study's configuration, cases, records, journal, figures, answers and page |
//! | `args` | arguments as typed: the grammar and its help, notes on flags without effect |
//! | `console` | streams, tables, JSON objects, errors, signals, files that may be replaced |
//! | `operands` | matrices, X and tables that commands read or write; threads and machine |
//! | `request` | arguments as meant: devices and options in the words of the runtime, tuning |
//! | `trace` | timelines of the program and of products; `trace` |
//! | `run` | `run`, `gemm`, `colmean`, in one process, over ranks, simulated |
//! | `plan` | `plan` |
//! | `bench` | `bench`, `calibrate` |
//! | `explorer` | `report`: results of `bench` and `study` on one page |
//! | `matrix` | `inspect`, `convert`, `generate`, `fetch` |
//! | `study` | `study` |
//! | `guide` | `devices`, `demo`, `completions`, `man` |
//! | `paths` | the files that one command names, checked together |
//!
//! A library only for the benchmarks and tests of this repository. Programs use the crate `rowloom`.

#![forbid(unsafe_code)]

mod args;
mod bench;
mod console;
mod explorer;
mod guide;
mod matrix;
pub mod measure;
mod operands;
mod paths;
mod plan;
pub mod plots;
mod request;
pub mod results;
mod run;
#[cfg(test)]
#[path = "../../tests/skip/mod.rs"]
mod skip;
pub mod statistics;
mod study;
mod trace;

use std::ffi::OsString;
use std::io::{self, Write};
use std::panic::PanicHookInfo;

use clap::CommandFactory;
use clap::error::ErrorKind;

pub use args::{Arguments, Command};
pub use console::Console;
pub use trace::host_spans::{HostSpans, PROGRAM};

use args::{hints, json_flag};
use console::interrupt::Interrupt;
use console::launch::MpiLaunch;
use rayon::ThreadPoolBuilder;

use rowloom::internal::error::{Error, Result};
use rowloom::internal::files::STANDARD_OUTPUT;
use rowloom::internal::threads;

/// The parsed command line, or the exit code where help was printed or the words are wrong.
pub fn parse(words: impl Iterator<Item = OsString>) -> std::result::Result<Arguments, u8> {
    let words: Vec<OsString> = words.collect();
    let parsed = Arguments::read(&words);
    let file = match &parsed {
        Ok(arguments) => json_flag::misplaced_file(&words, &arguments.command),
        Err(error) => json_flag::refused_file(&words, error),
    };
    let parsed = match file {
        Some(file) => Err(wrong_usage(&words, json_flag::advice(&file))),
        None => parsed,
    };
    parsed.map_err(|mut error| {
        hints::add(&mut error, words.get(1).and_then(|word| word.to_str()));
        let shown = if is_silent() { Ok(()) } else { error.print() };
        match (error.exit_code(), shown.map_err(|failure| failure.kind())) {
            (0, Ok(())) => 0,
            (0, Err(io::ErrorKind::BrokenPipe)) => BROKEN_PIPE,
            // Help that cannot be printed is an output that cannot be written.
            (0, Err(_)) => 1,
            _ => Error::usage("").exit_code(),
        }
    })
}

/// An error with the usage of the command that `words` name.
fn wrong_usage(words: &[OsString], reason: String) -> clap::Error {
    let mut program = Arguments::command().bin_name("rowloom");
    program.build();
    let named = words.iter().skip(1).find_map(|word| program.find_subcommand(word));
    named.unwrap_or(&program).clone().error(ErrorKind::ValueValidation, reason)
}

/// Whether this process prints nothing, since rank 0 of its job prints for all.
pub fn is_silent() -> bool {
    MpiLaunch::is_silent()
}

/// Runs a command.
pub fn execute(command: &Command, console: &Console) -> Result<()> {
    let launch = MpiLaunch::detect();
    start_threads(console).inspect_err(|error| {
        // The other ranks may have their threads, so rank 0 does not print this error.
        if let Some(launch) = launch {
            console.error_message(&format!("rank {}: {}", launch.rank, console::advice::text(error)));
        }
    })?;
    paths::check(command)?;
    console.check_json_target()?;
    if let Some(launch) = launch {
        launch.check(command)?;
        #[cfg(feature = "mpi")]
        if let Command::Run(arguments) = command {
            return run::ranks::run(arguments, console, launch);
        }
    }
    match command {
        Command::Run(arguments) => run::product::run(arguments, console),
        Command::Gemm(arguments) => run::gemm::run(arguments, console),
        Command::Colmean(arguments) => run::colmean::run(arguments, console),
        Command::Plan(arguments) => plan::command::run(arguments, console),
        Command::Bench(arguments) => bench::command::run(arguments, console),
        Command::Calibrate(arguments) => bench::calibrate::run(arguments, console),
        Command::Study(arguments) => study::command::run(arguments, console),
        Command::Report(arguments) => explorer::command::run(arguments, console),
        Command::Inspect(arguments) => matrix::inspect::run(arguments, console),
        Command::Convert(arguments) => matrix::convert::run(arguments, console),
        Command::Fetch(arguments) => matrix::fetch::run(arguments, console),
        Command::Generate(arguments) => matrix::generate::run(arguments, console),
        Command::Trace(arguments) => trace::command::run(arguments, console),
        Command::Devices(arguments) => guide::devices::run(arguments, console),
        Command::Demo(arguments) => guide::demo::run(arguments, console, execute),
        Command::Completions(arguments) => guide::completions::run(arguments, console),
        Command::Man(arguments) => guide::man::run(arguments, console),
    }
}

/// Starts the thread that waits for signals and that of the global pool.
fn start_threads(console: &Console) -> Result<()> {
    Interrupt::watch()?.begin(console);
    limit_global_pool()
}

/// Gives work outside the pool of a command a single thread, whatever `RAYON_NUM_THREADS` says.
fn limit_global_pool() -> Result<()> {
    match ThreadPoolBuilder::new().num_threads(1).build_global() {
        // Without a source the error is that the pool exists already.
        Err(error) if std::error::Error::source(&error).is_some() => Err(threads::refused(error)),
        _ => Ok(()),
    }
}

/// The exit code where the reader of standard output is gone, as in `rowloom man | head -1`: what a shell shows for a
/// program that SIGPIPE ended.
pub const BROKEN_PIPE: u8 = 141;

/// Whether the reader of standard output is gone, which ends the program without a message.
pub fn is_broken_pipe(error: &Error) -> bool {
    matches!(error, Error::Write { path, source }
        if path.as_os_str() == STANDARD_OUTPUT && source.kind() == io::ErrorKind::BrokenPipe)
}

/// Reports a panic in one line.
pub fn report_panic(panic: &PanicHookInfo<'_>) {
    let payload = panic.payload();
    let message = payload
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| payload.downcast_ref::<&str>().copied())
        .unwrap_or("a panic without a message")
        .replace('\n', " ");
    let place =
        panic.location().map(|place| format!(" ({}:{})", place.file(), place.line())).unwrap_or_default();
    let error = Error::Internal(format!("{message}{place}"));
    let _ = writeln!(io::stderr(), "error: {error}");
}
