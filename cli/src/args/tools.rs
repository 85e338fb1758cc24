//! The arguments of the commands about matrices, traces and the machine.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, ValueHint};

use super::common::{CommonArguments, MATRIX_HELP, MATRIX_LONG_HELP, MatrixArguments};
use super::help;
use super::names;

/// `rowloom inspect`.
#[derive(Debug, Args)]
pub struct InspectArguments {
    #[doc = "The matrix."]
    #[arg(value_name = "MATRIX", help = MATRIX_HELP, long_help = MATRIX_LONG_HELP, value_hint = ValueHint::FilePath)]
    pub matrix: OsString,

    /// Draw the positions of the nonzeros to FILE.svg
    #[arg(long, value_name = "FILE.svg", value_hint = ValueHint::FilePath)]
    pub spy: Option<PathBuf>,

    /// Refuse a file with NaN or infinite values
    #[arg(long, help_heading = "Matrix", hide_short_help = true)]
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
#[command(after_help = help::CONVERT)]
pub struct ConvertArguments {
    #[doc = "The matrix to read."]
    #[arg(value_name = "IN", help = MATRIX_HELP, long_help = MATRIX_LONG_HELP, value_hint = ValueHint::FilePath)]
    pub input: OsString,

    /// File to write (.mtx, .mtx.gz, .npz, .rlm), or - (standard output)
    ///
    /// .npz is SciPy's format, .rlm Rowloom's cache. - writes Matrix Market to standard output.
    #[arg(value_name = "OUT", required_unless_present = "check", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,

    /// Compare the parallel conversions with serial ones
    ///
    /// The conversions are COO to CSR and COO to ELL. The exit code is 5 if a result differs.
    #[arg(long)]
    pub check: bool,

    /// Refuse a file with NaN or infinite values
    #[arg(long, help_heading = "Matrix", hide_short_help = true)]
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
#[command(after_help = help::generate_short(), after_long_help = help::generate())]
pub struct GenerateArguments {
    /// KIND,key=value,... such as stencil27,n=64
    #[arg(value_name = "KIND", hide_possible_values = true, value_parser = names::generator())]
    pub spec: String,

    /// File to write (.mtx, .mtx.gz, .npz, .rlm), or - (standard output)
    ///
    /// .npz is SciPy's format, .rlm Rowloom's cache. - writes Matrix Market to standard output.
    #[arg(value_name = "OUT", value_hint = ValueHint::FilePath)]
    pub output: PathBuf,

    /// Matrix flags.
    #[command(flatten)]
    pub matrix_arguments: MatrixArguments,

    /// Common flags.
    #[command(flatten)]
    pub common: CommonArguments,
}

/// `rowloom fetch`.
#[derive(Debug, Args)]
#[command(after_help = help::FETCH)]
pub struct FetchArguments {
    /// GROUP/NAME of a matrix, or NAME if one group has it
    #[arg(value_name = "MATRIX", required = true)]
    pub names: Vec<String>,

    /// Where from and where to.
    #[command(flatten)]
    pub collection: CollectionArguments,

    /// Common flags.
    #[command(flatten)]
    pub common: CommonArguments,
}

/// The flags of the collection: its server and its folder.
#[derive(Debug, Default, Args)]
pub struct CollectionArguments {
    /// Folder of the archives
    ///
    /// Without it: ROWLOOM_MATRICES, or rowloom/matrices in the user's cache folder.
    #[arg(long, value_name = "FOLDER", value_hint = ValueHint::DirPath)]
    pub folder: Option<PathBuf>,

    /// Address of the server
    ///
    /// Without it: ROWLOOM_SUITESPARSE_URL, or the server of the collection. A proxy is taken from HTTPS_PROXY or ALL_PROXY.
    #[arg(long, value_name = "URL")]
    pub base_url: Option<String>,

    /// Refuse archives of more than MIB mebibytes [default: 8192]
    #[arg(long, value_name = "MIB")]
    pub max_mib: Option<u64>,

    /// Download the archive even if it is already there
    #[arg(long)]
    pub again: bool,
}

/// `rowloom trace`.
#[derive(Debug, Args)]
#[command(after_help = help::TRACE)]
pub struct TraceArguments {
    /// A trace written by `rowloom run --trace FILE`
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
    /// Folder for the files of the tour
    #[arg(value_name = "FOLDER", default_value = "rowloom-demo", value_hint = ValueHint::DirPath)]
    pub folder: PathBuf,

    /// Common flags.
    #[command(flatten)]
    pub common: CommonArguments,
}

/// `rowloom completions`.
#[derive(Debug, Args)]
#[command(after_help = help::COMPLETIONS)]
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
#[command(after_help = help::MAN)]
pub struct ManArguments {
    /// Folder for one page of each command [default: print the main page]
    #[arg(value_name = "FOLDER", value_hint = ValueHint::DirPath)]
    pub folder: Option<PathBuf>,

    /// Common flags.
    #[command(flatten)]
    pub common: CommonArguments,
}
