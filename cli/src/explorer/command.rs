//! `rowloom report`: the performance explorer, one page made of results of `bench` and `study`.

use std::collections::HashSet;

use super::collected::Collected;
use super::read;
use crate::args::ReportArguments;
use crate::console::report::Report;
use crate::console::table::{Table, count};
use crate::console::{Console, check_target, write_file};
use crate::plots::{ExplorerData, Timing, explorer_html};
use rowloom::internal::error::{Bytes, Error, Place, Result};

/// The title where `--title` gives none.
const TITLE: &str = "Performance explorer";

/// Reads the files and writes the page.
pub fn run(arguments: &ReportArguments, console: &Console) -> Result<()> {
    check_target(&arguments.output)?;
    let mut collected = Collected::default();
    let mut seen = HashSet::new();
    for path in &arguments.files {
        if !seen.insert(path.canonicalize().unwrap_or_else(|_| path.clone())) {
            console.note(&format!("{}: named twice, read once", path.display()));
            continue;
        }
        let _spinner = console.spinner(format!("reading {}", path.display()));
        if read::add(&mut collected, path)? == 0 {
            console.note(&format!("{}: the file holds no case of a product", path.display()));
        }
    }
    let title = arguments.title.clone().unwrap_or_else(|| TITLE.into());
    let data = collected.finish(title);
    if data.cases.is_empty() {
        let names: Vec<String> = arguments.files.iter().map(|path| path.display().to_string()).collect();
        let reason = "there is nothing to show: no file holds a measured product of a sparse matrix; measure with \
                      `rowloom bench MATRIX --json=FILE`";
        return Err(Error::input(Place::file(names.join(", ")), reason));
    }
    let page = explorer_html(&data);
    write_file(&arguments.output, page.as_bytes())?;

    let without_check = unverified(&data);
    let mut table = Table::facts();
    table.fact("files", data.files.len());
    table.fact("matrices", count(data.matrices.len() as u64));
    table.fact("cases", count(data.cases.len() as u64));
    if without_check > 0 {
        table
            .fact("not verified", format!("{} kernels and peers, which have no speed", count(without_check)));
    }
    for left_out in &data.left_out {
        table.fact("left out", left_out);
    }
    table.fact("open", format!("{}, {}", arguments.output.display(), Bytes(page.len() as u64)));
    console.table(&table)?;
    console.json(
        &Report::new("report")
            .with("output", arguments.output.display().to_string())
            .with("bytes", page.len())
            .with("files", data.files.iter().map(|file| &file.name).collect::<Vec<_>>())
            .with("matrices", data.matrices.len())
            .with("cases", data.cases.len())
            .with("unverified", without_check)
            .with("left_out", &data.left_out),
    )
}

/// Kernels and peers whose result was not checked or is wrong.
fn unverified(data: &ExplorerData) -> u64 {
    let timings = data.cases.iter().flat_map(|case| &case.measured).map(|timed| timed.timing);
    timings.filter(|timing| matches!(timing, Timing::Unverified | Timing::Wrong)).count() as u64
}
