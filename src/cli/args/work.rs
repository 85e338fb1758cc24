//! The arguments of `run` and `plan`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueHint};

use super::names;
use super::parse::{SCHEDULES, TRANSFERS, format_named, parse_k, parse_share, schedule_named};
use super::{CommonArguments, MATRIX_HELP, MATRIX_LONG_HELP, MatrixArguments};
use crate::cli::help;
use crate::cli::options::{Devices, FormatChoice, XSource, parse_bytes};
use crate::kernel::Schedule;

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

    /// X: random, ones, FILE (.mtx, .npy) or -
    ///
    /// random: uniform from -1 to 1. ones: all ones. FILE: a Matrix Market array or a .npy file. -: the same from standard
    /// input.
    #[arg(long, value_name = "X", default_value = "random", value_hint = ValueHint::FilePath)]
    pub x: XSource,

    /// Write Y to FILE (.mtx, .npy) or - (standard output)
    ///
    /// On standard output Y has the format of X.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,

    /// Compare Y with a serial reference product
    ///
    /// The reference accumulates in twice the precision. The exit code is 5 if an element of Y exceeds the rounding
    /// bound.
    #[arg(long)]
    pub verify: bool,

    /// Measured products
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    pub repeat: u32,

    /// Products before the measured ones
    ///
    /// Their times are not reported. --devices auto decides by their times too, as by those of all products.
    #[arg(long, value_name = "N", default_value_t = 3, hide_short_help = true)]
    pub warmup: u32,

    /// Run the plan in FILE, written by `rowloom plan --save`
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, hide_short_help = true,
          conflicts_with_all = ["devices", "mode", "chunks", "chunk_bytes", "cpu_share", "transfer", "mem_limit", "kernel", "format", "reproducible", "model", "no_refine", "tune"])]
    pub plan: Option<PathBuf>,

    /// Write a timeline of the run to FILE
    ///
    /// The file opens in Perfetto (ui.perfetto.dev), chrome://tracing and speedscope; `rowloom trace` summarizes it.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub trace: Option<PathBuf>,

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
    /// Devices: auto, cpu, cuda, cuda:0, emu:0, sim:h200x4, or a list with commas
    ///
    /// auto: the CPU computes first. CUDA cards are opened meanwhile if the remaining products can pay for it; then the GPUs,
    /// or the CPU and the GPUs together, compute if that is faster. Measured times are kept for the next run with the same
    /// matrix. cuda: all CUDA GPUs; cuda:0: the first. emu:0: an emulated GPU. sim:h200x4: a simulated machine with four H200
    /// GPUs. Commas combine devices, as in cpu,cuda:0; every named device is used. Several devices
    /// on one card, as in cuda:0,cuda:0, share the faults of the card.
    #[arg(long, value_name = "LIST", default_value = "auto", hide_possible_values = true, value_parser = names::devices())]
    pub devices: Devices,

    /// How GPUs get A: auto, resident, oneshot or stream
    ///
    /// resident: A is copied once and stays on the device. oneshot: A is copied with every product, while chunks that
    /// have arrived are computed. stream: the same through a ring of buffers, for a matrix larger than the device's
    /// memory.
    #[arg(long, value_name = "MODE", default_value = "auto", hide_possible_values = true, hide_short_help = true,
          value_parser = PossibleValuesParser::new(["auto", "resident", "oneshot", "stream"]))]
    pub mode: String,

    /// Number of chunks of A [default: chosen by the planner]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1 << 20), conflicts_with = "chunk_bytes",
          hide_short_help = true)]
    pub chunks: Option<u32>,

    /// Bytes of A in a chunk, such as 16MiB [default: chosen by the planner]
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes, hide_short_help = true)]
    pub chunk_bytes: Option<u64>,

    /// Share of the product that the CPU computes, from 0 to 1 [default: the share predicted to be fastest]
    #[arg(long, value_name = "SHARE", value_parser = parse_share, hide_short_help = true)]
    pub cpu_share: Option<f64>,

    /// How A, X and Y are copied to GPUs: auto, staged or registered
    ///
    /// staged: through page-locked buffers. registered: the arrays themselves are page-locked once, then copied directly.
    #[arg(long, value_name = "HOW", default_value = "auto", hide_possible_values = true, hide_short_help = true,
          value_parser = PossibleValuesParser::new(TRANSFERS))]
    pub transfer: String,

    /// Most memory to use on each GPU, such as 8GiB
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes, hide_short_help = true)]
    pub mem_limit: Option<u64>,

    #[doc = "The kernel."]
    #[arg(long, help = "Kernel: auto or a name (see --help)", long_help = KERNEL_LONG_HELP, value_name = "NAME", default_value = "auto", hide_possible_values = true, value_parser = names::kernel())]
    pub kernel: String,

    /// Storage format of A: auto, csr, ell (padded) or sell
    #[arg(long, value_name = "FORMAT", default_value = "auto", hide_possible_values = true, hide_short_help = true,
          value_parser = PossibleValuesParser::new(["auto", "csr", "ell", "sell"]).map(format_named))]
    pub format: FormatChoice,

    /// Use only kernels that add in one fixed order
    ///
    /// Y then has the same bytes for any devices, chunks, threads and repeats.
    #[arg(long, hide_short_help = true)]
    pub reproducible: bool,

    /// Cost model of this machine: auto (written by `rowloom calibrate`), none, or FILE
    #[arg(long, value_name = "FILE", default_value = "auto", value_hint = ValueHint::FilePath, hide_short_help = true)]
    pub model: String,

    /// Neither use nor store what runs measured
    ///
    /// This concerns the corrections of the cost model and, with --devices auto, the times of products with the same matrix.
    #[arg(long, hide_short_help = true)]
    pub no_refine: bool,

    /// Time the most promising kernels on this matrix before planning
    ///
    /// The times are kept for the next run with the same matrix, K, value type and device. All CUDA cards of --devices auto
    /// are opened for it.
    #[arg(long, hide_short_help = true)]
    pub tune: bool,
}

impl PlanningArguments {
    /// These devices, with the default of every other flag.
    pub fn of(devices: Devices) -> Self {
        let auto = || String::from("auto");
        Self {
            devices,
            mode: auto(),
            chunks: None,
            chunk_bytes: None,
            cpu_share: None,
            transfer: auto(),
            mem_limit: None,
            kernel: auto(),
            format: FormatChoice::Auto,
            reproducible: false,
            model: auto(),
            no_refine: false,
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
