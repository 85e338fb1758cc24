//! Skipped tests: every skip is visible, and `ROWLOOM_REQUIRE` turns it into a failure.
//!
//! `ROWLOOM_REQUIRE` is a list of what must be there, as in `gpu,nvrtc,cublas,python,mkl,matrices,bash`. The unit tests of the library and all
//! integration tests include this file.

use std::fmt::Display;
use std::io::Write;

/// Says that the running test is skipped because `need` is missing. Panics if `ROWLOOM_REQUIRE` names `need`.
pub fn skip(need: &str, reason: impl Display) {
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("a test");
    let required = std::env::var("ROWLOOM_REQUIRE").unwrap_or_default();
    let is_required = required.split(',').any(|name| name.trim() == need);
    assert!(!is_required, "ROWLOOM_REQUIRE names {need}, and {test} cannot run: {reason}");
    // Not with `eprintln`: the output of tests that pass is not shown.
    let _ = std::io::stderr().write_all(format!("SKIPPED {test} (needs {need}): {reason}\n").as_bytes());
}
