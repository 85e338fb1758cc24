//! `rowloom run`: Y from the command line, what is reported of it, and every way to ask for it wrongly.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::{Place, SMALL};
use serde_json::Value;

/// A x for [`SMALL`] and X all ones.
const ROW_SUMS: [f64; 3] = [-0.5, 0.0, 22.0];

fn small() -> Place {
    let place = Place::new();
    place.write("small.mtx", SMALL);
    place
}

#[test]
fn y_is_the_product() {
    let place = small();
    place.succeed("run small.mtx -k 2 --x ones --output y.mtx --verify");
    let y = place.read("y.mtx");
    let mut lines = y.lines().filter(|line| !line.starts_with('%'));
    assert_eq!(lines.next().unwrap().split_whitespace().collect::<Vec<_>>(), ["3", "2"]);
    let values: Vec<f64> = lines.map(|line| line.trim().parse().unwrap()).collect();
    // Matrix Market arrays go column by column.
    assert_eq!(values, [ROW_SUMS, ROW_SUMS].concat());
}

#[test]
fn x_comes_from_files_and_y_goes_back_to_them() {
    let place = small();
    place.write("x.mtx", "%%MatrixMarket matrix array real general\n4 1\n1\n1\n1\n1\n");
    let report = place.json("run small.mtx --x x.mtx --output y.npy --json");
    assert_eq!(report["k"], 1);
    let npy = std::fs::read(place.path("y.npy")).unwrap();
    assert!(npy.starts_with(b"\x93NUMPY"));
    let tail: Vec<f64> =
        npy[npy.len() - 24..].chunks(8).map(|bytes| f64::from_le_bytes(bytes.try_into().unwrap())).collect();
    assert_eq!(tail, ROW_SUMS);
    place.fail("run small.mtx --x x.mtx -k 3", 3, "-k says 3");
    place.fail("run gen:diagonal,rows=5 --x x.mtx", 3, "X has 4 rows but A has 5 columns");
    place.fail("run small.mtx --x none.npy", 3, "none.npy");
}

#[test]
fn the_report_holds_every_promised_key() {
    let report =
        small().json("run small.mtx -k 5 --x ones --repeat 4 --warmup 0 --verify --threads 1 --json");
    let keys = |value: &Value, names: &[&str]| {
        for name in names {
            assert!(value.get(name).is_some(), "{name} is missing in {value}");
        }
    };
    keys(
        &report,
        &[
            "rowloom",
            "command",
            "machine",
            "config",
            "matrix",
            "k",
            "dtype",
            "mode",
            "chunks",
            "timing",
            "gflops",
            "roofline_fraction",
            "bytes",
            "peak_rss_bytes",
            "devices",
            "overlap",
            "faults",
            "verify",
            "y_hash",
        ],
    );
    keys(&report["machine"], &["host", "cpu", "cores", "numa_nodes", "gpus"]);
    keys(&report["matrix"], &["name", "rows", "cols", "nnz", "symmetry", "field"]);
    keys(&report["timing"], &["load_s", "plan_s", "prepare_s", "run_s"]);
    keys(&report["timing"]["run_s"], &["n", "median", "mean", "stddev", "min", "max"]);
    keys(&report["bytes"], &["h2d", "d2h", "a", "x", "y"]);
    keys(&report["verify"], &["passed", "max_rel_err", "mean_rel_err", "max_bound_ratio", "unit_roundoff"]);
    keys(
        &report["chunks"][0],
        &[
            "row_start",
            "row_end",
            "nnz",
            "device",
            "kernel",
            "format",
            "order",
            "reason",
            "predicted_s",
            "measured_s",
        ],
    );
    assert_eq!(report["command"], "run");
    assert_eq!(report["mode"], "resident");
    assert_eq!((report["matrix"]["nnz"].as_u64(), report["k"].as_u64()), (Some(6), Some(5)));
    assert_eq!(report["matrix"]["symmetry"], "general");
    assert_eq!(report["timing"]["run_s"]["n"], 4);
    assert_eq!(report["config"]["threads"], 1);
    assert_eq!(report["verify"]["passed"], true);
    let chunk_nonzeros: u64 =
        report["chunks"].as_array().unwrap().iter().map(|chunk| chunk["nnz"].as_u64().unwrap()).sum();
    assert_eq!(chunk_nonzeros, 6);
    let median = report["timing"]["run_s"]["median"].as_f64().unwrap();
    let gflops = report["gflops"].as_f64().unwrap();
    assert!((gflops * median * 1e9 - 2.0 * 6.0 * 5.0).abs() < 1e-6);
}

#[test]
fn the_hash_is_that_of_the_row_major_bytes() {
    let report = small().json("run small.mtx -k 1 --x ones --repeat 1 --json");
    let bytes: Vec<u8> = ROW_SUMS.iter().flat_map(|value| value.to_le_bytes()).collect();
    assert_eq!(report["y_hash"], format!("{:016x}", xxhash_rust::xxh3::xxh3_64(&bytes)));
}

#[test]
fn the_same_seed_gives_the_same_y_on_any_number_of_threads() {
    let place = Place::new();
    let hash = |flags: &str| {
        let words = format!("run gen:uniform,rows=2000,degree=9 -k 7 --repeat 1 --warmup 0 --json {flags}");
        place.json(&words)["y_hash"].clone()
    };
    assert_eq!(hash("--threads 1"), hash("--threads 3"));
    assert_eq!(hash("--threads 2"), hash("--threads 2 --schedule equal-rows"));
    assert_ne!(hash("--seed 1"), hash("--seed 2"));
}

#[test]
fn canonical_kernels_agree_bit_for_bit() {
    let place = Place::new();
    let report = |kernel: &str| {
        place
            .json(&format!("run gen:hub,rows=1500,degree=5,hubs=2 -k 11 --repeat 1 --json --kernel {kernel}"))
    };
    let reference = report("serial_csr")["y_hash"].clone();
    for kernel in ["cpu_csr", "cpu_ell_padded", "cpu_ell_unpadded", "cpu_sell", "serial_ell_unpadded"] {
        let report = report(kernel);
        assert_eq!(report["chunks"][0]["kernel"], kernel);
        assert_eq!(report["chunks"][0]["order"], "canonical");
        assert_eq!(report["y_hash"], reference, "{kernel}");
    }
}

#[test]
fn both_precisions_and_every_choice_verify() {
    let place = Place::new();
    for flags in ["--dtype f32", "--format csr", "--format ell", "--format sell", "--kernel serial_csr"] {
        let report = place.json(&format!("run gen:fem3,n=5 -k 9 --repeat 1 --verify --json {flags}"));
        assert_eq!(report["verify"]["passed"], true, "{flags}");
        assert!(report["matrix"]["synthetic"].as_bool().unwrap());
        if let Some(format) = flags.strip_prefix("--format ") {
            let used = report["chunks"][0]["format"].as_str().unwrap();
            assert!(used.starts_with(format), "{format} was asked for, {used} was used");
        }
    }
}

#[test]
fn matrices_without_rows_or_nonzeros_have_a_product() {
    let place = Place::new();
    for words in ["gen:empty,rows=5 -k 3", "gen:empty,rows=0 -k 2"] {
        let report = place.json(&format!("run {words} --repeat 1 --verify --json"));
        assert_eq!(report["verify"]["passed"], true, "{words}");
        assert_eq!(report["gflops"].as_f64(), Some(0.0).filter(|_| report["gflops"].is_number()), "{words}");
    }
}

#[test]
fn the_table_is_short_and_says_what_matters() {
    let table = small().succeed("run small.mtx -k 2 --verify").stdout;
    let verified = "yes: every error is within the rounding bound (largest 0.";
    for part in ["small", "GFLOP/s", "median", verified] {
        assert!(table.contains(part), "{part} is not in\n{table}");
    }
    assert!(table.lines().count() <= 20, "{table}");
}

#[test]
fn wrong_flags_are_usage_errors() {
    let place = small();
    for (flags, part) in [
        ("-k three", "three"),
        ("-k -1", "-1"),
        ("-k 99999999999999999999999", "99999"),
        ("--kernel warp_drive", "warp_drive"),
        ("--kernel csr_vector", "emu:0"),
        ("--format coo", "coo"),
        ("--dtype f16", "f16"),
        ("--threads 0", "1 to"),
        ("--repeat 0", "0"),
        ("--schedule random", "random"),
        ("--devices gpu", "auto, cpu"),
        ("--output y.xlsx", "y.xlsx"),
    ] {
        place.fail(&format!("run small.mtx {flags}"), 2, part);
    }
}

#[test]
fn a_k_beyond_the_memory_is_refused() {
    small().fail("run small.mtx -k 99999999999999", 3, "limit");
}

#[test]
fn a_device_asked_for_by_name_is_exit_code_4() {
    small().fail("run small.mtx --devices cuda:999", 4, "device cuda:999");
    small().fail("run small.mtx --devices cpu,cuda:999", 4, "device cuda:999");
}

#[test]
fn bad_inputs_are_exit_code_3() {
    let place = small();
    place.write("damaged.mtx", SMALL.replace("3 4 7", "9 4 7"));
    place.write("page.mtx", "<!DOCTYPE html><html></html>\n");
    std::fs::create_dir(place.path("folder")).unwrap();
    place.fail("run none.mtx", 3, "none.mtx");
    place.fail("run damaged.mtx", 3, "damaged.mtx:8");
    place.fail("run page.mtx", 3, "HTML");
    place.fail("run folder", 3, "folder");
}

#[test]
fn wrong_generator_words_are_refused() {
    let place = Place::new();
    for spec in ["gen:moebius", "gen:stencil5", "gen:stencil5,n=x", "gen:"] {
        let outcome = place.run(&format!("run {spec}"));
        assert!([2, 3].contains(&outcome.code), "{spec}: {} {}", outcome.code, outcome.stderr);
        assert!(outcome.stderr.starts_with("error: "), "{spec}: {}", outcome.stderr);
    }
}

#[test]
fn outputs_that_cannot_be_written_are_exit_code_1() {
    let place = small();
    place.fail("run small.mtx --output none/y.npy", 1, "none/y.npy");
    place.fail("run small.mtx --json=none/report.json", 1, "none/report.json");
}

#[test]
fn notes_go_to_standard_error_and_quiet_silences_them() {
    let place = Place::new();
    place.write("twice.mtx", "%%MatrixMarket matrix coordinate real general\n2 2 2\n1 1 1\n1 1 2\n");
    let loud = place.succeed("run twice.mtx -k 1 --repeat 1 --json");
    assert!(loud.stderr.contains("note: "), "{}", loud.stderr);
    assert!(serde_json::from_str::<Value>(&loud.stdout).is_ok());
    assert_eq!(place.succeed("run twice.mtx -k 1 --repeat 1 --quiet").stderr, "");
    place.write("nan.mtx", "%%MatrixMarket matrix coordinate real general\n1 1 1\n1 1 nan\n");
    place.succeed("run nan.mtx -k 1 --verify");
    place.fail("run nan.mtx -k 1 --finite", 3, "nan.mtx:3");
}

#[test]
fn one_product_without_warm_up_has_no_median_and_no_speed() {
    let place = small();
    let cold = place.succeed("run small.mtx -k 3 --output y.npy --verify").stdout;
    assert!(cold.contains(" for the first product, warm-up included; see --repeat"), "{cold}");
    assert!(!cold.contains("median") && !cold.contains("FLOP/s"), "{cold}");
    let warm = place.succeed("run small.mtx -k 3 --repeat 1").stdout;
    assert!(warm.contains(" (1 product)") && warm.contains("FLOP/s") && !warm.contains("median"), "{warm}");
    for shown in [cold, warm] {
        assert!(shown.contains("1 product, by weighted sums"), "{shown}");
        assert!(!shown.contains("simulated"), "{shown}");
    }
    assert!(place.succeed("run small.mtx -k 3 --repeat 2").stdout.contains("median"));
}

/// Starts `rowloom`, sends `signal` when it has run a while and `meanwhile` is done, and gives the exit code.
fn interrupted(place: &Place, words: &str, signal: &str, meanwhile: impl FnOnce()) -> Option<i32> {
    let mut child = Command::new(env!("CARGO_BIN_EXE_rowloom"))
        .current_dir(place.path(""))
        .args(words.split_whitespace())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    std::thread::sleep(Duration::from_millis(1500));
    meanwhile();
    let kill = Command::new("kill").args([&format!("-{signal}"), &child.id().to_string()]).status();
    assert!(kill.unwrap().success());
    let deadline = Instant::now() + Duration::from_secs(20);
    while Instant::now() < deadline {
        if let Some(status) = child.try_wait().unwrap() {
            return status.code();
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    child.kill().and_then(|()| child.wait()).unwrap();
    panic!("{signal} was ignored");
}

#[test]
fn a_signal_stops_between_repeats_and_the_report_is_written() {
    for signal in ["INT", "TERM"] {
        let place = Place::new();
        let words = "run gen:stencil5,n=200 -k 8 --repeat 4000000000 --json=report.json --output y.npy";
        assert_eq!(interrupted(&place, words, signal, || {}), Some(130), "{signal}");
        let report: Value = serde_json::from_str(&place.read("report.json")).unwrap();
        assert!(report["timing"]["run_s"]["n"].as_u64().unwrap() > 0);
        assert_eq!(report["interrupted"], true);
        assert_eq!(place.names(), ["report.json", "y.npy"]);
    }
}

#[test]
fn a_cache_cut_short_while_in_use_gives_an_error_and_no_y() {
    let place = Place::new();
    place.succeed("generate stencil5,n=200 a.rlm");
    let cut = || {
        let file = std::fs::OpenOptions::new().write(true).open(place.path("a.rlm")).unwrap();
        file.set_len(8192).unwrap();
        std::thread::sleep(Duration::from_millis(500));
    };
    let words = "run a.rlm -k 8 --repeat 4000000000 --output y.npy";
    assert_eq!(interrupted(&place, words, "INT", cut), Some(3));
    assert_eq!(place.names(), ["a.rlm"]);
}
