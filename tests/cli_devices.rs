//! `rowloom devices`: the machine, on whatever machine the tests run.

mod support;

use support::Place;

#[test]
fn devices_shows_this_machine() {
    let place = Place::new();
    let report = place.json("devices --json");
    assert_eq!(report["command"], "devices");
    assert!(report["machine"]["cores"].as_u64().unwrap() >= 1);
    assert!(report["machine"]["numa_nodes"].as_u64().unwrap() >= 1);
    assert!(report["machine"]["gpus"].is_array());
    let table = place.succeed("devices").stdout;
    for part in ["cores", "memory"] {
        assert!(table.contains(part), "{part} is not in\n{table}");
    }
}
