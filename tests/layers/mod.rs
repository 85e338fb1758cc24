//! Modules in layers: a table in the documentation of a file says which module is in which layer, and every module uses only lower ones.
//!
//! A row of the table is ``| 3 | `kernel` | ... |``, in a comment that begins with `//!`.

// The tests of the library and those of the program use a part each.
#![allow(dead_code)]

use std::fs;
use std::path::{Path, PathBuf};

/// The layers of a table, each module with its number.
pub struct Layers(Vec<(String, u32)>);

impl Layers {
    /// The table in the documentation of `code`.
    pub fn of_table(code: &str) -> Self {
        let row = |line: &str| {
            let mut cells = line.strip_prefix("//! |")?.split('|').map(str::trim);
            let layer = cells.next()?.parse().ok()?;
            Some((cells.next()?.trim_matches('`').to_string(), layer))
        };
        Self(code.lines().filter_map(row).collect())
    }

    /// Adds a module that the table leaves out.
    #[must_use]
    pub fn with(mut self, module: &str, layer: u32) -> Self {
        self.0.push((module.into(), layer));
        self
    }

    /// The modules of the table.
    pub fn modules(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(module, _)| module.as_str())
    }

    fn layer(&self, module: &str) -> Option<u32> {
        self.0.iter().find(|(name, _)| name == module).map(|(_, layer)| *layer)
    }

    /// A message for every path in `code`, a file of `module`, that does not refer to a lower layer.
    pub fn upward_paths(&self, module: &str, code: &str) -> Vec<String> {
        let Some(own) = self.layer(module) else { return vec![format!("module {module} has no layer")] };
        let code = without_comments(code);
        let mut found = Vec::new();
        for named in referenced_modules(&code, "crate::") {
            match self.layer(named) {
                _ if named == module => {}
                Some(layer) if layer < own => {}
                Some(layer) => found.push(format!("{module} (layer {own}) uses {named} (layer {layer})")),
                None => {
                    found.push(format!("{module} uses crate::{named}, which is no module of a lower layer"))
                }
            }
        }
        found
    }

    /// The same for all files below `source` that belong to a module, and how many files these are. Files in `source` whose names are in
    /// `roots` only declare modules.
    pub fn upward_paths_below(&self, source: &Path, roots: &[&str]) -> (usize, Vec<String>) {
        let mut files = Vec::new();
        rust_files(source, &mut files);
        let (mut checked, mut found) = (0, Vec::new());
        for file in files {
            let inside = file.strip_prefix(source).unwrap();
            let first = inside.iter().next().unwrap().to_str().unwrap();
            let module = first.trim_end_matches(".rs");
            if roots.contains(&module) {
                continue;
            }
            checked += 1;
            let code = fs::read_to_string(&file).unwrap();
            let paths = self.upward_paths(module, &code).into_iter();
            found.extend(paths.map(|what| format!("{}: {what}", inside.display())));
        }
        (checked, found)
    }
}

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
