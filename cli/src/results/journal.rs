//! Finished cases on disk, one JSON object per line. Each line is on disk before the next case begins, so a killed sweep
//! continues with the next case. An incomplete line is ignored, and its case is measured again.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use xxhash_rust::xxh3::xxh3_128;

use rowloom::internal::error::{Error, Place, Result};
use rowloom::internal::files;

/// The first bytes of every line.
const BEGINNING: &[u8] = b"{\"key\":";

/// Largest file of finished cases that is read.
const MAX_BYTES: u64 = 4 << 30;

/// The exclusive right to a file, against other programs that ask for it too.
struct Locked<'a>(&'a File);

impl<'a> Locked<'a> {
    fn new(file: &'a File) -> io::Result<Self> {
        match file.lock() {
            // A file system without locks is used by one study at a time.
            Err(error) if error.kind() == io::ErrorKind::Unsupported => Ok(Self(file)),
            locked => locked.map(|()| Self(file)),
        }
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        // The system unlocks the file at the latest when it is closed.
        let _ = self.0.unlock();
    }
}

/// A file of finished cases.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: File,
    done: HashMap<String, Value>,
}

#[derive(Serialize, Deserialize)]
struct Line {
    key: String,
    case: Value,
}

impl Journal {
    /// Opens or creates the file and reads the finished cases.
    pub fn open(path: &Path) -> Result<Self> {
        let failed = |source| Error::write(path, source);
        let mut options = OpenOptions::new();
        options.read(true).append(true).create(true);
        let file = files::open_checked(path, &mut options).map_err(|error| match error {
            Error::Read { source, .. } => failed(source),
            error => error,
        })?;
        // Another study may be adding a line.
        let locked = Locked::new(&file).map_err(failed)?;
        let bytes = files::read_limited(path, &file, MAX_BYTES)?;
        // An incomplete first line is a prefix of a line.
        let first = bytes.split(|&byte| byte == b'\n').next().unwrap_or_default();
        if !first.starts_with(BEGINNING) && !BEGINNING.starts_with(first) {
            let reason = "the file exists and is not a list of finished cases; choose another file";
            return Err(Error::input(Place::file(path), reason));
        }
        let mut done = HashMap::new();
        for line in bytes.split(|&byte| byte == b'\n') {
            // A line that cannot be read is incomplete.
            if let Ok(Line { key, case }) = serde_json::from_slice(line) {
                done.insert(key, case);
            }
        }
        // The next line must not be joined to an incomplete last line.
        if bytes.last().is_some_and(|&byte| byte != b'\n') {
            (&file).write_all(b"\n").map_err(failed)?;
        }
        drop(locked);
        Ok(Self { path: path.into(), file, done })
    }

    /// The number of finished cases.
    pub fn len(&self) -> usize {
        self.done.len()
    }

    /// Whether no case is finished.
    pub fn is_empty(&self) -> bool {
        self.done.is_empty()
    }

    /// The result of a finished case; none where it is not finished or cannot be read as `T`.
    pub fn find<T: DeserializeOwned>(&self, key: &str) -> Option<T> {
        serde_json::from_value(self.done.get(key)?.clone()).ok()
    }

    /// Adds a finished case and returns once it is on disk.
    pub fn append(&mut self, key: &str, case: &impl Serialize) -> Result<()> {
        let internal = |error| Error::Internal(format!("a case cannot be written as JSON: {error}"));
        let case = serde_json::to_value(case).map_err(internal)?;
        let mut line = serde_json::to_vec(&Line { key: key.into(), case: case.clone() }).map_err(internal)?;
        line.push(b'\n');
        let write = || {
            // Several studies may share the file: each adds whole lines at its end.
            let _locked = Locked::new(&self.file)?;
            (&self.file).write_all(&line)?;
            self.file.sync_data()
        };
        let written = write();
        written.map_err(|source| Error::write(&self.path, source))?;
        self.done.insert(key.into(), case);
        Ok(())
    }
}

/// The key of a case: a hash of everything that defines it.
pub fn key_of(definition: &Value) -> String {
    format!("{:032x}", xxh3_128(definition.to_string().as_bytes()))
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use serde_json::json;

    use super::*;

    #[test]
    fn several_studies_add_whole_lines_to_one_file() {
        /// How long a study may take to add a line on a loaded machine.
        const WAIT: Duration = Duration::from_secs(1);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cases.jsonl");
        let mut appending = Journal::open(&path).unwrap();
        // Another study has written half of its line.
        let other = OpenOptions::new().append(true).open(&path).unwrap();
        let line = serde_json::to_string(&Line { key: "other".into(), case: json!(1.5) }).unwrap() + "\n";
        let (begin, end) = line.split_at(line.len() / 2);
        other.lock().unwrap();
        (&other).write_all(begin.as_bytes()).unwrap();
        let did_not_wait = std::thread::scope(|scope| {
            let (ended, ends) = mpsc::channel();
            let (opened, path) = (ended.clone(), &path);
            scope.spawn(move || {
                appending.append("appended", &2.5).unwrap();
                ended.send("append").unwrap();
            });
            scope.spawn(move || {
                Journal::open(path).unwrap();
                opened.send("open").unwrap();
            });
            let did_not_wait = ends.recv_timeout(WAIT);
            (&other).write_all(end.as_bytes()).unwrap();
            other.unlock().unwrap();
            // Both go on.
            while ends.recv().is_ok() {}
            did_not_wait
        });
        assert_eq!(did_not_wait, Err(mpsc::RecvTimeoutError::Timeout), "the lock was ignored");
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.lines().all(|line| serde_json::from_str::<Line>(line).is_ok()), "{text}");
        let journal = Journal::open(&path).unwrap();
        assert_eq!((journal.find::<f64>("other"), journal.find::<f64>("appended")), (Some(1.5), Some(2.5)));
    }

    #[test]
    fn finished_cases_are_found_and_incomplete_lines_are_ignored() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cases.jsonl");
        let mut journal = Journal::open(&path).unwrap();
        assert!(journal.is_empty());
        journal.append("a", &1.5).unwrap();
        journal.append("b", &2.5).unwrap();
        let whole = std::fs::read(&path).unwrap();
        for cut in 0..=whole.len() {
            std::fs::write(&path, &whole[..cut]).unwrap();
            let mut journal = Journal::open(&path).unwrap();
            let lines = whole[..cut].iter().filter(|&&byte| byte == b'\n').count();
            assert!(journal.len() == lines || journal.len() == lines + 1, "{cut}");
            journal.append("c", &3.5).unwrap();
            let again = Journal::open(&path).unwrap();
            assert_eq!(again.find::<f64>("c"), Some(3.5), "cut at {cut}");
            assert_eq!(
                again.find::<f64>("a"),
                (lines > 0 || journal.len() > 1).then_some(1.5),
                "cut at {cut}"
            );
        }
        let journal = Journal::open(&path).unwrap();
        assert_eq!((journal.find::<f64>("b"), journal.find::<String>("b")), (Some(2.5), None));
    }

    #[test]
    fn different_definitions_have_different_keys() {
        assert_eq!(key_of(&json!({"k": 1})), key_of(&json!({"k": 1})));
        assert_ne!(key_of(&json!({"k": 1})), key_of(&json!({"k": 2})));
    }
}
