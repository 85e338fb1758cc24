//! What may be typed behind the commands that look at matrices, traces and the machine.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, ValueHint};

use super::{CommonArguments, MATRIX_HELP, MatrixArguments};
use crate::cli::help;

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
  rowloom convert cant.mtx cant.npz     for scipy.sparse.load_npz
  zcat cant.mtx.gz | rowloom convert - cant.rlm
  rowloom convert cant.mtx --check      compare the conversions, write nothing")]
pub struct ConvertArguments {
    #[doc = "What to read."]
    #[arg(value_name = "IN", help = MATRIX_HELP, value_hint = ValueHint::FilePath)]
    pub input: OsString,

    /// File to write: .mtx, .mtx.gz, .npz (SciPy) or .rlm (Rowloom's cache); - writes Matrix Market to standard output
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
#[command(after_help = help::kinds())]
pub struct GenerateArguments {
    /// KIND,key=value,... such as stencil27,n=64
    #[arg(value_name = "KIND")]
    pub spec: String,

    /// File to write: .mtx, .mtx.gz, .npz (SciPy) or .rlm (Rowloom's cache); - writes Matrix Market to standard output
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
