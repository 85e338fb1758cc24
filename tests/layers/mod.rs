//! Reads sources for the tests of layers: which modules does a file refer to?

use std::fs;
use std::path::{Path, PathBuf};

/// The modules that `code` refers to behind `prefix`, such as `crate::`; groups such as `crate::{error, matrix::Csr}` included.
pub fn referenced_modules<'a>(code: &'a str, prefix: &str) -> Vec<&'a str> {
    let word_end = |text: &str| text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    let mut modules = Vec::new();
    for (at, path) in code.match_indices(prefix) {
        let preceded_by_word = code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == ':');
        if preceded_by_word {
            continue;
        }
        let rest = &code[at + path.len()..];
        // All modules are in the hidden module.
        let rest = rest.strip_prefix("internal::").unwrap_or(rest);
        let Some(group) = rest.strip_prefix('{') else {
            modules.push(&rest[..word_end(rest)]);
            continue;
        };
        let mut depth = 0;
        let mut item_starts = true;
        for (index, character) in group.char_indices() {
            match character {
                '{' => depth += 1,
                '}' if depth == 0 => break,
                '}' => depth -= 1,
                ',' if depth == 0 => item_starts = true,
                c if item_starts && !c.is_whitespace() => {
                    modules.push(&group[index..index + word_end(&group[index..])]);
                    item_starts = false;
                }
                _ => {}
            }
        }
    }
    modules
}

/// The code without its line comments.
pub fn without_comments(code: &str) -> String {
    code.lines().map(|line| line.split("//").next().unwrap_or("")).collect::<Vec<_>>().join("\n")
}

/// Adds all Rust files below a folder.
pub fn rust_files(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            rust_files(&path, files);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            files.push(path);
        }
    }
}
