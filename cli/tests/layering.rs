//! The folders of the program are ordered by the table in `cli/src/lib.rs` and use earlier folders only, and no files of one folder use
//! each other in a circle; these tests read the sources.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

#[path = "../../tests/layers/mod.rs"]
mod layers;

use layers::{referenced_modules, rust_files, without_comments};

fn source() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

/// The folders of the table, the lowest first.
fn folders() -> Vec<String> {
    let text = fs::read_to_string(source().join("lib.rs")).unwrap();
    let rows = text.lines().filter_map(|line| line.strip_prefix("//! | `"));
    rows.filter_map(|row| row.split_once('`')).map(|(name, _)| name.to_owned()).collect()
}

/// The code of a file without comments and without its tests.
fn code_of(file: &Path) -> String {
    let code = without_comments(&fs::read_to_string(file).unwrap());
    code.split("#[cfg(test)]\nmod tests").next().unwrap_or_default().to_owned()
}

/// A message for every folder in `code`, a file of `folder`, that is not an earlier one.
fn later_folders(folders: &[String], folder: &str, code: &str) -> Vec<String> {
    let place = |name: &str| folders.iter().position(|folder| folder == name);
    let Some(own) = place(folder) else { return vec![format!("{folder} is not in the table")] };
    let is_later = |named: &&str| *named != folder && place(named).is_none_or(|other| other > own);
    let named = referenced_modules(code, "crate::");
    named.into_iter().filter(is_later).map(|named| format!("{folder} uses {named}")).collect()
}

#[test]
fn every_folder_uses_only_earlier_ones() {
    let (folders, mut files) = (folders(), Vec::new());
    rust_files(&source(), &mut files);
    let mut found = Vec::new();
    for file in &files {
        let inside = file.strip_prefix(source()).unwrap();
        let first = inside.iter().next().unwrap().to_str().unwrap().trim_end_matches(".rs");
        if ["lib", "main"].contains(&first) {
            continue;
        }
        let code = without_comments(&fs::read_to_string(file).unwrap());
        let later = later_folders(&folders, first, &code);
        found.extend(later.into_iter().map(|what| format!("{}: {what}", inside.display())));
    }
    assert!(folders.len() > 5 && files.len() > 50, "{} folders, {} files", folders.len(), files.len());
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn later_and_unknown_folders_are_found() {
    let folders = ["plots", "args", "run"].map(str::to_owned);
    let found = |folder, code| later_folders(&folders, folder, code).len();
    assert_eq!(found("args", "use crate::plots::svg;\nuse crate::args::Command;"), 0);
    assert_eq!(found("args", "use crate::run::product;"), 1);
    assert_eq!(found("args", "let done = crate::{plots::svg(), run::product()};"), 1);
    assert_eq!(found("run", "use crate::execute;"), 1);
    assert_eq!(found("unlisted", ""), 1);
}

/// For each file of one folder, or folder in it, those that it uses.
type Uses = BTreeMap<String, BTreeSet<String>>;

/// The uses among the files of `folder`, whose path from the crate is `path`, and the same for every folder in it.
fn uses(folder: &Path, path: &str, all: &mut Vec<Uses>) {
    let mut entries = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let place = entry.unwrap().path();
        let name = place.file_stem().unwrap().to_str().unwrap().to_owned();
        if name.ends_with("tests") {
            continue;
        }
        if place.is_dir() && place.join("mod.rs").is_file() {
            uses(&place, &format!("{path}{name}::"), all);
            let mut files = Vec::new();
            rust_files(&place, &mut files);
            entries.insert(name, files.iter().map(|file| code_of(file)).collect::<String>());
        } else if place.extension().is_some_and(|ending| ending == "rs") {
            entries.insert(name, code_of(&place));
        }
    }
    let modules = |name: &str, code: &str| -> BTreeSet<String> {
        // The facade declares all files, and a name that is none of them is taken from the facade.
        if name == "mod" {
            return entries.keys().filter(|other| *other != "mod").cloned().collect();
        }
        let known = |named: &str| if entries.contains_key(named) { named.to_owned() } else { "mod".into() };
        let outside = referenced_modules(code, path).into_iter().map(known);
        let siblings =
            referenced_modules(code, "super::").into_iter().filter(|named| entries.contains_key(*named));
        outside.chain(siblings.map(str::to_owned)).filter(|other| other != name).collect()
    };
    all.push(entries.iter().map(|(name, code)| (name.clone(), modules(name, code))).collect());
}

/// The files that are left when every file without uses is taken away, again and again: those of circles, and those that use them.
fn circles(mut uses: Uses) -> Vec<String> {
    loop {
        let (left, free): (Uses, Uses) = uses.into_iter().partition(|(_, used)| !used.is_empty());
        if free.is_empty() {
            return left.into_keys().collect();
        }
        let keep = |(name, used): (String, BTreeSet<String>)| {
            (name, used.into_iter().filter(|other| left.contains_key(other)).collect())
        };
        uses = left.clone().into_iter().map(keep).collect();
    }
}

#[test]
fn no_files_of_a_folder_use_each_other_in_a_circle() {
    let mut all = Vec::new();
    for folder in folders() {
        let place = source().join(&folder);
        if place.is_dir() {
            uses(&place, &format!("crate::{folder}::"), &mut all);
        }
    }
    assert!(all.len() > 5, "only {} folders were found", all.len());
    let found: Vec<Vec<String>> = all.into_iter().map(circles).filter(|files| !files.is_empty()).collect();
    assert!(found.is_empty(), "{found:?}");
}

#[test]
fn circles_of_two_and_three_files_are_found() {
    let uses = |pairs: &[(&str, &[&str])]| -> Uses {
        let set = |used: &[&str]| used.iter().map(|name| name.to_string()).collect();
        pairs.iter().map(|(name, used)| (name.to_string(), set(used))).collect()
    };
    assert!(circles(uses(&[("a", &["b"]), ("b", &["c"]), ("c", &[])])).is_empty());
    assert_eq!(circles(uses(&[("a", &["b"]), ("b", &["a"]), ("c", &[])])), ["a", "b"]);
    assert_eq!(circles(uses(&[("a", &["b"]), ("b", &["c"]), ("c", &["a"])])), ["a", "b", "c"]);
}
