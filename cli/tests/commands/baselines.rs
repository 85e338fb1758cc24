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
