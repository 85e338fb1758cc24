//! Recognises the files that [`Trace::write`] wrote, by their content, so that no other file is replaced.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use super::model::Trace;
use super::write::FORMAT_KEY;

/// Bytes at the start of a file that are searched for the mark.
const HEAD_BYTES: u64 = 256 << 10;

impl Trace {
    /// Whether a file that starts with `text` is a trace that Rowloom wrote.
    #[doc(hidden)]
    pub fn is_own_start(text: &str) -> bool {
        text.starts_with("{\"displayTimeUnit\":") && text.contains(&format!("\"{FORMAT_KEY}\":"))
    }

    /// Whether [`Trace::write`] to `path` would replace a file that is no trace of Rowloom. An empty file counts as absent; pipes and
    /// devices are written to as they are.
    #[doc(hidden)]
    pub fn would_replace_other_file(path: &Path) -> bool {
        let Ok(metadata) = std::fs::metadata(path) else { return false };
        if !metadata.is_file() || metadata.len() == 0 {
            return false;
        }
        let start = || -> io::Result<Vec<u8>> {
            let mut start = Vec::new();
            File::open(path)?.take(HEAD_BYTES).read_to_end(&mut start)?;
            Ok(start)
        };
        // A file that cannot be read cannot be recognised.
        start().map_or(true, |start| !Self::is_own_start(&String::from_utf8_lossy(&start)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_traces_and_empty_files_may_be_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        assert!(!Trace::would_replace_other_file(&path), "a file that is absent");
        std::fs::write(&path, "").unwrap();
        assert!(!Trace::would_replace_other_file(&path), "an empty file");
        std::fs::write(&path, "my notes").unwrap();
        assert!(Trace::would_replace_other_file(&path));
        std::fs::write(&path, "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[]}").unwrap();
        assert!(Trace::would_replace_other_file(&path), "a trace of another program");
        assert!(!Trace::would_replace_other_file(Path::new("/dev/null")));
    }

    #[test]
    fn a_trace_may_replace_a_trace() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        Trace::default().write(&path).unwrap();
        assert!(!Trace::would_replace_other_file(&path));
    }
}
