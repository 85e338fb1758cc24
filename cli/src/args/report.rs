//! The arguments of `report`.

use std::path::PathBuf;

use clap::{Args, ValueHint};

use super::common::CommonArguments;
use super::help;

/// `rowloom report`.
#[derive(Debug, Args)]
#[command(after_help = help::REPORT)]
pub struct ReportArguments {
    /// Files of `rowloom bench --json=FILE`, and results.json of studies
    #[arg(value_name = "FILE", required = true, value_hint = ValueHint::FilePath)]
    pub files: Vec<PathBuf>,

    /// The page to write
    #[arg(long, short, value_name = "FILE.html", value_hint = ValueHint::FilePath)]
    pub output: PathBuf,

    /// The title of the page
    #[arg(long, value_name = "TEXT")]
    pub title: Option<String>,

    /// Common flags.
    #[command(flatten)]
    pub common: CommonArguments,
}
