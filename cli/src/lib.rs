//! The program `rowloom`: the grammar, the meaning of the flags, one file for each command; measurements, studies and plots.
//!
//! A library only for the benchmarks and tests of this repository. Programs use the crate `rowloom`.

#![forbid(unsafe_code)]

mod advice;
mod args;
mod baseline;
mod bench;
mod bench_report;
mod bench_table;
mod calibrate;
mod cluster;
mod colmean;
mod colmean_output;
mod completions;
mod console;
mod convert;
mod convert_check;
mod dash;
mod demo;
mod dense_input;
mod dense_run;
mod described;
mod devices;
mod fetch;
mod files;
mod gemm;
mod generate;
mod help;
mod host_spans;
mod inspect;
mod interrupt;
#[cfg(feature = "mpi")]
mod joining;
mod json_flag;
mod kernel_bench;
mod launch;
mod man;
pub mod measure;
mod no_effect;
mod options;
mod oracle;
mod overwrite;
mod paths;
mod plan;
mod plan_dense;
mod plan_file;
mod plan_table;
mod planning;
pub mod plots;
mod reasons;
mod recording;
mod repeat;
mod report;
mod report_input;
mod report_page;
mod reported_cases;
mod run;
#[cfg(feature = "mpi")]
mod run_ranks;
#[cfg(feature = "mpi")]
mod run_ranks_report;
mod run_report;
mod run_simulated;
mod session;
#[cfg(test)]
#[path = "../../tests/skip/mod.rs"]
mod skip;
mod standard_input;
mod study;
mod study_check;
mod study_conversion;
mod study_dense;
mod study_estimate;
mod study_kernels;
mod study_matrix;
mod study_output;
mod study_ranks;
mod study_refusals;
mod study_run;
mod study_solver;
mod study_vectors;
mod subject;
mod table;
mod trace;
mod transfers;
mod tune;
mod x;
#[cfg(feature = "mpi")]
mod x_rows;

use std::ffi::OsString;
use std::io::{self, Write};
use std::panic::PanicHookInfo;

use clap::CommandFactory;
use clap::error::ErrorKind;

pub use args::{Arguments, Command};
pub use console::Console;
pub use host_spans::{HostSpans, PROGRAM};

use interrupt::Interrupt;
use launch::Launch;
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
    parsed.map_err(|error| {
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
    Launch::is_silent()
}

/// Runs a command.
pub fn execute(command: &Command, console: &Console) -> Result<()> {
    Interrupt::watch()?;
    limit_global_pool()?;
    paths::check(command)?;
    console.check_json_target()?;
    if let Some(launch) = Launch::detect() {
        launch.check(command)?;
        #[cfg(feature = "mpi")]
        if let Command::Run(arguments) = command {
            return run_ranks::run(arguments, console, launch);
        }
    }
    match command {
        Command::Run(arguments) => run::run(arguments, console),
        Command::Gemm(arguments) => gemm::run(arguments, console),
        Command::Colmean(arguments) => colmean::run(arguments, console),
        Command::Plan(arguments) => plan::run(arguments, console),
        Command::Bench(arguments) => bench::run(arguments, console),
        Command::Calibrate(arguments) => calibrate::run(arguments, console),
        Command::Study(arguments) => study::run(arguments, console),
        Command::Report(arguments) => report_page::run(arguments, console),
        Command::Inspect(arguments) => inspect::run(arguments, console),
        Command::Convert(arguments) => convert::run(arguments, console),
        Command::Fetch(arguments) => fetch::run(arguments, console),
        Command::Generate(arguments) => generate::run(arguments, console),
        Command::Trace(arguments) => trace::run(arguments, console),
        Command::Devices(arguments) => devices::run(arguments, console),
        Command::Demo(arguments) => demo::run(arguments, console),
        Command::Completions(arguments) => completions::run(arguments, console),
        Command::Man(arguments) => man::run(arguments, console),
    }
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
