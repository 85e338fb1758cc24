//! Output files, and small input files.
//!
//! An output file holds its whole new content or keeps its old one, even if a signal ends the program or the machine loses power: the new
//! content is on the disk before it gets the name. Inputs are regular files of
//! limited size: a pipe would block, and a device may have no end.

#[path = "files/shared.rs"]
pub mod shared;

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use crate::error::{Bytes, Error, Place, Result};

/// The words by which Rowloom recognises a file as its own output, in formats that allow a comment.
pub const MARK: &str = "written by rowloom";

/// The name of standard output in messages.
pub const STANDARD_OUTPUT: &str = "standard output";

/// Most bytes of one system call.
const MAX_WRITE_BYTES: usize = 4 << 20;

/// Largest plan, model, study or report that is read.
const MAX_SMALL_BYTES: u64 = 256 << 20;

/// The name of a temporary file begins and ends with these.
const TEMPORARY_PREFIX: &str = ".rowloom-";
const TEMPORARY_SUFFIX: &str = ".part";

/// A temporary file that no program writes to is removed if it is at least this old.
const LEFT_BEHIND_AGE: Duration = Duration::from_secs(60);

/// Most links that are followed from one to the next.
const MAX_LINKS: usize = 40;

/// Opens a regular file; a folder, a pipe or a device is refused without waiting for it.
pub fn open_regular(path: &Path) -> Result<File> {
    open_checked(path, OpenOptions::new().read(true))
}

/// Opens a file with `options`, if it is a regular file.
pub fn open_checked(path: &Path, options: &mut OpenOptions) -> Result<File> {
    // A plain open of a named pipe without a writer would never return.
    let file = options.custom_flags(libc::O_NONBLOCK).open(path).map_err(|error| Error::read(path, error))?;
    let kind = file.metadata().map_err(|error| Error::read(path, error))?.file_type();
    let refuse = |reason: &str| Err(Error::input(Place::file(path), reason));
    if kind.is_dir() {
        refuse("this is a folder; name a file inside it")
    } else if kind.is_fifo() || kind.is_socket() {
        refuse("this is a pipe, not a regular file; write it to a file first")
    } else if !kind.is_file() {
        refuse("this is a device, not a regular file")
    } else {
        Ok(file)
    }
}

/// The content of a plan, model, study or report: a regular file of at most 256 MiB.
pub fn read_regular(path: &Path) -> Result<Vec<u8>> {
    read_limited(path, &open_regular(path)?, MAX_SMALL_BYTES)
}

/// The content of an open file; an error if it has more than `limit_bytes` bytes.
pub fn read_limited(path: &Path, file: &File, limit_bytes: u64) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(limit_bytes + 1).read_to_end(&mut bytes).map_err(|error| Error::read(path, error))?;
    if bytes.len() as u64 > limit_bytes {
        let reason = format!("the file is larger than {}, too large for its kind", Bytes(limit_bytes));
        return Err(Error::input(Place::file(path), reason));
    }
    Ok(bytes)
}

/// The text that [`read_regular`] reads.
pub fn read_text(path: &Path) -> Result<String> {
    String::from_utf8(read_regular(path)?)
        .map_err(|_| Error::input(Place::file(path), "this is not text in UTF-8; name another file"))
}

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
/// A pipe or device is written to directly. A replaced file keeps its permissions. Temporary files that an earlier program left
/// behind in the same folder are removed.
pub fn replace(path: &Path, write: impl FnOnce(&mut Writer<'_>) -> io::Result<()>) -> Result<()> {
    let failed = |error| Error::write(path, error);
    let existing = std::fs::metadata(path).ok();
    if existing.as_ref().is_some_and(|target| !target.is_file()) {
        let file = File::options().write(true).open(path).map_err(failed)?;
        return write_directly(file, write).map_err(failed);
    }
    let target = linked(path).map_err(failed)?;
    let mut unfinished = unfinished_writes();
    let mut file = create_temporary(&target).map_err(failed)?;
    let id = begin(&mut unfinished, Some(file.path().to_owned()));
    drop(unfinished);

    let permissions =
        existing.map_or(Ok(()), |file_before| file.as_file().set_permissions(file_before.permissions()));
    // The lock shows other programs that the file is not left behind. A file system without locks has no such programs to fear.
    let _ = file.as_file().try_lock();
    let written = permissions
        .and_then(|()| write(&mut Writer(file.as_file_mut())))
        .and_then(|()| file.as_file().sync_all());
    // The lock is held until the temporary file is renamed or removed: see `discard_unfinished`.
    let mut unfinished = unfinished_writes();
    finish(&mut unfinished, id);
    written.and_then(|()| file.persist(&target).map(drop).map_err(|error| error.error)).map_err(failed)?;
    drop(unfinished);
    sync_folder(&target);
    Ok(())
}

/// The folder of a file.
fn folder_of(target: &Path) -> &Path {
    match target.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    }
}

/// Brings the new name of a file to the disk. Without it, the old content may be back after a loss of power, and is whole. So a folder that
/// cannot be synchronised, as on some file systems, is no error.
fn sync_folder(target: &Path) {
    let _ = File::open(folder_of(target)).and_then(|folder| folder.sync_all());
}

/// Creates a temporary file that is to become `target`, in the same folder.
fn create_temporary(target: &Path) -> io::Result<tempfile::NamedTempFile> {
    let folder = folder_of(target);
    let mut options = tempfile::Builder::new();
    options.prefix(TEMPORARY_PREFIX).suffix(TEMPORARY_SUFFIX);
    remove_left_behind(folder);
    // Unlike errors of `tempfile_in`, its errors do not show the path of the temporary file, which no user knows.
    options.make_in(folder, |path| {
        File::options().read(true).write(true).create_new(true).mode(0o666).open(path)
    })
}

/// The file that a path leads to, existing or not: a link keeps pointing to the file that is written.
fn linked(path: &Path) -> io::Result<PathBuf> {
    let mut target = path.to_owned();
    for _ in 0..MAX_LINKS {
        if !std::fs::symlink_metadata(&target).is_ok_and(|metadata| metadata.is_symlink()) {
            return Ok(target);
        }
        let next = std::fs::read_link(&target)?;
        target = target.parent().unwrap_or(Path::new("")).join(next);
    }
    Err(io::Error::other("too many links lead from one to the next"))
}

/// Removes temporary files that a program left behind when it was killed. Another program may be writing to a locked or a young one.
fn remove_left_behind(folder: &Path) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if !name.starts_with(TEMPORARY_PREFIX) || !name.ends_with(TEMPORARY_SUFFIX) {
            continue;
        }
        let age = |modified: SystemTime| SystemTime::now().duration_since(modified).unwrap_or_default();
        let is_old = |file: &File| {
            let modified = file.metadata().and_then(|metadata| metadata.modified());
            modified.is_ok_and(|modified| age(modified) >= LEFT_BEHIND_AGE)
        };
        let left_behind =
            open_regular(&entry.path()).is_ok_and(|file| is_old(&file) && file.try_lock().is_ok());
        if left_behind {
            // A file that cannot be removed harms nothing.
            let _ = std::fs::remove_file(entry.path());
        }
    }
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

/// The numbers of the writes under way.
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
    fn a_replaced_file_keeps_its_permissions_and_a_new_one_has_the_usual() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret");
        std::fs::write(&path, "old").unwrap();
        for mode in [0o600, 0o640, 0o664] {
            std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
            replace(&path, |file| file.write_all(b"new")).unwrap();
            assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, mode);
        }
    }

    #[test]
    fn links_stay_and_the_files_that_they_lead_to_are_written() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("inner");
        std::fs::create_dir(&inner).unwrap();
        let (first, second) = (folder.path().join("first"), inner.join("second"));
        std::os::unix::fs::symlink("inner/second", &first).unwrap();
        std::os::unix::fs::symlink("missing", &second).unwrap();
        for content in ["created", "replaced"] {
            replace(&first, |file| file.write_all(content.as_bytes())).unwrap();
            assert_eq!(std::fs::read_to_string(inner.join("missing")).unwrap(), content);
            assert!(std::fs::symlink_metadata(&first).unwrap().is_symlink());
            assert!(std::fs::symlink_metadata(&second).unwrap().is_symlink());
        }
        let ring = folder.path().join("ring");
        std::os::unix::fs::symlink("ring", &ring).unwrap();
        assert_eq!(replace(&ring, |_| Ok(())).unwrap_err().exit_code(), 1);
    }

    #[test]
    fn temporary_files_left_behind_are_removed_unless_they_are_young_or_locked() {
        let folder = tempfile::tempdir().unwrap();
        let made = |name: &str, age: Duration| {
            let file = File::create(folder.path().join(name)).unwrap();
            file.set_modified(SystemTime::now() - age).unwrap();
            file
        };
        let hour = Duration::from_secs(3600);
        made(".rowloom-dead.part", hour);
        made(".rowloom-young.part", Duration::ZERO);
        made(".other-dead.part", hour);
        let locked = made(".rowloom-locked.part", hour);
        locked.try_lock().unwrap();
        replace(&folder.path().join("y"), |file| file.write_all(b"y")).unwrap();
        let entries = std::fs::read_dir(folder.path()).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        assert_eq!(names, [".other-dead.part", ".rowloom-locked.part", ".rowloom-young.part", "y"]);
    }

    #[test]
    fn only_regular_files_of_limited_size_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, "text").unwrap();
        assert_eq!(read_text(&path).unwrap(), "text");
        assert_eq!(read_limited(&path, &open_regular(&path).unwrap(), 3).unwrap_err().exit_code(), 3);
        for other in [Path::new("/dev/zero"), folder.path()] {
            assert_eq!(read_text(other).unwrap_err().exit_code(), 3);
        }
        std::fs::write(&path, [0xff]).unwrap();
        assert_eq!(read_text(&path).unwrap_err().exit_code(), 3);
    }

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
