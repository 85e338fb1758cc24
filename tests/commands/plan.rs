//! `rowloom plan`: the decisions of a run, without the run.

use crate::support::{Place, SMALL};
use serde_json::Value;

fn small() -> Place {
    let place = Place::new();
    place.write("small.mtx", SMALL);
    place
}

fn devices(report: &Value) -> Vec<&Value> {
    report["devices"].as_array().unwrap().iter().collect()
}

#[test]
fn the_cpu_alone_computes_everything_in_one_chunk() {
    let report = small().json("plan small.mtx -k 4 --json");
    assert_eq!(report["command"], "plan");
    assert_eq!((&report["k"], &report["dtype"]), (&4.into(), &"f64".into()));
    let chunks = report["chunks"].as_array().unwrap();
    assert_eq!(chunks.len(), 1);
    for (key, value) in [
        ("row_start", Value::from(0)),
        ("row_end", 3.into()),
        ("nnz", 6.into()),
        ("device", "cpu".into()),
        ("kernel", "cpu_csr".into()),
        ("format", "csr".into()),
        ("order", "canonical".into()),
    ] {
        assert_eq!(chunks[0][key], value, "{key}");
    }
    assert!(chunks[0]["reason"].as_str().unwrap().contains("only device"));
    assert!(report["predicted_s"].as_f64().unwrap() > 0.0);
}

#[test]
fn devices_share_the_rows_and_every_one_named_has_some() {
    let place = Place::new();
    for list in ["cpu,emu:0", "emu:0,emu:1", "sim:h200x4", "cpu,sim:node8", "emu:0?delay_seed=3"] {
        let report = place.json(&format!("plan gen:rmat,scale=12,degree=8 -k 8 --devices {list} --json"));
        assert_eq!(report["config"]["devices"], list);
        let computing: Vec<&Value> =
            devices(&report).into_iter().filter(|device| device["computes"] == true).collect();
        let nnz: u64 = computing.iter().map(|device| device["nnz"].as_u64().unwrap()).sum();
        assert_eq!(nnz, report["matrix"]["nnz"], "{list}");
        assert!(computing.iter().all(|device| device["chunks"].as_u64() > Some(0)), "{list}");
        let rows = report["chunks"].as_array().unwrap();
        assert_eq!(rows[0]["row_start"], 0);
        assert_eq!(rows[rows.len() - 1]["row_end"], report["matrix"]["rows"]);
    }
    let simulated = place.json("plan gen:stencil5,n=100 --devices sim:h200x4 --json");
    let names: Vec<&str> =
        devices(&simulated).iter().map(|device| device["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["host", "sim:h200x4/0", "sim:h200x4/1", "sim:h200x4/2", "sim:h200x4/3"]);
}

#[test]
fn many_chunks_are_shown_in_few_lines_and_all_are_in_json() {
    let place = Place::new();
    let words = "plan gen:stencil5,n=100 --chunks 500";
    let table = place.succeed(words).stdout;
    assert!(table.contains("… 488 more"), "{table}");
    assert!(table.lines().count() < 40, "{table}");
    assert!(table.contains("predicted") && table.contains("because"), "{table}");
    let report = place.json(&format!("{words} --json"));
    assert_eq!(report["chunks"].as_array().unwrap().len(), 500);
    assert_eq!(report["config"]["chunks"], 500);
}

#[test]
fn the_same_words_give_the_same_plan() {
    let place = Place::new();
    for name in ["a.plan", "b.plan"] {
        place.succeed(&format!("plan gen:rmat,scale=12,degree=8 --devices cpu,emu:0 --save {name}"));
    }
    assert_eq!(place.read("a.plan"), place.read("b.plan"));
    let saved: Value = serde_json::from_str(&place.read("a.plan")).unwrap();
    assert_eq!((&saved["version"], &saved["k"]), (&6.into(), &32.into()));
}

#[test]
fn a_heavy_row_is_cut_at_segments() {
    let report = Place::new().json("plan gen:arrow,rows=20000 -k 2 --chunks 8 --json");
    assert_eq!(report["split_rows"][0]["row"], 0);
    let cut = report["chunks"].as_array().unwrap().iter().filter(|chunk| !chunk["segments"].is_null());
    assert!(cut.count() > 1);
}

#[test]
fn modes_and_limits_are_obeyed() {
    let place = Place::new();
    let plan = |flags: &str| place.json(&format!("plan gen:rmat,scale=12,degree=8 -k 8 {flags} --json"));
    assert_eq!(plan("--devices sim:h200 --repeat 1")["mode"], "oneshot");
    assert_eq!(plan("--devices sim:h200")["mode"], "resident");
    assert_eq!(plan("--devices sim:h200 --mode stream")["mode"], "stream");
    let small = plan("--devices emu:0 --mem-limit 500KiB");
    assert_eq!(small["mode"], "stream");
    assert_eq!(small["devices"][1]["memory_budget_bytes"], 500 * 1024);
    assert!(plan("--devices emu:0 --chunk-bytes 10KiB")["chunks"].as_array().unwrap().len() >= 30);
    place.fail("plan gen:stencil5,n=40 --devices emu:0 --mem-limit 10KiB", 3, "emu:0");
    place.fail(
        "plan gen:stencil5,n=40 --devices emu:0 --mode resident --mem-limit 450KiB",
        3,
        "--mode stream",
    );
}

#[test]
fn wrong_flags_are_usage_errors() {
    let place = small();
    for (flags, part) in [
        ("--devices gpu", "auto, cpu"),
        ("--devices sim:h300", "h200"),
        ("--devices cpu,cpu", "twice"),
        ("--devices emu:0,emu:0", "twice"),
        ("--devices emu:0,sim:h200", "combined with cpu"),
        ("--devices emu:0?loud", "key=value"),
        ("--devices emu:0?memory_bytes=much", "much"),
        ("--devices emu:0?speed=3", "delay_seed"),
        ("--mode sideways", "sideways"),
        ("--chunks 0", "0"),
        ("--chunks 4 --chunk-bytes 4KiB", "cannot be used with"),
        ("--chunk-bytes 0", "bytes"),
        ("--mem-limit lots", "bytes"),
        ("--kernel warp_drive", "warp_drive"),
        ("--kernel csr_vector", "GPU"),
        ("--kernel cpu_sell --devices emu:0", "cpu"),
        ("--kernel cpu_sell --format csr", "--format"),
        ("--format sell --devices emu:0", "sell"),
        ("--repeat 0", "0"),
        ("-k many", "many"),
    ] {
        place.fail(&format!("plan small.mtx {flags}"), 2, part);
    }
}

#[test]
fn what_cannot_be_planned_says_why() {
    let place = small();
    place.fail("plan small.mtx --devices cuda:999", 4, "device cuda:999");
    place.fail("plan small.mtx --devices cpu,cuda:999", 4, "device cuda:999");
    place.fail("plan none.mtx", 3, "none.mtx");
    place.fail("plan small.mtx -k 99999999999999999", 3, "-k");
    place.fail("plan small.mtx --save none/a.plan", 1, "none/a.plan");
    assert_eq!(place.names(), ["small.mtx"]);
}

#[test]
fn matrices_without_rows_nonzeros_or_columns_can_be_planned() {
    let place = Place::new();
    place.write("empty.mtx", "%%MatrixMarket matrix coordinate real general\n0 0 0\n");
    for matrix in ["empty.mtx", "gen:empty,rows=5,cols=3", "gen:diagonal,rows=1"] {
        for list in ["cpu", "cpu,emu:0", "emu:0,emu:1", "sim:h200x4"] {
            for k in [0, 1, 3] {
                place.json(&format!("plan {matrix} -k {k} --devices {list} --json"));
            }
        }
    }
}

#[test]
fn the_cpu_gets_the_share_that_was_asked_for() {
    let place = Place::new();
    for (share, devices) in [(0.25, "cpu,emu:0"), (0.7, "cpu,emu:0,emu:1"), (0.5, "cpu,sim:h200x4")] {
        let words = format!("plan gen:diagonal,rows=10000 --devices {devices} --cpu-share {share} --json");
        let report = place.json(&words);
        let rows = report["devices"][0]["rows"].as_f64().unwrap();
        assert!((rows / 10000.0 - share).abs() < 0.02, "{words}: {rows}");
    }
    place.fail("plan gen:diagonal,rows=9 --devices emu:0,emu:1 --cpu-share 0.5", 2, "cpu must be among");
    assert_eq!(place.run("plan gen:diagonal,rows=9 --cpu-share 1.5").code, 2);
}

#[test]
fn transfers_are_staged_or_registered_as_asked_for() {
    let place = Place::new();
    let registered = |how: &str| {
        let words = "plan gen:stencil27,n=20 -k 16 --devices sim:h200 --mode oneshot --repeat 100 --json";
        place.json(&format!("{words} --transfer {how}"))["devices"][1]["registered"]["x"].clone()
    };
    assert_eq!((registered("staged"), registered("registered")), (false.into(), true.into()));
    assert_eq!(place.run("plan gen:diagonal,rows=9 --transfer pigeon").code, 2);
}

#[test]
fn a_plan_that_was_tampered_with_is_refused_and_does_not_hang() {
    let place = Place::new();
    place
        .succeed("plan gen:stencil27,n=10 -k 2 --devices cpu,emu:0 --cpu-share 0.5 --repeat 5 --save a.plan");
    let plan: Value = serde_json::from_str(&place.read("a.plan")).unwrap();
    let chunk = plan["chunks"].as_array().unwrap().iter().position(|chunk| chunk["home"] == 1).unwrap();
    let chunk = format!("/chunks/{chunk}");
    for (key, value) in [
        ("/chunks/0/features/rows".to_string(), Value::from(u64::MAX)),
        (format!("{chunk}/features/nnz"), u64::MAX.into()),
        (format!("{chunk}/gpu_variant/threads"), (1u64 << 31).into()),
        (format!("{chunk}/gpu_variant/ways"), 0.into()),
        (format!("{chunk}/gpu_variant/vectors"), 2.into()),
        (format!("{chunk}/staged_bytes"), 19_200_000.into()),
        ("/devices/1/profile/product_ns".into(), 9.3e18.into()),
    ] {
        let mut tampered = plan.clone();
        *tampered.pointer_mut(&key).unwrap() = value;
        place.write("b.plan", tampered.to_string());
        place.fail("run gen:stencil27,n=10 --plan b.plan --repeat 1", 3, "make it again");
    }
    place.succeed("run gen:stencil27,n=10 --plan a.plan --repeat 1");
}

#[test]
fn where_all_of_x_does_not_fit_a_device_is_sent_what_its_rows_name() {
    let place = Place::new();
    let words = "plan gen:stencil27,n=40 -k 32 --devices sim:h200x2 --mode stream --mem-limit 11MiB --json";
    let plan = place.json(words);
    let reasons = plan["devices"].to_string();
    assert!(reasons.contains("its nonzeros name no others"), "{reasons}");
}
