//! Where commands write: `--json` and its file, files that are not written over, standard input and output, signals.

use crate::support::{Place, SMALL};

/// Every command, with words that make it succeed quickly.
const COMMANDS: [&str; 13] = [
    "run small.mtx -k 1 --repeat 1",
    "plan small.mtx -k 1",
    "bench small.mtx -k 1 --kernels serial_csr --devices cpu --repeat 1",
    "study study.toml",
    "calibrate --devices emu:0 --seconds 0.1 --output model.toml",
    "inspect small.mtx",
    "convert small.mtx out.mtx",
    "generate stencil5,n=4 out.mtx",
    "trace trace.json",
    "devices",
    "demo folder",
    "completions bash",
    "man pages",
];

fn small() -> Place {
    let place = Place::new();
    place.write("small.mtx", SMALL);
    place
}

#[test]
fn json_with_its_file_as_a_separate_word_is_refused_by_every_command() {
    let place = small();
    for command in COMMANDS {
        for file in ["report.json", "Report.JSON"] {
            place.fail(&format!("{command} --json {file}"), 2, &format!("--json={file}"));
            let (name, rest) = command.split_once(' ').unwrap_or((command, ""));
            place.fail(&format!("{name} --json {file} {rest}"), 2, &format!("--json={file}"));
        }
    }
    for words in ["run small.mtx --json out", "bench small.mtx --json out", "bench --json out small.mtx"] {
        place.fail(words, 2, "--json=out");
    }
    assert_eq!(place.names(), ["small.mtx"]);
}

#[test]
fn json_never_takes_the_next_word() {
    let place = small();
    place.succeed("convert small.mtx a.mtx.gz");
    place.succeed("convert small.mtx b.mtx.gz");
    let read = |name: &str| std::fs::read(place.path(name)).unwrap();
    let before = (read("a.mtx.gz"), read("b.mtx.gz"));
    let report =
        place.json("bench --json a.mtx.gz b.mtx.gz -k 1 --kernels serial_csr --devices cpu --repeat 1");
    assert_eq!(report["cases"].as_array().unwrap().len(), 2);
    assert_eq!(before, (read("a.mtx.gz"), read("b.mtx.gz")));
    assert_eq!(place.json("run --json small.mtx -k 1 --repeat 1")["command"], "run");
    assert_eq!(place.json("plan --json gen:stencil5,n=4 -k 1")["command"], "plan");
    assert_eq!(place.json("inspect --json small.mtx")["command"], "inspect");
    assert_eq!(place.json("convert --json small.mtx c.mtx")["output"], "c.mtx");
    assert_eq!(place.json("generate --json stencil5,n=4 d.mtx")["output"], "d.mtx");
    assert_eq!(place.json("man --json pages")["command"], "man");
    assert_eq!(place.json("completions --json bash")["command"], "completions");
    place.succeed("run small.mtx -k 1 --repeat 1 --trace t.json");
    assert_eq!(place.json("trace --json t.json")["command"], "trace");
    place.fail("bench --json none.mtx", 3, "none.mtx");
    assert_eq!(place.names(), ["a.mtx.gz", "b.mtx.gz", "c.mtx", "d.mtx", "pages", "small.mtx", "t.json"]);
}
