//! `rowloom man`: manual pages, generated from the same texts as `--help`.

use std::path::PathBuf;

use clap::{Arg, Command, CommandFactory};
use clap_mangen::Man;

use crate::args::{Arguments, ManArguments};
use crate::console::overwrite::Output;
use crate::console::report::Report;
use crate::console::{Console, write_file};
use rowloom::internal::error::{Error, Result};

/// Prints the main page, or writes one page for each command into a folder.
pub fn run(arguments: &ManArguments, console: &Console) -> Result<()> {
    let report = Report::new("man");
    let Some(folder) = &arguments.folder else {
        let page = page(&manual(&Arguments::command()))?;
        console.text(&page)?;
        return console.json(&report.with("page", page));
    };
    std::fs::create_dir_all(folder).map_err(|source| Error::write(folder, source))?;
    let mut files = Vec::new();
    for man in pages() {
        let path = folder.join(man.get_filename());
        write_file(&path, page(&man)?.as_bytes())?;
        files.push(path.display().to_string());
    }
    console.note(&format!("wrote {} manual pages into {}", files.len(), folder.display()));
    console.json(&report.with("files", files))
}

/// The files that `rowloom man FOLDER` replaces.
pub fn outputs(arguments: &ManArguments) -> Vec<(PathBuf, Output)> {
    let folders = arguments.folder.iter();
    let files =
        |folder: &PathBuf| pages().into_iter().map(|man| folder.join(man.get_filename())).collect::<Vec<_>>();
    folders.flat_map(files).map(|path| (path, Output::ManPage)).collect()
}

fn page(man: &Man) -> Result<String> {
    let mut page = Vec::new();
    man.render(&mut page)
        .map_err(|error| Error::Internal(format!("the manual page cannot be made: {error}")))?;
    Ok(with_layout(&String::from_utf8_lossy(&page)))
}

/// The page without hyphens and stretched blanks, which change commands, and with the text behind the flags line by line as in `--help`:
/// its examples and tables would be joined to paragraphs. Their lines of 78 characters fit 80 columns behind [`NOTES_INDENT`].
fn with_layout(page: &str) -> String {
    let mut lines = Vec::new();
    let mut is_in_notes = false;
    for line in page.lines() {
        if is_in_notes && line.starts_with(".SH") {
            lines.push(".fi");
            is_in_notes = false;
        }
        match line {
            ".SH EXTRA" => {
                lines.extend([".SH NOTES", ".nf", NOTES_INDENT]);
                is_in_notes = true;
            }
            _ => lines.push(line),
        }
        if line.starts_with(".TH") {
            lines.extend([".nh", ".ad l"]);
        }
    }
    lines.join("\n") + "\n"
}

const NOTES_INDENT: &str = ".in 2n";

/// The page of a command, with its version in the footer.
fn manual(command: &Command) -> Man {
    // A flag that short help leaves out has a text in the page only if it is its long help.
    let with_text = |argument: Arg| match (argument.get_long_help(), argument.get_help().cloned()) {
        (None, Some(help)) => argument.long_help(help),
        _ => argument,
    };
    Man::new(command.clone().mut_args(with_text)).source(concat!("rowloom ", env!("CARGO_PKG_VERSION")))
}

/// A page for the program and one for each command.
fn pages() -> Vec<Man> {
    let mut root = Arguments::command().disable_help_subcommand(true);
    root.build();
    std::iter::once(&root).chain(root.get_subcommands()).map(manual).collect()
}
