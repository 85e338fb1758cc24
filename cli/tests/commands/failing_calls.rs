//! Every start of a thread and every write of a file fails, one after the other, in small jobs of the real binary. A job ends with
//! its whole result or with a typed error, soon; output files are whole; no temporary file is left.
//!
//! The calls are made to fail by a library that the program preloads: `support/failing_calls.c`.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use crate::skip::skip;
use crate::support::Place;

/// The longest that a job may take on a loaded machine.
const MAX_TIME: Duration = Duration::from_secs(60);

/// Jobs with their outputs. Together they start every kind of thread and write every kind of file that needs no GPU.
const JOBS: [(&str, &[&str]); 10] = [
    (
        "run a.rlm -k 2 --repeat 2 --devices cpu,emu:0 --verify --output out.npy --trace out.json --json=report.json",
        &["out.npy", "out.json", "report.json"],
    ),
    ("run a.mtx.gz -k 2 --repeat 1 --threads 2 --verify --output out.mtx", &["out.mtx"]),
    ("plan a.rlm -k 2 --devices cpu,emu:0 --save out.json", &["out.json"]),
    (
        "bench a.rlm -k 2 --kernels cpu_csr --devices cpu --repeat 1 --keep kept.jsonl --csv out.csv --markdown out.md",
        &["kept.jsonl", "out.csv", "out.md"],
    ),
    ("convert a.rlm out.mtx.gz", &["out.mtx.gz"]),
    ("convert a.mtx.gz out.rlm", &["out.rlm"]),
    ("generate diagonal,rows=3 out.npz", &["out.npz"]),
    ("inspect a.mtx.gz --spy out.svg --json=out.json", &["out.svg", "out.json"]),
    ("calibrate --from bench.json --output out.toml", &["out.toml"]),
    (
        "study study.toml --output folder",
        &["folder/report.html", "folder/results.json", "folder/cases.jsonl"],
    ),
];

const STUDY: &str = "title = \"t\"\n[measure]\nwarmup = 0\n[[sweep]]\nname = \"conversions\"\nsubject = \"conversion\"\n\
                     matrices = [\"gen:stencil5,n=4\"]\n";

/// The library that makes calls fail; the reason where it cannot be compiled.
pub fn library() -> Result<&'static Path, &'static str> {
    static LIBRARY: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let compile = || {
        let source = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("..")
            .join("cli/tests/commands/support/failing_calls.c");
        let library = Path::new(env!("CARGO_TARGET_TMPDIR")).join("failing_calls.so");
        let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".into());
        let mut command = Command::new(&compiler);
        command
            .args(["-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o"])
            .args([&library, &source])
            .arg("-ldl");
        let output = command.output().map_err(|error| format!("{compiler}: {error}"))?;
        let said = String::from_utf8_lossy(&output.stderr);
        if output.status.success() { Ok(library) } else { Err(format!("{compiler}: {said}")) }
    };
    LIBRARY.get_or_init(compile).as_deref().map_err(String::as_str)
}

/// Which calls fail.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Calls {
    Threads,
    Files,
}

/// A job of which one call fails, or that call and all later ones.
struct Sweep<'a> {
    library: &'a Path,
    source: &'a Place,
    calls: Calls,
    and_later: bool,
}

impl Sweep<'_> {
    /// Makes each call of a job fail once, or every third where later calls fail too. Returns how many failed.
    fn job(&self, words: &str, outputs: &[&str]) -> usize {
        let places = (1..1000).step_by(if self.and_later { 3 } else { 1 });
        places.take_while(|&at| self.fails(words, outputs, at)).count()
    }

    /// Whether a job has a call number `at`, which fails then.
    fn fails(&self, words: &str, outputs: &[&str], at: usize) -> bool {
        let (place, mark) = (Place::new(), tempfile::tempdir().unwrap());
        for name in self.source.names() {
            std::fs::copy(self.source.path(&name), place.path(&name)).unwrap();
        }
        let mark = mark.path().join("mark");
        let mut process = place.process(words);
        process.env("LD_PRELOAD", self.library).env("FAIL_AT", at.to_string()).env("FAIL_MARK", &mark);
        process.env("FAIL_CALLS", if self.calls == Calls::Threads { "threads" } else { "files" });
        if self.and_later {
            process.env("FAIL_ON", "1");
        }
        let output = ended(&mut process);
        let failed = mark.exists();
        let said = String::from_utf8_lossy(&output.stderr);
        let label = format!("{words}: {:?} {at}: {}: {said}", self.calls, output.status);

        match (output.status.code(), self.calls) {
            (Some(0), _) => {
                let missing = outputs.iter().find(|name| !place.path(name).exists());
                assert_eq!(missing, None, "{label}");
            }
            (Some(1), Calls::Files) | (Some(2 | 4), Calls::Threads) if failed => {
                let error = said.lines().last().unwrap_or_default();
                assert!(error.starts_with("error: "), "{label}");
                assert_eq!(said.lines().filter(|line| line.starts_with("error: ")).count(), 1, "{label}");
                assert!(!said.contains(".part"), "{label}");
            }
            _ => panic!("{label}"),
        }
        for folder in [place.path(""), place.path("folder"), place.cache("")] {
            assert_no_temporary_file(&folder, &label);
        }
        for name in outputs {
            assert!(!place.path(name).exists() || is_whole(&place, name), "{label}: {name} is damaged");
        }
        failed
    }
}

/// The output of a program; a failure if it does not end.
fn ended(process: &mut Command) -> Output {
    let mut child = process.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let start = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if start.elapsed() > MAX_TIME {
            child.kill().unwrap();
            panic!("the program hangs: {:?}", child.wait_with_output());
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    child.wait_with_output().unwrap()
}

pub fn assert_no_temporary_file(folder: &Path, label: &str) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries.map(Result::unwrap) {
        let name = entry.file_name().into_string().unwrap();
        assert!(!name.ends_with(".part"), "{label}: {name} is left");
        if entry.file_type().unwrap().is_dir() {
            assert_no_temporary_file(&entry.path(), label);
        }
    }
}

/// Whether a file is a complete output of its kind. The last line of finished cases may be incomplete.
fn is_whole(place: &Place, name: &str) -> bool {
    let ends_with = |end: &str| place.read(name).trim_end().ends_with(end);
    match name.rsplit('.').next() {
        Some("json") => serde_json::from_str::<serde_json::Value>(&place.read(name)).is_ok(),
        Some("jsonl") => true,
        Some("npy") => place.run(&format!("run gen:diagonal,rows=16 --x {name} --repeat 1")).code == 0,
        Some("mtx") => place.run(&format!("run gen:diagonal,rows=16 --x {name} --repeat 1")).code == 0,
        Some("toml") => place.run(&format!("plan gen:stencil5,n=4 -k 1 --model {name}")).code == 0,
        Some("csv" | "md") => place.read(name).contains("cpu_csr"),
        Some("svg") => ends_with("</svg>"),
        Some("html") => ends_with("</html>"),
        _ => place.run(&format!("inspect {name}")).code == 0,
    }
}

/// Sweeps all jobs; `least` calls must have failed in all.
fn sweep(calls: Calls, least: usize) {
    let library = match library() {
        Ok(library) => library,
        Err(reason) => return skip("cc", reason),
    };
    let source = Place::new();
    source.succeed("generate stencil5,n=4 a.rlm");
    source.succeed("convert a.rlm a.mtx.gz");
    source.succeed(
        "bench a.rlm -k 1,2,4,8 --kernels cpu_csr,cpu_sell --devices cpu --repeat 1 --json=bench.json",
    );
    source.write("study.toml", STUDY);
    let mut failed = 0;
    for (words, outputs) in JOBS {
        for and_later in [false, true] {
            let sweep = Sweep { library, source: &source, calls, and_later };
            failed += sweep.job(words, outputs);
        }
    }
    println!("{failed} jobs with a call that failed");
    assert!(failed >= least, "only {failed} calls failed");
}

#[test]
fn a_thread_that_cannot_be_started_is_a_typed_error_at_every_start() {
    sweep(Calls::Threads, 60);
}

#[test]
fn a_file_that_cannot_be_written_is_a_typed_error_at_every_write() {
    sweep(Calls::Files, 100);
}

#[test]
fn an_output_that_the_disk_does_not_take_is_an_error_and_the_old_content_stays() {
    let library = match library() {
        Ok(library) => library,
        Err(reason) => return skip("cc", reason),
    };
    for (words, output) in [
        ("generate stencil5,n=5 out.rlm --force", "out.rlm"),
        ("generate stencil5,n=5 out.mtx --force", "out.mtx"),
        ("plan gen:stencil5,n=5 -k 2 --devices cpu --save out.json --force", "out.json"),
    ] {
        let (place, mark) = (Place::new(), tempfile::tempdir().unwrap());
        place.write(output, "old");
        let mark = mark.path().join("mark");
        let mut process = place.process(words);
        process.env("LD_PRELOAD", library).env("FAIL_AT", "1").env("FAIL_MARK", &mark);
        process.env("FAIL_CALLS", "synced");
        let ended = ended(&mut process);
        let said = String::from_utf8_lossy(&ended.stderr);
        assert!(mark.exists(), "{words}: no file was synchronized: {said}");
        assert_eq!(ended.status.code(), Some(1), "{words}: {said}");
        assert_eq!(place.read(output), "old", "{words}");
        assert_no_temporary_file(&place.path(""), words);
    }
}
