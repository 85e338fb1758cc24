//! What may be typed: every command, flag and help text. Nothing here has an effect yet.

mod measure;
mod parse;
mod tools;
mod work;

use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand, ValueEnum, ValueHint};

pub use measure::{BenchArguments, CalibrateArguments, StudyArguments};
pub use parse::TRANSFERS;
pub use tools::{
    CompletionsArguments, ConvertArguments, DemoArguments, DevicesArguments, GenerateArguments,
    InspectArguments, ManArguments, TraceArguments,
};
pub use work::{PlanArguments, PlanningArguments, RunArguments};

use self::parse::parse_threads;
use crate::matrix::Dtype;

const MATRIX_HELP: &str = "A file (.mtx, .mtx.gz, SuiteSparse .tar.gz, SciPy .npz, .rlm), - (standard input) or gen:KIND,key=value,...";

const ROOT_EXAMPLES: &str = "\
Examples:
  rowloom demo                                     a short tour; makes its own matrix
  rowloom run cant.mtx -k 32 --verify              multiply, check, show the speed
  rowloom run gen:stencil27,n=64 -k 32 --json      the same on a generated matrix, as JSON
  rowloom inspect cant.mtx --spy cant.svg          shape, row lengths, a picture
  rowloom convert cant.mtx cant.rlm                a cache that opens without parsing
  rowloom run cant.mtx --json=report.json          JSON to a file; --json alone: to standard output

Exit codes: 0 done, 1 output not written, 2 usage, 3 input, 4 device, 5 verification failed,
70 internal error, 130 interrupted, 141 the reader of standard output is gone (as in | head -1).";

/// Multiplies a sparse matrix by a dense multivector, Y = A X, on all cores and GPUs
#[derive(Debug, Parser)]
#[command(name = "rowloom", version, after_help = ROOT_EXAMPLES, arg_required_else_help = true, max_term_width = 100)]
pub struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// One variant for each command.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Compute Y = A X; report time, speed and, with --verify, the error
    Run(RunArguments),
    /// Decide what run would do, and why, and do nothing
    Plan(PlanArguments),
    /// Measure every kernel alone, check it, and compare with the vendor's library
    Bench(BenchArguments),
    /// Measure this machine's kernels, for better plans
    Calibrate(CalibrateArguments),
    /// Measure what a file asks for, into a folder with tables, plots and one page
    Study(StudyArguments),
    /// Show a matrix: shape, row lengths, features, memory each format needs
    Inspect(InspectArguments),
    /// Write a matrix in another format, or check the conversions
    Convert(ConvertArguments),
    /// Make a matrix and write it to a file
    Generate(GenerateArguments),
    /// Sum up a trace: busy and idle lanes, overlap, critical path, predictions
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
            Self::Plan(_) => "plan",
            Self::Bench(_) => "bench",
            Self::Calibrate(_) => "calibrate",
            Self::Study(_) => "study",
            Self::Inspect(_) => "inspect",
            Self::Convert(_) => "convert",
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
            Self::Plan(arguments) => &arguments.common,
            Self::Bench(arguments) => &arguments.common,
            Self::Calibrate(arguments) => &arguments.common,
            Self::Study(arguments) => &arguments.common,
            Self::Inspect(arguments) => &arguments.common,
            Self::Convert(arguments) => &arguments.common,
            Self::Generate(arguments) => &arguments.common,
            Self::Trace(arguments) => &arguments.common,
            Self::Devices(arguments) => &arguments.common,
            Self::Demo(arguments) => &arguments.common,
            Self::Completions(arguments) => &arguments.common,
            Self::Man(arguments) => &arguments.common,
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

/// Flags of every command.
#[derive(Debug, Args)]
#[command(next_help_heading = "Output")]
pub struct CommonArguments {
    /// Print one JSON object and nothing else on standard output; with =FILE, write it to FILE
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = "-",
          value_hint = ValueHint::FilePath)]
    pub json: Option<PathBuf>,

    /// Replace existing files even if they are not earlier output of the same kind
    #[arg(long)]
    pub force: bool,

    /// No notes and no progress, only results and errors
    #[arg(long, short)]
    pub quiet: bool,

    /// When to use colors
    #[arg(long, value_enum, value_name = "WHEN", default_value_t = ColorChoice::Auto, hide_possible_values = true,
          help = "When to use colors: auto, always, never")]
    pub color: ColorChoice,
}

/// Flags of every command that takes a matrix.
#[derive(Debug, Args)]
#[command(next_help_heading = "Matrix")]
pub struct MatrixArguments {
    /// Value type
    #[arg(long, value_name = "TYPE", default_value = "f64",
          value_parser = PossibleValuesParser::new(["f64", "f32"]).try_map(|text| text.parse::<Dtype>()))]
    pub dtype: Dtype,

    /// Seed of everything random: generated matrices and X
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,

    /// Threads to use [default: one for each core this process may use]
    #[arg(long, value_name = "N", value_parser = parse_threads)]
    pub threads: Option<usize>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

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
