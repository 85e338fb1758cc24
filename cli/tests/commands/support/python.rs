//! Checks by programs that are not ours. Where Python lacks what they need, they say so and are skipped.

use std::path::Path;
use std::process::{Command, Stdio};

const VALIDATE: &str = "
import json, sys, jsonschema
schema, data = (json.load(open(name)) for name in sys.argv[1:])
jsonschema.Draft202012Validator.check_schema(schema)
jsonschema.Draft202012Validator(schema).validate(data)
";

/// Python with a module, where there is one.
pub fn python(module: &str) -> Option<String> {
    let python = std::env::var("ROWLOOM_PYTHON").unwrap_or_else(|_| "python3".into());
    let found =
        Command::new(&python).args(["-c", &format!("import {module}")]).stderr(Stdio::null()).status();
    if found.is_ok_and(|status| status.success()) {
        return Some(python);
    }
    crate::skip::skip(
        "python",
        format!("{python} has no {module}; set ROWLOOM_PYTHON to a Python that has it"),
    );
    None
}

/// Runs a script that must succeed.
pub fn run_python(python: &str, script: &str, words: &[&Path]) {
    let output = Command::new(python).args(["-c", script]).args(words).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
}

/// Holds a JSON file against a schema of `docs/schemas/`.
pub fn validate(schema: &str, file: &Path) {
    let schema = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join("docs/schemas").join(schema);
    if let Some(python) = python("jsonschema") {
        run_python(&python, VALIDATE, &[&schema, file]);
    }
}
