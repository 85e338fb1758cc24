//! What may be typed: every command, flag and help text. Nothing here has an effect yet.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand, ValueEnum, ValueHint};

use super::kernel_bench::PEERS;
use super::options::{Devices, FormatChoice, XSource, parse_bytes};
use crate::kernel::Schedule;
use crate::matrix::Dtype;
use crate::study::TIME_CAP_S;

const MATRIX_HELP: &str =
    "A file (.mtx, .mtx.gz, SuiteSparse .tar.gz, SciPy .npz, .rlm) or gen:KIND,key=value,...";

const ROOT_EXAMPLES: &str = "\
Examples:
  rowloom demo                                     a short tour; makes its own matrix
  rowloom run cant.mtx -k 32 --verify              multiply, check, show the speed
  rowloom run gen:stencil27,n=64 -k 32 --json      the same on a generated matrix, as JSON
  rowloom inspect cant.mtx --spy cant.svg          shape, row lengths, a picture
  rowloom convert cant.mtx cant.rlm                a cache that opens without parsing

Exit codes: 0 done, 1 output not written, 2 usage, 3 input, 4 device, 5 verification failed,
70 internal error, 130 interrupted.";

/// Multiplies a sparse matrix by a dense multivector, Y = A X, on all cores
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
    /// Write one JSON object to FILE, or to standard output, which then gets nothing else
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-", value_hint = ValueHint::FilePath)]
    pub json: Option<PathBuf>,

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

fn parse_threads(text: &str) -> Result<usize, String> {
    const MOST_THREADS: usize = 4096;
    match text.parse() {
        Ok(threads @ 1..=MOST_THREADS) => Ok(threads),
        _ => Err(format!("a number from 1 to {MOST_THREADS} is needed")),
    }
}

fn parse_positive_seconds(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(seconds) if seconds > 0.0 && seconds < 1e6 => Ok(seconds),
        _ => Err("a number of seconds above 0 is needed".into()),
    }
}

fn parse_k(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(k @ 1..) => Ok(k),
        _ => Err("numbers from 1 on are needed, such as 1,8,32".into()),
    }
}

fn parse_seconds(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(seconds) if seconds > 0.0 && seconds < 1e9 => Ok(seconds),
        _ => Err("a number of seconds above 0 is needed, such as 2 or 0.5".into()),
    }
}

fn parse_share(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(share) if (0.0..=1.0).contains(&share) => Ok(share),
        _ => Err("a number from 0 to 1 is needed, such as 0.25".into()),
    }
}

/// The words of `--transfer`.
pub const TRANSFERS: [&str; 3] = ["auto", "staged", "registered"];

const SCHEDULES: [Schedule; 2] = [Schedule::Balanced, Schedule::EqualRows];

fn schedule_named(name: String) -> Result<Schedule, String> {
    SCHEDULES.into_iter().find(|schedule| schedule.name() == name).ok_or(name)
}

fn format_named(name: String) -> FormatChoice {
    match name.as_str() {
        "csr" => FormatChoice::Csr,
        "ell" => FormatChoice::Ell,
        "sell" => FormatChoice::Sell,
        _ => FormatChoice::Auto,
    }
}

/// `rowloom run`.
#[derive(Debug, Args)]
#[command(after_help = super::help::kernels())]
pub struct RunArguments {
    #[doc = "A, sparse."]
    #[arg(value_name = "MATRIX", help = MATRIX_HELP, value_hint = ValueHint::FilePath)]
    pub matrix: OsString,

    /// Columns of X and Y [default: 32, or those of the file that --x names]
    #[arg(short, value_name = "K")]
    pub k: Option<usize>,

    /// X: random (from -1 to 1), ones, or a FILE (Matrix Market array or .npy)
    #[arg(long, value_name = "X", default_value = "random", value_hint = ValueHint::FilePath)]
    pub x: XSource,

    /// Write Y to FILE, .mtx or .npy
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
    /// Where to compute: auto, cpu, emu:0 (emulated GPU), sim:h200x4 (simulated machine), or a list such as cpu,emu:0
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
  rowloom plan cant.mtx --chunks 64 --save cant.plan --json cant.json")]
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

/// `rowloom bench`.
#[derive(Debug, Args)]
#[command(after_help = "\
A is on the device before anything is timed, in each form that a kernel reads. Times are of the kernel alone.
Every result is compared with the CPU's product, and that with the reference.

Examples:
  rowloom bench cant.mtx -k 1,8,32 --devices cuda:0 --against cusparse
  rowloom bench a.mtx b.mtx gen:stencil27,n=128 --dtype f64,f32 --devices cuda:0 --json bench.json
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
    #[arg(long, conflicts_with_all = ["kernels", "against"])]
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

    /// Measure nothing: fit to cases that `rowloom bench --oracle --json FILE` wrote
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

/// `rowloom inspect`.
#[derive(Debug, Args)]
pub struct InspectArguments {
    #[doc = "The matrix."]
    #[arg(value_name = "MATRIX", help = MATRIX_HELP, value_hint = ValueHint::FilePath)]
    pub matrix: OsString,

    /// Draw where the nonzeros are
    #[arg(long, value_name = "FILE.svg", value_hint = ValueHint::FilePath)]
    pub spy: Option<PathBuf>,

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

/// `rowloom convert`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  rowloom convert cant.mtx cant.rlm     a cache: mapped, checked, no parsing
  rowloom convert cant.npz cant.mtx.gz
  rowloom convert cant.mtx --check      compare the conversions, write nothing")]
pub struct ConvertArguments {
    #[doc = "What to read."]
    #[arg(value_name = "IN", help = MATRIX_HELP, value_hint = ValueHint::FilePath)]
    pub input: OsString,

    /// File to write: .mtx, .mtx.gz or .rlm (Rowloom's cache)
    #[arg(value_name = "OUT", required_unless_present = "check", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,

    /// Compare the parallel conversions COO to CSR and COO to ELL with serial ones; exit code 5 if they differ
    #[arg(long)]
    pub check: bool,

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

/// `rowloom generate`.
#[derive(Debug, Args)]
#[command(after_help = super::help::kinds())]
pub struct GenerateArguments {
    /// KIND,key=value,... such as stencil27,n=64
    #[arg(value_name = "KIND")]
    pub spec: String,

    /// File to write: .mtx, .mtx.gz or .rlm (Rowloom's cache)
    #[arg(value_name = "OUT", value_hint = ValueHint::FilePath)]
    pub output: PathBuf,

    /// Matrix flags.
    #[command(flatten)]
    pub matrix_arguments: MatrixArguments,

    /// Common flags.
    #[command(flatten)]
    pub common: CommonArguments,
}

/// `rowloom trace`.
#[derive(Debug, Args)]
#[command(after_help = "\
Of repeated runs the median one is described.
The same file opens as a timeline in https://ui.perfetto.dev, chrome://tracing and speedscope.")]
pub struct TraceArguments {
    /// A trace that `rowloom run --trace FILE` wrote
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub file: PathBuf,

    /// Common flags.
    #[command(flatten)]
    pub common: CommonArguments,
}

/// `rowloom devices`.
#[derive(Debug, Args)]
pub struct DevicesArguments {
    /// Common flags.
    #[command(flatten)]
    pub common: CommonArguments,
}

/// `rowloom demo`.
#[derive(Debug, Args)]
pub struct DemoArguments {
    /// Folder for the files it makes
    #[arg(value_name = "FOLDER", default_value = "rowloom-demo", value_hint = ValueHint::DirPath)]
    pub folder: PathBuf,

    /// Common flags.
    #[command(flatten)]
    pub common: CommonArguments,
}

/// `rowloom completions`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  rowloom completions bash > ~/.local/share/bash-completion/completions/rowloom
  rowloom completions fish > ~/.config/fish/completions/rowloom.fish")]
pub struct CompletionsArguments {
    /// The shell
    #[arg(value_name = "SHELL", value_enum)]
    pub shell: clap_complete::Shell,

    /// Common flags.
    #[command(flatten)]
    pub common: CommonArguments,
}

/// `rowloom man`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  rowloom man | man -l -
  rowloom man ~/.local/share/man/man1")]
pub struct ManArguments {
    /// Folder for one page a command; without it the main page goes to standard output
    #[arg(value_name = "FOLDER", value_hint = ValueHint::DirPath)]
    pub folder: Option<PathBuf>,

    /// Common flags.
    #[command(flatten)]
    pub common: CommonArguments,
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
        assert_eq!(parse(&["rowloom", "devices", "--json", "a.json"]), Some("a.json".into()));
        assert_eq!(parse(&["rowloom", "devices", "--json", "--quiet"]), Some("-".into()));
    }
}
