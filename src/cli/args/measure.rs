//! What may be typed behind `bench`, `calibrate` and `study`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueHint};

use super::parse::{parse_k, parse_positive_seconds, parse_seconds, parse_threads};
use super::{CommonArguments, MATRIX_HELP};
use crate::cli::kernel_bench::PEERS;
use crate::cli::options::Devices;
use crate::matrix::Dtype;
use crate::study::TIME_CAP_S;

/// `rowloom bench`.
#[derive(Debug, Args)]
#[command(after_help = "\
A is on the device before anything is timed, in each form that a kernel reads. Times are of the kernel alone.
Every result is compared with the CPU's product, and that with the reference; with --oracle those of
what was chosen and of the fastest.

Examples:
  rowloom bench cant.mtx -k 1,8,32 --devices cuda:0 --against cusparse
  rowloom bench a.mtx b.mtx gen:stencil27,n=128 --dtype f64,f32 --devices cuda:0 --json=bench.json
  rowloom bench gen:stencil5,n=30 --kernels csr_scalar_v3,csr_vector --devices emu:0")]
pub struct BenchArguments {
    #[doc = "Matrices."]
    #[arg(value_name = "MATRIX", required = true, help = MATRIX_HELP, value_hint = ValueHint::FilePath)]
    pub matrices: Vec<OsString>,

    /// Columns of X and Y, one number or several
    #[arg(short, value_name = "K,...", value_delimiter = ',', default_value = "1,8,32", value_parser = parse_k)]
    pub k: Vec<usize>,

    /// all, or kernels by name, or forms of them
    #[arg(long, value_name = "NAME,...", value_delimiter = ',', default_value = "all")]
    pub kernels: Vec<String>,

    /// What was measured of this machine: auto (what `rowloom calibrate` wrote, if anything), none, or a FILE
    #[arg(long, value_name = "FILE", default_value = "auto", value_hint = ValueHint::FilePath)]
    pub model: String,

    /// Compare what the planner would choose with the fastest of all kernels it may choose
    #[arg(long, conflicts_with_all = ["kernels", "against", "keep", "csv", "markdown", "repeat", "time_cap", "warmup"])]
    pub oracle: bool,

    /// Where to compute, each device alone: auto, cpu, cuda:0, emu:0 (emulated GPU), or a list of them
    #[arg(long, value_name = "LIST", default_value = "auto")]
    pub devices: Devices,

    /// Libraries to measure beside the kernels, where they are installed: cusparse, mkl, scipy
    #[arg(long, value_name = "PEER,...", value_delimiter = ',', hide_possible_values = true,
          value_parser = PossibleValuesParser::new(PEERS))]
    pub against: Vec<String>,

    /// Keep each finished case in FILE, a line each; cases that are there already are not measured again
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub keep: Option<PathBuf>,

    /// Write a table of all results to FILE, as comma-separated values
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub csv: Option<PathBuf>,

    /// Write a table of the results to FILE, as Markdown
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub markdown: Option<PathBuf>,

    /// Value types, f64, f32 or both
    #[arg(long, value_name = "TYPE,...", value_delimiter = ',', default_value = "f64", hide_possible_values = true,
          value_parser = PossibleValuesParser::new(["f64", "f32"]).try_map(|text| text.parse::<Dtype>()))]
    pub dtype: Vec<Dtype>,

    /// Measured runs of a kernel [default: at least 10 and 0.5 s, until they spread by less than 0.5 %]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub repeat: Option<u32>,

    /// Seconds after which a kernel has been measured enough, if it ran three times
    #[arg(long, value_name = "SECONDS", default_value_t = TIME_CAP_S, value_parser = parse_seconds)]
    pub time_cap: f64,

    /// Runs before the measured ones
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub warmup: u32,

    /// Seed of everything random: generated matrices and X
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,

    /// Threads to use [default: one for each core this process may use]
    #[arg(long, value_name = "N", value_parser = parse_threads)]
    pub threads: Option<usize>,

    /// Common flags.
    #[command(flatten)]
    pub common: CommonArguments,
}

/// `rowloom calibrate`.
#[derive(Debug, Args)]
#[command(after_help = "\
Kernels are timed on generated matrices for less than a minute; nothing else should run meanwhile.

Examples:
  rowloom calibrate
  rowloom calibrate --devices cpu --output cpu.toml
  rowloom run cant.mtx --model cpu.toml")]
pub struct CalibrateArguments {
    /// What to measure: auto (the CPU and every CUDA card), or a list such as cpu,cuda:0
    #[arg(long, value_name = "LIST", default_value = "auto")]
    pub devices: Devices,

    /// Measure nothing: fit to cases that `rowloom bench --json=FILE` wrote, with --oracle or without
    #[arg(long, value_name = "FILE,...", value_delimiter = ',', value_hint = ValueHint::FilePath, conflicts_with = "seconds")]
    pub from: Vec<PathBuf>,

    /// Seconds to measure for, about
    #[arg(long, value_name = "SECONDS", default_value_t = 45.0, value_parser = parse_positive_seconds)]
    pub seconds: f64,

    /// File to write [default: model.toml in the user's configuration folder, where run and plan find it]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,

    /// Threads to use [default: one for each core this process may use]
    #[arg(long, value_name = "N", value_parser = parse_threads)]
    pub threads: Option<usize>,

    /// Seed of everything random: generated matrices and X
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,

    /// Common flags.
    #[command(flatten)]
    pub common: CommonArguments,
}

/// `rowloom study`.
#[derive(Debug, Args)]
#[command(after_help = "\
The folder gets report.html, which opens in any browser, a plot for each question as .svg, results.csv, results.json, and
cases.jsonl, where each case is kept as it is finished: the same command after Ctrl-C or a crash goes on where it was.

Examples:
  rowloom study configs/quick.toml
  rowloom study configs/scaling-threads.toml --output scaling")]
pub struct StudyArguments {
    /// What to measure; there are ready ones in configs/
    #[arg(value_name = "CONFIG.toml", value_hint = ValueHint::FilePath)]
    pub config: PathBuf,

    /// Folder for the results [default: rowloom- and the name of CONFIG]
    #[arg(long, value_name = "FOLDER", value_hint = ValueHint::DirPath)]
    pub output: Option<PathBuf>,

    /// Common flags.
    #[command(flatten)]
    pub common: CommonArguments,
}
