//! The grammar as a whole: the commands and what all of them have.

use std::ffi::OsString;

use clap::parser::ValueSource;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use super::common::CommonArguments;
use super::dense::{ColmeanArguments, GemmArguments};
use super::help;
use super::measure::{BenchArguments, CalibrateArguments, StudyArguments};
use super::report::ReportArguments;
use super::standard_stream::is_dash;
use super::tools::{
    CompletionsArguments, ConvertArguments, DemoArguments, DevicesArguments, FetchArguments,
    GenerateArguments, InspectArguments, ManArguments, TraceArguments,
};
use super::work::{PlanArguments, RunArguments};

/// Widest line of help, also where standard output is not a terminal.
const HELP_COLUMNS: usize = 80;

/// Multiplies a sparse matrix by a dense multivector, Y = A X, on all cores and GPUs
#[derive(Debug, Parser)]
#[command(name = "rowloom", version, after_help = help::ROOT, arg_required_else_help = true,
          max_term_width = HELP_COLUMNS)]
pub struct Arguments {
    /// The command.
    #[command(subcommand)]
    pub command: Command,
}

impl Arguments {
    /// The grammar. A negative number after a flag is its value: the flag then says what it expects.
    fn grammar() -> clap::Command {
        let of_flag =
            |argument: clap::Arg| match argument.is_positional() || !argument.get_action().takes_values() {
                true => argument,
                false => argument.allow_negative_numbers(true),
            };
        Self::command().mut_subcommands(|command| command.mut_args(of_flag))
    }

    /// Parses `words` and records which arguments were typed.
    pub fn read(words: &[OsString]) -> Result<Self, clap::Error> {
        let matches = Self::grammar().try_get_matches_from(words)?;
        let mut arguments =
            Self::from_arg_matches(&matches).map_err(|error| error.format(&mut Self::command()))?;
        if let Some((_, command)) = matches.subcommand() {
            let is_typed =
                |id: &&clap::Id| command.value_source(id.as_str()) == Some(ValueSource::CommandLine);
            let typed = command.ids().filter(is_typed).map(|id| id.to_string()).collect();
            arguments.command.common_mut().typed = typed;
            arguments.command.compute_once_for_output();
        }
        Ok(arguments)
    }
}

/// One variant for each command.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Compute Y = A X; report time, speed and (--verify) error
    Run(RunArguments),
    /// Compute C = alpha A B + beta C of dense matrices
    Gemm(GemmArguments),
    /// Compute means, sums or variances of the columns of a table
    Colmean(ColmeanArguments),
    /// Show the plan of run and its reasons; compute nothing
    Plan(PlanArguments),
    /// Time every kernel alone, check it, compare with other libraries
    Bench(BenchArguments),
    /// Time kernels on this machine and write its cost model
    Calibrate(CalibrateArguments),
    /// Measure the cases of a TOML file; write tables, plots, one page
    Study(StudyArguments),
    /// Explore results of bench and study on one page of speed-ups
    Report(ReportArguments),
    /// Show a matrix: shape, row lengths, memory of each format
    Inspect(InspectArguments),
    /// Write a matrix in another format, or check the conversions
    Convert(ConvertArguments),
    /// Download matrices of the SuiteSparse collection
    Fetch(FetchArguments),
    /// Generate a matrix and write it to a file
    Generate(GenerateArguments),
    /// Summarize a trace: busy and idle time, overlap, critical path
    Trace(TraceArguments),
    /// Show this machine: cores, caches, NUMA nodes, memory, GPUs
    Devices(DevicesArguments),
    /// Take a short tour on a generated matrix
    Demo(DemoArguments),
    /// Print a shell completion script
    Completions(CompletionsArguments),
    /// Print the manual page, or write one page for each command
    Man(ManArguments),
}

impl Command {
    /// The command's name, as typed.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Run(_) => "run",
            Self::Gemm(_) => "gemm",
            Self::Colmean(_) => "colmean",
            Self::Plan(_) => "plan",
            Self::Bench(_) => "bench",
            Self::Calibrate(_) => "calibrate",
            Self::Study(_) => "study",
            Self::Report(_) => "report",
            Self::Inspect(_) => "inspect",
            Self::Convert(_) => "convert",
            Self::Fetch(_) => "fetch",
            Self::Generate(_) => "generate",
            Self::Trace(_) => "trace",
            Self::Devices(_) => "devices",
            Self::Demo(_) => "demo",
            Self::Completions(_) => "completions",
            Self::Man(_) => "man",
        }
    }

    /// The flags that every command takes.
    pub fn common(&self) -> &CommonArguments {
        match self {
            Self::Run(arguments) => &arguments.common,
            Self::Gemm(arguments) => &arguments.dense.common,
            Self::Colmean(arguments) => &arguments.dense.common,
            Self::Plan(arguments) => &arguments.common,
            Self::Bench(arguments) => &arguments.common,
            Self::Calibrate(arguments) => &arguments.common,
            Self::Study(arguments) => &arguments.common,
            Self::Report(arguments) => &arguments.common,
            Self::Inspect(arguments) => &arguments.common,
            Self::Convert(arguments) => &arguments.common,
            Self::Fetch(arguments) => &arguments.common,
            Self::Generate(arguments) => &arguments.common,
            Self::Trace(arguments) => &arguments.common,
            Self::Devices(arguments) => &arguments.common,
            Self::Demo(arguments) => &arguments.common,
            Self::Completions(arguments) => &arguments.common,
            Self::Man(arguments) => &arguments.common,
        }
    }

    /// Whether the data of the command, a matrix, Y or C, goes to standard output.
    pub fn writes_data_to_standard_output(&self) -> bool {
        let path = match self {
            Self::Run(arguments) => arguments.output.as_deref(),
            Self::Gemm(arguments) => arguments.output.as_deref(),
            Self::Convert(arguments) => arguments.output.as_deref(),
            Self::Generate(arguments) => Some(arguments.output.as_path()),
            _ => None,
        };
        path.is_some_and(is_dash)
    }

    /// Computes the result once where it is written and no repetitions were typed.
    fn compute_once_for_output(&mut self) {
        let is_timed = ["repeat", "warmup"].iter().any(|flag| self.common().is_typed(flag));
        let (output, repeated) = match self {
            Self::Run(arguments) => (&arguments.output, &mut arguments.repeated),
            Self::Gemm(arguments) => (&arguments.output, &mut arguments.dense.repeated),
            Self::Colmean(arguments) => (&arguments.output, &mut arguments.dense.repeated),
            _ => return,
        };
        if output.is_some() && !is_timed {
            (repeated.repeat, repeated.warmup) = (1, 0);
        }
    }

    /// The flags that every command takes, to be changed.
    fn common_mut(&mut self) -> &mut CommonArguments {
        match self {
            Self::Run(arguments) => &mut arguments.common,
            Self::Gemm(arguments) => &mut arguments.dense.common,
            Self::Colmean(arguments) => &mut arguments.dense.common,
            Self::Plan(arguments) => &mut arguments.common,
            Self::Bench(arguments) => &mut arguments.common,
            Self::Calibrate(arguments) => &mut arguments.common,
            Self::Study(arguments) => &mut arguments.common,
            Self::Report(arguments) => &mut arguments.common,
            Self::Inspect(arguments) => &mut arguments.common,
            Self::Convert(arguments) => &mut arguments.common,
            Self::Fetch(arguments) => &mut arguments.common,
            Self::Generate(arguments) => &mut arguments.common,
            Self::Trace(arguments) => &mut arguments.common,
            Self::Devices(arguments) => &mut arguments.common,
            Self::Demo(arguments) => &mut arguments.common,
            Self::Completions(arguments) => &mut arguments.common,
            Self::Man(arguments) => &mut arguments.common,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typed_arguments_are_distinguished_from_defaults() {
        let words = ["rowloom", "run", "a.mtx", "--warmup", "3"].map(OsString::from);
        let arguments = Arguments::read(&words).unwrap();
        let common = arguments.command.common();
        assert!(common.is_typed("warmup") && common.is_typed("matrix"));
        assert!(!common.is_typed("repeat") && !common.is_typed("json"));
    }

    #[test]
    fn an_output_without_typed_repetitions_is_computed_once() {
        let repetitions = |line: &str| {
            let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            match Arguments::read(&words).unwrap().command {
                Command::Run(arguments) => (arguments.repeated.repeat, arguments.repeated.warmup),
                _ => unreachable!("the lines are of run"),
            }
        };
        assert_eq!(repetitions("rowloom run a.mtx -o y.npy"), (1, 0));
        assert_eq!(repetitions("rowloom run a.mtx"), (20, 3));
        assert_eq!(repetitions("rowloom run a.mtx --output y.npy --repeat 5"), (5, 3));
        assert_eq!(repetitions("rowloom run a.mtx --output y.npy --warmup 1"), (20, 1));
    }

    #[test]
    fn the_grammar_is_sound() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn json_alone_means_standard_output() {
        let parse = |words: &[&str]| {
            let arguments = Arguments::try_parse_from(words).unwrap();
            arguments.command.common().json.clone()
        };
        assert_eq!(parse(&["rowloom", "devices"]), None);
        assert_eq!(parse(&["rowloom", "devices", "--json"]), Some("-".into()));
        assert_eq!(parse(&["rowloom", "devices", "--json=a.json"]), Some("a.json".into()));
        assert_eq!(parse(&["rowloom", "demo", "--json", "folder"]), Some("-".into()));
        assert_eq!(parse(&["rowloom", "devices", "--json", "--quiet"]), Some("-".into()));
    }
}
