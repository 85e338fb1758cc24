//! `rowloom plan`: the decisions of a run, without the run.

use crate::plan_page::times;
use crate::support::{Place, SMALL};
use serde_json::Value;

fn small() -> Place {
    let place = Place::new();
    place.write("small.mtx", SMALL);
    place
}

pub fn devices(report: &Value) -> Vec<&Value> {
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
    assert!(table.contains("0–499"), "{table}");
    assert!(table.lines().count() < 40, "{table}");
    for part in ["set-up", "product", "total", "mode"] {
        assert!(table.contains(part), "{part} is not in\n{table}");
    }
    assert!(place.succeed(&format!("{words} --wide")).stdout.lines().count() > 500);
    let report = place.json(&format!("{words} --json"));
    assert_eq!(report["chunks"].as_array().unwrap().len(), 500);
    assert_eq!(report["config"]["chunks"], 500);
}

#[test]
fn the_same_flags_give_the_same_plan() {
    let place = Place::new();
    for name in ["a.plan", "b.plan"] {
        place.succeed(&format!("plan gen:rmat,scale=12,degree=8 --devices cpu,emu:0 --save {name}"));
    }
    assert_eq!(place.read("a.plan"), place.read("b.plan"));
    let saved: Value = serde_json::from_str(&place.read("a.plan")).unwrap();
    assert_eq!((&saved["version"], &saved["k"]), (&8.into(), &32.into()));
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
    let resident = "plan gen:stencil5,n=40 --mode resident --mem-limit 450KiB --devices";
    place.fail(&format!("{resident} emu:0"), 3, "; use --mode stream, or add cpu to --devices\n");
    place.fail(
        &format!("{resident} cpu,emu:0 --cpu-share 0.1"),
        3,
        "; use --mode stream, or leave out --cpu-share\n",
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
fn a_refused_plan_names_the_cause() {
    let place = small();
    place.fail("plan small.mtx --devices cuda:999", 4, "device cuda:999");
    place.fail("plan small.mtx --devices cpu,cuda:999", 4, "device cuda:999");
    place.fail("plan none.mtx", 3, "none.mtx");
    place.fail("plan small.mtx -k 99999999999999999", 3, "-k");
    place.fail("plan small.mtx --save none/a.plan", 1, "none/a.plan");
    assert_eq!(place.names(), ["small.mtx"]);
}

#[test]
fn matrices_without_rows_or_nonzeros_can_be_planned() {
    let place = Place::new();
    place.write("empty.mtx", "%%MatrixMarket matrix coordinate real general\n0 0 0\n");
    for matrix in ["empty.mtx", "gen:empty,rows=5,cols=3", "gen:diagonal,rows=1"] {
        for list in ["cpu", "cpu,emu:0", "emu:0,emu:1", "sim:h200x4"] {
            for k in [1, 3] {
                place.json(&format!("plan {matrix} -k {k} --devices {list} --json"));
            }
        }
    }
}

#[test]
fn the_cpu_gets_the_requested_share() {
    let place = Place::new();
    for (share, devices) in [(0.25, "cpu,emu:0"), (0.7, "cpu,emu:0,emu:1"), (0.5, "cpu,sim:h200x4")] {
        let words = format!("plan gen:diagonal,rows=10000 --devices {devices} --cpu-share {share} --json");
        let report = place.json(&words);
        let rows = report["devices"][0]["rows"].as_f64().unwrap();
        assert!((rows / 10000.0 - share).abs() < 0.02, "{words}: {rows}");
    }
    place.fail(
        "plan gen:diagonal,rows=9 --devices emu:0,emu:1 --cpu-share 0.5",
        2,
        "; add cpu to --devices, or leave out --cpu-share\n",
    );
    assert_eq!(place.run("plan gen:diagonal,rows=9 --cpu-share 1.5").code, 2);
}

#[test]
fn transfers_are_staged_or_registered_as_requested() {
    let place = Place::new();
    let registered = |how: &str| {
        let words = "plan gen:stencil27,n=20 -k 16 --devices sim:h200 --mode oneshot --repeat 100 --json";
        place.json(&format!("{words} --transfer {how}"))["devices"][1]["registered"]["x"].clone()
    };
    assert_eq!((registered("staged"), registered("registered")), (false.into(), true.into()));
    assert_eq!(place.run("plan gen:diagonal,rows=9 --transfer pigeon").code, 2);
}

#[test]
fn a_manipulated_plan_is_refused_and_does_not_hang() {
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
fn a_device_without_memory_for_all_of_x_receives_a_part() {
    let place = Place::new();
    let words = "plan gen:stencil27,n=40 -k 32 --devices sim:h200x2 --mode stream --mem-limit 11MiB --json";
    let plan = place.json(words);
    let reasons = plan["devices"].to_string();
    assert!(reasons.contains("its nonzeros use no other rows of X"), "{reasons}");
}

/// The reason of the transfer and the registering time of the set-up.
fn transfer(place: &Place, flags: &str) -> (String, f64, Value) {
    let plan = place.json(&format!("plan {flags} --json"));
    let reasons = plan["reasons"].as_array().unwrap().iter().filter_map(Value::as_str);
    let reason = reasons.clone().find(|reason| reason.starts_with("transfer: ")).unwrap().to_string();
    (reason, plan["set_up"]["register_s"].as_f64().unwrap(), plan)
}

#[test]
fn registering_on_request_costs_what_it_costs_otherwise() {
    let place = Place::new();
    let flags = "gen:stencil27,n=48 -k 32 --devices sim:h200x2 --mode oneshot --repeat 1000";
    let (chosen, chosen_s, _) = transfer(&place, flags);
    let (requested, requested_s, _) = transfer(&place, &format!("{flags} --transfer registered"));
    assert!(chosen.starts_with("transfer: registered: "), "{chosen}");
    assert!(requested.starts_with("transfer: registered: as requested; "), "{requested}");
    assert!(chosen_s > 0.0 && chosen_s == requested_s, "{chosen_s} {requested_s}");
    for reason in [chosen, requested] {
        let said = *times(&reason).last().unwrap();
        assert!((said - chosen_s).abs() < 0.01 * chosen_s, "{reason}: {chosen_s}");
    }
}

#[test]
fn memory_is_registered_only_where_all_products_together_become_faster() {
    let place = Place::new();
    for repeat in [1, 2, 3, 5, 10, 100] {
        let flags = format!("gen:stencil27,n=48 -k 32 --devices sim:h200x2 --mode oneshot --repeat {repeat}");
        let (reason, _, _) = transfer(&place, &flags);
        let [registered_s, staged_s, once_s] = times(&reason)[..] else { panic!("{reason}") };
        let (with_s, without_s) = (once_s + f64::from(repeat) * registered_s, f64::from(repeat) * staged_s);
        // The times of the sentence are rounded.
        if with_s < 0.97 * without_s {
            assert!(reason.starts_with("transfer: registered"), "{reason}");
        }
        if with_s > 0.99 * without_s {
            assert!(reason.starts_with("transfer: staged"), "{reason}");
        }
    }
}

/// A generator of reproducible random choices.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % bound
    }

    fn one_of<'a>(&mut self, choices: &[&'a str]) -> &'a str {
        choices[self.below(choices.len())]
    }
}

/// Flags that `plan` and `run` share, chosen at random.
fn random_flags(random: &mut Random) -> String {
    let matrix = random.one_of(&[
        "gen:stencil5,n=24",
        "gen:stencil27,n=9",
        "gen:rmat,scale=9,degree=8",
        "gen:uniform,rows=700,degree=5",
        "gen:arrow,rows=900",
        "gen:hub,rows=600,degree=3,hubs=2",
        "gen:diagonal,rows=300",
        "small.mtx",
    ]);
    let devices = random.one_of(&[
        "cpu",
        "sim:h200",
        "sim:h200x2",
        "sim:h200x4",
        "cpu,sim:h200",
        "cpu,sim:a100x2",
        "sim:node8",
        "sim:h100",
        "emu:0",
    ]);
    let mut flags = format!("{matrix} --devices {devices}");
    match random.below(4) {
        0 if matrix == "small.mtx" => flags += " --x x.mtx",
        _ => flags += &format!(" -k {}", random.one_of(&["1", "2", "3", "8", "32", "33"])),
    }
    // An emulated device really computes.
    let repeats = if devices == "emu:0" { &["1", "2"][..] } else { &["1", "2", "3", "7", "20", "1000"][..] };
    flags += &format!(" --repeat {}", random.one_of(repeats));
    for options in [
        &["", "", "--mode resident", "--mode oneshot", "--mode stream"][..],
        &["", "", "--chunks 3", "--chunks 17", "--chunk-bytes 4KiB", "--chunk-bytes 1MiB"],
        &["", "", "", "--transfer staged", "--transfer registered"],
        &["", "", "--reproducible", "--format csr"],
        &["", "", "", "--mem-limit 4MiB", "--mem-limit 1GiB"],
        &["", "", "--dtype f32"],
        &["", "", "--threads 1", "--threads 2"],
        &["", "", "--seed 5"],
        &["", "--tune"],
    ] {
        let option = random.one_of(options);
        let tunes_for_real = option == "--tune" && !devices.contains("sim:");
        if !option.is_empty() && !tunes_for_real {
            flags += &format!(" {option}");
        }
    }
    if devices.starts_with("cpu,") {
        let share = random.one_of(&["", "--cpu-share 0.3", "--cpu-share 0.9"]);
        flags += &format!(" {share}");
    }
    flags
}

/// Asserts that a run followed a plan; a chunk that the plan leaves unassigned may run on any of its devices.
fn assert_same_decisions(planned: &Value, run: &Value, flags: &str) {
    assert_eq!(planned["mode"], run["mode"], "{flags}");
    let names = |report: &Value| -> Vec<Value> {
        let computing = report["devices"].as_array().unwrap().iter();
        computing.filter(|device| device["computes"] != false).map(|device| device["name"].clone()).collect()
    };
    assert_eq!(names(planned), names(run), "{flags}");
    let (planned, run) = (planned["chunks"].as_array().unwrap(), run["chunks"].as_array().unwrap());
    assert_eq!(planned.len(), run.len(), "{flags}");
    for (planned, run) in planned.iter().zip(run) {
        for key in ["row_start", "row_end", "segments", "nnz", "predicted_s"] {
            assert_eq!(planned[key], run[key], "{flags}: {key} of {planned}");
        }
        if planned["device"] == run["device"] {
            assert_eq!((&planned["kernel"], &planned["format"]), (&run["kernel"], &run["format"]), "{flags}");
        } else {
            let others = planned["floats_to"].as_array().unwrap();
            assert!(others.contains(&run["device"]), "{flags}: {planned} ran on {}", run["device"]);
        }
    }
}

#[test]
fn plan_and_run_decide_the_same_for_200_random_flag_sets() {
    let place = small();
    place.write(
        "x.mtx",
        "%%MatrixMarket matrix array real general\n4 3\n1\n1\n1\n1\n2\n2\n2\n2\n3\n3\n3\n3\n",
    );
    let mut random = Random(19);
    let (mut compared, mut refused) = (0, 0);
    while compared < 200 {
        let flags = random_flags(&mut random);
        let planned = place.run(&format!("plan {flags} --json"));
        // The number of warm-up products must not matter; with none a real device is not replanned.
        let warmup = if flags.contains("emu:") { "0" } else { random.one_of(&["0", "1", "3", "50"]) };
        let run = place.run(&format!("run {flags} --warmup {warmup} --json"));
        assert_eq!(planned.code, run.code, "{flags}: {}{}", planned.stderr, run.stderr);
        if planned.code != 0 {
            refused += 1;
            assert!(refused < 60, "{flags}: {}", planned.stderr);
            continue;
        }
        let [planned, run]: [Value; 2] =
            [planned, run].map(|outcome| serde_json::from_str(&outcome.stdout).unwrap());
        assert_same_decisions(&planned, &run, &flags);
        compared += 1;
    }
}

/// A plan for two GPUs.
pub const EXAMPLE: &str = "gen:stencil27,n=48 -k 32 --devices sim:h200x2 --repeat 1";

#[test]
fn warm_up_products_do_not_change_the_mode() {
    let place = Place::new();
    assert_eq!(place.json(&format!("plan {EXAMPLE} --json"))["mode"], "oneshot");
    for warmup in [0, 3, 100] {
        let report = place.json(&format!("run {EXAMPLE} --warmup {warmup} --json"));
        assert_eq!(report["mode"], "oneshot", "{warmup}");
    }
}

#[test]
fn x_from_a_file_is_checked_on_simulated_devices() {
    let place = small();
    place.write("x.mtx", "%%MatrixMarket matrix array real general\n4 2\n1\n1\n1\n1\n2\n2\n2\n2\n");
    for command in ["run", "plan"] {
        let words = |rest: &str| format!("{command} {rest} --devices sim:h200");
        assert_eq!(place.json(&words("small.mtx --x x.mtx --json"))["k"], 2);
        place.fail(&words("small.mtx --x none.npy"), 3, "none.npy");
        place.fail(&words("small.mtx --x small.mtx"), 3, "small.mtx");
        place.fail(&words("small.mtx --x x.mtx -k 3"), 3, "-k says 3");
        place.fail(&words("gen:diagonal,rows=5 --x x.mtx"), 3, "X has 4 rows");
    }
}
