//! The keys that a study must have: an error names all that are missing, not the first one only.

use rowloom::internal::error::{Error, Place};
use rowloom::internal::toml_file::TomlFile;
use toml::{Table, Value};

/// An error that names every missing key of the study; none where all are there or the file is no TOML.
pub fn missing(file: &TomlFile) -> Option<Error> {
    let study: Table = file.parse().ok()?;
    let mut places: Vec<Place> = Vec::new();
    let mut reasons = Vec::new();
    for key in ["title", "sweep"] {
        if !study.contains_key(key) {
            places.push(file.place_of(&[]));
            reasons.push(format!("{} is missing", if key == "sweep" { "[[sweep]]" } else { key }));
        }
    }
    let sweeps = match study.get("sweep") {
        Some(Value::Array(sweeps)) => sweeps.iter().collect(),
        Some(sweep) => vec![sweep],
        None => Vec::new(),
    };
    for (index, sweep) in sweeps.into_iter().filter_map(Value::as_table).enumerate() {
        let copies = sweep.get("subject").and_then(Value::as_str) == Some("transfers");
        let required = if copies { &["name"][..] } else { &["name", "matrices"] };
        let absent: Vec<&str> = required.iter().copied().filter(|key| !sweep.contains_key(*key)).collect();
        if !absent.is_empty() {
            places.push(file.place_of(&["sweep", &index.to_string()]));
            reasons.push(format!("[[sweep]] number {} has no {}", index + 1, absent.join(" and no ")));
        }
    }
    let place = places.into_iter().next()?;
    Some(Error::input(place, format!("{}; `rowloom study --help` lists the keys", reasons.join("; "))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::StudyConfig;

    #[test]
    fn all_missing_keys_are_named_at_once() {
        let error = |text: &str| {
            let error = StudyConfig::parse(&TomlFile::new("a.toml", text)).unwrap_err();
            assert_eq!(error.exit_code(), 3);
            error.to_string()
        };
        let missing = error("title = 'a'");
        assert!(missing.starts_with("a.toml: [[sweep]] is missing; "), "{missing}");
        let missing = error("seed = 2\n[[sweep]]\nk = 8\n[[sweep]]\nsubject = 'transfers'");
        let all = "a.toml: title is missing; [[sweep]] number 1 has no name and no matrices; [[sweep]] number 2 has no name; ";
        assert!(missing.starts_with(all), "{missing}");
        let missing = error("title = 'a'\n[sweep]\nmatrices = 'b'");
        assert!(missing.starts_with("a.toml:2: [[sweep]] number 1 has no name; "), "{missing}");
        let mistyped = error("title = 1\n[[sweep]]\nname = 'b'");
        assert!(!mistyped.contains("missing"), "{mistyped}");
    }
}
