//! Names and phrases that were replaced by the field's words do not come back.

use std::path::{Path, PathBuf};

/// Folders and files that people read.
const READ: [&str; 12] = [
    "README.md",
    "build.rs",
    "benches",
    "cli",
    "configs",
    "docs",
    "examples",
    "kernels",
    "src",
    "tests",
    "traces",
    "Cargo.toml",
];

const TEXT: [&str; 8] = ["cu", "cuh", "h", "json", "md", "py", "rs", "toml"];

/// Identifiers that name a mood or an impression, each with its replacement.
const NAMES: &[(&str, &str)] = &[
    ("ALIKE", "a similarity, by its role"),
    ("Fleet", "OpenDevices"),
    ("HOPED", "a constant by its role and unit"),
    ("Lender", "BorrowedBytes"),
    ("Lending", "BorrowScope"),
    ("Lent", "BorrowedInputs"),
    ("PATIENCE", "a timeout, by what it limits"),
    ("Workshop", "CompilerThreads"),
    ("beside_devices", "sparing_threads_for_devices"),
    ("in_the_end", "steady_state_median"),
    ("mod looks", "mod similarity"),
    ("patience", "watchdog_timeout"),
    ("slow_down", "slowdown, where it is a ratio of at least 1"),
    ("struct Room", "SynchronousDevice"),
    ("take_stock", "record_round"),
    ("waits_by_itself", "stream_ordered"),
];

/// Phrases that point instead of naming, in lower case, each with an example of what to write.
const PHRASES: &[(&str, &str)] = &[
    ("as it was told to", "(injected fault)"),
    ("halfway strange", "similarity 0.5"),
    ("it tells as well", "name the thing that tells"),
    ("lie apart", "are stored separately"),
    ("nobody has written", "unwritten"),
    ("nobody is woken", "no thread is woken"),
    ("strange to each other", "similarity 0.5"),
    ("taken to be there", "assumed to be installed"),
    ("those who are in", "current accesses"),
];

/// All text files below `path`, except this one.
fn files(path: &Path, found: &mut Vec<PathBuf>) {
    if path.is_dir() {
        for entry in std::fs::read_dir(path).unwrap() {
            files(&entry.unwrap().path(), found);
        }
    } else if path.extension().is_some_and(|extension| TEXT.iter().any(|text| extension == *text))
        && !path.ends_with(file!())
    {
        found.push(path.into());
    }
}

/// The text in lower case without comment markers and line breaks, so that a phrase is found across lines.
pub fn flowing(text: &str) -> String {
    let line = |line: &str| line.trim_start().trim_start_matches(['/', '!', '#', '*']).trim().to_lowercase();
    text.lines().map(line).collect::<Vec<_>>().join(" ")
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// Whether `text` has `word` with no letter, digit or underscore next to it.
fn has_word(text: &str, word: &str) -> bool {
    let bytes = text.as_bytes();
    text.match_indices(word).any(|(begin, _)| {
        let before = begin.checked_sub(1).map(|at| bytes[at]);
        let after = bytes.get(begin + word.len()).copied();
        !before.is_some_and(is_word) && !after.is_some_and(is_word)
    })
}

/// Every text file that people read, except this one.
pub fn texts() -> Vec<(PathBuf, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut paths = Vec::new();
    READ.iter().for_each(|name| files(&root.join(name), &mut paths));
    assert!(paths.len() > 300, "only {} files were found", paths.len());
    paths.into_iter().map(|path| (path.clone(), std::fs::read_to_string(path).unwrap())).collect()
}

#[test]
fn replaced_names_and_phrases_do_not_come_back() {
    let mut found = Vec::new();
    for (path, text) in texts() {
        let flowing = flowing(&text);
        let names = NAMES.iter().filter(|(name, _)| has_word(&text, name));
        let phrases = PHRASES.iter().filter(|(phrase, _)| has_word(&flowing, phrase));
        found.extend(
            names.chain(phrases).map(|(old, new)| format!("{}: '{old}' (write: {new})", path.display())),
        );
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn words_are_found_whole_and_phrases_across_lines() {
    assert!(has_word("a Fleet.", "Fleet") && !has_word("Fleets", "Fleet") && !has_word("my_Fleet", "Fleet"));
    assert!(flowing("/// Nobody is\n    // woken\n").contains("nobody is woken"));
    assert!(has_word("for 1 products", "1 products") && !has_word("for 11 products", "1 products"));
}
