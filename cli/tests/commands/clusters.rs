//! Simulated clusters: `--devices sim:node8x4` for `run`, `plan` and `study`.

use crate::support::Place;

const NETWORK: &str =
    "latency_us = 2.0\nmessage_gb_per_s = 20.0\ninjection_gb_per_s = 40.0\ngpu_direct = false\n";

#[test]
fn a_product_on_a_cluster_names_its_network_exchange_and_parts() {
    let place = Place::new();
    let report = place.json("run gen:stencil27,n=24 -k 8 --devices sim:node8x4 --json");
    assert_eq!((&report["simulated"], &report["cluster"]["nodes"]), (&true.into(), &4.into()));
    let parts = &report["time_parts"];
    assert!(parts["network_bytes"].as_u64() > Some(0));
    let shown = place.succeed("run gen:stencil27,n=24 -k 8 --devices sim:node8x4").stdout;
    for words in ["4 nodes of 8 GPUs", "between nodes", "network latency", "in virtual time"] {
        assert!(shown.contains(words), "{words}: {shown}");
    }
}

#[test]
fn a_product_on_ranks_of_one_host_names_ranks_and_copies_nothing_to_devices() {
    let place = Place::new();
    let report = place.json("run gen:stencil27,n=24 -k 8 --devices sim:cpux4 --json");
    // 24 x 24 points of each neighbour, eight columns of eight bytes; inner ranks have two neighbours.
    assert_eq!(report["time_parts"]["network_messages"], 6);
    let shown = place.succeed("run gen:stencil27,n=24 -k 8 --devices sim:cpux4").stdout;
    for words in ["4 ranks", "between ranks", "network latency", "in virtual time"] {
        assert!(shown.contains(words), "{words}: {shown}");
    }
    for words in ["copy A", "blocks of rows", "nodes"] {
        assert!(!shown.contains(words), "{words}: {shown}");
    }
    for devices in ["sim:cpux0", "sim:cpux129"] {
        let refused = place.run(&format!("run gen:stencil5,n=9 -k 2 --devices {devices}"));
        assert_eq!(refused.code, 2, "{devices}: {}", refused.stderr);
        assert!(refused.stderr.contains("from 1 to 128 ranks"), "{devices}: {}", refused.stderr);
    }
}

#[test]
fn a_plan_for_a_cluster_predicts_the_time_of_its_run_and_can_be_saved() {
    let place = Place::new();
    let words = "gen:rmat,scale=12,degree=8 -k 8 --devices sim:node8x2";
    let plan = place.json(&format!("plan {words} --save plan.json --json"));
    let run = place.json(&format!("run {words} --json"));
    let saved = place.json("run gen:rmat,scale=12,degree=8 --plan plan.json --json");
    assert_eq!(plan["devices"].as_array().unwrap().len(), 17);
    assert_eq!(plan["devices"][9]["name"], "sim:node8x2/1.0");
    for report in [&run, &saved] {
        assert_eq!(plan["predicted_s"], report["timing"]["run_s"]["median"]);
    }
}

#[test]
fn the_network_of_a_cluster_can_be_a_file() {
    let place = Place::new();
    place.write("slow.toml", NETWORK.replace("20.0", "0.02").replace("40.0", "0.04"));
    place.write("fast.toml", NETWORK);
    let median = |network: &str| {
        let devices = format!("--devices sim:node8x2?network={network}");
        let report = place.json(&format!("run gen:stencil27,n=20 -k 8 {devices} --json"));
        report["timing"]["run_s"]["median"].as_f64().unwrap()
    };
    assert!(median("slow.toml") > 2.0 * median("fast.toml"));
}

#[test]
fn a_trace_of_a_cluster_has_a_process_for_each_network() {
    let place = Place::new();
    place.succeed("run gen:rmat,scale=11,degree=8 -k 4 --devices sim:node8x2 --trace t.json");
    let text = place.read("t.json");
    assert!(text.contains("network/0") && text.contains("network/1"));
    assert!(place.succeed("trace t.json").stdout.contains("sim:node8x2/1.7"));
}

#[test]
fn wrong_usage_of_clusters_is_refused_with_the_reason() {
    let place = Place::new();
    place.write("key.toml", NETWORK.replace("latency_us", "latency_ms"));
    place.write("value.toml", NETWORK.replace("20.0", "-1.0"));
    place.write("text.toml", "latency_us = ");
    for (devices, reason) in [
        ("sim:nod8x4", "did you mean 'sim:node8x4'?"),
        ("sim:node8x0", "from 1 to 128 nodes, not 0"),
        ("sim:node8x129", "from 1 to 128 nodes, not 129"),
        ("sim:node8x99999999999999999999", "from 1 to 128 nodes"),
        ("sim:node8x-1", "unknown machine"),
        ("cpu,sim:node8x2", "GPUs compute alone"),
        ("sim:node8x2,sim:node8x2", "named twice"),
        ("sim:node8x2?network=ndr40", "did you mean 'ndr400'?"),
        ("sim:node8x2?network=missing.toml", "missing.toml"),
        ("sim:node8x2?network=key.toml", "key.toml:1: unknown key 'latency_ms' (did you mean 'latency_us'?)"),
        ("sim:node8x2?network=value.toml", "value.toml:2: message_gb_per_s must be"),
        ("sim:node8x2?network=text.toml", "text.toml:1"),
        ("sim:node8x2?latency=3", "unknown option 'latency'"),
        ("sim:h200x2?network=ndr400", "is one machine and has no network"),
    ] {
        for command in ["run", "plan"] {
            let refused = place.run(&format!("{command} gen:stencil5,n=9 -k 2 --devices {devices}"));
            assert_eq!(refused.code, 2, "{command} {devices}: {}", refused.stderr);
            assert!(refused.stderr.contains(reason), "{command} {devices}: {}", refused.stderr);
        }
    }
    for (flags, reason) in [
        ("--mode stream", "A, X and Y stay on the devices"),
        ("--verify", "compute no Y"),
        ("--output y.mtx", "compute no Y"),
    ] {
        let refused = place.run(&format!("run gen:stencil5,n=9 -k 2 --devices sim:node8x2 {flags}"));
        assert_eq!(refused.code, 2, "{flags}: {}", refused.stderr);
        assert!(refused.stderr.contains(reason), "{flags}: {}", refused.stderr);
    }
}

#[test]
fn a_matrix_that_does_not_fit_is_refused_before_it_is_generated() {
    let refused = Place::new().run("run gen:rmat,scale=31,degree=64 -k 8 --devices sim:node8x64");
    assert_eq!(refused.code, 3, "{}", refused.stderr);
    assert!(
        refused.stderr.contains("does not fit") || refused.stderr.contains("needs"),
        "{}",
        refused.stderr
    );
}

#[test]
fn a_study_of_clusters_says_why_the_efficiency_falls() {
    let place = Place::new();
    place.write(
        "study.toml",
        "title = 't'\n[[sweep]]\nname = 'weak'\nsubject = 'vectors'\nmatrices = 'gen:stencil27,n=12,depth={6*devices}'\n\
         k = 8\ndevices = ['sim:h100', 'sim:node8', 'sim:node8x2']\n",
    );
    place.succeed("study study.toml --output out");
    let page = place.read("out/report.html");
    assert!(page.contains("From 8 to 16 GPUs the efficiency"), "one sentence per step");
    let results: serde_json::Value = serde_json::from_str(&place.read("out/results.json")).unwrap();
    let records = results["records"].as_array().unwrap();
    let devices: Vec<u64> = records.iter().map(|record| record["device_count"].as_u64().unwrap()).collect();
    assert_eq!(devices, [1, 8, 16]);
    assert!(records.iter().all(|record| record["time_parts"]["kernels_s"].as_f64() > Some(0.0)));
}

#[test]
fn a_study_of_vectors_on_devices_that_are_not_simulated_is_refused() {
    let place = Place::new();
    place.write(
        "study.toml",
        "title = 't'\n[[sweep]]\nname = 's'\nsubject = 'vectors'\nmatrices = 'gen:stencil5,n=9'\ndevices = 'cpu'\n",
    );
    let refused = place.run("study study.toml");
    assert_eq!(refused.code, 2, "{}", refused.stderr);
    assert!(refused.stderr.contains("study.toml:6") && refused.stderr.contains("cpu is not simulated"));
}
