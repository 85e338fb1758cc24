//! `rowloom demo`: the tour works anywhere and names what it made.

use crate::support::Place;

#[test]
fn the_tour_makes_what_it_names() {
    let place = Place::new();
    let tour = place.succeed("demo").stdout;
    assert!(tour.contains("verified"), "{tour}");
    assert_eq!(place.names(), ["rowloom-demo"]);
    let mut files = 0;
    for entry in std::fs::read_dir(place.path("rowloom-demo")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(tour.contains(&name), "{name} is not named in\n{tour}");
        files += 1;
    }
    assert!(files >= 3, "{files} files");
    assert!(tour.contains("study/report.html"), "{tour}");
    let report = place.read("rowloom-demo/study/report.html");
    assert!(report.contains("A first study") && report.contains("<svg"));
}

#[test]
fn a_tour_twice_and_elsewhere_is_fine() {
    let place = Place::new();
    place.succeed("demo here --quiet");
    let report = place.json("demo --json here");
    assert_eq!(report["command"], "demo");
    assert_eq!(report["verify"]["passed"], true);
    place.write("file", "");
    assert_eq!(place.run("demo file/inside").code, 1);
}
