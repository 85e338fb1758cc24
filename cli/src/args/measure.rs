//! The arguments of `bench`, `calibrate` and `study`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueHint};

use super::common::{CommonArguments, MATRIX_LONG_HELP};
use super::help;
use super::names;
use super::names::PEERS;
use super::options::{Devices, parse_bytes};
use super::parse::{parse_k, parse_seconds, parse_seed, parse_threads};
use crate::statistics::TIME_CAP_S;
use rowloom::internal::matrix::Dtype;

/// `rowloom bench`.
#[derive(Debug, Args)]
#[command(after_help = help::BENCH, after_long_help = help::bench())]
pub struct BenchArguments {
    #[doc = "Matrices."]
    #[arg(value_name = "MATRIX", required = true, help = "Matrix files, gen:KIND,key=value,..., or the word transfers",
          long_help = MATRIX_LONG_HELP, value_hint = ValueHint::FilePath)]
    pub matrices: Vec<OsString>,

    /// Columns of X and Y
    #[arg(short, value_name = "K,...", value_delimiter = ',', default_value = "1,8,32", value_parser = parse_k)]
    pub k: Vec<usize>,

    /// Kernels: all, or names with commas (see `rowloom run --help`)
    #[arg(long, value_name = "NAME,...", value_delimiter = ',', default_value = "all", hide_possible_values = true,
          value_parser = names::kernels())]
    pub kernels: Vec<String>,

    /// Cost model for the planner's choice: auto (written by `rowloom calibrate`), none, or FILE
    #[arg(long, value_name = "FILE", default_value = "auto", value_hint = ValueHint::FilePath, hide_short_help = true)]
    pub model: String,

    /// Compare the planner's kernel with the fastest one
    ///
    /// All kernels that the planner may choose are measured.
    #[arg(long, conflicts_with_all = ["kernels", "against", "keep", "csv", "markdown", "repeat", "time_cap", "warmup",
          "best", "baseline"])]
    pub oracle: bool,

    /// Print one line for each case, with its fastest kernel
    #[arg(long)]
    pub best: bool,

    /// Compare each case with FILE, which `rowloom bench --json=FILE` wrote
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub baseline: Option<PathBuf>,

    /// Devices, measured one at a time: auto, cpu, cuda:0, emu:0, or a list with commas
    ///
    /// auto: the CPU and all CUDA GPUs. emu:0: an emulated GPU. Commas make a list, as in cpu,cuda:0.
    #[arg(long, value_name = "LIST", default_value = "auto", hide_possible_values = true, value_parser = names::devices())]
    pub devices: Devices,

    /// Libraries to compare with: cusparse, mkl, scipy
    ///
    /// mkl and scipy run in python3, or in the interpreter that the environment variable ROWLOOM_PYTHON names. A missing library
    /// is named before the measurement and left out; the exit code stays 0. scipy uses one thread, mkl as many as the kernels of the CPU.
    #[arg(long, value_name = "PEER,...", value_delimiter = ',', hide_possible_values = true,
          value_parser = PossibleValuesParser::new(PEERS))]
    pub against: Vec<String>,

    /// Append each finished case to FILE; cases already in FILE are not measured again
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, hide_short_help = true)]
    pub keep: Option<PathBuf>,

    /// Write all results to FILE as comma-separated values
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub csv: Option<PathBuf>,

    /// transfers: write the plot to FILE
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, hide_short_help = true)]
    pub svg: Option<PathBuf>,

    /// transfers: bytes of the largest copy, such as 1GiB [default: 4GiB, or what memory allows]
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes, hide_short_help = true)]
    pub largest: Option<u64>,

    /// Write all results to FILE as a Markdown table
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, hide_short_help = true)]
    pub markdown: Option<PathBuf>,

    /// Value types: f64, f32 or both
    #[arg(long, value_name = "TYPE,...", value_delimiter = ',', default_value = "f64", hide_possible_values = true,
          value_parser = PossibleValuesParser::new(["f64", "f32"]).try_map(|text| text.parse::<Dtype>()))]
    pub dtype: Vec<Dtype>,

    /// Measured runs of a kernel [default: until precise]
    ///
    /// Without it a kernel runs at least 10 times and 0.5 s, until the standard deviation is below 0.5 % of the mean or the
    /// time cap is reached.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub repeat: Option<u32>,

    /// Measured seconds after which no further run of a kernel begins, once it has run three times
    #[arg(long, value_name = "SECONDS", default_value_t = TIME_CAP_S, value_parser = parse_seconds, hide_short_help = true)]
    pub time_cap: f64,

    /// Warm-up runs of each kernel, which are not measured
    #[arg(long, value_name = "N", default_value_t = 3, hide_short_help = true)]
    pub warmup: u32,

    /// Seed of generated matrices and of X
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = parse_seed, hide_short_help = true)]
    pub seed: u64,

    /// Threads to use [default: all usable cores]
    #[arg(long, value_name = "N", value_parser = parse_threads)]
    pub threads: Option<usize>,

    /// Common flags.
    #[command(flatten)]
    pub common: CommonArguments,
}

/// `rowloom calibrate`.
#[derive(Debug, Args)]
#[command(after_help = help::CALIBRATE)]
pub struct CalibrateArguments {
    /// Devices to measure: auto (the CPU and all CUDA GPUs) or a list
    #[arg(long, value_name = "LIST", default_value = "auto", hide_possible_values = true, value_parser = names::devices())]
    pub devices: Devices,

    /// Measure nothing; fit to the cases in FILE, written by `rowloom bench --json=FILE`
    #[arg(long, value_name = "FILE,...", value_delimiter = ',', value_hint = ValueHint::FilePath, conflicts_with = "seconds")]
    pub from: Vec<PathBuf>,

    /// About how many seconds to measure
    #[arg(long, value_name = "SECONDS", default_value_t = 45.0, value_parser = parse_seconds)]
    pub seconds: f64,

    /// File to write [default: ~/.config/rowloom/model.toml]
    ///
    /// `run` and `plan` read the default file on their own, and any other file with --model FILE.
    #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,

    /// Threads to use [default: all usable cores]
    #[arg(long, value_name = "N", value_parser = parse_threads)]
    pub threads: Option<usize>,

    /// Seed of generated matrices and of X
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = parse_seed, hide_short_help = true)]
    pub seed: u64,

    /// Common flags.
    #[command(flatten)]
    pub common: CommonArguments,
}

/// `rowloom study`.
#[derive(Debug, Args)]
#[command(after_help = help::STUDY, after_long_help = help::study())]
pub struct StudyArguments {
    /// A TOML file, or the name of a built-in study, such as quick
    #[arg(value_name = "STUDY", value_hint = ValueHint::FilePath, required_unless_present = "list")]
    pub config: Option<PathBuf>,

    /// Folder for the results [default: rowloom-STUDY]
    #[arg(long, short, value_name = "FOLDER", value_hint = ValueHint::DirPath)]
    pub output: Option<PathBuf>,

    /// List the built-in studies; measure nothing
    #[arg(long, conflicts_with_all = ["config", "output", "save"])]
    pub list: bool,

    /// Write a built-in study to STUDY.toml, to be changed; measure nothing
    #[arg(long, conflicts_with = "output")]
    pub save: bool,

    /// Common flags.
    #[command(flatten)]
    pub common: CommonArguments,
}
