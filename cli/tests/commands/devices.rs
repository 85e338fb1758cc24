//! `rowloom devices`: the machine that the tests run on.

use crate::support::Place;

#[test]
fn devices_shows_this_machine() {
    let place = Place::new();
    let report = place.json("devices --json");
    assert_eq!(report["command"], "devices");
    assert!(report["machine"]["cores"].as_u64().unwrap() >= 1);
    assert!(report["machine"]["numa_nodes"].as_u64().unwrap() >= 1);
    assert!(report["machine"]["gpus"].is_array());
    let gpus = report["machine"]["gpus"].as_array().unwrap().len();
    assert_eq!(report["cards"].as_array().unwrap().len(), gpus, "every GPU is measured");
    for library in report["libraries"].as_array().unwrap() {
        assert!(library["found"].is_string() || library["advice"].as_str().unwrap().contains("install"));
    }
    let table = place.succeed("devices").stdout;
    for part in ["cores", "memory", "CUDA driver", "NVRTC", "cuSPARSE", "SciPy", "MKL"] {
        assert!(table.contains(part), "{part} is not in\n{table}");
    }
    let output = place.command("devices --json").env("ROWLOOM_PYTHON", "/no/such/python").output().unwrap();
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let libraries = report["libraries"].as_array().unwrap();
    let scipy = libraries.iter().find(|library| library["name"] == "SciPy").unwrap();
    assert!(scipy["found"].is_null() && scipy["advice"].as_str().unwrap().contains("/no/such/python"));
}
