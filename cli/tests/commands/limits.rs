//! Limits: memory that damaged headers ask for, inputs that outputs must not replace, values that are not finite.

use std::process::{Command, Stdio};
use std::time::Duration;

use crate::skip::skip;
use crate::support::Place;

/// Address space of the program, which its threads use too.
const ADDRESS_SPACE_KIB: u64 = 1 << 20;

fn run_limited(place: &Place, words: &str) -> (Option<i32>, String) {
    let script = format!("ulimit -v {ADDRESS_SPACE_KIB} && exec \"$0\" {words}");
    let output = Command::new("sh")
        .args(["-c", &script, env!("CARGO_BIN_EXE_rowloom")])
        .current_dir(place.path(""))
        .output()
        .unwrap();
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn declared_sizes_allocate_nothing() {
    let place = Place::new();
    let coordinate = "%%MatrixMarket matrix coordinate real general\n";
    place.write("entries.mtx", format!("{coordinate}9 9 1000000000000000\n1 1 1\n"));
    place.write("rows.mtx", format!("{coordinate}1099511627776 9 1\n1 1 1\n"));
    place.write("wide.mtx", format!("{coordinate}4 4000000000 1\n1 1 1\n"));
    place.write("x.mtx", "%%MatrixMarket matrix array real general\n1000000 1000000\n1\n");
    for words in [
        "inspect entries.mtx",
        "inspect rows.mtx",
        "run wide.mtx -k 32",
        "run gen:diagonal,rows=9 --x x.mtx",
        "run gen:diagonal,rows=9 -k 100000000000",
        "generate uniform,rows=1000000000,degree=100 a.mtx",
    ] {
        let (code, said) = run_limited(&place, words);
        assert_eq!(code, Some(3), "{words}: {said}");
        assert!(said.starts_with("error: ") && said.lines().count() == 1, "{words}: {said}");
    }
}

#[test]
fn small_products_need_little_memory() {
    let place = Place::new();
    let (code, said) = run_limited(&place, "run gen:stencil5,n=100 -k 8 --verify");
    assert_eq!(code, Some(0), "{said}");
}

#[test]
fn inputs_are_not_written_over_and_every_output_has_its_own_file() {
    let place = Place::new();
    place.succeed("generate stencil5,n=4 a.mtx");
    place.succeed("generate stencil5,n=4 a.rlm");
    let before = (place.read("a.mtx"), std::fs::read(place.path("a.rlm")).unwrap());
    for words in [
        "run a.mtx -k 1 --repeat 1 --output a.mtx",
        "run a.rlm -k 1 --repeat 1 --json=./a.rlm",
        "bench a.mtx -k 1 --kernels cpu_csr --repeat 1 --keep a.mtx",
        "inspect a.mtx --spy a.mtx",
        "convert a.mtx a.mtx",
        "plan a.mtx -k 1 --save a.mtx",
    ] {
        place.fail(words, 2, "which is an input");
    }
    for words in [
        "run a.mtx -k 1 --repeat 1 --output y.npy --trace y.npy",
        "plan a.mtx -k 1 --save p --json=./p",
        "bench a.mtx -k 1 --kernels cpu_csr --repeat 1 --csv o --markdown o",
    ] {
        place.fail(words, 2, "each needs a file of its own");
    }
    assert_eq!(before, (place.read("a.mtx"), std::fs::read(place.path("a.rlm")).unwrap()));
    place.succeed("run a.mtx -k 1 --repeat 1 --trace /dev/null --json=/dev/null");
}

#[test]
fn finished_cases_are_not_added_to_a_file_of_another_kind() {
    let place = Place::new();
    place.write("notes.txt", "mine\n");
    let bench = "bench gen:stencil5,n=4 -k 1 --kernels cpu_csr --repeat 1 --devices cpu --keep";
    place.fail(&format!("{bench} notes.txt"), 3, "not a list of finished cases");
    assert_eq!(place.read("notes.txt"), "mine\n");
    place.succeed(&format!("{bench} cases.jsonl"));
    place.succeed(&format!("{bench} cases.jsonl"));
}

#[test]
fn non_finite_values_of_x_are_noted_and_finite_refuses_them() {
    let place = Place::new();
    place.write("x.mtx", "%%MatrixMarket matrix array real general\n4 1\n1\nnan\ninf\n2\n");
    let run = "run gen:diagonal,rows=4 --x x.mtx --devices cpu --repeat 1";
    let noted = place.succeed(run);
    assert!(noted.stderr.contains("2 values of X are not finite"), "{}", noted.stderr);
    place.fail(&format!("{run} --finite"), 3, "x.mtx: 2 values of X are not finite");
    place.write("large.mtx", "%%MatrixMarket matrix array real general\n4 1\n1\n1e300\n0\n2\n");
    let large = run.replace("x.mtx", "large.mtx");
    place.succeed(&format!("{large} --output large.npy"));
    let single = run.replace("x.mtx", "large.npy");
    place.fail(&format!("{single} --dtype f32"), 3, "overflow");
}

#[test]
fn flags_without_effect_and_a_missing_gpu_are_told() {
    let place = Place::new();
    let note = |words: &str, part: &str| {
        let shown = place.succeed(words).stderr;
        assert!(shown.contains(part), "{words}: {shown}");
    };
    note("run gen:stencil5,n=4 -k 1 --repeat 1 --devices emu:0 --cpu-share 0.5", "--cpu-share has no effect");
    note("plan gen:stencil5,n=4 -k 1 --devices cpu --mem-limit 1MiB", "--mem-limit has no effect");
    let quiet = place.succeed("run gen:stencil5,n=4 -k 1 --repeat 1 --devices cpu --cpu-share 1 -q");
    assert_eq!(quiet.stderr, "");
}

#[test]
fn binary_data_is_not_taken_for_text_with_other_line_ends() {
    let place = Place::new();
    place.write("a.mtx", b"\x01\x02\x00\r\x03\n");
    place.fail("run a.mtx -k 1", 3, "is not text");
}

#[test]
fn every_bad_input_file_is_named_with_exit_code_3() {
    let place = Place::new();
    place.succeed("generate stencil5,n=2 a.mtx");
    place.write("junk", "junk\n");
    std::fs::create_dir(place.path("folder")).unwrap();
    for command in [
        "inspect {}",
        "plan {} -k 1",
        "convert {} b.mtx",
        "bench {} -k 1",
        "run {} -k 1",
        "run a.mtx --x {}",
        "run a.mtx --plan {}",
        "run a.mtx --model {}",
        "trace {}",
        "study {}",
        "calibrate --from {}",
    ] {
        for file in ["missing", "folder", "junk"] {
            place.fail(&command.replace("{}", file), 3, &format!("error: {file}:"));
        }
    }
    assert_eq!(place.names(), ["a.mtx", "folder", "junk"]);
}

#[test]
fn plans_models_studies_and_reports_are_regular_files() {
    let place = Place::new();
    place.succeed("generate stencil5,n=4 a.mtx");
    assert!(Command::new("mkfifo").arg(place.path("pipe")).status().unwrap().success());
    for file in ["pipe", "/dev/zero"] {
        for command in [
            "run a.mtx -k 1 --plan {}",
            "run a.mtx -k 1 --model {}",
            "study {}",
            "calibrate --from {}",
            "bench a.mtx -k 1 --keep {}",
            "bench a.mtx -k 1 --baseline {}",
            "trace {}",
        ] {
            place.fail(&command.replace("{}", file), 3, "not a regular file");
        }
    }
}

#[test]
fn a_limit_of_the_file_size_is_an_output_that_cannot_be_written() {
    let place = Place::new();
    let script = "ulimit -f 8 && exec \"$0\" generate stencil27,n=20 a.mtx";
    let output = Command::new("sh")
        .args(["-c", script, env!("CARGO_BIN_EXE_rowloom")])
        .current_dir(place.path(""))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.starts_with("error: cannot write a.mtx"), "{said}");
    assert_eq!(place.names(), Vec::<String>::new());
}

#[test]
fn the_environment_does_not_start_threads() {
    /// More threads than a machine has.
    const ASKED: usize = 1000;
    let place = Place::new();
    place.succeed("generate stencil5,n=40 a.rlm");
    place.succeed("plan a.rlm -k 2 --devices cpu --save plan");
    for words in [
        "run a.rlm -k 2 --plan plan --threads 1",
        "bench a.rlm -k 2 --kernels cpu_csr --repeat 1 --devices cpu",
    ] {
        let mut child = place
            .process(words)
            .env("RAYON_NUM_THREADS", ASKED.to_string())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let tasks = format!("/proc/{}/task", child.id());
        let mut most_threads = 0;
        let status = loop {
            most_threads = most_threads.max(std::fs::read_dir(&tasks).map_or(0, Iterator::count));
            if let Some(status) = child.try_wait().unwrap() {
                break status;
            }
            std::thread::sleep(Duration::from_millis(1));
        };
        assert_eq!(status.code(), Some(0), "{words}");
        assert!((1..ASKED).contains(&most_threads), "{words}: {most_threads} threads");
    }
}

#[test]
fn a_study_of_too_many_cases_is_refused_before_they_are_listed() {
    let place = Place::new();
    let ks: Vec<String> = (1..=4000).map(|k| k.to_string()).collect();
    let bytes: Vec<String> = (1..=4000).map(|bytes| format!("\"{bytes}KiB\"")).collect();
    place.write(
        "study.toml",
        format!(
            "title = \"t\"\n[[sweep]]\nname = \"s\"\nsubject = \"run\"\nmatrices = [\"gen:stencil5,n=4\"]\nk = [{}]\n\
             chunk_bytes = [{}]\n",
            ks.join(","),
            bytes.join(",")
        ),
    );
    place.fail("study study.toml", 2, "16000000 cases");
}

#[test]
fn control_characters_of_file_names_do_not_reach_the_terminal() {
    let place = Place::new();
    let name = "\u{1b}[31mred\u{7}.mtx";
    for code in [3, 0] {
        let output = place.command("inspect").arg(name).output().unwrap();
        let shown = [output.stdout, output.stderr].concat();
        assert_eq!(output.status.code(), Some(code), "{}", String::from_utf8_lossy(&shown));
        assert!(!shown.contains(&0x1b) && !shown.contains(&7), "{}", String::from_utf8_lossy(&shown));
        place.write(name, crate::support::SMALL);
    }
}

/// A control group with a memory limit; none where this process may not make one.
struct Group(std::path::PathBuf);

impl Group {
    fn new(bytes: u64) -> Option<Self> {
        let folder = format!("/sys/fs/cgroup/memory/rowloom-test-{}", std::process::id());
        std::fs::create_dir(&folder).ok()?;
        let group = Self(folder.into());
        std::fs::write(group.0.join("memory.limit_in_bytes"), bytes.to_string()).ok()?;
        Some(group)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.0);
    }
}

#[test]
fn a_memory_limit_of_the_control_group_is_refused_and_never_ends_the_process() {
    let Some(group) = Group::new(256 << 20) else {
        return skip("cgroup", "no control group of memory can be made");
    };
    let place = Place::new();
    place.succeed("generate stencil27,n=60 a.rlm");
    for words in [
        "run a.rlm -k 4 --kernel cpu_ell_unpadded --repeat 1 --devices cpu",
        "run a.rlm -k 4 --kernel cpu_sell --repeat 1 --devices cpu",
        "convert a.rlm --check",
        "bench a.rlm -k 1 --kernels all --devices cpu --repeat 1",
        "run gen:stencil27,n=200 -k 1 --devices cpu",
    ] {
        let script = format!("echo $$ > {}/cgroup.procs && exec \"$0\" {words}", group.0.display());
        let output = Command::new("sh")
            .args(["-c", &script, env!("CARGO_BIN_EXE_rowloom")])
            .current_dir(place.path(""))
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(matches!(output.status.code(), Some(0 | 3)), "{words}: {}: {said}", output.status);
    }
}
