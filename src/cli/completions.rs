//! `rowloom completions`: a script that completes commands and flags in a shell.

use clap::CommandFactory;

use super::args::{Arguments, CompletionsArguments};
use super::console::Console;
use super::report::Report;
use crate::error::Result;

/// Prints the script.
pub fn run(arguments: &CompletionsArguments, console: &Console) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut Arguments::command(), "rowloom", &mut script);
    let script = String::from_utf8_lossy(&script);
    console.text(&script)?;
    console
        .json(&Report::new("completions").with("shell", arguments.shell.to_string()).with("script", script))
}
