//! Choosing kernels and devices: `--reproducible`, `--tune`, `--model`, `calibrate` and `bench --oracle`.

use crate::support::Place;
use serde_json::Value;

/// The kernels of a plan's chunks, each once.
fn kernels(report: &Value) -> Vec<&str> {
    let chunks = report["chunks"].as_array().unwrap();
    let mut kernels: Vec<&str> = chunks.iter().map(|chunk| chunk["kernel"].as_str().unwrap()).collect();
    kernels.sort_unstable();
    kernels.dedup();
    kernels
}

#[test]
fn a_mesh_and_hubs_in_one_matrix_get_different_kernels_with_reasons() {
    let place = Place::new();
    let report = place.json("plan gen:mixed,n=40 -k 8 --devices sim:h200 --mode resident --json");
    assert!(kernels(&report).len() > 1, "{:?}", kernels(&report));
    for chunk in report["chunks"].as_array().unwrap() {
        let (kernel, reason) = (chunk["kernel"].as_str().unwrap(), chunk["reason"].as_str().unwrap());
        assert!(reason.contains(kernel), "{kernel} is not in: {reason}");
        assert!(reason.contains("predicted"), "{reason}");
    }
}

#[test]
fn reproducible_plans_have_canonical_kernels_only() {
    let place = Place::new();
    for spec in ["gen:mixed,n=30", "gen:hub,rows=20000,degree=4,hubs=8", "gen:rmat,scale=13,degree=16"] {
        for k in [1, 8, 33] {
            let words = format!("plan {spec} -k {k} --devices cpu,sim:h200 --reproducible --json");
            let report = place.json(&words);
            for chunk in report["chunks"].as_array().unwrap() {
                assert_eq!(chunk["order"], "canonical", "{words}: {chunk}");
            }
            assert_eq!(report["config"]["reproducible"], true);
        }
    }
    let wrong = "run gen:diagonal,rows=9 --devices emu:0 --kernel csr_ways --reproducible";
    place.fail(wrong, 2, "is not canonical");
}

#[test]
fn one_product_and_many_are_planned_differently_and_say_why() {
    let place = Place::new();
    let plan = |repeat: u32| {
        let words = "plan gen:uniform,rows=200000,degree=32 -k 32 --devices sim:h200 --json";
        place.json(&words.replace("--json", &format!("--repeat {repeat} --json")))
    };
    assert_eq!(plan(1)["mode"], "oneshot");
    assert_eq!(plan(1000)["mode"], "resident");
}

#[test]
fn the_oracle_compares_the_choice_with_the_fastest() {
    let place = Place::new();
    let report = place.json("bench gen:uniform,rows=80,degree=5 -k 1,4 --devices cpu,emu:0 --oracle --json");
    assert_eq!(report["cases"].as_array().unwrap().len(), 4);
    for case in report["cases"].as_array().unwrap() {
        let seconds = |form: &Value| form["seconds"].as_f64().unwrap();
        let is_timed_again = |form: &&Value| form["checked"].is_object();
        let timed_again = case["forms"].as_array().unwrap().iter().filter(is_timed_again);
        assert_eq!(timed_again.map(seconds).fold(f64::INFINITY, f64::min), seconds(&case["best"]), "{case}");
        let regret = seconds(&case["chosen"]) / seconds(&case["best"]);
        assert_eq!(case["regret"].as_f64().unwrap(), regret, "{case}");
        assert!(case["chosen"]["predicted_s"].as_f64().unwrap() > 0.0, "{case}");
        let forms = case["forms"].as_array().unwrap();
        assert!(forms.len() >= 2 && forms.iter().any(|form| *form == case["best"]), "{case}");
        for form in ["chosen", "reproducible", "best"] {
            assert_eq!(case[form]["checked"]["passed"], true, "{form}: {case}");
        }
    }
    let devices: Vec<&Value> =
        report["regret"].as_array().unwrap().iter().map(|regret| &regret["device"]).collect();
    assert_eq!(devices, ["cpu", "emu:0"]);
    let shown = place.succeed("bench gen:uniform,rows=80,degree=5 -k 4 --devices cpu --oracle").stdout;
    for words in
        ["Regret (time of the chosen kernel over that of the fastest), 1 case on cpu:", "at most 1.05"]
    {
        assert!(shown.contains(words), "'{words}' is not in: {shown}");
    }
    assert!(shown.lines().all(|line| line.chars().count() <= 80), "{shown}");
    for other in ["--kernels all", "--csv a.csv", "--keep a.jsonl", "--repeat 3", "--time-cap 1", "--best"] {
        let words = format!("bench gen:uniform,rows=80,degree=5 --oracle {other}");
        place.fail(&words, 2, "cannot be used with");
    }
    place.fail("bench gen:uniform,rows=80,degree=5 --oracle --devices sim:h200", 2, "compute no values");
}

#[test]
fn a_calibrated_machine_is_used_and_refined_and_can_be_left_out() {
    let place = Place::new();
    let report = place.json("calibrate --devices cpu --seconds 0.5 --output model.toml --json");
    assert!(report["seconds"].as_f64().unwrap() < 60.0);
    assert!(!report["kernels"].as_array().unwrap().is_empty());
    let written = place.read("model.toml");
    assert!(written.contains("[[device]]") && written.contains("cpu_csr"), "{written}");
    let run = "run gen:stencil5,n=20 -k 4 --devices cpu --repeat 2";
    let with = place.json(&format!("{run} --model model.toml --json"));
    assert!(place.path("model.refined.toml").exists(), "the run was to refine the model");
    assert!(with["timing"]["predicted_s"].as_f64().unwrap() > 0.0);
    let without = place.json(&format!("{run} --model none --json"));
    assert_eq!(with["y_hash"], without["y_hash"]);
    std::fs::remove_file(place.path("model.refined.toml")).unwrap();
    place.succeed(&format!("{run} --model model.toml --no-refine"));
    assert!(!place.path("model.refined.toml").exists(), "the run was not to refine the model");
    place.fail(&format!("{run} --model nothing.toml"), 3, "nothing.toml");
    place.write("wrong.toml", written.replace("threads", "thread"));
    place.fail(&format!("{run} --model wrong.toml"), 3, "did you mean 'threads'?");
    place.fail("calibrate --devices sim:h200 --output a.toml", 2, "compute no values");
    place.write("notes.txt", "mine");
    place.fail("calibrate --devices cpu --seconds 0.1 --output notes.txt", 2, "notes.txt");
    let own = place.path("home/rowloom/model.toml");
    std::fs::create_dir_all(own.parent().unwrap()).unwrap();
    std::fs::write(&own, "garbage").unwrap();
    let calibrate = || {
        let mut command = place.command("calibrate --devices cpu --seconds 0.1");
        command.env("XDG_CONFIG_HOME", place.path("home")).output().unwrap()
    };
    let replaced = calibrate();
    let told = String::from_utf8_lossy(&replaced.stderr).into_owned();
    assert!(replaced.status.success() && told.contains("the file is replaced"), "{told}");
    assert!(String::from_utf8_lossy(&calibrate().stdout).contains("use it by default"));
}

#[test]
fn weights_can_be_fitted_to_cases_that_were_kept() {
    let place = Place::new();
    place.succeed(
        "bench gen:stencil5,n=12 gen:road,n=200 -k 1,4 --devices cpu,emu:0 --oracle --json=cases.json",
    );
    place.succeed("calibrate --from cases.json --devices cpu,emu:0 --output model.toml");
    let written = place.read("model.toml");
    assert!(written.contains("cpu_csr") && written.contains("csr_runs_16"), "{written}");
    let run = "run gen:stencil5,n=12 -k 4 --devices cpu,emu:0 --repeat 1 --model model.toml --verify";
    place.succeed(run);
    place.write("wrong.json", "{}");
    place.fail("calibrate --from wrong.json --output a.toml", 3, "not a report of rowloom bench");
}

#[test]
fn what_bench_wrote_can_be_fitted_to_and_says_what_predictions_are_made_from() {
    let place = Place::new();
    // Factors of more than 100 are left out; the emulator is nearest to a card in small products.
    place.succeed("bench gen:stencil5,n=2 -k 4 --devices emu:0 --repeat 1 --json=cases.json");
    let report = place.json("calibrate --from cases.json --devices emu:0 --output model.toml --json");
    assert!(place.read("model.toml").contains("csr_subwarp"));
    let numbers = report["numbers"].as_array().unwrap().len();
    let case = &report["cases"][0];
    assert_eq!(case["reference"]["numbers"].as_array().unwrap().len(), numbers);
    let fastest = case["fastest_s"].as_f64().unwrap();
    let shapes = case["shapes"].as_object().unwrap();
    assert!(
        shapes.len() > 3 && shapes.values().all(|seconds| seconds.as_f64().unwrap() >= fastest),
        "{case}"
    );
    assert!(case["canonical"].as_array().unwrap().iter().any(|shape| shape == "csr_runs_16"), "{case}");
    // Of a known card only factors are fitted: what is built in comes of more cases.
    place.succeed("calibrate --from cases.json --devices sim:h200 --output card.toml");
    let card = place.read("card.toml");
    assert!(card.contains("[device.factors]") && !card.contains("weights"), "{card}");
}

#[test]
fn a_similar_measured_matrix_is_named_and_plans_stay_small() {
    let place = Place::new();
    let words = "plan gen:mixed,n=40 -k 16 --devices sim:h200 --mode resident --chunks 1";
    let report = place.json(&format!("{words} --json"));
    let reason = report["chunks"][0]["reason"].as_str().unwrap();
    assert!(reason.contains("similar to the measured matrix mixed,n=40"), "{reason}");
    place.succeed(&format!("{words} --save a.plan"));
    assert!(place.read("a.plan").len() < 60_000, "{}", place.read("a.plan").len());
    place.succeed("run gen:mixed,n=40 -k 16 --plan a.plan");
}

#[test]
fn tuned_kernel_times_are_reused() {
    let place = Place::new();
    let words = "run gen:stencil5,n=20 -k 4 --devices cpu,emu:0 --repeat 1 --warmup 0 --verify --tune";
    let first = place.run(words);
    assert_eq!(first.code, 0, "{}", first.stderr);
    assert!(!first.stderr.contains("an earlier --tune"), "{}", first.stderr);
    let again = place.run(words);
    assert_eq!(again.stderr.matches("an earlier --tune").count(), 2, "{}", again.stderr);
    let other = place.run(&words.replace("-k 4", "-k 5"));
    assert!(!other.stderr.contains("an earlier --tune"), "{}", other.stderr);
}

#[test]
fn a_run_on_several_devices_reports_its_simulated_time() {
    let report = Place::new().json("run gen:stencil5,n=30 -k 4 --devices cpu,emu:0 --repeat 2 --json");
    let timing = &report["timing"];
    assert!(timing["simulated_s"].as_f64().unwrap() > 0.0, "{timing}");
    let alone = Place::new().json("run gen:stencil5,n=30 -k 4 --devices cpu --repeat 2 --json");
    assert!(alone["timing"]["simulated_s"].is_null());
}

#[test]
fn a_run_reports_its_predicted_time_and_roofline_fraction() {
    let report = Place::new().json("run gen:stencil5,n=60 -k 8 --devices cpu --repeat 3 --json");
    assert!(report["roofline_fraction"].as_f64().unwrap() > 0.0);
    assert!(report["timing"]["predicted_over_measured"].as_f64().unwrap() > 0.0);
    assert!(report["chunks"][0]["predicted_s"].as_f64().unwrap() > 0.0);
}
