//! The start of a command, with a fake CUDA driver: who loads it, and who waits for it.

use std::io::Write;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::support::{Place, SMALL};

/// Where the functions that Rowloom needs are listed.
const DRIVER: &str = include_str!("../../../src/device/cuda/driver.rs");

/// The file that the fake driver writes when it is loaded.
const LOADED: &str = "loaded";
/// The file that it writes when `cuInit` is called.
const STARTED: &str = "started";
/// The file that `cuInit` waits for where the test wants that, and the one that it writes if the file does not come.
const RELEASE: &str = "release";
const TIMED_OUT: &str = "timed-out";
/// How long `cuInit` waits.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A folder with a matrix and a fake `libcuda.so`, whose functions all report that there is no GPU.
fn place() -> Place {
    let place = Place::new();
    place.write("small.mtx", SMALL);
    let mut names: Vec<&str> =
        DRIVER.split('"').filter(|word| word.starts_with("cu") && word.chars().all(is_word)).collect();
    names.retain(|name| *name != "cuInit");
    assert!(names.contains(&"cuCtxCreate_v2"), "{names:?}");
    let functions: String =
        names.iter().map(|name| format!("int {name}(void) {{ return 100; }}\n")).collect();
    let text = format!(
        "#include <stdio.h>\n#include <stdlib.h>\n#include <unistd.h>\n{functions}\
         static void put(const char *name) {{ FILE *file = fopen(name, \"w\"); if (file) fclose(file); }}\n\
         __attribute__((constructor)) static void load(void) {{ put(\"{LOADED}\"); }}\n\
         int cuInit(unsigned flags) {{\n\
             put(\"{STARTED}\");\n\
             if (!getenv(\"FAKE_CUDA_WAITS\")) return 100;\n\
             for (int ms = 0; ms < {}; ms += 5) {{\n\
                 if (access(\"{RELEASE}\", F_OK) == 0) return 100;\n\
                 usleep(5000);\n\
             }}\n\
             put(\"{TIMED_OUT}\");\n\
             return 100;\n\
         }}\n",
        TIMEOUT.as_millis()
    );
    place.write("fake.c", text);
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".into());
    let compiled = Command::new(compiler)
        .args(["-shared", "-fPIC", "-o"])
        .args([place.path("libcuda.so"), place.path("fake.c")])
        .status();
    assert!(compiled.unwrap().success());
    place
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Starts a command for which the fake driver is installed.
fn start(place: &Place, words: &str, waits: bool) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rowloom"));
    command
        .current_dir(place.path(""))
        .args(words.split_whitespace())
        .env("LD_LIBRARY_PATH", place.path(""))
        .env("XDG_CONFIG_HOME", place.path("config"))
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    if waits {
        command.env("FAKE_CUDA_WAITS", "1");
    }
    command.spawn().unwrap()
}

fn exit_code(place: &Place, words: &str, waits: bool) -> Option<i32> {
    start(place, words, waits).wait().unwrap().code()
}

#[test]
fn only_commands_that_may_use_a_gpu_load_the_driver() {
    let place = place();
    assert_eq!(exit_code(&place, "plan small.mtx -k 2 --devices cpu --save cpu.plan", false), Some(0));
    for words in [
        "run small.mtx -k 2 --devices cpu",
        "run small.mtx -k 2 --devices cpu,emu:0",
        "run small.mtx -k 2 --devices sim:h200",
        "run small.mtx --plan cpu.plan",
        "plan small.mtx -k 2 --devices cpu,sim:h200",
        "bench small.mtx -k 2 --devices cpu --repeat 1",
        "inspect small.mtx",
        "convert small.mtx small.rlm",
    ] {
        assert_eq!(exit_code(&place, words, false), Some(0), "{words}");
        assert!(!place.path(LOADED).exists(), "{words} loads the driver");
    }
    for (words, code) in [
        ("run small.mtx -k 2 --devices cuda:0", 4),
        ("plan small.mtx -k 2 --devices cpu,cuda:0", 4),
        ("devices", 0),
    ] {
        assert_eq!(exit_code(&place, words, false), Some(code), "{words}");
        for file in [LOADED, STARTED] {
            assert!(std::fs::remove_file(place.path(file)).is_ok(), "{words}: no file {file}");
        }
    }
}

#[test]
fn the_matrix_is_read_while_the_driver_starts() {
    if !rowloom::internal::machine::may_have_nvidia_gpu() {
        crate::skip::skip("gpu", "without NVIDIA's kernel module the driver is asked first");
        return;
    }
    // More than a pipe holds, so that the last byte is written only if the program reads.
    let rows = 100_000;
    let mut text = format!("%%MatrixMarket matrix coordinate real general\n{rows} {rows} {rows}\n");
    (1..=rows).for_each(|row| text += &format!("{row} {row} 1.5\n"));
    for words in ["run - -k 2 --devices cuda:0", "plan - -k 2 --devices cuda:0"] {
        let place = place();
        let mut child = start(&place, words, true);
        let mut input = child.stdin.take().unwrap();
        input.write_all(text.as_bytes()).unwrap();
        drop(input);
        place.write(RELEASE, "");
        assert_eq!(child.wait().unwrap().code(), Some(4), "{words}");
        assert!(place.path(STARTED).exists(), "{words} does not start the driver");
        let is_late = place.path(TIMED_OUT).exists();
        assert!(!is_late, "{words} reads the matrix only after the driver has started");
    }
}

#[test]
fn the_emulators_checks_have_names_of_their_own_and_not_those_of_the_sanitizers() {
    let program = std::fs::read(env!("CARGO_BIN_EXE_rowloom")).unwrap();
    let names = |name: &str| memchr::memmem::find(&program, name.as_bytes()).is_some();
    assert!(names("rowloom_tsan_"), "the program has no symbols to look for");
    for name in ["__tsan_write", "__tsan_read", "__tsan_func", "__ubsan_handle"] {
        assert!(!names(name), "{name}");
    }
}
