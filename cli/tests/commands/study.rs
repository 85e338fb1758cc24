//! `rowloom study`: its output, continuing an interrupted study, and wrong usage.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::support::Place;
use crate::support::python::{python, run_python, validate};
use serde_json::Value;

/// A study with many short cases.
const MANY: &str = "
title = 'many'
[measure]
warmup = 0
repeat = 3
[[sweep]]
name = 'run'
matrices = ['gen:stencil5,n=100', 'gen:uniform,rows=10000,degree=8']
k = [1, 2, 3, 4, 5, 6, 7, 8]
threads = [1, 2]
[[sweep]]
name = 'kernel'
subject = 'kernel'
matrices = ['gen:stencil5,n=60']
k = [1, 2, 4, 8]
kernels = ['serial_csr', 'cpu_csr']
";
const CASES: u64 = 36;

fn start(place: &Place, words: &str) -> std::process::Child {
    Command::new(env!("CARGO_BIN_EXE_rowloom"))
        .current_dir(place.path(""))
        .args(words.split_whitespace())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// The complete lines of the journal that are cases, by key. Other lines are timelines and descriptions of matrices.
fn kept(place: &Place) -> Vec<(String, Value)> {
    let text = std::fs::read_to_string(place.path("out/cases.jsonl")).unwrap_or_default();
    let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let named = lines.map(|mut line| (line["key"].as_str().unwrap().to_string(), line["case"].take()));
    named.filter(|(key, _)| !key.ends_with("timeline") && !key.ends_with("matrix")).collect()
}

#[test]
fn the_quick_study_writes_every_documented_file() {
    let place = Place::new();
    let config = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join("configs/quick.toml");
    let report = place.json(&format!("study {} --output out --json", config.display()));
    assert_eq!(report["cases"]["all"], report["cases"]["finished"]);
    let records = report["records"].as_array().unwrap();
    for record in records {
        assert!(record["reason"].is_null() && record["times"]["n"].as_u64() > Some(0), "{record}");
        let right = record["simulated"] == true || record["checked"]["passed"] == true;
        assert!(right, "{record}");
    }
    let files: Vec<&str> = report["files"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    for name in
        ["configuration.toml", "results.csv", "results.md", "results.json", "report.html", "timeline-1.svg"]
    {
        assert!(files.contains(&name), "{name}: {files:?}");
    }
    for question in [
        "speed-up-threads",
        "efficiency-threads",
        "rate-by-k",
        "roofline",
        "kernels-cpu",
        "overlap-by-chunk",
        "time-by-share",
        "speed-up-devices",
        "conversions",
    ] {
        assert!(files.iter().any(|file| file.contains(question)), "{question}: {files:?}");
    }
    for file in &files {
        assert!(!place.read(&format!("out/{file}")).is_empty(), "{file}");
    }
    let html = place.read("out/report.html");
    assert!(html.contains("; stops at the time cap of "), "the rule names the time cap");
    let body = html.split("<main>").nth(1).unwrap();
    assert!(
        body.trim_start().starts_with("<section id=\"answer\">"),
        "the report does not open with its answer"
    );
    for answer in [
        "threads: which number of threads is fastest?",
        "kernels: which kernel is fastest?",
        "overlap: which chunk size is fastest?",
        "share: which CPU share is fastest?",
        "what if: which combination of devices and mode is fastest?",
        "conversions: which combination of variant and number of threads is fastest?",
        "× faster than",
        "simulated, without noise",
        "the noise in",
    ] {
        assert!(body.split("id=\"figures\"").next().unwrap().contains(answer), "{answer}");
    }
    for word in ["A quick look at this machine", "operating system", "revision", "rowloom study", "affinity"]
    {
        assert!(html.contains(word), "{word}");
    }

    if let Some(python) = python("pandas") {
        let script = "
import sys, pandas
table = pandas.read_csv(sys.argv[1], comment='#')
assert len(table) == int(sys.argv[2].split('/')[-1]), len(table)
assert (table.median_s > 0).all() and table.gflops.notna().any()
assert set(table.measured) == {'run', 'kernel', 'conversion'}
assert table.k.dropna().astype(int).min() == 1
";
        run_python(&python, script, &[&place.path("out/results.csv"), Path::new(&records.len().to_string())]);
    }
    validate("study.json", &place.path("out/results.json"));
    // The configuration in the folder is the same study and gives the same figures.
    let again = place.json("study out/configuration.toml --output out --json");
    assert_eq!(again["cases"]["kept"], report["cases"]["all"]);
    assert_eq!(again["records"], report["records"]);

    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("quick-report.html");
    std::fs::write(folder, html).unwrap();
}

#[test]
fn a_study_measures_whole_solves() {
    let place = Place::new();
    let config = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join("configs/solvers.toml");
    let report = place.json(&format!("study {} --output out --json", config.display()));
    assert_eq!(report["cases"]["all"], report["cases"]["finished"]);
    let records = report["records"].as_array().unwrap();
    for record in records {
        assert!(record["reason"].is_null() && record["checked"]["passed"] == true, "{record}");
        assert!(record["times"]["median"].as_f64() > Some(0.0), "{record}");
        let (nnz, k) = (record["matrix"]["nnz"].as_f64().unwrap(), record["k"].as_f64().unwrap());
        let products = match record["measured"].as_str().unwrap() {
            "power_iteration" => 20.0,
            "subspace_iteration" => 31.0,
            other => panic!("{other} was measured"),
        };
        assert_eq!(record["flops"].as_f64(), Some(2.0 * products * nnz * k), "{record}");
    }
    let of = |devices: &str| records.iter().filter(|record| record["devices"] == devices).count();
    assert!(of("cpu") > 2 && of("cpu,emu:0") == 1, "{records:?}");
    validate("study.json", &place.path("out/results.json"));
    let again = place.json(&format!("study {} --output out --json", config.display()));
    assert_eq!(again["cases"]["kept"], report["cases"]["all"]);
}

/// Dense products, sums of columns and copies.
const DENSE: &str = "
title = 'dense'
[measure]
warmup = 0
repeat = 2
[[sweep]]
name = 'tiles'
subject = 'gemm'
matrices = ['gen:dense,rows=20,cols=12']
k = 9
devices = ['emu:0']
kernels = ['gemm_naive', 'gemm_tiled_t8', 'gemm_tiled_t16']
[[sweep]]
name = 'shares'
subject = 'gemm'
matrices = ['gen:dense,rows=300,cols=200']
k = 100
devices = ['cpu,sim:h200']
mode = ['oneshot', 'resident']
cpu_share = [0.0, 0.5]
[[sweep]]
name = 'threads'
subject = 'colmean'
matrices = ['gen:recording,rows=40,channels=2']
dtype = ['f64', 'f32']
threads = [1, 2]
[[sweep]]
name = 'copies'
subject = 'transfers'
devices = ['emu:0']
chunk_bytes = ['4KiB', '64KiB']
";

#[test]
fn a_study_measures_dense_work_and_copies() {
    let place = Place::new();
    place.write("dense.toml", DENSE);
    let report = place.json("study dense.toml --json");
    assert_eq!((&report["cases"]["all"], &report["cases"]["finished"]), (&13.into(), &13.into()));
    let records = report["records"].as_array().unwrap();
    let of = |sweep: &str| -> Vec<&Value> { records.iter().filter(|r| r["sweep"] == sweep).collect() };
    assert!(records.iter().all(|record| record["times"]["median"].as_f64() > Some(0.0)), "{records:?}");
    let verified = |record: &&Value| record["checked"]["passed"] == true;
    assert!(of("tiles").iter().all(verified) && of("threads").iter().all(verified));
    assert!(of("tiles").iter().all(|r| r["flops"] == 2.0 * 20.0 * 12.0 * 9.0 && r["measured"] == "gemm"));
    assert!(of("shares").iter().all(|record| record["simulated"] == true));
    // Four kinds of memory, three directions and two sizes.
    assert_eq!((of("shares").len(), of("threads").len(), of("copies").len()), (4, 4, 24));
    assert!(of("copies").iter().all(|record| record["gb_per_s"].as_f64() > Some(0.0)));
    validate("study.json", &place.path("rowloom-dense/results.json"));
    let names = place.names_in("rowloom-dense");
    for figure in ["tiles-rate-by-kernel.svg", "shares-time-by-share.svg", "copies-rate-by-chunk-bytes.svg"] {
        assert!(names.iter().any(|name| name == figure), "{figure} is not in {names:?}");
    }
    assert_eq!(place.json("study dense.toml --json")["cases"]["kept"], 13);
}

const NOT_VERIFIED: &str = "\
title = 'Not verified'
[measure]
warmup = 0
repeat = 2
verify = false
[[sweep]]
name = 'products'
matrices = ['gen:uniform,rows=500,degree=7', 'gen:stencil5,n=20']
k = [3, 40]
devices = ['cpu', 'cpu,emu:0']
[[sweep]]
name = 'solves'
subject = 'power_iteration'
matrices = ['gen:stencil5,n=20']
k = 3
dtype = ['f64', 'f32']
[[sweep]]
name = 'dense'
subject = 'gemm'
matrices = ['gen:dense,rows=20,cols=12']
k = 9
[[sweep]]
name = 'sums'
subject = 'colmean'
matrices = ['gen:dense,rows=20,cols=12']
";

#[test]
fn results_of_a_study_without_verify_are_checked_by_weighted_sums() {
    let place = Place::new();
    place.write("fast.toml", NOT_VERIFIED);
    let report = place.json("study fast.toml --json");
    assert_eq!(report["cases"]["all"], report["cases"]["finished"]);
    let records = report["records"].as_array().unwrap();
    assert_eq!(records.len(), 12);
    for record in records {
        assert!(record["checked"]["passed"] == true && record["gflops"].as_f64() > Some(0.0), "{record}");
        let by_weighted_sums = record["sweep"] != "sums";
        assert_eq!(record["checked"]["max_bound_ratio"].is_null(), by_weighted_sums, "{record}");
    }
    validate("study.json", &place.path("rowloom-fast/results.json"));
}

#[test]
fn keys_without_effect_on_dense_work_are_named() {
    let place = Place::new();
    for (name, from, to, part) in [
        (
            "a",
            "kernels = ['gemm_naive'",
            "schedule = 'equal-rows'\nkernels = ['gemm_naive'",
            "a.toml:12: sweep tiles: schedule has no effect on a dense product",
        ),
        (
            "b",
            "threads = [1, 2]",
            "k = 3\nthreads = [1, 2]",
            "sweep threads: k has no effect on sums of columns",
        ),
        (
            "c",
            "chunk_bytes",
            "matrices = 'a.npy'\nchunk_bytes",
            "sweep copies: matrices has no effect on copies",
        ),
        ("d", "devices = ['emu:0']\nchunk", "chunk", "sweep copies: nothing is copied to cpu"),
        ("e", "'gemm_naive'", "'gemm_naif'", "unknown kernel 'gemm_naif' (did you mean 'gemm_naive'?)"),
        ("f", "gen:recording", "gen:recordin", "unknown generator 'recordin'"),
    ] {
        place.write(&format!("{name}.toml"), DENSE.replace(from, to));
        place.fail(&format!("study {name}.toml"), 2, part);
    }
}

#[test]
fn solves_that_cannot_be_measured_are_named() {
    let place = Place::new();
    let text =
        "title = 'a'\n[measure]\nrepeat = 1\n[[sweep]]\nname = 's'\nsubject = 'power_iteration'\nk = 2\n";
    place.write("mode.toml", format!("{text}matrices = 'gen:stencil5,n=9'\nmode = 'stream'"));
    place.fail("study mode.toml", 2, "mode.toml:9: sweep s: mode has no effect on a solver");
    place.write("sim.toml", format!("{text}matrices = 'gen:stencil5,n=9'\ndevices = ['cpu', 'sim:h200x2']"));
    place.fail(
        "study sim.toml",
        2,
        "sim.toml:9: sweep s: a solver needs values, and simulated devices (sim:h200x2) compute none",
    );
    place.write("tall.toml", format!("{text}matrices = 'gen:uniform,rows=30,degree=3,cols=20'"));
    let outcome = place.run("study tall.toml");
    assert_eq!(outcome.code, 4);
    assert!(outcome.stderr.contains("a 30 x 20 matrix has no eigenvalues"), "{}", outcome.stderr);
    assert!(place.read("rowloom-tall/results.csv").contains("\ns,power_iteration,"));
}

#[test]
fn bench_results_follow_their_schema() {
    let place = Place::new();
    place.succeed(
        "bench gen:stencil5,n=12 -k 1,3 --devices cpu,emu:0 --repeat 3 --against scipy --json=b.json",
    );
    validate("bench.json", &place.path("b.json"));
    place.succeed("bench gen:stencil5,n=12 -k 1,2 --devices cpu --repeat 3 --baseline b.json --json=c.json");
    validate("bench.json", &place.path("c.json"));
}

#[test]
fn a_killed_study_loses_only_the_current_case() {
    let place = Place::new();
    place.write("many.toml", MANY);
    let mut killed_within = 0;
    for round in 0..6u64 {
        let mut child = start(&place, "study many.toml --output out");
        // Any moment will do; the process id varies it.
        let wait = 30 + (u64::from(child.id()) * 7919 + round * 104_729) % 400;
        std::thread::sleep(Duration::from_millis(wait));
        child.kill().unwrap();
        child.wait().unwrap();
        let before = kept(&place);
        killed_within += u64::from(!before.is_empty() && before.len() < CASES as usize);
        // Cases in the journal are still there afterwards, bit for bit.
        if round % 2 == 1 {
            let report = place.json("study many.toml --output out --json");
            assert_eq!(report["cases"]["kept"].as_u64(), Some(before.len() as u64), "round {round}");
            assert_eq!(report["cases"]["finished"].as_u64(), Some(CASES));
            let after = kept(&place);
            for case in &before {
                assert!(after.contains(case), "{}", case.0);
            }
            std::fs::remove_dir_all(place.path("out")).unwrap();
        }
    }
    eprintln!("{killed_within} of 6 were killed between the first case and the last");
}

#[test]
fn ctrl_c_keeps_finished_cases_and_the_next_run_continues() {
    let place = Place::new();
    place.write("long.toml", MANY.replace("repeat = 3", "repeat = 4000\ntime_cap_s = 0.2"));
    let mut child = start(&place, "study long.toml --output out");
    let begin = std::time::Instant::now();
    while kept(&place).len() < 2 && begin.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(20));
    }
    let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let report: Value = serde_json::from_str(&place.read("out/results.json")).unwrap();
    assert_eq!(report["interrupted"], true);
    let finished = report["cases"]["finished"].as_u64().unwrap();
    assert!((2..CASES).contains(&finished), "{finished}");
    assert_eq!(kept(&place).len() as u64, finished);
    assert!(place.read("out/report.html").contains("cases are not finished"));
    validate("study.json", &place.path("out/results.json"));
    let again = place.json("study long.toml --output out --json");
    assert_eq!(again["cases"]["kept"].as_u64(), Some(finished));
    assert_eq!(again["cases"]["finished"].as_u64(), Some(CASES));
}

#[test]
fn missing_devices_are_named_and_left_out() {
    let place = Place::new();
    place.write(
        "a.toml",
        "title = 'a'\n[[sweep]]\nname = 's'\nmatrices = ['gen:stencil5,n=9']\nk = [1]\ndevices = ['cpu', 'cuda:77']",
    );
    let report = place.json("study a.toml --json");
    assert_eq!(report["cases"], serde_json::json!({"all": 2, "finished": 1, "kept": 0}));
    assert!(report["records"][1]["reason"].as_str().unwrap().contains("cuda:77"), "{report}");
    let html = place.read("rowloom-a/report.html");
    assert!(html.contains("1 result was not measured: device cuda:77"), "the answer does not say why");
    assert!(html.contains("<summary>Not measured: device cuda:77"), "no warning names the device");
}

#[test]
fn a_study_that_measures_nothing_exits_with_4_and_says_why() {
    let place = Place::new();
    place.write(
        "a.toml",
        "title = 'a'\n[[sweep]]\nname = 's'\nmatrices = 'gen:stencil5,n=9'\nk = [1, 2]\ndevices = 'cuda:77'",
    );
    let outcome = place.run("study a.toml");
    assert_eq!(outcome.code, 4, "{}", outcome.stderr);
    let said = outcome.stderr;
    assert!(said.contains("error: no case could be measured: 2 results (device cuda:77: "), "{said}");
    assert!(place.read("rowloom-a/report.html").contains("cuda:77"));
}

#[test]
fn a_study_says_how_long_it_takes_before_it_starts() {
    let place = Place::new();
    let sweep = "title = 'a'\n[measure]\nrepeat = 3\n[sweep]\nname = 's'\nmatrices = 'gen:stencil5,n=9'";
    place.write("a.toml", format!("{sweep}\nk = [1, 8]"));
    let said = place.succeed("study a.toml").stderr;
    assert!(said.starts_with("note: 2 cases to measure, about 1 s\n"), "{said}");
    place.write("a.toml", format!("{sweep}\nk = [1, 2, 8]"));
    let said = place.succeed("study a.toml").stderr;
    assert!(said.starts_with("note: 1 case to measure, about 1 s; 2 cases finished earlier\n"), "{said}");
    let said = place.succeed("study a.toml").stderr;
    assert!(said.starts_with("note: no case to measure; 3 cases finished earlier\n"), "{said}");
    assert_eq!(place.succeed("study a.toml --quiet").stderr, "");
}

#[test]
fn one_value_in_a_study_is_a_list_of_one() {
    let place = Place::new();
    let lists =
        "matrices = ['gen:stencil5,n=9']\nk = [8]\nthreads = [1]\ndtype = ['f32']\nkernels = ['cpu_csr']";
    let head = "title = 'a'\n[measure]\nrepeat = 3\n[[sweep]]\nname = 's'\n";
    place.write("list.toml", format!("{head}{lists}"));
    place.write("one.toml", format!("{head}{}", lists.replace(['[', ']'], "")));
    place.succeed("study list.toml");
    place.succeed("study one.toml");
    assert_eq!(place.read("rowloom-one/configuration.toml"), place.read("rowloom-list/configuration.toml"));
}

#[test]
fn a_wrong_study_is_an_error_before_anything_is_measured() {
    let place = Place::new();
    place.write("many.toml", MANY);
    // Every message names the file and the line.
    for (name, from, to, code, part) in [
        ("key", "threads = ", "thread = ", 2, "key.toml:10: unknown key 'thread' (did you mean 'threads'?)"),
        (
            "kernel",
            "'cpu_csr'",
            "\n'cpu_scr'",
            2,
            "kernel.toml:17: sweep kernel: unknown kernel 'cpu_scr' (did you mean",
        ),
        (
            "devices",
            "threads = ",
            "devices = ['gpu']\nthreads = ",
            2,
            "devices.toml:10: sweep run: unknown device 'gpu'",
        ),
        (
            "mode",
            "threads = ",
            "mode = ['residnt']\nthreads = ",
            2,
            "mode.toml:10: sweep run: mode: unknown value",
        ),
        ("chunk", "threads = ", "chunk_bytes = ['many']\nthreads = ", 2, "chunk.toml:10: "),
        ("zero", "k = [1, 2, 3,", "k = [0, 2, 3,", 2, "zero.toml:9: sweep run: k must be at least 1"),
        (
            "type",
            "threads = ",
            "dtype = 'f46'\nthreads = ",
            2,
            "type.toml:10: unknown value 'f46' (did you mean",
        ),
        ("repeat", "repeat = 3", "repeat = 0", 2, "repeat.toml:5: "),
        ("syntax", "title", "= title", 3, "syntax.toml:2: "),
        (
            "matrix",
            "gen:stencil5,n=100",
            "gen:stencil9,n=100",
            2,
            "matrix.toml:8: unknown generator 'stencil9'",
        ),
        (
            "file",
            "'gen:stencil5,n=100'",
            "'none.mtx'",
            3,
            "file.toml:8: none.mtx: not found (paths are relative to the current folder)",
        ),
    ] {
        place.write(&format!("{name}.toml"), MANY.replacen(from, to, 1));
        let outcome = place.run(&format!("study {name}.toml"));
        assert_eq!(outcome.code, code, "{name}: {}", outcome.stderr);
        assert!(outcome.stderr.contains(part), "{name}: {}", outcome.stderr);
    }
    place.write("model.toml", "[[device]]\nname = 'cpu'\n[device.weights]\ncpu_crs = [1.0]\n");
    place.fail("run gen:stencil5,n=9 --model model.toml", 3, "model.toml:4: unknown kernel shape 'cpu_crs'");
    place.fail("study none.toml", 3, "none.toml");
    place.fail("study many.toml --output many.toml/inside", 1, "inside");
    assert_eq!(place.run("study").code, 2);
}
