//! `rowloom bench`: what it measures, what it reports, and every way to ask for it wrongly.

use crate::support::{Place, SMALL};
use serde_json::Value;

fn case<'a>(report: &'a Value, device: &str, dtype: &str, k: u64) -> &'a Value {
    let cases = report["cases"].as_array().unwrap();
    let wanted = |case: &&Value| case["device"] == device && case["dtype"] == dtype && case["k"] == k;
    cases.iter().find(wanted).unwrap_or_else(|| panic!("{device} {dtype} {k} is missing in {report}"))
}

#[test]
fn every_kernel_is_measured_and_right() {
    let place = Place::new();
    let words =
        "bench gen:uniform,rows=60,degree=5 -k 1,3 --dtype f64,f32 --devices cpu,emu:0 --repeat 2 --json";
    let report = place.json(words);
    assert_eq!(report["cases"].as_array().unwrap().len(), 8);
    for (device, least) in [("cpu", 7), ("emu:0", 5)] {
        for dtype in ["f64", "f32"] {
            for k in [1, 3] {
                let case = case(&report, device, dtype, k);
                let kernels = case["kernels"].as_array().unwrap();
                assert!(kernels.len() >= least, "{device}: {kernels:?}");
                for kernel in kernels {
                    let ran = kernel["times"]["n"].as_u64().unwrap();
                    assert!(ran == 2 && kernel["checked"]["passed"] == true, "{device} {kernel}");
                    let canonical = kernel["order"] == "canonical";
                    assert!(!canonical || kernel["checked"]["bitwise"] == true, "{device} {kernel}");
                }
                assert!(case["best_s"].as_f64().unwrap() > 0.0 && case["gflops"].as_f64().unwrap() > 0.0);
                assert!(case["compulsory_fraction"].as_f64().unwrap() > 0.0);
                assert_eq!(case["ratio"], Value::Null);
            }
        }
    }
    assert_eq!(report["summary"], Value::Null, "without a peer there is nothing to sum up");
}

#[test]
fn one_case_shows_all_its_kernels() {
    let place = Place::new();
    place.write("small.mtx", SMALL);
    let shown =
        place.succeed("bench small.mtx -k 2 --kernels csr_scalar_v2,csr_vector --devices emu:0").stdout;
    for word in ["csr_scalar_v2", "csr_vector", "same bits", "best kernel", "GFLOP/s"] {
        assert!(shown.contains(word), "'{word}' is not in: {shown}");
    }
    assert!(!shown.contains("csr_scalar_v1"), "{shown}");
}

#[test]
fn matrices_without_rows_or_entries_are_no_trouble() {
    let place = Place::new();
    place.write("empty.mtx", "%%MatrixMarket matrix coordinate real general\n5 3 0\n");
    place.write("nothing.mtx", "%%MatrixMarket matrix coordinate real general\n0 0 0\n");
    let report = place.json("bench empty.mtx nothing.mtx -k 4 --devices cpu,emu:0 --repeat 1 --json");
    assert_eq!(report["cases"].as_array().unwrap().len(), 4);
}

#[test]
fn a_peer_that_is_not_there_is_a_note() {
    let place = Place::new();
    place.write("small.mtx", SMALL);
    let outcome = place.succeed("bench small.mtx -k 1 --devices emu:0 --repeat 1 --against cusparse");
    let compared = outcome.stdout.contains("geometric mean");
    assert!(compared || outcome.stderr.contains("note: cusparse"), "{}", outcome.stderr);
}

#[test]
fn absent_peers_are_named_and_present_ones_are_right() {
    let place = Place::new();
    let outcome =
        place.succeed("bench gen:stencil5,n=12 -k 2 --kernels cpu_csr --repeat 3 --against scipy,mkl --json");
    let report: Value = serde_json::from_str(&outcome.stdout).unwrap();
    let peers = report["cases"][0]["peers"].as_array().unwrap();
    for name in ["scipy", "mkl"] {
        match peers.iter().find(|peer| peer["peer"] == name) {
            Some(peer) => assert!(peer["checked"]["passed"] == true && peer["times"]["n"] == 3, "{peer}"),
            None => assert!(
                outcome.stderr.contains(&format!("{name} is not compared with")),
                "{}",
                outcome.stderr
            ),
        }
    }
}

#[test]
fn results_are_written_as_tables_with_their_provenance() {
    let place = Place::new();
    place.succeed(
        "bench gen:stencil5,n=20 -k 1,4 --repeat 3 --threads 2 --csv a.csv --markdown a.md --json=a.json",
    );
    let csv = place.read("a.csv");
    let (comments, lines): (Vec<&str>, Vec<&str>) = csv.lines().partition(|line| line.starts_with('#'));
    for name in ["host", "processor", "revision", "compiler", "arguments", "seed", "started"] {
        assert!(comments.iter().any(|line| line.starts_with(&format!("# {name}: "))), "{name}: {comments:?}");
    }
    assert_eq!(lines.len(), 1 + 2 * 7, "{csv}");
    assert!(lines[0].contains(",median_s,") && lines.iter().all(|line| !line.is_empty()));
    let markdown = place.read("a.md");
    assert!(markdown.contains("| --- |") && markdown.contains("| serial_csr |"), "{markdown}");
    let report: Value = serde_json::from_str(&place.read("a.json")).unwrap();
    assert!(report["byte_model"].as_str().unwrap().contains("A once"));
    assert!(report["provenance"]["program"]["compiler"].as_str().unwrap().starts_with("rustc"));
    let kernels = report["cases"][0]["kernels"].as_array().unwrap();
    let serial = kernels.iter().find(|kernel| kernel["kernel"] == "serial_csr").unwrap();
    assert_eq!(serial["speedup"], 1.0);
    for kernel in kernels {
        assert_eq!(kernel["times"]["samples"].as_array().unwrap().len(), 3, "{kernel}");
        assert!(kernel["gb_per_s"].as_f64().unwrap() > 0.0 && kernel["speedup"].as_f64().unwrap() > 0.0);
    }
}

#[test]
fn kept_cases_are_not_measured_again() {
    let place = Place::new();
    let words = "bench gen:stencil5,n=20 --kernels cpu_csr --repeat 3 --keep kept.jsonl --json";
    let first = place.json(&format!("{words} -k 1,2"));
    let kept = place.read("kept.jsonl");
    assert_eq!(kept.lines().count(), 2);
    // A line that was torn by a kill: its case, and no other, is measured again.
    place.write("kept.jsonl", &kept[..kept.len() - 40]);
    let second = place.json(&format!("{words} -k 1,2,3"));
    let times = |report: &Value, k: u64| case(report, "cpu", "f64", k)["kernels"][0]["times"].clone();
    assert_eq!(times(&first, 1), times(&second, 1));
    assert_ne!(times(&first, 2), times(&second, 2));
    assert_eq!(place.read("kept.jsonl").lines().count(), 4, "two, a torn one and the new one");
    let other = place.json(&format!("{words} -k 1 --seed 2"));
    assert_ne!(times(&first, 1), times(&other, 1), "another seed is another case");
}

#[test]
fn wrong_words_are_usage_errors() {
    let place = Place::new();
    place.write("small.mtx", SMALL);
    place.fail("bench", 2, "MATRIX");
    place.fail("bench small.mtx -k 0", 2, "from 1 on");
    place.fail("bench small.mtx -k 8,", 2, "from 1 on");
    place.fail("bench small.mtx -k 1,x", 2, "from 1 on");
    place.fail("bench small.mtx --kernels csr_magic", 2, "csr_magic");
    place.fail("bench small.mtx --kernels csr_vector --devices cpu", 2, "runs on cpu");
    place.fail("bench small.mtx --kernels cpu_csr --devices emu:0", 2, "runs on emu:0");
    place.fail("bench small.mtx --against mkl9", 2, "mkl9");
    place.fail("bench small.mtx --dtype f16", 2, "f16");
    place.fail("bench small.mtx --repeat 0", 2, "repeat");
    place.fail("bench small.mtx --time-cap 0", 2, "above 0");
    place.fail("bench small.mtx --csv none/a.csv", 1, "none/a.csv");
    place.fail("bench small.mtx --keep none/a.jsonl", 1, "none/a.jsonl");
    place.fail("bench small.mtx --devices gpu", 2, "gpu");
    place.fail("bench small.mtx --devices sim:h200", 4, "computes nothing");
    place.fail("bench none.mtx", 3, "none.mtx");
}

#[test]
fn a_kernel_that_fails_ends_with_the_devices_code() {
    let place = Place::new();
    place.write("small.mtx", SMALL);
    place.fail("bench small.mtx -k 1 --devices emu:0?lost_at_operation=3", 4, "emu:0");
}
