//! `rowloom bench`: what it measures and reports, and wrong usage.

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
                    if kernel["kernel"].as_str().unwrap().starts_with("csr_pattern") {
                        assert_eq!(kernel["times"]["n"], 0, "{kernel}");
                        assert!(kernel["reason"].as_str().unwrap().contains("not all equal"), "{kernel}");
                        continue;
                    }
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
    assert_eq!(report["summary"], Value::Null, "without a peer there is no speed-up over one");
}

/// The lines of a table below the one that begins with `first`, up to an empty line.
fn lines_below<'a>(shown: &'a str, first: &str) -> Vec<&'a str> {
    let below = shown.lines().skip_while(|line| !line.starts_with(first)).skip(1);
    below.take_while(|line| !line.trim().is_empty()).collect()
}

#[test]
fn every_kernel_of_every_case_is_ranked_with_its_ratio_to_the_fastest() {
    let place = Place::new();
    let words = "bench gen:uniform,rows=60,degree=5 -k 1,3 --kernels csr_scalar_v2,csr_vector,csr_subwarp";
    let shown = place.succeed(&format!("{words} --devices emu:0 --repeat 3")).stdout;
    for k in [1, 3] {
        let table = lines_below(&shown, &format!("uniform,rows=60,degree=5 f64 k={k} on emu:0"));
        let ranked: Vec<&&str> =
            table.iter().filter(|line| line.trim().starts_with(char::is_numeric)).collect();
        for kernel in ["csr_scalar_v2", "csr_vector", "csr_subwarp"] {
            assert!(ranked.iter().any(|line| line.contains(kernel)), "{kernel}: {shown}");
        }
        assert!(ranked[0].trim().starts_with('1') && ranked[0].contains("fastest"), "{shown}");
        for line in &ranked[1..] {
            assert!(line.contains(" ± ") && line.contains("× slower"), "{line}");
        }
    }
    assert!(!shown.contains("csr_scalar_v1"), "{shown}");
    assert!(shown.lines().all(|line| line.chars().count() <= 80), "{shown}");
}

#[test]
fn the_json_has_rank_ratio_and_spread_as_the_table_does() {
    let place = Place::new();
    let report = place.json("bench gen:stencil5,n=30 -k 2 --devices cpu --repeat 5 --json");
    let case = case(&report, "cpu", "f64", 2);
    let mut kernels: Vec<&Value> = case["kernels"].as_array().unwrap().iter().collect();
    kernels.sort_by_key(|kernel| kernel["rank"].as_u64().unwrap());
    let time = |kernel: &Value| kernel["times"]["median"].as_f64().unwrap();
    for (index, kernel) in kernels.iter().enumerate() {
        assert_eq!(kernel["rank"], index as u64 + 1);
        let ratio = kernel["ratio_to_fastest"].as_f64().unwrap();
        assert!((ratio - time(kernel) / time(kernels[0])).abs() < 1e-9 * ratio, "{kernel}");
        assert!(kernel["ratio_spread"].as_f64().unwrap() >= 0.0, "{kernel}");
    }
    let chosen: Vec<&&Value> = kernels.iter().filter(|kernel| kernel["chosen"] == true).collect();
    assert_eq!(chosen.len(), 1, "{case}");
    assert_eq!(chosen[0]["kernel"], case["chosen_kernel"]);
    assert_eq!(chosen[0]["times"]["median"], case["chosen_s"]);
}

#[test]
fn the_kernel_that_the_planner_would_choose_is_marked() {
    let place = Place::new();
    let shown = place.succeed("bench gen:stencil5,n=30 -k 2 --devices cpu --repeat 2 --model none").stdout;
    assert!(shown.contains("cpu_csr (chosen)"), "{shown}");
    let words = "bench gen:stencil5,n=30 -k 2 --devices cpu --repeat 2 --model none --kernels serial_csr";
    let shown = place.succeed(words).stdout;
    assert!(shown.contains("The planner would choose cpu_csr, which was not measured."), "{shown}");
}

#[test]
fn best_prints_one_line_for_each_case() {
    let place = Place::new();
    let words = "bench gen:stencil5,n=20 -k 1,2,3 --devices cpu --repeat 2 --best";
    let shown = place.succeed(words).stdout;
    let lines: Vec<&str> = shown.lines().collect();
    assert_eq!(lines.len(), 4, "a heading and a line for each K: {shown}");
    for (line, k) in lines[1..].iter().zip(1..) {
        assert!(line.contains(&format!("stencil5,n=20 f64 k={k} on cpu")), "{shown}");
    }
    assert!(lines.iter().all(|line| line.chars().count() <= 80), "{shown}");
}

/// A report of one case on a CPU, with its times multiplied by `factor`.
fn scaled(report: &Value, factor: f64) -> Value {
    let mut report = report.clone();
    for case in report["cases"].as_array_mut().unwrap() {
        for kernel in case["kernels"].as_array_mut().unwrap() {
            for sample in kernel["times"]["samples"].as_array_mut().unwrap() {
                *sample = Value::from(sample.as_f64().unwrap() * factor);
            }
        }
    }
    report
}

#[test]
fn a_baseline_says_which_differences_exceed_the_noise() {
    let place = Place::new();
    let words = "bench gen:stencil5,n=60 -k 4 --kernels cpu_csr --devices cpu --repeat 400 --json=now.json";
    place.succeed(words);
    let report: Value = serde_json::from_str(&place.read("now.json")).unwrap();
    for (factor, verdict) in [(50.0, "faster"), (0.02, "slower")] {
        place.write("before.json", scaled(&report, factor).to_string());
        let outcome = place.succeed(&format!("{words} --baseline before.json"));
        let line = outcome.stdout.lines().find(|line| line.contains('→')).unwrap_or_default();
        assert!(line.contains(&format!("× {verdict} (")) && line.contains("s → "), "{}", outcome.stdout);
        assert!(outcome.stdout.contains(&format!("1 {verdict}")), "{}", outcome.stdout);
        assert!(outcome.stdout.lines().all(|line| line.chars().count() <= 80), "{}", outcome.stdout);
        let now: Value = serde_json::from_str(&place.read("now.json")).unwrap();
        let change = &now["baseline"]["cases"][0]["fastest"];
        assert_eq!(change["verdict"], verdict, "{change}");
        assert!(change["ratio"].as_f64().unwrap() > 3.0, "{change}");
        assert_eq!(now["baseline"]["cases"][0]["kernels"][0]["kernel"], "cpu_csr");
    }
}

#[test]
fn cases_of_one_run_only_are_named() {
    let place = Place::new();
    let words = "bench gen:stencil5,n=20 --kernels cpu_csr --devices cpu --repeat 3";
    place.succeed(&format!("{words} -k 1,2 --json=before.json"));
    let outcome = place.succeed(&format!("{words} -k 2,3 --baseline before.json"));
    for words in [
        "Fastest kernel of each case;",
        "1 case in both runs: ",
        "only in before.json: stencil5,n=20 f64 k=1",
        "only in this run: stencil5,n=20 f64 k=3",
    ] {
        assert!(outcome.stdout.contains(words), "'{words}' is not in: {}", outcome.stdout);
    }
    let outcome = place.succeed(&format!("{words} -k 3 --baseline before.json"));
    assert!(outcome.stdout.contains("no case is in both files\n"), "{}", outcome.stdout);
    assert!(!outcome.stdout.contains("0 cases"), "{}", outcome.stdout);
    // The same name and another seed: another matrix, which is not compared.
    let words = "bench gen:uniform,rows=60,degree=5 --kernels cpu_csr --devices cpu --repeat 3 -k 1";
    place.succeed(&format!("{words} --seed 1 --json=before.json"));
    let shown = place.succeed(&format!("{words} --seed 2 --baseline before.json")).stdout;
    assert!(shown.contains("another matrix of this name was measured in before.json"), "{shown}");
}

#[test]
fn a_baseline_that_is_no_report_of_bench_is_refused_before_anything_is_measured() {
    let place = Place::new();
    place.write("small.mtx", SMALL);
    let bench = "bench small.mtx -k 1 --devices cpu --repeat 2";
    place.fail(&format!("{bench} --baseline none.json"), 3, "none.json");
    place.succeed(&format!("{bench} --json=good.json"));
    let good = place.read("good.json");
    place.write("damaged.json", &good[..good.len() / 2]);
    place.fail(&format!("{bench} --baseline damaged.json"), 3, "damaged.json: damaged or no JSON");
    place.write("list.json", "[1, 2]");
    place.fail(&format!("{bench} --baseline list.json"), 3, "list.json: ");
    place.write("case.json", good.replace("\"samples\"", "\"sample\""));
    place.fail(&format!("{bench} --baseline case.json"), 3, "case.json: case 1: ");
    place.succeed("inspect small.mtx --json=inspect.json");
    place.fail(&format!("{bench} --baseline inspect.json"), 3, "inspect.json: ");
    place.succeed("bench small.mtx -k 1 --devices cpu --oracle --json=oracle.json");
    place.fail(&format!("{bench} --baseline oracle.json"), 3, "bench --oracle");
    place.succeed("run small.mtx -k 1 --repeat 1 --trace trace.json");
    let reason = "trace.json: this is a trace, not a report of rowloom bench";
    place.fail(&format!("{bench} --baseline trace.json"), 3, reason);
    place.fail(&format!("{bench} --baseline"), 2, "--baseline");
    place.fail("bench small.mtx --oracle --baseline good.json", 2, "cannot be used with");
    place.fail("bench small.mtx --best=yes", 2, "--best");
}

#[test]
fn matrices_without_rows_or_entries_are_measured() {
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
            Some(peer) => {
                assert!(peer["checked"]["passed"] == true && peer["times"]["n"] == 3, "{peer}");
                assert_eq!(peer["algorithm"], if name == "scipy" { "on 1 thread" } else { "" });
            }
            None => {
                assert!(outcome.stderr.contains(&format!("{name} is not measured")), "{}", outcome.stderr)
            }
        }
    }
}

#[test]
fn a_missing_peer_is_named_with_its_interpreter_before_anything_is_measured_and_again_at_the_end() {
    let place = Place::new();
    let words = "bench gen:stencil5,n=12 -k 2 --devices cpu --kernels cpu_csr --repeat 1 --against scipy";
    let output = place.command(words).env("ROWLOOM_PYTHON", "/no/such/python").output().unwrap();
    let [shown, notes] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
    // Notes are wrapped, so that a line break may stand between any two words.
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let reason = "scipy is not measured: /no/such/python does not start";
    let before = words(&notes).find(reason).unwrap_or_else(|| panic!("{notes}"));
    assert!(before < words(&notes).find("stencil5,n=12 f64").unwrap(), "{notes}");
    assert!(words(&notes).contains("ROWLOOM_PYTHON=PATH names another interpreter"), "{notes}");
    assert!(words(&shown).contains(reason), "{shown}");
    assert_eq!(output.status.code(), Some(0), "the other peers and all kernels are measured");
    assert!(place.succeed("bench --help").stdout.contains("ROWLOOM_PYTHON"));
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
    assert!(markdown.contains("| verified |") && !markdown.contains("fastest_peer"), "{markdown}");
    let report: Value = serde_json::from_str(&place.read("a.json")).unwrap();
    assert!(report["byte_model"].as_str().unwrap().contains("A once"));
    assert!(report["provenance"]["program"]["compiler"].as_str().unwrap().starts_with("rustc"));
    let kernels = report["cases"][0]["kernels"].as_array().unwrap();
    let serial = kernels.iter().find(|kernel| kernel["kernel"] == "serial_csr").unwrap();
    let threads = report["cases"][0]["threads"].as_u64().unwrap();
    let cpu_csr = kernels.iter().find(|kernel| kernel["kernel"] == "cpu_csr").unwrap();
    assert_eq!(serial["speedup_over"], "cpu_csr on 1 thread");
    assert!(serial["speedup"].as_f64() < Some(1.0), "{serial}");
    let one_thread = &report["cases"][0]["one_thread"];
    assert_eq!(one_thread["kernel"].as_str(), (threads > 1).then_some("cpu_csr"));
    if threads > 1 {
        assert_eq!(one_thread["checked"]["passed"], true);
        let ratio = |time: &Value, other: &Value| {
            time["times"]["median"].as_f64().unwrap() / other["times"]["median"].as_f64().unwrap()
        };
        assert_eq!(cpu_csr["speedup"].as_f64(), Some(ratio(one_thread, cpu_csr)));
        assert_eq!(serial["speedup"].as_f64(), Some(ratio(one_thread, serial)));
    } else {
        assert_eq!(cpu_csr["speedup"], 1.0);
    }
    assert!(lines[0].contains(",speedup,speedup_over,") && lines[1].contains(",cpu_csr on 1 thread,"));
    assert!(markdown.contains("| cpu_csr on 1 thread |"), "{markdown}");
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
    place.fail("bench small.mtx -k 0", 2, "at least 1");
    place.fail("bench small.mtx -k 8,", 2, "at least 1");
    place.fail("bench small.mtx -k 1,x", 2, "at least 1");
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
    place.fail("bench small.mtx --devices sim:h200", 2, "compute no values");
    place.fail("bench none.mtx", 3, "none.mtx");
}

#[test]
fn a_kernel_that_fails_ends_with_the_devices_code() {
    let place = Place::new();
    place.write("small.mtx", SMALL);
    place.fail("bench small.mtx -k 1 --devices emu:0?lost_at_operation=3", 4, "emu:0");
}

#[test]
fn transfers_are_measured_for_every_kind_of_memory_and_direction() {
    let place = Place::new();
    let words = "bench transfers --devices emu:0 --largest 64KiB";
    let output = place.succeed(&format!("{words} --csv copies.csv --svg copies.svg"));
    assert!(output.stderr.contains("do not describe a GPU"), "{}", output.stderr);
    assert!(output.stdout.lines().all(|line| line.chars().count() <= 80), "{}", output.stdout);
    let csv = place.read("copies.csv");
    let rows: Vec<&str> = csv.lines().filter(|line| line.starts_with("\"emu:0\"")).collect();
    // Four kinds of memory, three directions, 1, 4, 16 and 64 KiB.
    assert_eq!(rows.len(), 4 * 3 * 4, "{csv}");
    let svg = place.read("copies.svg");
    for kind in ["pageable", "staged", "registered", "write-combined"] {
        assert!(svg.contains(kind) && output.stdout.contains(kind), "{kind}");
        assert_eq!(rows.iter().filter(|row| row.contains(&format!(",{kind},"))).count(), 12);
    }
    assert!(svg.contains("do not describe a GPU"));
    let report = place.json(&format!("{words} --json"));
    let measured = &report["transfers"][0];
    assert_eq!(
        (measured["emulated"].as_bool(), measured["link_gb_per_s"].clone()),
        (Some(true), Value::Null)
    );
    assert!(
        measured["copies"].as_array().unwrap().iter().all(|copy| copy["gb_per_s"].as_f64().unwrap() > 0.0)
    );
}

#[test]
fn transfers_refuse_flags_of_kernels_and_devices_without_memory() {
    let place = Place::new();
    place.fail("bench transfers --devices emu:0 --kernels csr_scalar_v3", 2, "--kernels is about kernels");
    place.fail("bench transfers --devices emu:0 -k 3", 2, "-k is about kernels");
    place.fail("bench transfers --devices cpu", 2, "nothing is copied to it");
    place.fail("bench transfers --devices sim:h200", 2, "a simulated device copies nothing");
    place.fail("bench transfers --devices cpu,sim:h200", 2, "a simulated device copies nothing");
    place.fail(
        "bench gen:stencil5,n=30 --devices cpu --svg a.svg",
        2,
        "--svg is for `rowloom bench transfers` only",
    );
}

#[test]
fn a_wrong_case_has_no_speed_and_the_other_cases_are_measured_and_kept() {
    let place = Place::new();
    let words = "bench gen:stencil5,n=12 gen:uniform,rows=100,degree=4 -k 4 --kernels csr_scalar_v1,csr_scalar_v2 \
                 --devices emu:0?flip_bit_in_copy=1 --repeat 2 --warmup 1 --keep kept.jsonl";
    let outcome = place.run(&format!("{words} --json=report.json"));
    assert_eq!(outcome.code, 5, "{}", outcome.stderr);
    assert!(
        outcome
            .stderr
            .contains("error: verification failed: csr_scalar_v1 computed a wrong Y: stencil5,n=12")
    );
    assert!(outcome.stdout.contains("WRONG") && outcome.stdout.contains("fastest"), "{}", outcome.stdout);
    let report: Value = serde_json::from_str(&place.read("report.json")).unwrap();
    let cases = report["cases"].as_array().unwrap();
    assert_eq!(cases.len(), 2);
    assert!(cases[0]["best_s"].is_null() && cases[0]["gflops"].is_null(), "{}", cases[0]);
    for kernel in cases[0]["kernels"].as_array().unwrap() {
        assert!(kernel["gflops"].is_null() && kernel["rank"].is_null(), "{kernel}");
        assert_eq!(kernel["checked"]["passed"], false);
    }
    assert!(cases[1]["best_s"].as_f64() > Some(0.0) && cases[1]["gflops"].as_f64() > Some(0.0));
    assert_eq!(place.read("kept.jsonl").lines().count(), 2);
}
