//! Simulated clusters: `--devices sim:node8x4` for `run`, `plan` and `study`.

use serde_json::Value;

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
fn a_plan_for_many_nodes_is_one_page_that_ends_with_a_number_of_nodes() {
    let place = Place::new();
    let words = "plan gen:stencil27,n=16 -k 32 --devices sim:node8x64";
    let page = place.succeed(words).stdout;
    assert!(page.lines().count() <= 60, "{} lines:\n{page}", page.lines().count());
    assert!(page.lines().all(|line| line.chars().count() <= 80), "{page}");
    assert!(page.trim_start().starts_with("64 nodes of 8 GPUs compute 20 products in "), "{page}");
    let last = page.trim_end().rsplit("\n\n").next().unwrap().trim_start();
    assert!(last.starts_with("use ") && last.contains("because 20 products take "), "{last}");
    for words in ["8 nodes x 8 GPUs: ", "open 8 devices on each of 64 nodes", "stay on the devices"] {
        assert!(page.contains(words), "{words}: {page}");
    }
    // Nothing was requested by a flag, and no X comes from the host.
    for words in ["as requested", "register", "transfer", "X sent", "copy X", "512 devices "] {
        assert!(!page.contains(words), "{words}: {page}");
    }
    assert!(place.succeed(&format!("{words} --wide")).stdout.lines().count() > 1000);
}

#[test]
fn a_cluster_and_fewer_nodes_are_compared_by_the_time_of_the_same_products() {
    let words = "plan gen:stencil27,n=24 -k 32 --devices sim:node8x4 --repeat 1000";
    let place = Place::new();
    let report = place.json(&format!("{words} --json"));
    let counts = report["node_counts"].as_array().unwrap();
    let total_s = |count: &Value| count["total_s"].as_f64().unwrap();
    let least = counts.iter().map(total_s).fold(f64::INFINITY, f64::min);
    // The smallest that is nearly as fast as the best.
    let advised = counts.iter().rev().find(|count| total_s(count) <= 1.1 * least).unwrap();
    let total = total_s(advised);
    let extent = match (advised["nodes"].as_u64().unwrap(), advised["gpus_per_node"].as_u64().unwrap()) {
        (1, 8) => "1 node".into(),
        (nodes, 8) => format!("{nodes} nodes"),
        (_, 1) => "1 GPU of 1 node".into(),
        (_, gpus) => format!("{gpus} GPUs of 1 node"),
    };
    let page = place.succeed(words).stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(page.contains(&format!("{extent} would take {:.0} ms in total", total * 1e3)), "{page}");
    assert!(
        page.contains(&format!("1000 products take {:.0} ms there with the set-up", total * 1e3)),
        "{page}"
    );
}

#[test]
fn a_plan_for_a_cluster_compares_fewer_nodes_as_their_own_plans_do() {
    let place = Place::new();
    let plan =
        |nodes: u32| place.json(&format!("plan gen:stencil27,n=24 -k 32 --devices sim:node8x{nodes} --json"));
    let all = plan(4);
    let counts = all["node_counts"].as_array().unwrap();
    let gpus: Vec<&Value> = counts.iter().map(|count| &count["gpus_per_node"]).collect();
    assert_eq!(gpus, [8, 8, 8, 4, 2, 1]);
    for (count, nodes) in counts.iter().zip([4, 2, 1]) {
        let own = plan(nodes);
        assert_eq!(count["nodes"], nodes);
        assert_eq!(count["product_s"], own["predicted_s"]);
        assert_eq!((&count["set_up_s"], &count["total_s"]), (&own["set_up"]["total_s"], &own["total_s"]));
    }
}

#[test]
fn the_parts_of_a_product_on_a_cluster_add_up_to_its_time() {
    let plan = Place::new().json("plan gen:stencil27,n=24 -k 32 --devices sim:node8x2 --json");
    let words = plan["predicted_reason"].as_str().unwrap();
    let seconds = |part: &str| {
        let mut words = part.rsplit(' ');
        let scale = if words.next() == Some("ms") { 1e-3 } else { 1e-6 };
        words.next().and_then(|number| number.parse::<f64>().ok()).unwrap() * scale
    };
    let sum: f64 = words.split(" + ").map(seconds).sum();
    let product_s = plan["predicted_s"].as_f64().unwrap();
    assert!((sum - product_s).abs() < 0.02 * product_s, "{words}: {sum} {product_s}");
}

#[test]
fn one_node_and_one_machine_say_how_they_differ() {
    let place = Place::new();
    for (devices, words) in [
        ("sim:node8", "are copied with every product; on a simulated cluster they stay"),
        ("sim:node8x1", "stay on the devices; on one machine they are copied with every"),
    ] {
        let page = place.succeed(&format!("plan gen:stencil27,n=24 -k 32 --devices {devices}")).stdout;
        assert!(page.contains(words), "{devices}: {page}");
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
        ("--kernel cpu_csr", "needs the CPU; use another --kernel"),
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
