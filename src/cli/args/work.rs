//! What may be typed behind `run` and `plan`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueHint};

use super::parse::{SCHEDULES, TRANSFERS, format_named, parse_share, schedule_named};
use super::{CommonArguments, MATRIX_HELP, MatrixArguments};
use crate::cli::help;
use crate::cli::options::{Devices, FormatChoice, XSource, parse_bytes};
use crate::kernel::Schedule;

/// `rowloom run`.
#[derive(Debug, Args)]
#[command(after_help = help::kernels())]
pub struct RunArguments {
    #[doc = "A, sparse."]
    #[arg(value_name = "MATRIX", help = MATRIX_HELP, value_hint = ValueHint::FilePath)]
    pub matrix: OsString,

    /// Columns of X and Y [default: 32, or those of the file that --x names]
    #[arg(short, value_name = "K")]
    pub k: Option<usize>,

    /// X: random (from -1 to 1), ones, a FILE (Matrix Market array or .npy), or - (standard input)
    #[arg(long, value_name = "X", default_value = "random", value_hint = ValueHint::FilePath)]
    pub x: XSource,

    /// Write Y to FILE, .mtx or .npy; - writes it to standard output in the format of X
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,

    /// Compare Y with a serial product in twice the precision; exit code 5 if it is off
    #[arg(long)]
    pub verify: bool,

    /// Measured products
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    pub repeat: u32,

    /// Products before the measured ones
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub warmup: u32,

    /// Do as the plan in FILE says, which `rowloom plan --save` wrote
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath,
          conflicts_with_all = ["devices", "mode", "chunks", "chunk_bytes", "cpu_share", "transfer", "mem_limit", "kernel", "format", "reproducible", "model", "tune"])]
    pub plan: Option<PathBuf>,

    /// Write a timeline to FILE, for Perfetto, chrome://tracing, speedscope and `rowloom trace`
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub trace: Option<PathBuf>,

    /// Planning flags.
    #[command(flatten)]
    pub planning: PlanningArguments,

    /// How the CPU's threads share rows: balanced (by nonzeros) or equal-rows (one block a thread, as OpenMP's static schedule)
    #[arg(long, value_name = "HOW", default_value = "balanced", hide_possible_values = true, help_heading = "Execution",
          value_parser = PossibleValuesParser::new(SCHEDULES.map(Schedule::name)).try_map(schedule_named))]
    pub schedule: Schedule,

    /// Refuse a file with NaN or infinite values
    #[arg(long, help_heading = "Matrix")]
    pub finite: bool,

    /// Matrix flags.
    #[command(flatten)]
    pub matrix_arguments: MatrixArguments,

    /// Common flags.
    #[command(flatten)]
    pub common: CommonArguments,
}

/// Flags that decide where and how a product is computed.
#[derive(Debug, Args)]
#[command(next_help_heading = "Execution")]
pub struct PlanningArguments {
    /// Where to compute: auto, cpu, cuda:0 (a GPU), cuda (all), emu:0 (an emulated one), sim:h200x4 (a simulated machine), or a
    /// list such as cpu,cuda:0
    #[arg(long, value_name = "LIST", default_value = "auto")]
    pub devices: Devices,

    /// How A gets to the devices: auto, resident (stays), oneshot (crosses once), stream (a ring of slots)
    #[arg(long, value_name = "MODE", default_value = "auto", hide_possible_values = true,
          value_parser = PossibleValuesParser::new(["auto", "resident", "oneshot", "stream"]))]
    pub mode: String,

    /// Number of chunks [default: as the devices need]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1 << 20), conflicts_with = "chunk_bytes")]
    pub chunks: Option<u32>,

    /// Bytes of A in a chunk, such as 16MiB [default: as the devices need]
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    pub chunk_bytes: Option<u64>,

    /// Share of the product that the CPU computes, from 0 to 1 [default: as it is predicted to be fastest]
    #[arg(long, value_name = "SHARE", value_parser = parse_share)]
    pub cpu_share: Option<f64>,

    /// How A, X and Y cross to devices: auto, staged (copied through pinned memory), registered (pinned where they lie)
    #[arg(long, value_name = "HOW", default_value = "auto", hide_possible_values = true,
          value_parser = PossibleValuesParser::new(TRANSFERS))]
    pub transfer: String,

    /// Most memory to use on each device, such as 8GiB
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    pub mem_limit: Option<u64>,

    /// auto, or a kernel by name
    #[arg(long, value_name = "NAME", default_value = "auto")]
    pub kernel: String,

    /// How A is stored: auto, csr, ell (padded), sell
    #[arg(long, value_name = "FORMAT", default_value = "auto", hide_possible_values = true,
          value_parser = PossibleValuesParser::new(["auto", "csr", "ell", "sell"]).map(format_named))]
    pub format: FormatChoice,

    /// Only kernels of canonical order: the same bytes of Y for any devices, chunks, threads and repeats
    #[arg(long)]
    pub reproducible: bool,

    /// What was measured of this machine: auto (what `rowloom calibrate` wrote, if anything), none, or a FILE
    #[arg(long, value_name = "FILE", default_value = "auto", value_hint = ValueHint::FilePath)]
    pub model: String,

    /// Neither use nor add to what runs have told since this machine was measured
    #[arg(long)]
    pub no_refine: bool,

    /// Time the likeliest kernels on this matrix first; done once for a matrix, K, type and device
    #[arg(long)]
    pub tune: bool,
}

impl PlanningArguments {
    /// These devices, and every other flag as if it were not typed.
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
#[command(after_help = "\
Examples:
  rowloom plan cant.mtx -k 32 --devices cpu,emu:0
  rowloom plan gen:rmat,scale=20,degree=16 --devices sim:h200x4 --repeat 1
  rowloom plan cant.mtx --chunks 64 --save cant.plan --json=cant.json")]
pub struct PlanArguments {
    #[doc = "A, sparse."]
    #[arg(value_name = "MATRIX", help = MATRIX_HELP, value_hint = ValueHint::FilePath)]
    pub matrix: OsString,

    /// Columns of X and Y
    #[arg(short, value_name = "K", default_value_t = 32)]
    pub k: usize,

    /// Write the plan to FILE
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub save: Option<PathBuf>,

    /// Products that will be computed
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    pub repeat: u32,

    /// Refuse a file with NaN or infinite values
    #[arg(long, help_heading = "Matrix")]
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
