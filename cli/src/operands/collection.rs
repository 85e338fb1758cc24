//! Matrices of the SuiteSparse collection, which are downloaded once.

use std::path::PathBuf;

use crate::args::CollectionArguments;
use crate::console::Console;
use crate::console::interrupt::Interrupt;
use rowloom::internal::error::Result;

/// An archive on disk.
pub struct Archive {
    pub name: String,
    pub path: PathBuf,
    pub bytes: u64,
    pub is_new: bool,
}

/// The archive that `suitesparse:NAME` names, with the settings of the user.
pub fn archive(name: &str, console: &Console, interrupt: &Interrupt) -> Result<PathBuf> {
    Ok(download(&CollectionArguments::default(), name, console, interrupt)?.path)
}

#[cfg(feature = "fetch")]
pub fn download(
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
pub fn download(_: &CollectionArguments, _: &str, _: &Console, _: &Interrupt) -> Result<Archive> {
    let reason = "this build cannot download matrices; the feature `fetch` of the crate adds it";
    Err(rowloom::internal::error::Error::usage(reason))
}
