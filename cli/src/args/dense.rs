//! The arguments of `gemm` and `colmean`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueHint};

use super::common::{CommonArguments, MatrixArguments};
use super::execution::{ExecutionArguments, RepeatArguments};
use super::help;
use super::names;
use super::options::{Selection, Statistic, Window};
use super::parse::{parse_factor, parse_list, parse_window};

const DENSE_HELP: &str = "A dense matrix: a file (.npy, .mtx, text), - or gen:dense,rows=N,cols=N";
const DENSE_LONG_HELP: &str = "\
A dense matrix: a NumPy .npy file, a Matrix Market array (.mtx, .mtx.gz), text with a row per line and numbers \
separated by blanks, tabs, commas or semicolons, - for standard input, or gen:KIND,key=value,... to generate one (the kinds are below)";

/// The flags of all commands on dense matrices.
#[derive(Debug, Args)]
pub struct DenseArguments {
    /// Flags of repeated computations.
    #[command(flatten)]
    pub repeated: RepeatArguments,

    /// Run the plan in FILE, written by --save
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, hide_short_help = true,
          conflicts_with_all = ["devices", "mode", "chunks", "chunk_bytes", "cpu_share", "transfer", "mem_limit", "kernel", "reproducible", "model", "no_refine"])]
    pub plan: Option<PathBuf>,

    /// Write the plan to FILE, for --plan
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, hide_short_help = true)]
    pub save: Option<PathBuf>,

    /// Where it is computed.
    #[command(flatten)]
    pub execution: ExecutionArguments,

    /// Refuse matrices with NaN or infinite values
    #[arg(long, help_heading = "Matrix", hide_short_help = true)]
    pub finite: bool,

    /// Matrix flags.
    #[command(flatten)]
    pub matrix_arguments: MatrixArguments,

    /// Common flags.
    #[command(flatten)]
    pub common: CommonArguments,
}

/// `rowloom gemm`.
#[derive(Debug, Args)]
#[command(after_help = help::GEMM_SHORT, after_long_help = help::gemm())]
pub struct GemmArguments {
    #[doc = "A, dense."]
    #[arg(value_name = "A", help = DENSE_HELP, long_help = DENSE_LONG_HELP, value_hint = ValueHint::FilePath)]
    pub a: OsString,

    /// B, as A; it has as many rows as A has columns
    #[arg(value_name = "B", value_hint = ValueHint::FilePath)]
    pub b: OsString,

    /// The old C, as A
    #[arg(long, value_name = "C", value_hint = ValueHint::FilePath)]
    pub c: Option<OsString>,

    /// Factor of A B
    #[arg(long, value_name = "NUMBER", default_value = "1", value_parser = parse_factor, allow_hyphen_values = true)]
    pub alpha: f64,

    /// Factor of the old C [default: 1 with --c, 0 without]
    ///
    /// The old C is not read if it is 0. Every repetition begins with the same old C.
    #[arg(long, value_name = "NUMBER", value_parser = parse_factor, allow_hyphen_values = true)]
    pub beta: Option<f64>,

    /// Write C to FILE (.mtx, .npy) or - (standard output)
    ///
    /// On standard output C has the format of A.
    #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,

    /// Flags of all commands on dense matrices.
    #[command(flatten)]
    pub dense: DenseArguments,

    /// Kernel: auto or a name (see --help)
    #[arg(long, value_name = "NAME", default_value = "auto", hide_possible_values = true, help_heading = "Execution",
          value_parser = names::gemm_kernel())]
    pub kernel: String,
}

/// `rowloom colmean`.
#[derive(Debug, Args)]
#[command(after_help = help::COLMEAN_SHORT, after_long_help = help::colmean())]
pub struct ColmeanArguments {
    #[doc = "The table, dense."]
    #[arg(value_name = "TABLE", help = DENSE_HELP, long_help = DENSE_LONG_HELP, value_hint = ValueHint::FilePath)]
    pub table: OsString,

    /// Samples of a channel [default: all columns]
    ///
    /// A row has one channel after the other: column c is sample c modulo N of channel c / N, both counted from 0.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub samples: Option<u64>,

    /// Channels to report, such as 0,3,8-11
    ///
    /// Without it all channels are reported. Channels are counted from 0.
    #[arg(long, value_name = "LIST", value_parser = parse_list)]
    pub channel: Option<Selection>,

    /// Samples of each channel to report
    ///
    /// END is not included: 20:60 is samples 20 to 59. Either number may be left out: 20: is all samples from 20 on.
    #[arg(long, value_name = "BEGIN:END", value_parser = parse_window)]
    pub window: Option<Window>,

    /// Statistics of each column: mean, sum, variance
    ///
    /// variance: the squared deviations from the mean, divided by the number of rows less one.
    #[arg(long, value_name = "NAME,...", value_delimiter = ',', default_value = "mean", hide_possible_values = true,
          value_parser = PossibleValuesParser::new(Statistic::ALL.map(Statistic::name)).try_map(|name| name.parse::<Statistic>()))]
    pub statistics: Vec<Statistic>,

    /// Write the statistics to FILE (.csv, .npy, .mtx)
    ///
    /// A .csv file has a line for each column of the table; .npy and .mtx have a row for each column and a column for each
    /// statistic.
    #[arg(long, short, alias = "csv", value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,

    /// Draw the means over the samples to FILE.svg
    ///
    /// Up to 8 channels are drawn as one curve each. Of more channels the mean, the smallest and the largest are drawn.
    #[arg(long, alias = "svg", value_name = "FILE.svg", value_hint = ValueHint::FilePath)]
    pub plot: Option<PathBuf>,

    /// Flags of all commands on dense matrices.
    #[command(flatten)]
    pub dense: DenseArguments,

    /// Kernel: auto or a name (see --help)
    #[arg(long, value_name = "NAME", default_value = "auto", hide_possible_values = true, help_heading = "Execution",
          value_parser = names::colmean_kernel())]
    pub kernel: String,
}
