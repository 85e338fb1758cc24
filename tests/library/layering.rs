//! Modules are ordered in layers and use lower layers only; these tests read the sources and fail on an upward import.

use std::fs;
use std::path::Path;

#[path = "../layers/mod.rs"]
mod layers;

use layers::{referenced_modules, rust_files, without_comments};

const LAYERS: [(&str, u32); 21] = [
    // Of the tests only.
    ("skip", 0),
    ("error", 0),
    ("suggest", 0),
    ("files", 1),
    ("threads", 1),
    ("toml_file", 2),
    ("fetch", 2),
    ("matrix", 2),
    ("machine", 2),
    ("trace", 2),
    ("kernel", 3),
    ("cost", 4),
    ("graph", 4),
    ("work", 5),
    ("plan", 6),
    ("device", 6),
    ("mpi", 7),
    ("exec", 7),
    ("adapt", 8),
    ("runtime", 9),
    ("solver", 10),
];

fn layer(module: &str) -> Option<u32> {
    LAYERS.iter().find(|(name, _)| *name == module).map(|(_, layer)| *layer)
}

/// A message for every path in `code`, a file of `module`, that does not refer to a lower layer.
fn upward_paths(module: &str, code: &str) -> Vec<String> {
    let Some(own) = layer(module) else { return vec![format!("module {module} has no layer")] };
    let code = without_comments(code);
    let mut found = Vec::new();
    for named in referenced_modules(&code, "crate::") {
        match layer(named) {
            _ if named == module => {}
            Some(layer) if layer < own => {}
            Some(layer) => found.push(format!("{module} (layer {own}) uses {named} (layer {layer})")),
            None => found.push(format!("{module} uses crate::{named}, which is no module of a lower layer")),
        }
    }
    found
}

#[test]
fn every_module_uses_only_lower_layers() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    rust_files(&source, &mut files);
    let mut checked = 0;
    let mut found = Vec::new();
    for file in files {
        let inside = file.strip_prefix(&source).unwrap();
        let first = inside.iter().next().unwrap().to_str().unwrap();
        let module = first.trim_end_matches(".rs");
        if ["lib", "internal"].contains(&module) {
            continue;
        }
        checked += 1;
        let code = fs::read_to_string(&file).unwrap();
        found.extend(
            upward_paths(module, &code).into_iter().map(|what| format!("{}: {what}", inside.display())),
        );
    }
    assert!(checked > 5, "only {checked} files were found");
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn imports_of_higher_and_equal_layers_are_found() {
    let found = |module, code| upward_paths(module, code).len();
    assert_eq!(found("matrix", "use crate::kernel::TABLE;"), 1);
    assert_eq!(found("matrix", "use crate::machine::Machine;"), 1);
    assert_eq!(found("matrix", "let pool = crate::runtime::Pool::new();"), 1);
    assert_eq!(found("matrix", "let pool = crate::internal::runtime::Pool::new();"), 1);
    assert_eq!(found("kernel", "pub(crate) use crate::{error::{Error, Result}, runtime, matrix::Csr};"), 1);
    assert_eq!(found("error", "use crate::{\n    matrix::Csr,\n    machine,\n};"), 2);
    assert_eq!(found("kernel", "use crate::Csr;"), 1);
    assert_eq!(found("unlisted", "use std::fmt;"), 1);
}

#[test]
fn imports_of_lower_layers_and_comments_are_allowed() {
    let found = |module, code| upward_paths(module, code).len();
    assert_eq!(found("kernel", "use crate::matrix::{Csr, Scalar};\nuse crate::error::Result;"), 0);
    assert_eq!(
        found("matrix", "use crate::matrix::Csr; // once crate::runtime\n/// See [`crate::solver`]."),
        0
    );
    assert_eq!(found("runtime", "pub(in crate::internal::runtime) use crate::internal::plan::Plan;"), 0);
}
