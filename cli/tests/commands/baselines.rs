//! What the speed-ups of a study are relative to.

use crate::support::Place;

const STUDY: &str = "
title = 'baselines'
[measure]
warmup = 1
repeat = 5
[[sweep]]
name = 'kernels'
subject = 'kernel'
matrices = ['gen:stencil27,n=12']
k = [32]
threads = [1, 2]
kernels = ['serial_csr', 'cpu_csr']
";

#[test]
fn speed_ups_are_over_one_thread_of_the_best_kernel_unless_the_file_names_another_baseline() {
    let place = Place::new();
    place.write("study.toml", STUDY);
    let report = place.json("study study.toml --output out --json");
    let of = |report: &serde_json::Value, kernel: &str| {
        let records = report["records"].as_array().unwrap();
        let record = records.iter().find(|record| record["kernel"] == kernel && record["threads"] == 1);
        record.unwrap_or_else(|| panic!("{kernel} is missing in {report}")).clone()
    };
    assert_eq!(report["config"]["baseline"], "one_thread");
    assert_eq!(of(&report, "cpu_csr")["speedup"], 1.0);
    assert_eq!(of(&report, "serial_csr")["speedup_over"], "cpu_csr on 1 thread");
    assert!(of(&report, "serial_csr")["speedup"].as_f64() < Some(1.0));
    let csv = place.read("out/results.csv");
    assert!(csv.contains(",speedup,speedup_over,") && csv.contains(",cpu_csr on 1 thread,"), "{csv}");
    assert!(place.read("out/report.html").contains("Speed-ups are over cpu_csr on 1 thread."));

    // The cases that were measured stay measured: the baseline is no part of their keys.
    place.write("study.toml", format!("baseline = 'serial_csr'\n{STUDY}"));
    let again = place.json("study study.toml --output out --json");
    assert_eq!(again["cases"]["kept"], report["cases"]["all"]);
    assert_eq!(of(&again, "cpu_csr")["speedup_over"], "serial_csr");
    assert!(of(&again, "cpu_csr")["speedup"].as_f64() > Some(1.0));
    assert!(place.read("out/report.html").contains("Speed-ups are over serial_csr."));

    place.write("study.toml", format!("baseline = 'scip'\n{STUDY}"));
    place.fail("study study.toml --output out", 2, "study.toml:1: ");
}

#[test]
fn a_study_of_kernels_on_all_threads_measures_one_thread_for_its_speed_ups() {
    let place = Place::new();
    place.write("study.toml", STUDY.replace("threads = [1, 2]", "threads = 2"));
    let report = place.json("study study.toml --output out --json");
    let records = report["records"].as_array().unwrap();
    assert_eq!(records.len(), 2, "one thread is no result of its own: {report}");
    for record in records {
        assert_eq!(record["speedup_over"], "cpu_csr on 1 thread");
        let median = record["times"]["median"].as_f64().unwrap();
        let speedup = record["one_thread_s"].as_f64().unwrap() / median;
        assert_eq!(record["speedup"].as_f64(), Some(speedup), "{record}");
    }
    // A finished case keeps that time.
    let again = place.json("study study.toml --output out --json");
    assert_eq!(again["cases"]["kept"], again["cases"]["all"]);
    assert_eq!(again["records"], report["records"]);
}
