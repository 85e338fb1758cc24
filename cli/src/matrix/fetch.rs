//! `rowloom fetch`: downloads matrices of the SuiteSparse collection.

use crate::args::FetchArguments;
use crate::console::Console;
use crate::console::interrupt::Interrupt;
use crate::console::report::Report;
use crate::console::table::Table;
use crate::operands::collection::download;
use rowloom::internal::error::{Bytes, Result};

/// Downloads and reports.
pub fn run(arguments: &FetchArguments, console: &Console) -> Result<()> {
    let interrupt = Interrupt::watch()?;
    let mut table = Table::columns(["matrix", "archive", "size", ""], &[2]);
    let mut fetched = Vec::new();
    for name in &arguments.names {
        let name = name.strip_prefix("suitesparse:").unwrap_or(name);
        let archive = download(&arguments.collection, name, console, interrupt)?;
        let state = if archive.is_new { "downloaded" } else { "was there" };
        let shown = archive.path.display().to_string();
        table.row([archive.name.clone(), shown.clone(), Bytes(archive.bytes).to_string(), state.into()]);
        fetched.push(serde_json::json!({
            "name": archive.name, "path": shown, "bytes": archive.bytes, "downloaded": archive.is_new,
        }));
    }
    console.table(&table)?;
    console.json(&Report::new("fetch").with("matrices", fetched))?;
    interrupt.check()
}
