//! `rowloom man`: the manual, made from the same words as `--help`.

use std::path::Path;

use clap::CommandFactory;
use clap_mangen::Man;

use super::args::{Arguments, ManArguments};
use super::console::{Console, write_file};
use super::report::Report;
use crate::error::{Error, Result};

/// Prints the main page, or writes one page for each command into a folder.
pub fn run(arguments: &ManArguments, console: &Console) -> Result<()> {
    let report = Report::new("man");
    let Some(folder) = &arguments.folder else {
        let page = page(&Man::new(Arguments::command()))?;
        console.text(&page)?;
        return console.json(&report.with("page", page));
    };
    let files = write_pages(folder)?;
    for file in &files {
        console.text(&format!("{file}\n"))?;
    }
    console.json(&report.with("files", files))
}

fn page(man: &Man) -> Result<String> {
    let mut page = Vec::new();
    man.render(&mut page)
        .map_err(|error| Error::Internal(format!("the manual page cannot be made: {error}")))?;
    Ok(String::from_utf8_lossy(&page).into_owned())
}

fn write_pages(folder: &Path) -> Result<Vec<String>> {
    std::fs::create_dir_all(folder).map_err(|source| Error::write(folder, source))?;
    let mut root = Arguments::command().disable_help_subcommand(true);
    root.build();
    let mut files = Vec::new();
    for command in std::iter::once(&root).chain(root.get_subcommands()) {
        let man = Man::new(command.clone());
        let path = folder.join(man.get_filename());
        write_file(&path, page(&man)?.as_bytes())?;
        files.push(path.display().to_string());
    }
    Ok(files)
}
