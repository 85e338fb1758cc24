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
            let (name, rest) = command.split_once(' ').unwrap_or((command, ""));
            for words in [format!("{command} --json {file}"), format!("{name} --json {file} {rest}")] {
                let outcome = place.run(&words);
                let advice =
                    format!("error: --json takes its file after an equals sign: write '--json={file}'\n");
                assert_eq!(outcome.code, 2, "{words}");
                assert!(outcome.stderr.starts_with(&advice), "{words}: {}", outcome.stderr);
                assert_eq!(outcome.stderr.matches("--json=").count(), 1, "{words}: {}", outcome.stderr);
            }
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

/// Commands with one output file each: the words, and the file.
const OUTPUTS: [(&str, &str); 13] = [
    ("devices --json=out", "out"),
    ("bench small.mtx -k 1 --kernels serial_csr --devices cpu --repeat 1 --csv out", "out"),
    ("bench small.mtx -k 1 --kernels serial_csr --devices cpu --repeat 1 --markdown out", "out"),
    ("run small.mtx -k 1 --repeat 1 --trace out", "out"),
    ("plan small.mtx -k 1 --save out", "out"),
    ("run small.mtx -k 1 --repeat 1 --output out.mtx", "out.mtx"),
    ("run small.mtx -k 1 --repeat 1 --output out.npy", "out.npy"),
    ("inspect small.mtx --spy out.svg", "out.svg"),
    ("convert small.mtx out.mtx", "out.mtx"),
    ("convert small.mtx out.mtx.gz", "out.mtx.gz"),
    ("convert small.mtx out.npz", "out.npz"),
    ("generate stencil5,n=4 out.rlm", "out.rlm"),
    ("man .", "rowloom-run.1"),
];

#[test]
fn a_file_of_somebody_else_is_replaced_only_with_force() {
    for (words, file) in OUTPUTS {
        let place = small();
        for precious in ["precious\n", "{\"version\": 1}\n", SMALL, "\u{1f}\u{8b}", "PK\u{3}\u{4}"] {
            place.write(file, precious);
            place.fail(words, 2, "--force");
            place.fail(words, 2, file);
            assert_eq!(place.read(file), precious, "{words}");
        }
        place.succeed(&format!("{words} --force"));
        // What the program wrote itself is replaced without a question, and so is an empty file.
        place.succeed(words);
        place.write(file, "");
        place.succeed(words);
    }
}

#[test]
fn outputs_of_another_kind_are_kept() {
    let place = small();
    place.succeed("run small.mtx -k 1 --repeat 1 --json=report --trace trace --output y.mtx");
    place.fail("plan small.mtx -k 1 --save report", 2, "not a plan that rowloom wrote");
    place.fail("run small.mtx -k 1 --repeat 1 --json=trace", 2, "not a JSON report that rowloom wrote");
    place.fail("convert small.mtx y.mtx", 2, "not a matrix that rowloom wrote");
    place.write("model.toml", "[[device]]\nname = \"cpu\"\n");
    place.fail("calibrate --devices emu:0 --seconds 0.1 --output model.toml", 2, "--force");
}

#[test]
fn folders_with_files_of_somebody_else_are_refused_before_any_work() {
    let place = small();
    for (file, words) in [
        ("demo/y.npy", "demo demo"),
        ("demo/study.toml", "demo demo"),
        ("demo/study/report.html", "demo demo"),
        ("out/results.csv", "study study.toml --output out"),
        ("out/speedup.svg", "study study.toml --output out"),
        ("pages/rowloom-plan.1", "man pages"),
    ] {
        std::fs::create_dir_all(place.path(file).parent().unwrap()).unwrap();
        place.write(file, "precious");
        place.fail(words, 2, file);
        assert_eq!(place.read(file), "precious");
        std::fs::remove_file(place.path(file)).unwrap();
    }
    assert_eq!(
        std::fs::read_dir(place.path("demo")).unwrap().count(),
        1,
        "only the empty folder of the study"
    );
}

#[test]
fn pipes_and_devices_are_written_to_as_they_are() {
    let place = small();
    place.succeed("run small.mtx -k 1 --repeat 1 --json=/dev/null --trace /dev/null");
    let shown = place.succeed("inspect small.mtx --json=/dev/stdout --spy /dev/null").stdout;
    assert!(shown.contains("6 nonzeros") && shown.contains("\"command\": \"inspect\""), "{shown}");
    std::process::Command::new("mkfifo").arg(place.path("pipe")).status().unwrap();
    let pipe = place.path("pipe");
    let reader = std::thread::spawn(move || std::fs::read_to_string(pipe).unwrap());
    place.succeed("devices --json=pipe");
    assert!(reader.join().unwrap().contains("\"command\": \"devices\""));
}

#[test]
fn a_wrong_result_is_not_written_and_the_report_says_so() {
    let place = Place::new();
    let words =
        "run gen:stencil5,n=12 -k 4 --devices emu:0?flip_bit_in_launch=1 --repeat 1 --warmup 0 --check never";
    let outcome = place.run(&format!("{words} --verify --output wrong.npy"));
    assert_eq!(outcome.code, 5, "{}", outcome.stderr);
    let flat = outcome.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(flat.contains("not written, since it is wrong") && !flat.contains("wrong.npy"), "{flat}");
    assert!(!place.path("wrong.npy").exists());
}
