//! The arguments of `run` and `plan`.

use std::ffi::OsString;
use std::ops::Deref;
use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueHint};

use super::common::{CommonArguments, MATRIX_HELP, MATRIX_LONG_HELP, MatrixArguments};
use super::execution::{ExecutionArguments, RepeatArguments};
use super::help;
use super::names;
use super::options::{Devices, FormatChoice, XSource};
use super::parse::{SCHEDULES, format_named, parse_k, schedule_named};
use rowloom::internal::kernel::Schedule;

/// `rowloom run`.
#[derive(Debug, Args)]
#[command(after_help = help::RUN_SHORT, after_long_help = help::run())]
pub struct RunArguments {
    #[doc = "A, sparse."]
    #[arg(value_name = "MATRIX", help = MATRIX_HELP, long_help = MATRIX_LONG_HELP, value_hint = ValueHint::FilePath)]
    pub matrix: OsString,

    /// Columns of X and Y [default: 32, or those of --x FILE]
    #[arg(short, value_name = "K", value_parser = parse_k)]
    pub k: Option<usize>,

    /// X: random, ones, FILE (.mtx, .npy, .csv, text) or -
    ///
    /// random: uniform from -1 to 1. ones: all ones. FILE: a Matrix Market array, a .npy file, or text with a row of X in each
    /// line (.csv, .txt). -: the same from standard input.
    #[arg(long, value_name = "X", default_value = "random", value_hint = ValueHint::FilePath)]
    pub x: XSource,

    /// Write Y to FILE (.mtx, .npy) or - (standard output)
    ///
    /// On standard output Y has the format of X.
    #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,

    /// Flags of repeated computations.
    #[command(flatten)]
    pub repeated: RepeatArguments,

    /// Run the plan in FILE, written by `rowloom plan --save`
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, hide_short_help = true,
          conflicts_with_all = ["devices", "mode", "chunks", "chunk_bytes", "cpu_share", "transfer", "mem_limit", "kernel", "format", "reproducible", "model", "no_refine", "tune"])]
    pub plan: Option<PathBuf>,

    /// Planning flags.
    #[command(flatten)]
    pub planning: PlanningArguments,

    /// How the CPU's threads divide the rows: balanced or equal-rows
    ///
    /// balanced: equal numbers of nonzeros for each thread. equal-rows: one block of rows for each thread, as OpenMP's
    /// static schedule does.
    #[arg(long, value_name = "HOW", default_value = "balanced", hide_possible_values = true, help_heading = "Execution",
          hide_short_help = true,
          value_parser = PossibleValuesParser::new(SCHEDULES.map(Schedule::name)).try_map(schedule_named))]
    pub schedule: Schedule,

    /// Refuse a matrix or X with NaN or infinite values
    #[arg(long, help_heading = "Matrix", hide_short_help = true)]
    pub finite: bool,

    /// Matrix flags.
    #[command(flatten)]
    pub matrix_arguments: MatrixArguments,

    /// Common flags.
    #[command(flatten)]
    pub common: CommonArguments,
}

const KERNEL_LONG_HELP: &str =
    "Kernel: auto (the planner chooses) or a name; the names are listed below in `rowloom run --help`";

/// Flags that decide where and how a product is computed.
#[derive(Debug, Args)]
#[command(next_help_heading = "Execution")]
pub struct PlanningArguments {
    /// Flags of all kinds of work.
    #[command(flatten)]
    pub execution: ExecutionArguments,

    #[doc = "The kernel."]
    #[arg(long, help = "Kernel: auto or a name (see --help)", long_help = KERNEL_LONG_HELP, value_name = "NAME", default_value = "auto", hide_possible_values = true, value_parser = names::kernel())]
    pub kernel: String,

    /// Storage format of A: auto, csr, ell (padded) or sell
    #[arg(long, value_name = "FORMAT", default_value = "auto", hide_possible_values = true, hide_short_help = true,
          value_parser = PossibleValuesParser::new(["auto", "csr", "ell", "sell"]).map(format_named))]
    pub format: FormatChoice,

    /// Time the most promising kernels on this matrix before planning
    ///
    /// The times are kept for the next run with the same matrix, K, value type and device. All CUDA cards of --devices auto
    /// are opened for it.
    #[arg(long, hide_short_help = true)]
    pub tune: bool,
}

/// The flags of all kinds of work are read like its own.
impl Deref for PlanningArguments {
    type Target = ExecutionArguments;

    fn deref(&self) -> &ExecutionArguments {
        &self.execution
    }
}

impl PlanningArguments {
    /// These devices, with the default of every other flag.
    pub fn of(devices: Devices) -> Self {
        Self {
            execution: ExecutionArguments::of(devices),
            kernel: "auto".into(),
            format: FormatChoice::Auto,
            tune: false,
        }
    }
}

/// `rowloom plan`.
#[derive(Debug, Args)]
#[command(after_help = help::PLAN)]
pub struct PlanArguments {
    #[doc = "A, sparse."]
    #[arg(value_name = "MATRIX", help = MATRIX_HELP, long_help = MATRIX_LONG_HELP, value_hint = ValueHint::FilePath)]
    pub matrix: OsString,

    /// Columns of X and Y [default: 32, or those of the file that --x names]
    #[arg(short, value_name = "K", value_parser = parse_k)]
    pub k: Option<usize>,

    /// X, as for `run`; only the number of columns of a FILE matters
    #[arg(long, value_name = "X", default_value = "random", value_hint = ValueHint::FilePath)]
    pub x: XSource,

    /// Write the plan to FILE, for `rowloom run --plan`
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub save: Option<PathBuf>,

    /// Number of products to plan for
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    pub repeat: u32,

    /// Show every chunk and all details, in lines longer than 80 characters
    #[arg(long, help_heading = "Output")]
    pub wide: bool,

    /// Refuse a matrix with NaN or infinite values
    #[arg(long, help_heading = "Matrix", hide_short_help = true)]
    pub finite: bool,

    /// Planning flags.
    #[command(flatten)]
    pub planning: PlanningArguments,

    /// Matrix flags.
    #[command(flatten)]
    pub matrix_arguments: MatrixArguments,

    /// Common flags.
    #[command(flatten)]
    pub common: CommonArguments,
}
