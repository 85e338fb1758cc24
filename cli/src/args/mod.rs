//! The command line's grammar: every command, flag and help text.

mod dense;
mod execution;
mod measure;
mod names;
mod parse;
mod tools;
mod work;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::parser::ValueSource;
use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum, ValueHint};

pub use dense::{ColmeanArguments, DenseArguments, GemmArguments};
pub use execution::{ExecutionArguments, RepeatArguments};
pub use measure::{BenchArguments, CalibrateArguments, StudyArguments};
pub use names::{DENSE_GENERATORS, GENERATORS};
pub use parse::TRANSFERS;
pub use tools::{
    CollectionArguments, CompletionsArguments, ConvertArguments, DemoArguments, DevicesArguments,
    FetchArguments, GenerateArguments, InspectArguments, ManArguments, TraceArguments,
};
pub use work::{PlanArguments, PlanningArguments, RunArguments};

use self::parse::parse_threads;
use super::help;
use rowloom::internal::matrix::Dtype;

const MATRIX_HELP: &str = "A matrix file, -, gen:KIND,key=value,... or suitesparse:GROUP/NAME";
const MATRIX_LONG_HELP: &str = "\
A matrix: a file (.mtx, .mtx.gz, SuiteSparse .tar.gz, SciPy .npz, .rlm), - for standard input, gen:KIND,key=value,... \
to generate one (`rowloom generate --help` lists the kinds), or suitesparse:GROUP/NAME, which is downloaded once (`rowloom fetch --help`)";

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
    /// Parses `words` and records which arguments were typed.
    pub fn read(words: &[OsString]) -> Result<Self, clap::Error> {
        let matches = Self::command().try_get_matches_from(words)?;
        let mut arguments =
            Self::from_arg_matches(&matches).map_err(|error| error.format(&mut Self::command()))?;
        if let Some((_, command)) = matches.subcommand() {
            let is_typed =
                |id: &&clap::Id| command.value_source(id.as_str()) == Some(ValueSource::CommandLine);
            let typed = command.ids().filter(is_typed).map(|id| id.to_string()).collect();
            arguments.command.common_mut().typed = typed;
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

    /// The same, to be changed.
    fn common_mut(&mut self) -> &mut CommonArguments {
        match self {
            Self::Run(arguments) => &mut arguments.common,
            Self::Gemm(arguments) => &mut arguments.dense.common,
            Self::Colmean(arguments) => &mut arguments.dense.common,
            Self::Plan(arguments) => &mut arguments.common,
            Self::Bench(arguments) => &mut arguments.common,
            Self::Calibrate(arguments) => &mut arguments.common,
            Self::Study(arguments) => &mut arguments.common,
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

/// When to use colors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ColorChoice {
    /// On a terminal.
    Auto,
    /// Also into files and pipes.
    Always,
    /// Nowhere.
    Never,
}

/// Flags that every command takes.
#[derive(Debug, Args)]
#[command(next_help_heading = "Output")]
pub struct CommonArguments {
    /// Print one JSON object; with =FILE, write it to FILE
    ///
    /// Without =FILE, standard output gets the object and nothing else. The file needs the equals sign: a word after a space is an
    /// ordinary argument, and is refused if it ends in .json or cannot be an input.
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = "-",
          value_hint = ValueHint::FilePath)]
    pub json: Option<PathBuf>,

    /// Replace existing files even if they are not earlier output of the same kind
    #[arg(long, hide_short_help = true)]
    pub force: bool,

    /// Print results and errors only: no notes, no progress
    #[arg(long, short, hide_short_help = true)]
    pub quiet: bool,

    /// When to use colors
    #[arg(long, value_enum, value_name = "WHEN", default_value_t = ColorChoice::Auto, hide_possible_values = true,
          hide_short_help = true, help = "Use colors: auto (on a terminal), always or never")]
    pub color: ColorChoice,

    /// The names of the arguments that were typed, as opposed to defaults.
    #[arg(skip)]
    pub typed: Vec<String>,
}

impl CommonArguments {
    /// Whether an argument was typed; `name` is its field's name.
    pub fn is_typed(&self, name: &str) -> bool {
        self.typed.iter().any(|typed| typed == name)
    }
}

/// Flags of commands that take one matrix.
#[derive(Debug, Args)]
#[command(next_help_heading = "Matrix")]
pub struct MatrixArguments {
    /// Value type: f64 or f32
    #[arg(long, value_name = "TYPE", default_value = "f64", hide_possible_values = true,
          value_parser = PossibleValuesParser::new(["f64", "f32"]).try_map(|text| text.parse::<Dtype>()))]
    pub dtype: Dtype,

    /// Seed of generated matrices and of a random X
    #[arg(long, value_name = "N", default_value_t = 1, hide_short_help = true)]
    pub seed: u64,

    /// Threads to use [default: all usable cores]
    #[arg(long, value_name = "N", value_parser = parse_threads)]
    pub threads: Option<usize>,
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
