//! Hints for words that the grammar refuses: the nearest command, the flag that a surplus file belongs to, and what is meant by a name
//! that is no file: a generator, a kernel, a file of a similar name, a matrix of a collection.

use std::path::Path;
use std::{fs, io};

use clap::CommandFactory;
use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use super::command::Arguments;
use rowloom::internal::error::Error;
use rowloom::internal::kernel::TABLE;
use rowloom::internal::matrix::generate::{DENSE_KINDS, KINDS};
use rowloom::internal::suggest::{nearest, nearest_file};

/// Endings of files that hold X.
const X_ENDINGS: [&str; 4] = [".npy", ".mtx", ".csv", ".txt"];

/// Words of other programs for `-k`.
const COLUMNS: [&str; 4] = ["--columns", "--cols", "--k", "--num-cols"];

/// Words of other programs for commands.
const SYNONYMS: [(&str, &str); 5] =
    [("multiply", "run"), ("mul", "run"), ("spmm", "run"), ("info", "inspect"), ("stats", "inspect")];

/// Adds to a refusal what was probably meant, where nothing is suggested yet. `command` is the command that was typed.
pub fn add(error: &mut clap::Error, command: Option<&str>) {
    let typed = |error: &clap::Error, kind| match error.get(kind) {
        Some(ContextValue::String(word)) => Some(word.clone()),
        _ => None,
    };
    match error.kind() {
        ErrorKind::InvalidSubcommand => {
            let Some(word) = typed(error, ContextKind::InvalidSubcommand) else { return };
            let program = Arguments::command();
            let names = program.get_subcommands().map(clap::Command::get_name);
            let synonym = SYNONYMS.iter().find(|(other, _)| *other == word).map(|(_, name)| *name);
            let is_suggested = error.get(ContextKind::SuggestedSubcommand).is_some();
            if let Some(name) = synonym.or_else(|| nearest(&word, names).filter(|_| !is_suggested)) {
                let suggested = ContextValue::Strings(vec![name.to_owned()]);
                error.insert(ContextKind::SuggestedSubcommand, suggested);
            }
        }
        ErrorKind::UnknownArgument => {
            let Some(word) = typed(error, ContextKind::InvalidArg) else { return };
            if COLUMNS.contains(&word.as_str()) && matches!(command, Some("run" | "plan" | "bench")) {
                error.insert(ContextKind::SuggestedArg, ContextValue::String("-k".into()));
                return;
            }
            let hint = match command {
                Some("run" | "plan") => format!("X is a flag: write '--x {word}'"),
                Some("gemm") => {
                    format!("to write C, use '--output {word}'; to add to an old C, use '--c {word}'")
                }
                _ => return,
            };
            if X_ENDINGS.iter().any(|ending| word.ends_with(ending)) {
                let hint = StyledStr::from(hint);
                error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![hint]));
            }
        }
        ErrorKind::MissingRequiredArgument => {
            let Some(ContextValue::Strings(missing)) = error.get(ContextKind::InvalidArg) else { return };
            if missing.iter().any(|name| name.starts_with("<MATRIX>")) {
                let hint = "a matrix is a file, or a generated one such as 'gen:stencil27,n=64'";
                error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![hint.into()]));
            }
        }
        _ => {}
    }
}

/// Adds what is meant by `path` as a matrix to the error of a file that is missing: a generator without `gen:`, or a matrix of the SuiteSparse
/// collection.
pub fn of_missing_matrix(path: &Path, error: Error) -> Error {
    let name = path.to_string_lossy();
    let kind = name.split_once(',').map_or(&*name, |(kind, _)| kind);
    let is_generator = KINDS.iter().chain(DENSE_KINDS).any(|known| known.name == kind);
    let is_plain = !name.is_empty()
        && name.chars().all(|c| c.is_ascii_alphanumeric() || "_-+/".contains(c))
        && name.matches('/').count() <= 1
        && !name.starts_with('/');
    let hint = if is_generator {
        Some(format!("did you mean gen:{name}?"))
    } else if TABLE.iter().any(|kernel| kernel.name == name) {
        Some(format!("{name} is a kernel: the names after --kernels are separated by commas"))
    } else if let Some(similar) = similar_file(path) {
        Some(format!("did you mean {similar}?"))
    } else {
        is_plain.then(|| format!("for a matrix of the SuiteSparse collection write suitesparse:{name}"))
    };
    with_hint(path, error, hint)
}

/// A file in the same folder whose name differs from that of `path` by a typing error.
fn similar_file(path: &Path) -> Option<String> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let files = fs::read_dir(folder.unwrap_or(Path::new("."))).ok()?;
    let names: Vec<String> = files.filter_map(|file| file.ok()?.file_name().into_string().ok()).collect();
    let similar = nearest_file(path.file_name()?.to_str()?, names.iter().map(String::as_str))?;
    Some(folder.map_or_else(|| similar.into(), |folder| folder.join(similar).display().to_string()))
}

/// Adds what is meant by `path` as X to the error of a file that is missing.
pub fn of_missing_x(path: &Path, error: Error) -> Error {
    let meant = nearest(&path.to_string_lossy(), ["random", "ones"]);
    with_hint(path, error, meant.map(|meant| format!("did you mean {meant}?")))
}

fn with_hint(path: &Path, error: Error, hint: Option<String>) -> Error {
    match (error, hint) {
        (Error::Read { source, .. }, Some(hint)) if source.kind() == io::ErrorKind::NotFound => {
            Error::read(path, io::Error::new(source.kind(), format!("no such file; {hint}")))
        }
        (error, _) => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_missing_files_are_explained() {
        let missing = |name: &str| Error::read(name, io::ErrorKind::NotFound.into());
        for (name, hint) in [
            ("stencil27,n=8", "stencil27,n=8: no such file; did you mean gen:stencil27,n=8?"),
            (
                "HB/bcsstk18",
                "HB/bcsstk18: no such file; for a matrix of the SuiteSparse collection write suitesparse:HB/bcsstk18",
            ),
            (
                "cpu_sell",
                "cpu_sell: no such file; cpu_sell is a kernel: the names after --kernels are separated by commas",
            ),
            ("src/args/comand.rs", "src/args/comand.rs: no such file; did you mean src/args/command.rs?"),
            ("Cargo.tml", "Cargo.tml: no such file; did you mean Cargo.toml?"),
        ] {
            assert_eq!(of_missing_matrix(name.as_ref(), missing(name)).to_string(), hint);
        }
        for name in ["a.mtx", "/tmp/a", "a/b/c", ""] {
            assert!(!of_missing_matrix(name.as_ref(), missing(name)).to_string().contains("no such file"));
        }
        let random = of_missing_x("rand".as_ref(), missing("rand"));
        assert_eq!(random.to_string(), "rand: no such file; did you mean random?");
        let denied = Error::read("stencil5", io::ErrorKind::PermissionDenied.into());
        assert!(!of_missing_matrix("stencil5".as_ref(), denied).to_string().contains("gen:"));
    }
}
