//! One process at a time downloads a file: the others wait, and then find it complete.
//!
//! The lock is a file of its own beside the download. It is held from before the download until the file has its final name, and is
//! removed at the end.

use std::fs::{File, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::Watcher;
use crate::error::{Error, Result};

/// How often a process that waits looks again.
const POLL: Duration = Duration::from_millis(50);

/// The right to download a file.
pub struct DownloadLock {
    _file: File,
    path: PathBuf,
}

impl DownloadLock {
    /// Waits until no other process downloads `target`, whose folder must exist.
    pub fn acquire(target: &Path, watcher: &Watcher<'_>) -> Result<Self> {
        let mut name = target.as_os_str().to_owned();
        name.push(".lock");
        let path = PathBuf::from(name);
        loop {
            let opened = OpenOptions::new().create(true).truncate(false).write(true).open(&path);
            let file = opened.map_err(|error| Error::write(&path, error))?;
            match file.try_lock() {
                // The one that had it before has removed its file: then this lock is of a file without a name.
                Ok(()) if is_same_file(&file, &path) => return Ok(Self { _file: file, path }),
                Ok(()) => {}
                Err(TryLockError::WouldBlock) if (watcher.stopped)() => return Err(Error::Interrupted),
                Err(TryLockError::WouldBlock) => std::thread::sleep(POLL),
                Err(TryLockError::Error(error)) => return Err(Error::write(&path, error)),
            }
        }
    }
}

impl Drop for DownloadLock {
    fn drop(&mut self) {
        // Before the lock ends, so that no other process has it by then.
        let _ = std::fs::remove_file(&self.path);
    }
}

#[cfg(unix)]
fn is_same_file(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let place = |metadata: std::fs::Metadata| (metadata.dev(), metadata.ino());
    match (file.metadata(), std::fs::metadata(path)) {
        (Ok(open), Ok(named)) => place(open) == place(named),
        _ => false,
    }
}

/// An open file cannot be removed there.
#[cfg(not(unix))]
fn is_same_file(_file: &File, path: &Path) -> bool {
    path.exists()
}
