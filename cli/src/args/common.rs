//! Flags that every command takes, and those of every command on a matrix.

use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum, ValueHint};

use super::parse::{parse_seed, parse_threads};
use rowloom::internal::matrix::Dtype;

/// Short help of a matrix argument.
pub const MATRIX_HELP: &str = "A matrix file, -, gen:KIND,key=value,... or suitesparse:GROUP/NAME";
/// Long help of a matrix argument.
pub const MATRIX_LONG_HELP: &str = "\
A matrix: a file (.mtx, .mtx.gz, SuiteSparse .tar.gz, SciPy .npz, .rlm), - for standard input, gen:KIND,key=value,... \
to generate one (`rowloom generate --help` lists the kinds), or suitesparse:GROUP/NAME, which is downloaded once (`rowloom fetch --help`)";

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
    /// Without =FILE, standard output gets the object and nothing else. Write --json=FILE with the equals sign: in `--json a.mtx`,
    /// a.mtx is the matrix.
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
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = parse_seed, hide_short_help = true)]
    pub seed: u64,

    /// Threads to use [default: all usable cores]
    #[arg(long, value_name = "N", value_parser = parse_threads)]
    pub threads: Option<usize>,
}
