//! `rowloom fetch`: downloads matrices of the SuiteSparse collection.

use std::path::PathBuf;

use super::args::{CollectionArguments, FetchArguments};
use super::console::Console;
use super::interrupt::Interrupt;
use super::report::Report;
use super::table::Table;
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

/// An archive on disk.
struct Archive {
    name: String,
    path: PathBuf,
    bytes: u64,
    is_new: bool,
}

/// The archive that `suitesparse:NAME` names, with the settings of the user.
pub fn archive(name: &str, console: &Console, interrupt: &Interrupt) -> Result<PathBuf> {
    Ok(download(&CollectionArguments::default(), name, console, interrupt)?.path)
}

#[cfg(feature = "fetch")]
fn download(
    arguments: &CollectionArguments,
    name: &str,
    console: &Console,
    interrupt: &Interrupt,
) -> Result<Archive> {
    use rowloom::internal::fetch::{Collection, Fetched, Watcher};
    let mut collection = Collection::of_user()?;
    if let Some(url) = &arguments.base_url {
        collection = collection.at(url)?;
    }
    if let Some(folder) = &arguments.folder {
        collection = collection.in_folder(folder);
    }
    if let Some(mib) = arguments.max_mib {
        collection = collection.up_to(mib.saturating_mul(1 << 20));
    }
    let bar = console.download_bar(&format!("fetching {name}"));
    let progress = |done: u64, total: Option<u64>| bar.set(done, total);
    let watcher = Watcher { progress: &progress, stopped: &|| interrupt.asked() };
    let Fetched { name, path, bytes, is_new } = collection.fetch(name, arguments.again, &watcher)?;
    Ok(Archive { name: name.to_string(), path, bytes, is_new })
}

#[cfg(not(feature = "fetch"))]
fn download(_: &CollectionArguments, _: &str, _: &Console, _: &Interrupt) -> Result<Archive> {
    let reason = "this build cannot download matrices; the feature `fetch` of the crate adds it";
    Err(rowloom::internal::error::Error::usage(reason))
}
