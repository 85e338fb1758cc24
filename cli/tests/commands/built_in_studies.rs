//! The studies that are part of the program: measured by name, listed, saved.

use crate::support::Place;

#[test]
fn a_study_is_measured_by_its_name_in_any_folder() {
    let place = Place::new();
    let report = place.json("study solvers --json");
    assert_eq!(report["cases"]["all"], report["cases"]["finished"]);
    assert_eq!(report["folder"], "rowloom-solvers");
    let html = place.read("rowloom-solvers/report.html");
    assert!(html.contains("rowloom study solvers --output"), "the page names the command");
    // The folder of results does not hide the study.
    place.succeed("study solvers --output solvers");
    let again = place.json("study solvers --output solvers --json");
    assert_eq!(again["cases"]["kept"], report["cases"]["all"]);
}

#[test]
fn a_file_of_a_studys_name_is_read_instead() {
    let place = Place::new();
    place.write("quick", "title = 'mine'");
    place.fail("study quick", 3, "quick: [[sweep]] is missing");
}

#[test]
fn an_unknown_name_suggests_the_nearest_study() {
    let place = Place::new();
    let reason = "quik: neither a file nor a built-in study (did you mean 'quick'?); \
                  `rowloom study --list` shows the built-in studies";
    place.fail("study quik", 3, reason);
    place.fail("study --save quik", 3, reason);
    place.fail("study zzzzzzzzzz", 3, "nor a built-in study; `rowloom study --list`");
    place.fail("study configs/quick.toml", 3, "configs/quick.toml: ");
    place.fail("study", 2, "<STUDY>");
}

#[test]
fn the_list_has_one_line_for_each_study_and_the_demo_names_one() {
    let place = Place::new();
    let text = place.succeed("study --list").stdout;
    let studies = place.json("study --list --json");
    let studies = studies["studies"].as_array().unwrap();
    assert!(studies.len() > 10 && text.lines().count() >= studies.len(), "{text}");
    for study in studies {
        let name = study["name"].as_str().unwrap();
        assert!(text.lines().any(|line| line.trim_start().starts_with(name)), "{name}: {text}");
        assert!(!study["summary"].as_str().unwrap().is_empty());
    }
    assert!(place.names().is_empty(), "{:?}", place.names());
    place.fail("study --list quick", 2, "cannot be used with");
    let next = place.succeed("demo").stdout;
    assert!(next.contains("Next: rowloom study quick, and rowloom run --help"), "{next}");
}

#[test]
fn a_saved_study_is_the_file_and_replaces_none_without_force() {
    let place = Place::new();
    let text = place.succeed("study --save quick").stdout;
    assert_eq!(text, "Wrote quick.toml. Measure it with: rowloom study quick.toml\n");
    let shipped = concat!(env!("CARGO_MANIFEST_DIR"), "/../configs/quick.toml");
    assert_eq!(place.read("quick.toml"), std::fs::read_to_string(shipped).unwrap());
    assert_eq!(place.names(), ["quick.toml"]);
    place.write("quick.toml", "title = 'mine'");
    place.fail("study --save quick", 2, "quick.toml exists; rename it, or add --force");
    assert_eq!(place.read("quick.toml"), "title = 'mine'");
    assert_eq!(place.json("study --save quick --force --json")["saved"], "quick.toml");
    assert_ne!(place.read("quick.toml"), "title = 'mine'");
    place.fail("study --save quick --json=quick.toml --force", 2, "both name quick.toml");
}
