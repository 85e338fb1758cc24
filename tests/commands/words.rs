//! Help, completions, manual, usage errors: the words of the program itself.

use std::process::Command;

use crate::support::Place;

const COMMANDS: [&str; 13] = [
    "run",
    "plan",
    "bench",
    "study",
    "calibrate",
    "inspect",
    "convert",
    "generate",
    "trace",
    "devices",
    "demo",
    "completions",
    "man",
];

#[test]
fn help_of_every_command_goes_to_standard_output() {
    let place = Place::new();
    let root = place.succeed("--help").stdout;
    for command in COMMANDS {
        assert!(root.contains(&format!("\n  {command} ")), "{command}");
        let help = place.succeed(&format!("{command} --help")).stdout;
        for flag in ["--json", "--quiet", "--color"] {
            assert!(help.contains(flag), "{command} {flag}");
        }
    }
    assert_eq!(place.succeed("--version").stdout, format!("rowloom {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn nonsense_is_a_usage_error() {
    let place = Place::new();
    for words in
        ["weave", "run", "run --sideways a.mtx", "convert a.mtx", "completions klingon", "devices extra"]
    {
        place.fail(words, 2, "--help");
    }
    assert_eq!(place.run("").code, 2);
    assert!(place.names().is_empty());
}

#[test]
fn completions_exist_for_every_shell() {
    let place = Place::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = place.succeed(&format!("completions {shell}")).stdout;
        for command in COMMANDS {
            assert!(script.contains(command), "{shell} {command}");
        }
    }
    let report = place.json("completions fish --json");
    assert!(report["script"].as_str().unwrap().contains("rowloom"));
}

#[test]
fn the_manual_names_every_command() {
    let place = Place::new();
    let page = place.succeed("man").stdout;
    assert!(page.contains(".TH rowloom 1"));
    place.succeed("man pages");
    for command in COMMANDS {
        assert!(page.contains(&format!("rowloom\\-{command}(1)")), "{command}");
        let own = place.read(&format!("pages/rowloom-{command}.1"));
        assert!(own.contains(&format!(".TH rowloom-{command} 1")), "{command}");
    }
    assert!(place.read("pages/rowloom-run.1").contains("\\-\\-verify"));
}

#[test]
fn a_full_disk_is_exit_code_1() {
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_rowloom")).arg("man").stdout(full).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("cannot write standard output"));
}

#[test]
fn json_goes_to_a_file_whole_or_not_at_all() {
    let place = Place::new();
    let table = place.succeed("devices --json=report.json").stdout;
    assert!(!table.is_empty(), "the table is still shown");
    let report: serde_json::Value = serde_json::from_str(&place.read("report.json")).unwrap();
    assert_eq!(report["command"], "devices");
    assert_eq!(place.names(), ["report.json"]);
    place.fail("devices --json=none/report.json", 1, "cannot write none/report.json");
}

#[test]
fn colors_are_only_used_when_asked_for() {
    let place = Place::new();
    assert!(!place.succeed("devices").stdout.contains('\x1b'));
    assert!(place.succeed("devices --color always").stdout.contains('\x1b'));
    assert!(place.run("inspect none.mtx --color always").stderr.contains("\x1b[1;31merror:"));
}
