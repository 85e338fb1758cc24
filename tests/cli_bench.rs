//! `rowloom bench`: what it measures, what it reports, and every way to ask for it wrongly.

mod support;

use serde_json::Value;
use support::{Place, SMALL};

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
