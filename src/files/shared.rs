//! An output file that several processes write together: to one temporary file, renamed once.
//!
//! One process creates the temporary file and later renames it; the others open it by its name. Every process removes it if a signal
//! ends the process meanwhile, so a job that ends early leaves nothing behind and the old content stays.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::{begin, create_temporary, finish, linked, sync_folder, unfinished_writes};
use crate::error::{Error, Result};

/// A file that is being written by several processes.
#[derive(Debug)]
pub struct SharedFile {
    /// The file as the user named it.
    path: PathBuf,
    target: PathBuf,
    temporary: PathBuf,
    file: File,
    id: u64,
    is_creator: bool,
}

impl SharedFile {
    /// Creates the temporary file that is to become `path`.
    pub fn create(path: &Path) -> Result<Self> {
        let failed = |error| Error::write(path, error);
        let existing = std::fs::metadata(path).ok();
        if existing.as_ref().is_some_and(|target| !target.is_file()) {
            return Err(Error::usage(format!(
                "{}: this is not a regular file; several processes write to a regular file only",
                path.display()
            )));
        }
        let target = linked(path).map_err(failed)?;
        let mut unfinished = unfinished_writes();
        let (file, temporary) =
            create_temporary(&target).and_then(|file| Ok(file.keep()?)).map_err(failed)?;
        let id = begin(&mut unfinished, Some(temporary.clone()));
        drop(unfinished);
        let shared = Self { path: path.into(), target, temporary, file, id, is_creator: true };
        if let Some(before) = existing {
            shared.file.set_permissions(before.permissions()).map_err(failed)?;
        }
        // See `replace`.
        let _ = shared.file.try_lock();
        Ok(shared)
    }

    /// Opens the temporary file that another process created for `path`.
    pub fn join(path: &Path, temporary: &Path) -> Result<Self> {
        let file = File::options().write(true).open(temporary).map_err(|error| Error::write(path, error))?;
        let id = begin(&mut unfinished_writes(), Some(temporary.into()));
        let (path, target, temporary) = (path.into(), path.into(), temporary.into());
        Ok(Self { path, target, temporary, file, id, is_creator: false })
    }

    /// The name of the temporary file.
    pub fn temporary(&self) -> &Path {
        &self.temporary
    }

    /// Writes bytes at an offset.
    pub fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.file.write_all_at(bytes, offset).map_err(|error| Error::write(&self.path, error))
    }

    /// Brings what this process has written to the disk.
    pub fn sync(&self) -> Result<()> {
        self.file.sync_all().map_err(|error| Error::write(&self.path, error))
    }

    /// Ends the part of this process, once all processes have written and synchronised. The creator renames the file.
    pub fn commit(mut self) -> Result<()> {
        let renamed = match self.is_creator {
            true => std::fs::rename(&self.temporary, &self.target)
                .map(|()| sync_folder(&self.target))
                .map_err(|error| Error::write(&self.path, error)),
            false => Ok(()),
        };
        // Nothing is left to remove, unless the name could not be changed.
        self.is_creator &= renamed.is_err();
        renamed
    }
}

impl Drop for SharedFile {
    fn drop(&mut self) {
        finish(&mut unfinished_writes(), self.id);
        if self.is_creator {
            // A file that cannot be removed harms nothing.
            let _ = std::fs::remove_file(&self.temporary);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_written_in_any_order_become_one_file_and_nothing_is_there_before() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("y");
        let first = SharedFile::create(&path).unwrap();
        let second = SharedFile::join(&path, first.temporary()).unwrap();
        second.write_at(3, b"def").unwrap();
        first.write_at(0, b"abc").unwrap();
        assert!(!path.exists());
        second.commit().unwrap();
        assert!(!path.exists());
        first.commit().unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"abcdef");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_file_that_is_not_committed_leaves_the_old_content() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("y");
        std::fs::write(&path, "old").unwrap();
        let shared = SharedFile::create(&path).unwrap();
        shared.write_at(0, b"new").unwrap();
        assert!(super::super::unfinished().contains(&shared.id));
        drop(shared);
        assert_eq!(std::fs::read(&path).unwrap(), b"old");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
        assert_eq!(SharedFile::create(Path::new("/dev/null")).unwrap_err().exit_code(), 2);
        let gone = SharedFile::join(&path, &folder.path().join("none")).unwrap_err();
        assert_eq!(gone.exit_code(), 1);
    }
}
