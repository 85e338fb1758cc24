//! `--json` takes its file after an equals sign only; the separate word of earlier versions is refused.
//!
//! A word after a bare `--json` is an ordinary argument, so that no input is taken for an output. It is refused where it
//! was surely meant as the file: it is surplus, it ends in `.json` where the command reads no JSON, or it stands where a
//! matrix should and is none.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use clap::error::{ContextKind, ContextValue, ErrorKind};

use super::command::Command;

/// Endings of matrix files.
const MATRIX_ENDINGS: [&str; 5] = [".mtx", ".gz", ".npz", ".rlm", ".npy"];

/// The word after a bare `--json` that is meant as its file, if `command` was typed that way.
pub fn misplaced_file(words: &[OsString], command: &Command) -> Option<String> {
    let word = word_after(words)?;
    let text = word.to_string_lossy();
    let is_json = text.to_lowercase().ends_with(".json");
    let misplaced = match command {
        // These read JSON files.
        Command::Trace(_) | Command::Report(_) => false,
        Command::Run(_)
        | Command::Plan(_)
        | Command::Bench(_)
        | Command::Inspect(_)
        | Command::Convert(_) => is_json || !may_be_matrix(word, &text),
        _ => is_json,
    };
    misplaced.then(|| text.into_owned())
}

/// The word after a bare `--json`, where clap refused the words because of it.
pub fn refused_file(words: &[OsString], error: &clap::Error) -> Option<String> {
    let word = word_after(words)?.to_string_lossy();
    let named = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.as_str()),
        _ => None,
    };
    let refused = match error.kind() {
        ErrorKind::UnknownArgument => {
            named(ContextKind::InvalidArg).is_some_and(|typed| !typed.starts_with('-'))
        }
        ErrorKind::InvalidValue | ErrorKind::ValueValidation => {
            named(ContextKind::InvalidValue) == Some(&word)
        }
        _ => false,
    };
    refused.then(|| word.into_owned())
}

/// The sentence that names the form to write.
pub fn advice(word: &str) -> String {
    format!("--json takes its file after an equals sign: write '--json={word}'")
}

fn word_after(words: &[OsString]) -> Option<&OsStr> {
    let flags = words.split(|word| word == "--").next()?;
    let pair = flags.windows(2).find(|pair| pair[0] == "--json")?;
    let is_flag = pair[1].len() > 1 && pair[1].as_encoded_bytes().starts_with(b"-");
    (!is_flag).then_some(&pair[1])
}

/// Whether a word may name a matrix: standard input, a generator, a file that is there or has a matrix's ending.
fn may_be_matrix(word: &OsStr, text: &str) -> bool {
    text == "-"
        || text.starts_with("gen:")
        || MATRIX_ENDINGS.iter().any(|ending| text.ends_with(ending))
        || Path::new(word).exists()
}
