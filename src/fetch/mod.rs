//! Matrices of the SuiteSparse Matrix Collection: downloaded once, kept in a folder, compared with their checksum at every use.
//!
//! An archive is kept as it was sent and is never unpacked to disk. A download that was interrupted is continued by the next one.

mod download;
mod index;
mod lock;
mod name;
mod stored;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::time::Duration;

pub use name::MatrixName;

use crate::error::{Error, Result};
use crate::suggest::did_you_mean;
use download::Downloaded;
use lock::DownloadLock;

/// The server of the collection.
const BASE_URL: &str = "https://sparse.tamu.edu";
/// The index is downloaded again when it is older.
const INDEX_AGE: Duration = Duration::from_secs(7 * 24 * 3600);
/// Most bytes of the index.
const MAX_INDEX_BYTES: u64 = 16 << 20;
/// Most bytes of an archive where the user names no limit.
pub const MAX_ARCHIVE_BYTES: u64 = 8 << 30;

/// What a download tells its caller.
pub struct Watcher<'a> {
    /// Called with the bytes so far and the bytes of the whole file, where they are known.
    pub progress: &'a dyn Fn(u64, Option<u64>),
    /// Whether to stop; asked between reads.
    pub stopped: &'a dyn Fn() -> bool,
}

/// A matrix of the collection on disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fetched {
    /// Its name.
    pub name: MatrixName,
    /// The archive.
    pub path: PathBuf,
    /// Size of the archive.
    pub bytes: u64,
    /// Whether it was downloaded now; otherwise it was there.
    pub is_new: bool,
}

/// The collection: its server and the folder of its downloaded archives.
#[derive(Debug, Clone)]
pub struct Collection {
    base_url: String,
    folder: PathBuf,
    max_bytes: u64,
}

impl Collection {
    /// The collection of the user's settings: `ROWLOOM_SUITESPARSE_URL` names another server, `ROWLOOM_MATRICES` the folder.
    pub fn of_user() -> Result<Self> {
        let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        let absolute = |name: &str| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let caches = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")));
        let own = caches.map(|caches| caches.join("rowloom").join("matrices"));
        let folder = variable("ROWLOOM_MATRICES").map(PathBuf::from).or(own).ok_or_else(|| {
            Error::usage("neither ROWLOOM_MATRICES, XDG_CACHE_HOME nor HOME is set; name the folder")
        })?;
        let base_url = match variable("ROWLOOM_SUITESPARSE_URL") {
            None => BASE_URL.into(),
            Some(url) => url.to_string_lossy().into_owned(),
        };
        Self { base_url: String::new(), folder, max_bytes: MAX_ARCHIVE_BYTES }.at(&base_url)
    }

    /// The same collection from another server.
    pub fn at(mut self, base_url: &str) -> Result<Self> {
        let is_url = ["https://", "http://"].iter().any(|scheme| base_url.starts_with(scheme));
        if !is_url || base_url.chars().any(|c| c.is_whitespace() || c.is_control()) {
            return Err(Error::usage(format!(
                "'{}' is no address of a server; it begins with https:// or http://",
                base_url.escape_debug()
            )));
        }
        self.base_url = base_url.trim_end_matches('/').into();
        Ok(self)
    }

    /// The same collection in another folder.
    #[must_use]
    pub fn in_folder(mut self, folder: &Path) -> Self {
        self.folder = folder.into();
        self
    }

    /// The same collection; archives of more than `max_bytes` are refused.
    #[must_use]
    pub fn up_to(mut self, max_bytes: u64) -> Self {
        self.max_bytes = max_bytes;
        self
    }

    /// The archive of a matrix: from the folder if it is there and its checksum is right, from the server if it is not there or `again`.
    /// A name without a group is looked up in the index.
    pub fn fetch(&self, name: &str, again: bool, watcher: &Watcher<'_>) -> Result<Fetched> {
        let name = match name.contains('/') {
            true => name.parse()?,
            false => self.find(name, watcher)?,
        };
        let path = self.folder.join(&name.group).join(format!("{}.tar.gz", name.name));
        let checked = || stored::check(&path);
        if !again && let Ok(bytes) = checked() {
            return Ok(Fetched { name, path, bytes, is_new: false });
        }
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).map_err(|error| Error::write(folder, error))?;
        }
        let _lock = DownloadLock::acquire(&path, watcher)?;
        if !again && path.exists() {
            // Another process has downloaded or replaced it meanwhile, or it is damaged.
            let bytes = checked()?;
            return Ok(Fetched { name, path, bytes, is_new: false });
        }
        let url = format!("{}/MM/{}/{}.tar.gz", self.base_url, name.group, name.name);
        match download::download(&url, &path, self.max_bytes, watcher)? {
            Downloaded::Missing => Err(self.missing(&name, &url, watcher)),
            Downloaded::File { bytes } => Ok(Fetched { name, path, bytes, is_new: true }),
        }
    }

    /// The matrix of this name in any group.
    fn find(&self, name: &str, watcher: &Watcher<'_>) -> Result<MatrixName> {
        name::check_part(name)?;
        let names = self.index(watcher)?;
        let mut found = names.iter().filter(|known| known.name == name);
        match (found.next(), found.next()) {
            (Some(one), None) => Ok(one.clone()),
            (Some(one), Some(other)) => Err(Error::usage(format!(
                "several groups have a matrix '{name}': {one}, {other}; name the group too"
            ))),
            (None, _) => {
                let near = did_you_mean(name, names.iter().map(|known| known.name.as_str()));
                Err(Error::usage(format!("the collection has no matrix '{name}'{near}")))
            }
        }
    }

    /// The error for a matrix that the server does not have, with the nearest name if the index is at hand.
    fn missing(&self, name: &MatrixName, url: &str, watcher: &Watcher<'_>) -> Error {
        let names: Vec<String> =
            self.index(watcher).unwrap_or_default().iter().map(|known| known.to_string()).collect();
        let near = did_you_mean(&name.to_string(), names.iter().map(String::as_str));
        let reason = format!("the server has no matrix {name}{near}");
        Error::input(crate::error::Place { source: url.into(), line: None, column: None }, reason)
    }

    /// The names of all matrices.
    fn index(&self, watcher: &Watcher<'_>) -> Result<Vec<MatrixName>> {
        let path = self.folder.join("ssstats.csv");
        let is_recent = || {
            let age = std::fs::metadata(&path).and_then(|file| file.modified()).map(|time| time.elapsed());
            matches!(age, Ok(Ok(age)) if age < INDEX_AGE)
        };
        if !is_recent() {
            std::fs::create_dir_all(&self.folder).map_err(|error| Error::write(&self.folder, error))?;
            let _lock = DownloadLock::acquire(&path, watcher)?;
            if is_recent() {
                return index::read(&path);
            }
            let url = format!("{}/files/ssstats.csv", self.base_url);
            if let Downloaded::Missing = download::download_text(&url, &path, MAX_INDEX_BYTES, watcher)? {
                let place = crate::error::Place { source: url, line: None, column: None };
                return Err(Error::input(place, "the server has no index; name the group: GROUP/NAME"));
            }
        }
        index::read(&path)
    }
}
