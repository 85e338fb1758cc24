//! `rowloom report`: the performance explorer of results of `bench` and `study`, and wrong usage.

use serde_json::{Value, json};

use crate::support::Place;

const BENCH: &str = "bench gen:stencil5,n=30 gen:hub,rows=900,degree=4,hubs=1 -k 1,8 --dtype f64,f32 \
                     --kernels serial_csr,cpu_csr,cpu_sell --devices cpu --repeat 5 --threads 1";

/// A study with kernels and products, real and simulated.
const STUDY: &str = "
title = 'explored'
[measure]
warmup = 0
repeat = 3
[[sweep]]
name = 'kernels'
subject = 'kernel'
matrices = ['gen:stencil5,n=30']
k = [4]
kernels = ['serial_csr', 'cpu_csr']
threads = [1]
[[sweep]]
name = 'run'
matrices = ['gen:stencil5,n=30']
k = [4]
threads = [1]
devices = ['cpu', 'sim:h200']
[[sweep]]
name = 'conversion'
subject = 'conversion'
matrices = ['gen:stencil5,n=30']
";

/// The data of a page.
fn data(place: &Place, page: &str) -> Value {
    let text = place.read(page);
    let (_, rest) = text.split_once("id=\"explorer-data\">").expect("the page has data");
    serde_json::from_str(rest.split("</script>").next().unwrap()).unwrap()
}

/// The times of a case by the names of its kernels and peers; below zero where there is no verified time.
fn times(data: &Value, case: usize) -> Vec<(String, i64)> {
    let all = data["cases"][case][8].as_array().unwrap();
    let name =
        |entry: &[Value]| data["names"][entry[0].as_u64().unwrap() as usize].as_str().unwrap().to_owned();
    all.chunks(4).map(|entry| (name(entry), entry[1].as_i64().unwrap())).collect()
}

#[test]
fn a_report_of_bench_becomes_one_page_that_makes_no_requests() {
    let place = Place::new();
    let bench = place.json(&format!("{BENCH} --json"));
    place.write("bench.json", bench.to_string());
    let shown = place.succeed("report bench.json --output explorer.html").stdout;
    assert!(shown.contains("explorer.html") && shown.contains("cases     8"), "{shown}");
    let page = place.read("explorer.html");
    for part in
        ["<meta name=\"generator\" content=\"rowloom\">", "default-src 'none'", "Performance explorer"]
    {
        assert!(page.contains(part), "{part}");
    }
    assert!(!page.contains("src=\"http") && !page.contains("@import"), "the page asks for other files");
    let data = data(&place, "explorer.html");
    assert_eq!(data["matrices"].as_array().unwrap().len(), 2);
    assert_eq!(data["groups"], json!(["gen:stencil5", "gen:hub"]));
    for (index, case) in bench["cases"].as_array().unwrap().iter().enumerate() {
        for (kernel, (name, nanoseconds)) in
            case["kernels"].as_array().unwrap().iter().zip(times(&data, index))
        {
            assert_eq!(kernel["kernel"], name);
            let median = kernel["times"]["median"].as_f64().unwrap();
            assert!(
                (nanoseconds as f64 * 1e-9 - median).abs() <= 1e-9 + 1e-4 * median,
                "{name}: {nanoseconds}"
            );
        }
        assert!(!data["cases"][index][7].as_array().unwrap().is_empty(), "the planner's reason is missing");
    }
    let flags = data["flags"][0].as_str().unwrap();
    for part in
        ["bench | --devices cpu", "--kernels serial_csr,cpu_csr,cpu_sell", "--threads 1", "--repeat 5"]
    {
        assert!(flags.contains(part), "{flags}");
    }
    // `.ci/view_explorer` opens it in a browser.
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"));
    std::fs::write(folder.join("quick-explorer.html"), page).unwrap();
}

#[test]
fn reports_of_bench_and_study_describe_their_matrices() {
    let place = Place::new();
    place.write("study.toml", STUDY);
    let bench = place.json(&format!("{BENCH} --json"));
    let study = place.json("study study.toml --output out --json");
    // A matrix of finished cases is not loaded again, and its description is kept.
    let again = place.json("study study.toml --output out --json");
    assert_eq!(study["matrices"], again["matrices"]);
    assert_eq!(study["matrices"].as_array().unwrap().len(), 1);
    for (matrix, argument) in [
        (&bench["matrices"][0], "gen:stencil5,n=30"),
        (&bench["matrices"][1], "gen:hub,rows=900,degree=4,hubs=1"),
        (&study["matrices"][0], "gen:stencil5,n=30"),
    ] {
        assert_eq!(matrix["argument"], argument);
        assert_eq!((&matrix["rows"], &matrix["features"]["rows"]), (&json!(900), &json!(900)));
        let cells = matrix["pattern"]["cells"].as_array().unwrap();
        let each = matrix["pattern"]["rows_each"].as_u64().unwrap();
        assert!(cells.len() <= 32 && cells.len() as u64 * each >= 900, "{matrix}");
        assert!(cells.iter().any(|line| line.as_str().unwrap().contains('7')), "{matrix}");
    }
    for case in bench["cases"].as_array().unwrap() {
        let (chosen, reason) =
            (case["chosen_kernel"].as_str().unwrap(), case["chosen_reason"].as_str().unwrap());
        assert!(reason.contains(chosen), "{chosen}: {reason}");
    }
}

#[test]
fn studies_and_several_files_share_one_page() {
    let place = Place::new();
    place.write("study.toml", STUDY);
    place.succeed("study study.toml --output out");
    place.succeed(&format!("{BENCH} --json=bench.json"));
    let words = "report bench.json out/results.json bench.json --output all.html --title Both --json";
    let outcome = place.succeed(words);
    assert!(outcome.stderr.contains("bench.json: named twice, read once"), "{}", outcome.stderr);
    let report: Value = serde_json::from_str(&outcome.stdout).unwrap();
    assert_eq!((&report["command"], &report["output"]), (&json!("report"), &json!("all.html")));
    assert_eq!(report["files"], json!(["bench.json", "out/results.json"]));
    // Eight of bench, one of the kernels of the study and one of its run; the others are counted and named.
    assert_eq!((&report["matrices"], &report["cases"]), (&json!(2), &json!(10)));
    let left_out = report["left_out"].to_string();
    assert!(left_out.contains("1 result: simulated") && left_out.contains("conversion"), "{left_out}");
    assert!(place.read("all.html").contains("<title>Both</title>"));
    let data = data(&place, "all.html");
    let run = times(&data, 9);
    assert_eq!(run[0].0, "run, kernel auto");
    assert!(
        run.iter().any(|(name, time)| name == "serial_csr" && *time > 0),
        "no baseline of the run: {run:?}"
    );
}

#[test]
fn the_page_has_the_baseline_on_one_thread_and_the_threads_of_peers() {
    let place = Place::new();
    let words = "bench gen:stencil5,n=30 -k 4 --kernels cpu_csr --devices cpu --threads 2 --repeat 5 --json";
    let mut bench = place.json(words);
    let mut peer = bench["cases"][0]["kernels"][0].clone();
    peer["peer"] = json!("mkl");
    peer["algorithm"] = json!("");
    let mut scipy = peer.clone();
    (scipy["peer"], scipy["algorithm"]) = (json!("scipy"), json!("on 1 thread"));
    bench["cases"][0]["peers"] = json!([peer, scipy]);
    place.write("bench.json", bench.to_string());
    place.write("study.toml", STUDY.replace("threads = [1]", "threads = [2]"));
    place.succeed("study study.toml --output out");
    place.succeed("report bench.json out/results.json --output all.html");
    let page = data(&place, "all.html");
    let names = |case| times(&page, case).into_iter().map(|(name, _)| name).collect::<Vec<_>>();
    assert_eq!(names(0), ["cpu_csr", "cpu_csr on 1 thread", "mkl on 2 threads", "scipy on 1 thread"]);
    assert_eq!(page["devices"][0], "cpu (2 threads)");
    // The kernels of the study, and its run: both have the baseline of the same matrix and K.
    for case in [1, 2] {
        let found = times(&page, case).into_iter().find(|(name, _)| name == "cpu_csr on 1 thread");
        assert!(found.is_some_and(|(_, time)| time > 0), "{:?}", names(case));
    }
}

#[test]
fn a_result_that_was_not_verified_has_no_time_in_the_page() {
    let place = Place::new();
    let mut bench = place.json(&format!("{BENCH} --json"));
    bench["cases"][0]["kernels"][0]["checked"] = Value::Null;
    bench["cases"][0]["kernels"][1]["checked"]["passed"] = json!(false);
    bench["cases"][0]["kernels"][2]["times"]["median"] = Value::Null;
    // As older versions wrote it: without the key.
    bench["cases"][1]["kernels"][0].as_object_mut().unwrap().remove("checked");
    place.write("bench.json", bench.to_string());
    let report = place.json("report bench.json --output explorer.html --json");
    assert_eq!(report["unverified"], 3);
    let data = data(&place, "explorer.html");
    let found: Vec<i64> = times(&data, 0).into_iter().map(|(_, time)| time).collect();
    assert_eq!(found, [-1, -2, -3]);
    assert_eq!(times(&data, 1)[0].1, -1);
    let shown = place.succeed("report bench.json --output explorer.html").stdout;
    assert!(shown.contains("3 kernels and peers, which have no speed"), "{shown}");
}

#[test]
fn a_file_of_another_version_is_read_if_the_keys_of_its_cases_are_there() {
    let place = Place::new();
    let mut bench = place.json(&format!("{BENCH} --json"));
    bench["rowloom"] = json!("0.0.1");
    for key in ["matrices", "provenance", "summary"] {
        bench.as_object_mut().unwrap().remove(key);
    }
    for case in bench["cases"].as_array_mut().unwrap() {
        for key in ["features", "peers", "chosen_kernel", "chosen_reason", "threads", "ratio"] {
            case.as_object_mut().unwrap().remove(key);
        }
        case["a_key_of_tomorrow"] = json!({"x": [1]});
    }
    place.write("old.json", bench.to_string());
    let report = place.json("report old.json --output explorer.html --json");
    assert_eq!((&report["cases"], &report["matrices"]), (&json!(8), &json!(2)));
    // The arguments of the command name the matrices.
    assert_eq!(data(&place, "explorer.html")["matrices"][0][2], "gen:stencil5,n=30");
    bench["cases"][2].as_object_mut().unwrap().remove("k");
    place.write("cut.json", serde_json::to_string_pretty(&bench).unwrap());
    let outcome = place.run("report cut.json --output other.html");
    assert_eq!(outcome.code, 3);
    assert!(
        outcome.stderr.starts_with("error: cut.json:") && outcome.stderr.contains("missing field `k`"),
        "{}",
        outcome.stderr
    );
}

#[test]
fn other_and_damaged_files_are_input_errors_that_name_the_file_and_the_place() {
    let place = Place::new();
    place.succeed("run gen:stencil5,n=5 -k 1 --repeat 1 --json=run.json --trace trace.json");
    place.succeed("bench gen:stencil5,n=9 -k 1 --devices cpu --oracle --json=oracle.json");
    place.write("list.json", "[1]");
    place.write("foreign.json", "{\"cases\": []}");
    place.write("text.json", "matrix,k\n");
    for (file, part) in [
        ("none.json", "none.json"),
        (".", "this is a folder"),
        (
            "run.json",
            "run.json: a report of rowloom run; expected a file that `rowloom bench --json=FILE` wrote",
        ),
        ("trace.json", "trace.json: this is a trace"),
        ("oracle.json", "oracle.json: a report of bench --oracle"),
        ("foreign.json", "foreign.json: this is no report of rowloom"),
        ("list.json", "list.json:1"),
        ("text.json", "text.json:1:1: this is no JSON"),
    ] {
        place.fail(&format!("report {file} --output explorer.html"), 3, part);
    }
    place.succeed("bench gen:stencil5,n=9 -k 1 --kernels cpu_csr --devices cpu --repeat 1 --json=bench.json");
    let whole = place.read("bench.json").trim_end().to_owned();
    for end in (1..whole.len()).step_by(whole.len() / 9) {
        place.write("torn.json", &whole[..end]);
        let line = 1 + whole[..end].matches('\n').count();
        place.fail("report torn.json --output explorer.html", 3, &format!("torn.json:{line}:"));
    }
    place.write("torn.json", whole.replacen("\"k\": 1", "\"k\" 1", 1));
    place.fail("report torn.json --output explorer.html", 3, "the JSON is damaged: expected `:`");
    assert!(!place.path("explorer.html").exists());
}

#[test]
fn a_set_without_cases_says_so() {
    let place = Place::new();
    let mut bench =
        place.json("bench gen:stencil5,n=9 -k 1 --kernels cpu_csr --devices cpu --repeat 1 --json");
    bench["cases"] = json!([]);
    place.write("empty.json", bench.to_string());
    let outcome = place.run("report empty.json --output explorer.html");
    assert_eq!(outcome.code, 3);
    for part in [
        "note: empty.json: the file holds no case of a product",
        "error: empty.json: there is nothing to show",
    ] {
        assert!(outcome.stderr.contains(part), "{}", outcome.stderr);
    }
    assert!(!place.path("explorer.html").exists());
}

#[test]
fn wrong_usage_is_refused_before_any_work() {
    let place = Place::new();
    place.succeed("bench gen:stencil5,n=9 -k 1 --kernels cpu_csr --devices cpu --repeat 1 --json=bench.json");
    place.fail("report", 2, "--help");
    place.fail("report bench.json", 2, "--output");
    place.fail("report bench.json --output bench.json", 2, "would write over bench.json, which is an input");
    place.fail("report bench.json --output none/explorer.html", 1, "none/explorer.html");
    place.write("precious.html", "<p>precious</p>");
    place.fail("report bench.json --output precious.html", 2, "--force");
    assert_eq!(place.read("precious.html"), "<p>precious</p>");
    place.succeed("report bench.json --output precious.html --force");
    place.succeed("report bench.json --output precious.html");
    place.succeed("report --json bench.json --output precious.html");
}
