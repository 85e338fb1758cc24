//! `-`: matrices and X from standard input, matrices and Y to standard output; readers that go away; signals in writes.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::python::{python, run_python};
use crate::support::{Place, SMALL};

const SMALL_RUN: &str = "-k 2 --x ones --repeat 1 --devices cpu";

fn small() -> Place {
    let place = Place::new();
    place.write("small.mtx", SMALL);
    place
}

/// Runs a command with that standard input; its exit code, standard output and standard error.
fn fed(place: &Place, words: &str, input: &[u8]) -> (i32, Vec<u8>, String) {
    let output = place.command(words).write_stdin(input).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code().unwrap(), output.stdout, said)
}

#[test]
fn a_dash_reads_a_matrix_from_standard_input_by_its_content() {
    let place = small();
    let hash = |report: &Value| report["y_hash"].clone();
    let expected = hash(&place.json(&format!("run small.mtx {SMALL_RUN} --json")));
    for file in ["small.mtx", "a.mtx.gz", "a.npz", "a.rlm"] {
        if file != "small.mtx" {
            place.succeed(&format!("convert small.mtx {file}"));
        }
        let bytes = std::fs::read(place.path(file)).unwrap();
        let (code, output, said) = fed(&place, &format!("run - {SMALL_RUN} --json"), &bytes);
        assert_eq!(code, 0, "{file}: {said}");
        let report: Value = serde_json::from_slice(&output).unwrap();
        assert_eq!(hash(&report), expected, "{file}");
        // A cache knows the name of its matrix.
        let name = if file == "a.rlm" { "small" } else { "standard input" };
        assert_eq!(report["matrix"]["name"], name);
    }
    for words in [
        "inspect -",
        "plan - -k 1",
        "bench - -k 1 --kernels serial_csr --devices cpu --repeat 1",
        "convert - b.mtx",
    ] {
        let (code, output, said) = fed(&place, words, SMALL.as_bytes());
        assert_eq!(code, 0, "{words}: {said}");
        assert!(!output.is_empty(), "{words}");
    }
    // A file on standard input is read without a copy.
    let file = std::fs::File::open(place.path("a.rlm")).unwrap();
    let status = Command::new(env!("CARGO_BIN_EXE_rowloom")).args(["inspect", "-"]).stdin(file).status();
    assert!(status.unwrap().success());
}

#[test]
fn bad_standard_input_is_named_in_the_error() {
    let place = small();
    for input in ["", "no matrix", "<html>", &SMALL.replace("1.5", "1,5")] {
        let (code, output, said) = fed(&place, "inspect -", input.as_bytes());
        assert_eq!(code, 3, "{said}");
        assert!(said.starts_with("error: standard input"), "{said}");
        assert!(output.is_empty());
    }
    let (code, _, said) =
        fed(&place, "run small.mtx --x -", b"%%MatrixMarket matrix array real general\n1 1\n1\n");
    assert_eq!((code, said.contains("standard input: X has 1 rows")), (3, true), "{said}");
}

#[test]
fn a_dash_writes_a_matrix_to_standard_output_and_nothing_else() {
    let place = small();
    let (code, output, said) = fed(&place, "convert - -", SMALL.as_bytes());
    assert_eq!(code, 0, "{said}");
    place.succeed("convert small.mtx b.mtx");
    assert_eq!(String::from_utf8(output).unwrap(), place.read("b.mtx"));
    assert!(said.contains("6 nonzeros"), "the table goes to standard error: {said}");
    let quiet = place.succeed("generate stencil5,n=4 - --quiet");
    assert!(quiet.stdout.starts_with("%%MatrixMarket matrix coordinate") && quiet.stderr.is_empty());
    assert_eq!(place.names(), ["b.mtx", "small.mtx"]);
}

#[test]
fn y_goes_to_standard_output_in_the_format_of_x() {
    let place = small();
    let text = place.succeed(&format!("run small.mtx {SMALL_RUN} --output -"));
    assert!(text.stdout.starts_with("%%MatrixMarket matrix array real general\n"), "{}", text.stdout);
    assert!(text.stdout.ends_with("\n-0.5\n0.0\n22.0\n"), "{}", text.stdout);
    assert!(text.stderr.contains("small"), "{}", text.stderr);

    place.write("x.mtx", "%%MatrixMarket matrix array real general\n4 1\n1\n1\n1\n1\n");
    // A diagonal matrix makes a .npy file with four rows of it.
    place.succeed("run gen:diagonal,rows=4 --x x.mtx --repeat 1 --output x.npy");
    let x = std::fs::read(place.path("x.npy")).unwrap();
    let (code, y, said) = fed(&place, "run small.mtx --x - --repeat 1 --output - --json=report.json", &x);
    assert_eq!(code, 0, "{said}");
    assert!(y.starts_with(b"\x93NUMPY"), "{y:?}");
    assert_eq!(serde_json::from_str::<Value>(&place.read("report.json")).unwrap()["k"], 1);
}

#[test]
fn a_vector_for_x_gives_a_vector_for_y() {
    let place = small();
    let header = format!("{:<117}\n", "{'descr': '<f8', 'fortran_order': False, 'shape': (4,), }");
    let mut x = b"\x93NUMPY\x01\x00\x76\x00".to_vec();
    x.extend(header.as_bytes());
    x.extend([1.0f64; 4].iter().flat_map(|value| value.to_le_bytes()));
    place.write("x.npy", &x);
    place.succeed("run small.mtx --x x.npy --repeat 1 --output y.npy");
    let y = std::fs::read(place.path("y.npy")).unwrap();
    assert!(String::from_utf8_lossy(&y).contains("'shape': (3,)"), "{}", String::from_utf8_lossy(&y));
    assert_eq!(y.len() % 64, 24);
    place.succeed("run small.mtx --x ones -k 1 --repeat 1 --output matrix.npy");
    let y = std::fs::read(place.path("matrix.npy")).unwrap();
    assert!(String::from_utf8_lossy(&y).contains("'shape': (3, 1)"));
}

#[test]
fn standard_streams_are_used_once() {
    let place = small();
    for words in ["run - --x -", "bench - -"] {
        assert_eq!(place.run(words).code, 2, "{words}");
    }
    place.fail("run - --x -", 2, "read only once");
    place.fail("convert small.mtx - --json", 2, "--json=FILE");
    place.fail("run small.mtx --output - --json", 2, "--json=FILE");
    for words in ["inspect small.mtx --spy -", "plan small.mtx --save -", "run small.mtx --trace -"] {
        place.fail(words, 2, "needs a file");
    }
    assert_eq!(place.names(), ["small.mtx"]);
}

#[test]
fn npz_files_are_those_of_scipy() {
    let place = small();
    place.succeed("convert small.mtx a.npz");
    let report = place.json("convert a.npz b.mtx --json");
    assert_eq!((&report["matrix"]["nnz"], &report["matrix"]["rows"]), (&6.into(), &3.into()));
    place.succeed("generate rmat,scale=8,degree=6 c.npz --dtype f32");
    assert_eq!(place.json("inspect c.npz --json")["matrix"]["synthetic"], true);
    let Some(python) = python("scipy") else { return };
    let script = "
import sys, scipy.io, scipy.sparse
a = scipy.sparse.load_npz(sys.argv[1])
b = scipy.io.mmread(sys.argv[2])
assert a.format == 'csr' and a.dtype == 'float64' and a.shape == b.shape, a
assert a.has_canonical_format and (a != b).nnz == 0
c = scipy.sparse.load_npz(sys.argv[3])
assert c.dtype == 'float32' and c.shape == (256, 256) and c.indices.dtype == 'int32', c
";
    run_python(&python, script, &[&place.path("a.npz"), &place.path("small.mtx"), &place.path("c.npz")]);
}

#[test]
fn a_reader_that_is_gone_ends_the_program_quietly_with_141() {
    let place = small();
    for words in [
        "completions bash",
        "devices -q",
        "man --json",
        "run --help",
        "--version",
        "inspect small.mtx",
        "convert small.mtx - -q",
        "run small.mtx --x ones --repeat 1 --output - -q",
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = Command::new(env!("CARGO_BIN_EXE_rowloom"))
            .args(words.split(' '))
            .current_dir(place.path(""))
            .stdout(writer)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), said.as_ref()), (Some(141), ""), "{words}");
    }
}

/// Starts a command, sends a signal as soon as it writes its file, and returns its exit code and the time it took to end.
fn interrupted_while_writing(place: &Place, words: &str, signal: &str) -> (Option<i32>, Duration) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_rowloom"))
        .args(words.split(' '))
        .current_dir(place.path(""))
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let is_writing = || place.names().iter().any(|name| name.ends_with(".part"));
    while !is_writing() && child.try_wait().unwrap().is_none() {
        std::thread::sleep(Duration::from_millis(1));
    }
    let sent = Instant::now();
    let kill = Command::new("kill").args([&format!("-{signal}"), &child.id().to_string()]).status();
    assert!(kill.unwrap().success(), "{words} ended before it was interrupted");
    let code = child.wait().unwrap().code();
    (code, sent.elapsed())
}

#[test]
fn a_signal_ends_every_write_within_a_second_and_leaves_the_old_file() {
    for (words, file, signal) in [
        ("generate stencil27,n=60 out.mtx", "out.mtx", "INT"),
        ("generate stencil27,n=60 out.mtx.gz", "out.mtx.gz", "TERM"),
        ("convert gen:stencil27,n=60 out.npz", "out.npz", "INT"),
        ("convert gen:stencil27,n=60 out.rlm", "out.rlm", "INT"),
        (
            "run gen:diagonal,rows=1000000 -k 8 --repeat 1 --warmup 0 --devices cpu --output out.mtx",
            "out.mtx",
            "INT",
        ),
    ] {
        let place = Place::new();
        place.succeed(&words.replace("n=60", "n=2").replace("=1000000", "=3"));
        let before = std::fs::read(place.path(file)).unwrap();
        let (code, time) = interrupted_while_writing(&place, words, signal);
        assert_eq!(code, Some(130), "{words}");
        assert!(time < Duration::from_secs(1), "{words} took {time:?} to end");
        assert_eq!(place.names(), [file], "{words}");
        assert!(std::fs::read(place.path(file)).unwrap() == before, "{words}");
    }
}
