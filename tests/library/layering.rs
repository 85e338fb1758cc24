//! Modules are ordered in layers and use lower layers only; these tests read the sources and fail on an upward import.

use std::fs;
use std::path::{Path, PathBuf};

use super::layers::Layers;

fn source() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

/// The table of `src/internal.rs`.
fn layers() -> Layers {
    // Of the tests only.
    Layers::of_table(&fs::read_to_string(source().join("internal.rs")).unwrap()).with("skip", 0)
}

#[test]
fn every_module_uses_only_lower_layers() {
    let (checked, found) = layers().upward_paths_below(&source(), &["lib", "internal"]);
    assert!(checked > 5, "only {checked} files were found");
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn the_table_has_every_module_once_and_no_other() {
    let is_module = |name: &String| !["lib", "internal"].contains(&name.as_str());
    let entries =
        fs::read_dir(source()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut modules: Vec<String> =
        entries.map(|name| name.trim_end_matches(".rs").to_string()).filter(is_module).collect();
    modules.push("skip".into());
    modules.sort();
    modules.dedup();
    let layers = layers();
    let mut listed: Vec<&str> = layers.modules().collect();
    listed.sort_unstable();
    assert_eq!(listed, modules);
}

#[test]
fn imports_of_higher_and_equal_layers_are_found() {
    let found = |module, code| layers().upward_paths(module, code).len();
    assert_eq!(found("matrix", "use crate::kernel::TABLE;"), 1);
    assert_eq!(found("trace", "use crate::machine::Machine;"), 1);
    assert_eq!(found("machine", "use crate::matrix::Csr;"), 1);
    assert_eq!(found("matrix", "let pool = crate::runtime::Pool::new();"), 1);
    assert_eq!(found("matrix", "let pool = crate::internal::runtime::Pool::new();"), 1);
    assert_eq!(found("kernel", "pub(crate) use crate::{error::{Error, Result}, runtime, matrix::Csr};"), 1);
    assert_eq!(found("error", "use crate::{\n    matrix::Csr,\n    machine,\n};"), 2);
    assert_eq!(found("kernel", "use crate::Csr;"), 1);
    assert_eq!(found("unlisted", "use std::fmt;"), 1);
}

#[test]
fn imports_of_lower_layers_and_comments_are_allowed() {
    let found = |module, code| layers().upward_paths(module, code).len();
    assert_eq!(found("kernel", "use crate::matrix::{Csr, Scalar};\nuse crate::error::Result;"), 0);
    assert_eq!(
        found("matrix", "use crate::matrix::Csr; // once crate::runtime\n/// See [`crate::solver`]."),
        0
    );
    assert_eq!(found("runtime", "pub(in crate::internal::runtime) use crate::internal::plan::Plan;"), 0);
}
