//! `rowloom run` on emulated and simulated devices, from plans, with faults and with timelines: the real binary.

use crate::support::Place;
use serde_json::Value;

const RUN: &str = "run gen:rmat,scale=8,degree=6 -k 5 --repeat 2 --warmup 0 --verify --json";

fn names(report: &Value) -> Vec<String> {
    let devices = report["devices"].as_array().unwrap();
    devices.iter().map(|device| device["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn every_mix_of_devices_gives_the_bytes_of_the_cpu() {
    let place = Place::new();
    let alone = place.json(RUN);
    for devices in ["cpu,emu:0", "emu:0", "emu:0,emu:1", "cpu,emu:0?delay_seed=3,emu:1"] {
        for mode in ["resident", "oneshot", "stream"] {
            let report = place.json(&format!("{RUN} --devices {devices} --mode {mode} --chunks 9"));
            assert_eq!(report["y_hash"], alone["y_hash"], "{devices} {mode}");
            assert_eq!(
                (&report["verify"]["passed"], &report["mode"]),
                (&Value::from(true), &Value::from(mode))
            );
            let asked: Vec<&str> = devices.split(',').map(|word| word.split('?').next().unwrap()).collect();
            assert_eq!(names(&report), asked);
            for device in report["devices"].as_array().unwrap() {
                assert!(device["nnz"].as_u64().unwrap() > 0, "{devices} {mode}: {device}");
            }
            assert!(report["bytes"]["h2d"].as_u64().unwrap() > 0, "{devices} {mode}");
        }
    }
}

#[test]
fn chunks_name_their_device_and_their_time() {
    let report = Place::new().json(&format!("{RUN} --devices cpu,emu:0 --chunks 6"));
    let chunks = report["chunks"].as_array().unwrap();
    for chunk in chunks {
        // On a GPU it depends on whether A stays there.
        let kernels: &[&str] =
            if chunk["device"] == "cpu" { &["cpu_csr"] } else { &["csr_runs", "csr_subwarp"] };
        assert!(kernels.contains(&chunk["kernel"].as_str().unwrap()) && chunk["order"] == "canonical");
        assert!(chunk["measured_s"].as_f64().unwrap() > 0.0 && chunk["predicted_s"].as_f64().unwrap() > 0.0);
        let reason = chunk["reason"].as_str().unwrap();
        let mut words: Vec<&str> = reason.split("; ").collect();
        let said = words.len();
        words.sort_unstable();
        words.dedup();
        assert!(!reason.is_empty() && words.len() == said, "a clause is repeated: {reason}");
    }
    let total: u64 = chunks.iter().map(|chunk| chunk["nnz"].as_u64().unwrap()).sum();
    assert_eq!(total, report["matrix"]["nnz"].as_u64().unwrap());
}

#[test]
fn a_simulated_run_computes_no_y_and_says_so() {
    let place = Place::new();
    let words = "run gen:rmat,scale=12,degree=8 -k 8 --devices sim:h200x4";
    let report = place.json(&format!("{words} --json"));
    assert_eq!(
        (&report["y_hash"], &report["verify"], &report["simulated"]),
        (&Value::Null, &Value::Null, &true.into())
    );
    assert_eq!(names(&report).len(), 4);
    assert!(report["timing"]["run_s"]["median"].as_f64().unwrap() > 0.0);
    assert_eq!(
        place.json(&format!("{words} --json"))["timing"]["run_s"],
        report["timing"]["run_s"],
        "virtual time has no noise"
    );
    assert!(place.succeed(words).stdout.contains("compute nothing"));
    for flag in ["--verify", "--output y.npy"] {
        place.fail(&format!("{words} {flag}"), 2, "no Y");
    }
    for devices in ["sim:node8", "cpu,sim:a100x2", "sim:h100"] {
        place.succeed(&format!("run gen:stencil5,n=40 -k 4 --devices {devices}"));
    }
}

#[test]
fn a_saved_plan_is_run_unchanged() {
    let place = Place::new();
    let flags = "gen:rmat,scale=8,degree=6 -k 5";
    place.succeed(&format!("plan {flags} --devices cpu,emu:0 --mode stream --chunks 7 --save a.plan"));
    let planned = place.json(&format!("plan {flags} --devices cpu,emu:0 --mode stream --chunks 7 --json"));
    let report = place.json(&format!("{RUN} --plan a.plan"));
    assert_eq!(report["mode"], "stream");
    let rows = |report: &Value| -> Vec<Value> {
        report["chunks"].as_array().unwrap().iter().map(|chunk| chunk["row_end"].clone()).collect()
    };
    assert_eq!(rows(&report), rows(&planned));
    assert_eq!(report["y_hash"], place.json(RUN)["y_hash"]);
    place.fail("run gen:rmat,scale=9,degree=6 --plan a.plan", 2, "the plan was made for");
    place.fail("run gen:rmat,scale=8,degree=6 -k 6 --plan a.plan", 2, "K = 5");
    place.fail(&format!("run {flags} --plan a.plan --devices cpu"), 2, "--plan");
    place.fail(&format!("run {flags} --plan none.plan"), 3, "none.plan");
    place.write("damaged.plan", "{\"version\": 1");
    place.fail(&format!("run {flags} --plan damaged.plan"), 3, "damaged.plan");
}

#[test]
fn a_failed_device_is_named_and_its_chunks_are_recovered() {
    let place = Place::new();
    let expected = place.json(RUN)["y_hash"].clone();
    for fault in ["fail_launch=2", "fail_copy=3", "lost_at_operation=4", "out_of_memory_at_allocation=1"] {
        let report = place.json(&format!("{RUN} --devices cpu,emu:0?{fault} --chunks 6 --mode stream"));
        assert_eq!(report["y_hash"], expected, "{fault}");
        let faults = report["faults"].as_array().unwrap();
        assert!(!faults.is_empty(), "{fault}");
        assert_eq!(faults[0]["device"], "emu:0", "{fault}");
        for key in ["task", "error", "recovered_on"] {
            assert!(
                faults[0][key].as_str().is_some_and(|text| !text.is_empty()),
                "{fault} {key}: {}",
                faults[0]
            );
        }
    }
    let table = place.succeed("run gen:stencil5,n=20 -k 2 --devices cpu,emu:0?lost_at_operation=3").stdout;
    assert!(table.contains("fault") && table.contains("recovered on cpu"), "{table}");
}

#[test]
fn devices_of_one_card_share_its_faults_and_other_devices_do_not() {
    let place = Place::new();
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let help = words(&place.succeed("run --help").stdout);
    assert!(help.contains("as in cuda:0,cuda:0; a fault of the card then ends both devices"), "{help}");
    let page = include_str!("../../../docs/reliability.md");
    assert!(words(page).contains("They share the fate of the card"));
    let expected = place.json(RUN)["y_hash"].clone();
    for fault in ["lost_at_operation=3", "panic_at_operation=3"] {
        let report = place.json(&format!("{RUN} --devices emu:0?{fault},emu:1 --chunks 6 --mode stream"));
        assert_eq!(report["y_hash"], expected, "{fault}");
        let faults = report["faults"].as_array().unwrap();
        assert_eq!(faults.len(), 1, "{faults:?}");
        assert_eq!((&faults[0]["device"], &faults[0]["recovered_on"]), (&"emu:0".into(), &"emu:1".into()));
    }
}

#[test]
fn a_device_without_memory_for_any_share_is_left_out_and_a_kernel_without_a_device_names_the_fault() {
    let place = Place::new();
    let run = "run gen:stencil5,n=10 -k 2 --repeat 1 --mode resident --verify --devices cpu,emu:0?out_of_memory_at_allocation=1";
    let recovered_on = |words: &str| {
        let report = place.json(&format!("{words} --json"));
        assert_eq!(
            (&report["verify"]["passed"], &report["faults"][0]["device"]),
            (&true.into(), &"emu:0".into())
        );
        let kernels = report["chunks"].as_array().unwrap().iter().map(|chunk| chunk["kernel"].to_string());
        (report["faults"][0]["recovered_on"].to_string(), kernels.collect::<Vec<_>>().join(" "))
    };
    // A second attempt needs half of the memory.
    let (device, kernels) = recovered_on(&format!("{run} --kernel row_groups"));
    assert!(device.contains("emu:0") && kernels.contains("row_groups"), "{device}: {kernels}");
    // Half of the memory is too little here.
    let (device, kernels) = recovered_on(&format!("{run}&memory_bytes=8000 --chunks 2 --cpu-share 0.5"));
    assert!(device.contains("cpu") && !kernels.contains("csr_subwarp"), "{device}: {kernels}");
    let words = format!("{run}&memory_bytes=5000 --kernel row_groups");
    place.fail(&words, 4, "allocation 1 fails (injected fault); there is no plan without");
}

/// A model of a CPU about as slow as the emulator, so that both get a part of a product.
fn slow_cpu() -> String {
    let weights = format!("[6.0{}]", ", 0.0".repeat(44));
    format!(
        "[host]\ncores = 2\nmemory_gb_per_s = 20.0\ncopy_gb_per_s = 8.0\n\n[[device]]\nname = \"cpu\"\nthreads = 2\n\n\
         [device.weights]\ncpu_csr = {weights}\ncpu_sell = {weights}\n"
    )
}

#[test]
fn a_fault_in_a_shared_product_is_recovered() {
    let place = Place::new();
    place.write("slow.toml", slow_cpu());
    let run = "run gen:stencil27,n=16 -k 8 --threads 2 --warmup 3 --repeat 2 --model slow.toml --mode oneshot --verify --json";
    for fault in ["", "?lost_at_operation=3", "?fail_launch=1", "?out_of_memory_at_allocation=1"] {
        let report = place.json(&format!("{run} --devices cpu,emu:0{fault}"));
        assert_eq!(report["verify"]["passed"], true, "{fault}");
        assert_eq!(report["faults"].as_array().unwrap().is_empty(), fault.is_empty(), "{fault}");
    }
}

#[test]
fn no_product_is_computed_for_measurement_alone() {
    let place = Place::new();
    place.write("slow.toml", slow_cpu());
    let run = "run gen:stencil27,n=16 -k 8 --threads 2 --model slow.toml --verify --json";
    place.json(&format!("{run} --warmup 0 --repeat 6 --devices cpu,emu:0 --trace trace.json"));
    let trace: Value = serde_json::from_str(&place.read("trace.json")).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    let mut runs: Vec<u64> = events.iter().filter_map(|event| event["args"]["run"].as_u64()).collect();
    runs.sort_unstable();
    runs.dedup();
    assert_eq!(runs, [0, 1, 2, 3, 4, 5]);
    // A is resident, so everything that the emulator launches is a chunk of a product: 3 chunks, 2 + 4 products.
    let is_launched = |number: u64| {
        let devices = format!("emu:0?fail_launch={number}");
        let words = format!("{run} --warmup 2 --repeat 4 --chunks 3 --mode resident --devices {devices}");
        !place.json(&words)["faults"].as_array().unwrap().is_empty()
    };
    assert_eq!((is_launched(18), is_launched(19)), (true, false));
}

#[test]
fn no_device_left_is_exit_code_4() {
    let place = Place::new();
    place.fail("run gen:stencil5,n=20 -k 2 --devices emu:0?lost_at_operation=3", 4, "no device is left");
    let copy = "run gen:stencil27,n=24 -k 8 --devices emu:0?fail_copy=2 --repeat 5";
    place.fail(copy, 4, "failed (injected fault)");
    place.fail("run gen:stencil5,n=20 -k 2 --devices emu:0?fail_speed=3", 2, "fail_launch");
}

#[test]
fn a_timeline_holds_every_task_and_sums_up() {
    let place = Place::new();
    place.succeed(
        "run gen:stencil5,n=30 -k 4 --devices cpu,emu:0 --chunks 8 --mode stream --repeat 3 --trace t.json",
    );
    let trace: Value = serde_json::from_str(&place.read("t.json")).unwrap();
    for key in ["config", "machine"] {
        assert!(trace["metadata"][key].is_object(), "{key}");
    }
    let events = trace["traceEvents"].as_array().unwrap();
    let complete =
        |category: &str| events.iter().filter(|event| event["ph"] == "X" && event["cat"] == category).count();
    for category in ["stage", "upload", "kernel", "download", "cpu_compute", "merge", "host"] {
        assert!(complete(category) > 0, "{category}");
    }
    let summary = place.json("trace t.json --json");
    assert!(summary["summary"]["hidden_fraction"].is_number(), "{summary}");
    place.succeed("run gen:stencil5,n=30 -k 4 --trace alone.json");
    assert!(place.succeed("trace alone.json").stdout.contains("cpu"));
    place.fail("run gen:stencil5,n=30 --trace none/t.json", 1, "none/t.json");
}

#[test]
fn run_and_trace_print_the_same_overlap_and_idle_time() {
    let place = Place::new();
    for flags in [
        "gen:stencil5,n=30 -k 4 --devices cpu,emu:0 --chunks 8 --mode stream --repeat 5",
        "gen:rmat,scale=8,degree=6 -k 5 --devices emu:0,emu:1 --mode resident --repeat 4 --warmup 1",
        "gen:stencil5,n=60 -k 8 --devices cpu --chunks 4 --repeat 9",
        "gen:stencil5,n=60 -k 8 --devices cpu --repeat 6",
        "gen:rmat,scale=12,degree=8 -k 8 --devices sim:h200x2 --mode stream",
        "gen:stencil27,n=20 -k 8 --devices cpu,sim:h200 --mode oneshot",
    ] {
        let run = place.json(&format!("run {flags} --trace t.json --json"));
        let trace = place.json("trace t.json --json");
        for key in ["hidden_fraction", "idle_fraction"] {
            assert_eq!(run["overlap"][key], trace["summary"][key], "{flags}: {key}");
        }
        for device in run["devices"].as_array().unwrap() {
            let summaries = trace["summary"]["devices"].as_array().unwrap();
            if let Some(summary) = summaries.iter().find(|summary| summary["name"] == device["name"]) {
                assert_eq!(device["busy_s"], summary["busy_s"], "{flags}: {device}");
            }
        }
    }
    let words = "run gen:rmat,scale=12,degree=8 -k 8 --devices sim:h200x2 --mode stream --trace t.json";
    let line = |text: &str, name: &str| {
        // Wrapped lines begin with more than one blank.
        let line = text.lines().find(|line| line.starts_with(&format!(" {name} "))).unwrap();
        line.split_whitespace().nth(1).unwrap().to_owned()
    };
    let (run, trace) = (place.succeed(words).stdout, place.succeed("trace t.json").stdout);
    for name in ["overlap", "idle"] {
        assert_eq!(line(&run, name), line(&trace, name), "{run}\n{trace}");
    }
}

#[test]
fn the_trace_of_a_simulated_run_begins_at_zero() {
    let place = Place::new();
    place.succeed("run gen:stencil5,n=40 -k 4 --devices sim:h200x2 --trace t.json");
    let trace: Value = serde_json::from_str(&place.read("t.json")).unwrap();
    let events = trace["traceEvents"].as_array().unwrap().iter().filter(|event| event["ph"] == "X");
    let first = events.map(|event| event["ts"].as_f64().unwrap()).fold(f64::INFINITY, f64::min);
    assert_eq!(first, 0.0);
}
