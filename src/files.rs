//! Output files. Each holds its whole new content or keeps its old one, even if a signal ends the program.

use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::error::{Error, Result};

/// The words by which Rowloom recognises a file as its own output, in formats that allow a comment.
pub const MARK: &str = "written by rowloom";

/// The name of standard output in messages.
pub const STANDARD_OUTPUT: &str = "standard output";

/// Most bytes of one system call.
const MAX_WRITE_BYTES: usize = 4 << 20;

/// Writes that are not finished.
static UNFINISHED: Mutex<Vec<Unfinished>> = Mutex::new(Vec::new());

/// A write under way.
struct Unfinished {
    id: u64,
    /// The file that becomes the target; none where the target is written to directly.
    temporary: Option<PathBuf>,
}

/// Where an output goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target<'a> {
    /// To a file.
    File(&'a Path),
    /// To standard output.
    StandardOutput,
}

impl<'a> From<&'a Path> for Target<'a> {
    fn from(path: &'a Path) -> Self {
        Self::File(path)
    }
}

impl<'a> From<&'a PathBuf> for Target<'a> {
    fn from(path: &'a PathBuf) -> Self {
        Self::File(path)
    }
}

impl Target<'_> {
    /// Writes what `write` writes: a file as [`replace`] does, standard output as it is.
    pub fn write(self, write: impl FnOnce(&mut Writer<'_>) -> io::Result<()>) -> Result<()> {
        match self {
            Self::File(path) => replace(path, write),
            Self::StandardOutput => standard_output()
                .and_then(|file| write_directly(file, write))
                .map_err(|error| Error::write(STANDARD_OUTPUT, error)),
        }
    }
}

fn write_directly(mut file: File, write: impl FnOnce(&mut Writer<'_>) -> io::Result<()>) -> io::Result<()> {
    let id = begin(&mut unfinished_writes(), None);
    let written = write(&mut Writer(&mut file));
    finish(&mut unfinished_writes(), id);
    written
}

/// A file that is being written. It writes at most `MAX_WRITE_BYTES` at once: a file cannot be removed while the system
/// writes to it, and [`discard_unfinished`] must not wait.
#[derive(Debug)]
pub struct Writer<'a>(&'a mut File);

impl Write for Writer<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(&bytes[..bytes.len().min(MAX_WRITE_BYTES)])
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl Seek for Writer<'_> {
    fn seek(&mut self, position: SeekFrom) -> io::Result<u64> {
        self.0.seek(position)
    }
}

/// Standard output without a buffer in between.
fn standard_output() -> io::Result<File> {
    use std::os::fd::AsFd;
    Ok(File::from(io::stdout().as_fd().try_clone_to_owned()?))
}

/// Replaces the content of `path` by what `write` writes. If `write` fails, the old content stays.
///
/// A pipe or device is written to directly.
pub fn replace(path: &Path, write: impl FnOnce(&mut Writer<'_>) -> io::Result<()>) -> Result<()> {
    let failed = |error| Error::write(path, error);
    if std::fs::metadata(path).is_ok_and(|target| !target.is_file()) {
        let file = File::options().write(true).open(path).map_err(failed)?;
        return write_directly(file, write).map_err(failed);
    }
    // A link keeps pointing to the file that is replaced.
    let target = path.canonicalize().unwrap_or_else(|_| path.into());
    let folder = match target.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    let mut options = tempfile::Builder::new();
    #[cfg(unix)]
    options.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    options.prefix(".rowloom-").suffix(".part");
    let mut unfinished = unfinished_writes();
    let mut file = options.tempfile_in(folder).map_err(failed)?;
    let id = begin(&mut unfinished, Some(file.path().to_owned()));
    drop(unfinished);

    let written = write(&mut Writer(file.as_file_mut()));
    // The lock is held until the temporary file is renamed or removed: see `discard_unfinished`.
    let mut unfinished = unfinished_writes();
    finish(&mut unfinished, id);
    written.and_then(|()| file.persist(&target).map(drop).map_err(|error| error.error)).map_err(failed)
}

fn begin(unfinished: &mut Vec<Unfinished>, temporary: Option<PathBuf>) -> u64 {
    static NEXT_ID: AtomicU64 = AtomicU64::new(0);
    let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
    unfinished.push(Unfinished { id, temporary });
    id
}

fn finish(unfinished: &mut Vec<Unfinished>, id: u64) {
    unfinished.retain(|write| write.id != id);
}

fn unfinished_writes() -> MutexGuard<'static, Vec<Unfinished>> {
    // Every change of the list is complete before anything can panic.
    UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A number for each write under way.
pub fn unfinished() -> Vec<u64> {
    unfinished_writes().iter().map(|write| write.id).collect()
}

/// Removes the temporary files of all writes under way. No write can begin or finish afterwards: the caller must end the
/// process.
pub fn discard_unfinished() {
    let unfinished = unfinished_writes();
    for path in unfinished.iter().filter_map(|write| write.temporary.as_ref()) {
        // The process ends; no stream is left to report to.
        let _ = std::fs::remove_file(path);
    }
    std::mem::forget(unfinished);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_writes_are_divided_and_arrive_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("large");
        let bytes: Vec<u8> = (0..3 * MAX_WRITE_BYTES + 17).map(|index| (index % 251) as u8).collect();
        replace(&path, |file| {
            assert_eq!(file.write(&bytes)?, MAX_WRITE_BYTES);
            file.rewind()?;
            assert!(!unfinished().is_empty());
            file.write_all(&bytes)
        })
        .unwrap();
        assert!(std::fs::read(&path).unwrap() == bytes);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
