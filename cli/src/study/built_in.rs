//! The studies of `configs/`, which are part of the program: found by name, listed, and saved as files to be changed.

use std::path::{Component, Path, PathBuf};

use crate::args::StudyArguments;
use crate::args::standard_stream::is_dash;
use crate::console::report::Report;
use crate::console::table::Table;
use crate::console::{Console, write_file};
use crate::results::StudyConfig;
use rowloom::internal::error::{Error, Place, Result};
use rowloom::internal::suggest::did_you_mean;
use rowloom::internal::toml_file::TomlFile;

/// A study that is part of the program.
pub struct BuiltIn {
    /// Its name, that of its file without the ending.
    pub name: &'static str,
    /// The text of its file.
    pub text: &'static str,
}

macro_rules! built_in {
    ($name:literal) => {
        BuiltIn { name: $name, text: include_str!(concat!("../../configs/", $name, ".toml")) }
    };
}

/// The studies of `configs/`, by name.
pub const BUILT_IN: [BuiltIn; 16] = [
    built_in!("cluster-strong-scaling"),
    built_in!("cluster-weak-scaling"),
    built_in!("kernels"),
    built_in!("overlap"),
    built_in!("quick"),
    built_in!("scaling-devices"),
    built_in!("scaling-threads"),
    built_in!("solvers"),
    built_in!("source-colmean"),
    built_in!("source-conversions"),
    built_in!("source-cuda"),
    built_in!("source-gemm-tiles"),
    built_in!("source-openmp-csr"),
    built_in!("source-openmp-ellpack"),
    built_in!("source-transfers"),
    built_in!("what-if-8-gpus"),
];

impl BuiltIn {
    /// The study with this name.
    pub fn named(name: &str) -> Option<&'static Self> {
        BUILT_IN.iter().find(|study| study.name == name)
    }

    /// The first sentence of the comment that opens the file.
    pub fn summary(&self) -> String {
        let comment = self.text.lines().map_while(|line| line.strip_prefix('#')).map(str::trim);
        let comment = comment.collect::<Vec<_>>().join(" ");
        let end = comment.find(". ").unwrap_or(comment.len());
        comment.get(..end).unwrap_or_default().trim_end_matches('.').into()
    }
}

/// The file of a study; none where `typed` is the name of a built-in study, or could only be one.
pub fn file(typed: &Path) -> Option<&Path> {
    let mut parts = typed.components();
    let is_name = matches!((parts.next(), parts.next()), (Some(Component::Normal(_)), None))
        && !typed.as_os_str().to_string_lossy().contains(std::path::MAIN_SEPARATOR)
        && typed.extension().is_none_or(|ending| ending != "toml");
    // A folder of that name is one with results.
    let exists = typed.exists() && !typed.is_dir();
    (!is_name || exists || is_dash(typed)).then_some(typed)
}

/// Reads the study with this name or in this file.
pub fn read(typed: &Path) -> Result<(StudyConfig, TomlFile)> {
    if let Some(path) = file(typed) {
        return StudyConfig::read(path);
    }
    let study = named(typed)?;
    let file = TomlFile::new(format!("built-in study {}", study.name), study.text);
    Ok((StudyConfig::parse(&file)?, file))
}

fn named(typed: &Path) -> Result<&'static BuiltIn> {
    let name = typed.to_string_lossy();
    BuiltIn::named(&name).ok_or_else(|| {
        let nearest = did_you_mean(&name, BUILT_IN.iter().map(|study| study.name));
        let reason = format!(
            "neither a file nor a built-in study{nearest}; `rowloom study --list` shows the built-in studies"
        );
        Error::input(Place::file(typed), reason)
    })
}

/// Prints the names of the built-in studies with one line each.
pub fn list(console: &Console) -> Result<()> {
    let mut table = Table::facts();
    for study in &BUILT_IN {
        table.fact(study.name, study.summary());
    }
    console.table(&table)?;
    let studies: Vec<_> = BUILT_IN
        .iter()
        .map(|study| serde_json::json!({"name": study.name, "summary": study.summary()}))
        .collect();
    console.json(&Report::new("study").with("studies", studies))
}

/// The file that `--save` writes into the current folder.
pub fn saved_file(arguments: &StudyArguments) -> Option<PathBuf> {
    let name = arguments.config.as_deref().filter(|_| arguments.save)?;
    Some(format!("{}.toml", name.to_string_lossy()).into())
}

/// Writes the file of a built-in study into the current folder; an existing file is kept without `--force`.
pub fn save(typed: &Path, file: &Path, arguments: &StudyArguments, console: &Console) -> Result<()> {
    let study = named(typed)?;
    let shown = file.display();
    if file.exists() && !arguments.common.force {
        return Err(Error::usage(format!("{shown} exists; rename it, or add --force to replace it")));
    }
    write_file(file, study.text.as_bytes())?;
    console.prose(&format!("Wrote {shown}. Measure it with: rowloom study {shown}\n"))?;
    console.json(&Report::new("study").with("saved", shown.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_study_in_configs_is_built_in_and_has_a_summary() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join("configs");
        let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let mut files: Vec<PathBuf> =
            entries.filter(|path| path.extension().is_some_and(|e| e == "toml")).collect();
        files.sort();
        assert_eq!(files.len(), BUILT_IN.len());
        for (path, study) in files.iter().zip(&BUILT_IN) {
            assert_eq!(path.file_stem().unwrap(), study.name);
            assert_eq!(std::fs::read_to_string(path).unwrap(), study.text);
            assert!(study.summary().len() > 20, "{}: {}", study.name, study.summary());
        }
        let quick = BuiltIn::named("quick").unwrap();
        assert_eq!(quick.summary(), "A first study: under a minute on two cores, without a GPU");
    }

    #[test]
    fn a_path_or_a_toml_ending_is_a_file_and_a_plain_word_a_name() {
        for path in ["configs/quick", "./quick", "quick.toml", "-", "/quick"] {
            assert!(file(Path::new(path)).is_some(), "{path}");
        }
        for name in ["quick", "quik", "source-cuda"] {
            assert!(file(Path::new(name)).is_none(), "{name}");
        }
    }
}
