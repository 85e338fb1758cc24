//! Claims that were found wrong do not come back, and numbers that are said to be another's are that.

use std::collections::BTreeMap;
use std::path::Path;

use crate::plain_words::{flowing, texts};

/// Refuted claims in lower case, each with what is true.
const REFUTED: &[(&str, &str)] = &[
    (
        "fail each for itself",
        "a kernel fault in cuda:0 also ended cuda:0#2 on the same card (benches/results/cuda-h200.md)",
    ),
    (
        "registered where they lie, once",
        "`Product::apply_into` stages X and Y, `Product::bind` may register them, once for all products",
    ),
    (
        "x and y are registered once.",
        "`Product::apply_into` stages X and Y, `Product::bind` may register them, once for all products",
    ),
    ("as the h200's", "say whether a number was measured, is from a data sheet or is assumed"),
];

#[test]
fn refuted_claims_do_not_come_back() {
    for (path, text) in texts().into_iter().filter(|(path, _)| !path.ends_with(file!())) {
        let text = flowing(&text);
        for (claim, truth) in REFUTED {
            assert!(!text.contains(claim), "{}: '{claim}' is wrong: {truth}", path.display());
        }
    }
}

/// The lines of a machine description: section and key, then value and comment.
fn values(name: &str) -> BTreeMap<String, (String, String)> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join("configs/machines").join(name);
    let text = std::fs::read_to_string(path).unwrap();
    let mut section = String::new();
    let mut values = BTreeMap::new();
    for line in text.lines() {
        if line.starts_with('[') {
            section = line.into();
        } else if let Some((key, rest)) = line.split_once(" = ") {
            let (value, comment) = rest.split_once('#').unwrap_or((rest, ""));
            values.insert(format!("{section} {}", key.trim()), (value.trim().into(), comment.trim().into()));
        }
    }
    values
}

#[test]
fn numbers_of_a_machine_that_are_said_to_be_another_machines_are_equal_to_its() {
    let others =
        [("assumed, as in h200.toml", values("h200.toml")), ("as in h100.toml", values("h100.toml"))];
    let mut compared = 0;
    for name in ["a100.toml", "h100.toml", "node8.toml"] {
        for (key, (value, comment)) in values(name) {
            for (claim, other) in others.iter().filter(|(claim, _)| comment.starts_with(claim)) {
                assert_eq!(Some(&value), other.get(&key).map(|(value, _)| value), "{name}: {key}: {claim}");
                compared += 1;
            }
        }
    }
    assert!(compared > 15, "only {compared} numbers were compared");
}

#[test]
fn every_number_of_a_machine_names_its_source() {
    let sources =
        ["measured", "data sheet", "assumed", "published", "scaled", "as in h100.toml", "the H200's"];
    for name in ["a100.toml", "h100.toml", "h200.toml", "node8.toml"] {
        for (key, (value, comment)) in values(name) {
            let is_number = value.chars().all(|c| c.is_ascii_digit() || c == '.' || c == '_');
            let named = sources.iter().any(|source| comment.contains(source)) || key == " gpus";
            assert!(!is_number || named, "{name}: {key} = {value} names no source");
        }
    }
}
