//! `rowloom demo`: runs in any folder and names its files.

use crate::support::Place;

#[test]
fn the_demo_writes_the_files_it_names() {
    let place = Place::new();
    let text = place.succeed("demo").stdout;
    assert!(text.contains("verified"), "{text}");
    // The result of the command that is printed: 20 products were asked for.
    assert!(text.contains(" --repeat 20 --verify --output ") && text.contains("(20 products)"), "{text}");
    assert_eq!(place.names(), ["rowloom-demo"]);
    let mut files = 0;
    for entry in std::fs::read_dir(place.path("rowloom-demo")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(text.contains(&name), "{name} is not named in\n{text}");
        files += 1;
    }
    assert!(files >= 3, "{files} files");
    assert!(text.contains("study/report.html"), "{text}");
    let report = place.read("rowloom-demo/study/report.html");
    assert!(report.contains("A first study") && report.contains("<svg"));
}

#[test]
fn the_demo_can_be_repeated_and_takes_a_folder() {
    let place = Place::new();
    place.succeed("demo here --quiet");
    let report = place.json("demo --json here");
    assert_eq!(report["command"], "demo");
    assert_eq!(report["verify"]["passed"], true);
    place.write("file", "");
    assert_eq!(place.run("demo file/inside").code, 1);
}
