//! Skipped tests are visible, and `ROWLOOM_REQUIRE` turns a skip into a failure.

use std::process::Command;

use crate::skip::skip;

#[test]
#[ignore = "the test below runs it, as a test that is skipped"]
fn needs_an_abacus() {
    skip("abacus", "there is none");
}

#[test]
fn a_skipped_test_is_named_and_fails_where_its_need_is_required() {
    let run = |required: &str| {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--ignored", "--exact", "skipped::needs_an_abacus"]).env("ROWLOOM_REQUIRE", required);
        let output = command.output().unwrap();
        (output.status.success(), String::from_utf8([output.stdout, output.stderr].concat()).unwrap())
    };
    for (required, passes) in [("", true), ("gpu,slide rule", true), ("gpu, abacus", false)] {
        let (passed, said) = run(required);
        assert_eq!(passed, passes, "{required}: {said}");
        let line = "SKIPPED skipped::needs_an_abacus (needs abacus): there is none";
        assert!(!passes || said.contains(line), "{required}: {said}");
    }
}
