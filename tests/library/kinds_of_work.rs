//! The modules above `work` know no kind of work by name; these tests read their sources.

use std::fs;
use std::path::{Path, PathBuf};

/// The modules, and what of them binds one kind of work to bytes and launches.
const ABOVE_THE_LINE: [&str; 6] = ["plan", "graph", "exec", "adapt", "trace", "runtime"];
const BINDERS: [&str; 6] = [
    "runtime/spmm",
    "runtime/vectors",
    "runtime/product",
    "runtime/cluster",
    "runtime/dense/gemm",
    "runtime/dense/colmean",
];

/// Words that only a kind of work has.
const WORDS: [&str; 4] = ["csr", "nnz", "gemm", "colmean"];

/// The rest of a file after its tests are left out, which may use any kind of work.
fn without_tests(code: &str) -> &str {
    code.split("#[cfg(test)]\nmod tests {").next().unwrap_or(code)
}

/// Whether a line declares the module of a binder or passes on its public names.
fn declares_binder(line: &str) -> bool {
    let line = line.strip_prefix("pub(crate) ").unwrap_or(line);
    BINDERS.iter().filter_map(|binder| binder.strip_prefix("runtime/")).any(|binder| {
        let (path, name) = (binder.replace('/', "::"), binder.rsplit('/').next().unwrap_or(binder));
        line == format!("mod {name};") || line.starts_with(&format!("pub use {path}::"))
    })
}

/// The lines of `code` with one of the words, comments included.
fn named_kinds(code: &str) -> Vec<&str> {
    let has_word = |line: &&str| WORDS.iter().any(|word| line.to_lowercase().contains(word));
    without_tests(code).lines().filter(has_word).filter(|line| !declares_binder(line)).collect()
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap();
        if path.is_dir() && name != "tests" {
            sources(&path, found);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            found.push(path);
        }
    }
}

/// Files that only tests are made of.
fn is_test(path: &Path) -> bool {
    let name = path.file_stem().unwrap().to_str().unwrap();
    name.ends_with("tests") || ["fixture", "fault_sweep"].contains(&name)
}

#[test]
fn no_module_above_the_line_names_a_kind_of_work() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    ABOVE_THE_LINE.iter().for_each(|module| sources(&source.join(module), &mut files));
    let of_binder = |path: &Path| BINDERS.iter().any(|binder| path.starts_with(source.join(binder)));
    files.retain(|path| !of_binder(path) && !is_test(path));
    assert!(files.len() > 60, "only {} files were found", files.len());
    let mut found = Vec::new();
    for file in files {
        let code = fs::read_to_string(&file).unwrap();
        let inside = file.strip_prefix(&source).unwrap().display();
        found.extend(named_kinds(&code).into_iter().map(|line| format!("{inside}: {}", line.trim())));
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn names_of_kinds_are_found_in_code_and_comments_but_not_in_tests() {
    assert_eq!(named_kinds("use crate::matrix::CsrView;").len(), 1);
    assert_eq!(
        named_kinds("mod gemm;\npub use dense::gemm::Gemm;\nuse super::gemm::Gemm;"),
        ["use super::gemm::Gemm;"]
    );
    assert_eq!(named_kinds("/// Rows and nnz.\nlet gemm = 1;\nlet entries = 2;").len(), 2);
    assert_eq!(
        named_kinds("fn f() {}\n\n#[cfg(test)]\nmod tests {\n    use crate::matrix::Csr;\n}").len(),
        0
    );
}
