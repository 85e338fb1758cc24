//! SIGINT and SIGTERM at random moments of each command: exit code 130 soon, outputs valid or untouched, no temporary file left.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use crate::failing_calls::{assert_no_temporary_file, library};
use crate::skip::skip;
use crate::support::Place;
use crate::support::random::Random;

/// At how many moments of each command a signal is sent: this variable, else [`QUICK_MOMENTS`].
const MOMENTS: &str = "ROWLOOM_TEST_SIGNALS";
const QUICK_MOMENTS: usize = 1;

/// The program ends within a second on an idle machine; tests share theirs.
const MAX_STOP_TIME: Duration = Duration::from_secs(3);

/// Longest delay from the start of the program to the signal.
const MAX_DELAY_MS: u64 = 1500;

/// Commands with their output; each takes longer than the delays, or is done before some of them.
const COMMANDS: [(&str, &str); 15] = [
    ("run a.rlm -k 8 --repeat 4000000000 --devices cpu --trace out.json", "out.json"),
    ("run a.rlm -k 8 --warmup 4000000000 --devices cpu,emu:0 --json=out.json", "out.json"),
    ("run a.rlm -k 4 --repeat 3 --verify --output out.npy", "out.npy"),
    (
        "gemm gen:dense,rows=900,cols=800 gen:dense,rows=800,cols=700 --repeat 4000000000 --devices cpu --json=out.json",
        "out.json",
    ),
    ("colmean gen:recording,rows=358 --repeat 4000000000 --devices cpu,emu:0 --trace out.json", "out.json"),
    ("plan a.rlm -k 8 --devices cpu,emu:0 --save out.json", "out.json"),
    ("bench a.rlm -k 8 --kernels all --devices cpu --warmup 100000 --json=out.json", "out.json"),
    ("convert a.rlm out.mtx", "out.mtx"),
    ("convert a.rlm out.mtx.gz", "out.mtx.gz"),
    ("convert a.rlm --check --json=out.json", "out.json"),
    ("convert a.mtx out.rlm", "out.rlm"),
    ("generate stencil27,n=48 out.npz", "out.npz"),
    ("inspect a.mtx --json=out.json", "out.json"),
    ("study study.toml --output folder --json=out.json", "out.json"),
    ("calibrate --devices cpu --output out.toml", "out.toml"),
];

const STUDY: &str = "title = \"t\"\n[measure]\nwarmup = 100000\n[[sweep]]\nname = \"conversions\"\nsubject = \"conversion\"\n\
                     matrices = [\"a.rlm\"]\n";

fn stopped(child: &mut Child, signal: &str) -> (ExitStatus, Duration) {
    let kill = Command::new("kill").args([&format!("-{signal}"), &child.id().to_string()]).status();
    let start = Instant::now();
    // A program that has ended already is still there for its parent.
    assert!(kill.unwrap().success());
    while start.elapsed() < Duration::from_secs(30) {
        if let Some(status) = child.try_wait().unwrap() {
            return (status, start.elapsed());
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    child.kill().and_then(|()| child.wait()).unwrap();
    panic!("{signal} was ignored");
}

/// Whether the file is a complete output of its kind.
fn is_valid(place: &Place, name: &str) -> bool {
    match name.rsplit('.').next() {
        Some("json") => serde_json::from_str::<serde_json::Value>(&place.read(name)).is_ok(),
        Some("npy") => place.run(&format!("run gen:diagonal,rows=27000 --x {name} --repeat 1")).code == 0,
        Some("toml") => place.run(&format!("plan gen:stencil5,n=4 -k 1 --model {name}")).code == 0,
        _ => place.run(&format!("inspect {name}")).code == 0,
    }
}

#[test]
fn a_signal_at_any_moment_ends_every_command_and_leaves_whole_files() {
    let moments = std::env::var(MOMENTS).map_or(QUICK_MOMENTS, |count| count.parse().unwrap());
    // Every run has other moments; a failure prints its own.
    let mut random = Random::new(std::process::id().into());
    let (mut interrupted, mut before, mut done, mut longest) = (0, 0, 0, Duration::ZERO);
    let source = Place::new();
    source.succeed("generate stencil27,n=30 a.rlm");
    source.succeed("generate stencil27,n=20 a.mtx");
    for moment in 0..moments {
        for (words, output) in COMMANDS {
            let place = Place::new();
            for name in ["a.rlm", "a.mtx"] {
                std::fs::hard_link(source.path(name), place.path(name)).unwrap();
            }
            place.write("study.toml", STUDY);
            let signal = ["INT", "TERM"][random.below(2) as usize];
            let mut child = place.process(words).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
            let delay = random.below(MAX_DELAY_MS);
            std::thread::sleep(Duration::from_millis(delay));
            let (status, took) = stopped(&mut child, signal);
            let label =
                format!("moment {moment}, SIG{signal} after {delay} ms: {words}: {status} in {took:?}");
            match (status.code(), status.signal()) {
                (Some(130), _) => interrupted += 1,
                (Some(0), _) => done += 1,
                // Until the handler is installed, the system ends the program.
                (None, Some(2 | 15)) if delay < 300 => before += 1,
                _ => panic!("{label}"),
            }
            longest = longest.max(took);
            assert!(took < MAX_STOP_TIME, "{label}");
            let names = place.names();
            assert!(!names.iter().any(|name| name.starts_with(".rowloom")), "{label}: {names:?}");
            assert!(
                !names.contains(&output.to_owned()) || is_valid(&place, output),
                "{label}: {output} is damaged"
            );
        }
    }
    println!(
        "signals: {interrupted} commands ended with 130, {done} had ended, {before} were not watching yet; the longest took \
         {longest:?}"
    );
    assert!(interrupted > 0);
}

/// Sends two signals to a program whose report cannot be written to the end; false if the signals came too early or too late for that.
fn stopped_twice(library: &Path, place: &Place, delay: Duration) -> bool {
    let mark = tempfile::tempdir().unwrap();
    let mark = mark.path().join("mark");
    let mut process = place.process("run a.rlm -k 1 --repeat 4000000000 --devices cpu --json=out.json");
    process.env("LD_PRELOAD", library).env("FAIL_CALLS", "stalled").env("FAIL_AT", "1");
    // A note on standard error must not be the write that stalls, even if the tests write theirs to a file.
    process.env("FAIL_MARK", &mark).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = process.spawn().unwrap();
    std::thread::sleep(delay);
    interrupt(&child);
    // The times of all products until then are evaluated first, which takes seconds on a loaded machine.
    while !mark.exists() && child.try_wait().unwrap().is_none() {
        std::thread::sleep(Duration::from_millis(2));
    }
    let has_temporary_file = place.names().iter().any(|name| name.starts_with(".rowloom"));
    if child.try_wait().unwrap().is_none() {
        interrupt(&child);
    }
    let second = Instant::now();
    let status = child.wait().unwrap();
    let took = second.elapsed();
    assert!(took < MAX_STOP_TIME, "{took:?}");
    for folder in [place.path(""), place.cache("")] {
        assert_no_temporary_file(&folder, &format!("{status} in {took:?}"));
    }
    // Until the handler is installed, the system ends the program.
    assert!(status.code() == Some(130) || status.signal() == Some(2), "{status} in {took:?}");
    has_temporary_file
}

#[test]
fn a_second_signal_ends_the_program_at_once_and_removes_its_temporary_file() {
    let library = match library() {
        Ok(library) => library,
        Err(reason) => return skip("cc", reason),
    };
    let place = Place::new();
    place.succeed("generate stencil5,n=20 a.rlm");
    // On a loaded machine the program may not compute yet when the first signal comes, but not every time.
    let mut attempts = (1..=10).map(|attempt| attempt * Duration::from_millis(200));
    assert!(attempts.any(|delay| stopped_twice(library, &place, delay)), "no program had begun to write");
}

#[test]
fn a_signal_during_a_write_removes_the_temporary_file() {
    let place = Place::new();
    place.succeed("generate stencil27,n=48 a.rlm");
    let is_temporary = |name: &String| name.starts_with(".rowloom");
    for signal in ["INT", "TERM"] {
        let mut child = place.process("convert a.rlm out.mtx.gz").stdout(Stdio::null()).spawn().unwrap();
        let start = Instant::now();
        while !place.names().iter().any(is_temporary) {
            assert!(start.elapsed() < Duration::from_secs(30), "no temporary file was written");
            std::thread::sleep(Duration::from_millis(2));
        }
        let (status, took) = stopped(&mut child, signal);
        assert_eq!(status.code(), Some(130), "{signal} in {took:?}");
        assert_eq!(place.names(), ["a.rlm"], "{signal}");
    }
}

/// A product of this matrix on an emulated GPU takes more than a second.
const SLOW: &str = "gen:stencil27,n=24 -k 96 --devices emu:0";

/// The first line that a command says where it ends after the current product or run.
const ENDING: &str = "interrupted: ending after the current";

fn interrupt(child: &Child) {
    let kill = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(kill.unwrap().success());
}

/// A command with its standard error.
fn started(place: &Place, words: &str) -> (Child, BufReader<ChildStderr>) {
    let mut process = place.process(words);
    let mut child = process.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let said = BufReader::new(child.stderr.take().unwrap());
    (child, said)
}

/// Reads lines until one contains `words`, and returns whether one did.
fn says(said: &mut BufReader<ChildStderr>, words: &str) -> bool {
    said.lines().map_while(|line| line.ok()).any(|line| line.contains(words))
}

/// What is left of both streams, and the exit code.
fn rest(child: Child, mut said: BufReader<ChildStderr>) -> (Option<i32>, String, String) {
    let mut stderr = String::new();
    said.read_to_string(&mut stderr).unwrap();
    let output = child.wait_with_output().unwrap();
    (output.status.code(), String::from_utf8(output.stdout).unwrap(), stderr)
}

#[test]
fn an_interrupted_benchmark_says_so_at_once_and_reports_its_finished_cases() {
    let place = Place::new();
    let words = format!("bench gen:stencil5,n=4 {SLOW} --kernels csr_subwarp --repeat 3 --json=out.json");
    let (child, mut said) = started(&place, &words);
    assert!(says(&mut said, "stencil5,n=4 f64 k=96 on emu:0: "));
    interrupt(&child);
    assert!(says(&mut said, ENDING));
    let (code, stdout, stderr) = rest(child, said);
    assert_eq!((code, stderr.as_str()), (Some(130), "error: interrupted\n"));
    assert!(stdout.contains("stencil5,n=4") && !stdout.contains("stencil27"), "{stdout}");
    let report: serde_json::Value = serde_json::from_str(&place.read("out.json")).unwrap();
    assert_eq!(report["cases"].as_array().unwrap().len(), 1);
}

/// A slow product that was interrupted while it was computed. It may not have begun before the first signals on a loaded machine.
fn interrupted_product(place: &Place) -> (Child, BufReader<ChildStderr>) {
    let words = format!("run {SLOW} --repeat 1000 --warmup 0 --verify --json=out.json --output y.npy");
    for seconds in [1, 2, 4, 8, 16] {
        let (child, mut said) = started(place, &words);
        std::thread::sleep(Duration::from_secs(seconds));
        interrupt(&child);
        if says(&mut said, ENDING) {
            return (child, said);
        }
        assert_eq!(rest(child, said).0, Some(130));
    }
    panic!("no product began");
}

#[test]
fn an_interrupted_product_is_completed_and_the_report_says_that_y_was_not_verified() {
    let place = Place::new();
    let (child, said) = interrupted_product(&place);
    let (code, stdout, stderr) = rest(child, said);
    assert_eq!((code, stderr.as_str()), (Some(130), "error: interrupted\n"));
    assert!(stdout.contains("no: the command was interrupted before Y was verified"), "{stdout}");
    let report: serde_json::Value = serde_json::from_str(&place.read("out.json")).unwrap();
    assert!(report["timing"]["run_s"]["n"].as_u64().unwrap() > 0);
    assert_eq!((report["interrupted"].as_bool(), report["verify"].is_null()), (Some(true), true));
    assert_eq!(place.names(), ["out.json", "y.npy"]);
}

#[test]
fn a_second_signal_ends_a_product_at_once() {
    let place = Place::new();
    let (mut child, _said) = interrupted_product(&place);
    let (status, took) = stopped(&mut child, "INT");
    assert_eq!(status.code(), Some(130));
    assert!(took < Duration::from_millis(500), "{took:?}");
    assert!(place.names().is_empty());
}

#[test]
fn a_command_that_reads_ends_at_once_with_one_line() {
    let place = Place::new();
    let mut child = place
        .process("inspect -")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    std::thread::sleep(Duration::from_secs(1));
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let (status, took) = stopped(&mut child, "INT");
    assert!(took < MAX_STOP_TIME, "{took:?}");
    let mut said = String::new();
    stderr.read_to_string(&mut said).unwrap();
    assert_eq!((status.code(), said.as_str()), (Some(130), "error: interrupted\n"));
}
