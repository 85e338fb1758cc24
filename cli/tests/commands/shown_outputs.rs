//! Outputs and pictures in the documents are what the commands beside them print and draw.
//!
//! A block ` ```console ` is compared whole. A block ` ```console example ` holds real times or the decisions of one machine: only its labels
//! are compared. `ROWLOOM_TEST_WRITE_DOCS=1` writes the outputs and pictures into the documents instead.

use std::path::{Path, PathBuf};

use crate::support::Place;

/// Labels of lines with real times in outputs that otherwise depend on no machine.
const REAL_TIMES: [&str; 4] = ["generated in", "written", "loaded in", "this command"];

/// The first line of a block with the output of one machine, which has two threads.
const EXAMPLE: &str = "```console example";

/// Takes a quarter of a minute, and its labels are those of any study.
const NOT_RUN: &str = "study quick";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn writes() -> bool {
    std::env::var("ROWLOOM_TEST_WRITE_DOCS").is_ok_and(|value| value == "1")
}

/// What a command prints on a terminal of 80 columns, on a machine without a card.
fn printed(place: &Place, words: &str) -> String {
    let output = place.command(words).env("COLUMNS", "80").env("CUDA_VISIBLE_DEVICES", "").output().unwrap();
    assert!(output.status.success(), "{words}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The label of a line of facts; empty where a value goes on.
fn label(line: &str) -> &str {
    let line = line.strip_prefix(' ').unwrap_or(line);
    if line.starts_with(' ') { "" } else { line.split("  ").next().unwrap_or_default() }
}

/// A line without its real times.
fn without_real_times(line: &str) -> String {
    if !REAL_TIMES.contains(&label(line)) {
        return line.to_owned();
    }
    let words: Vec<&str> = line.split(' ').collect();
    let is_unit = |word: &str| ["µs", "ms", "s"].contains(&word.trim_end_matches(','));
    let masked = words
        .iter()
        .enumerate()
        .map(|(at, &word)| if words.get(at + 1).is_some_and(|next| is_unit(next)) { "T" } else { word });
    let units = ["µs", "ms"];
    masked.map(|word| if units.contains(&word) { "s" } else { word }).collect::<Vec<_>>().join(" ")
}

fn labels(text: &str) -> Vec<&str> {
    text.lines().map(label).filter(|label| !label.is_empty()).collect()
}

/// Runs every console block of a document in order, in one folder, and compares or writes its outputs.
fn compare_document(place: &Place, name: &str) -> usize {
    let path = root().join(name);
    let document = std::fs::read_to_string(&path).unwrap();
    let (mut written, mut rest, mut compared) = (String::new(), document.as_str(), 0);
    while let Some(at) = rest.find("```console") {
        let (before, block) = rest.split_at(at);
        let (head, body) = block.split_once('\n').unwrap();
        let (body, after) = body.split_once("```").unwrap();
        let (typed, shown) = body.split_once('\n').unwrap();
        let words = typed.strip_prefix("$ rowloom ").unwrap().split(" #").next().unwrap().trim();
        rest = after;
        let output = match words {
            NOT_RUN => shown.to_owned(),
            _ if head == EXAMPLE => printed(place, &format!("{words} --threads 2")),
            _ => printed(place, words),
        };
        if !writes() && head == "```console" {
            let lines = |text: &str| text.lines().map(without_real_times).collect::<Vec<_>>();
            assert_eq!(lines(shown), lines(&output), "{name}: rowloom {words}");
        } else if !writes() {
            assert_eq!(head, EXAMPLE, "{name}: rowloom {words}");
            assert_eq!(labels(shown), labels(&output), "{name}: rowloom {words}");
        }
        compared += 1;
        written.extend([before, head, "\n", typed, "\n", &output, "```"]);
    }
    written.push_str(rest);
    if writes() {
        std::fs::write(path, written).unwrap();
    }
    compared
}

/// Compares a picture of the documents with one that a command drew, or writes it.
fn compare_picture(place: &Place, name: &str, drawn: &str) {
    let path = root().join("docs/pictures").join(name);
    if writes() {
        std::fs::copy(place.path(drawn), path).unwrap();
    } else {
        assert!(std::fs::read_to_string(path).unwrap() == place.read(drawn), "{name} is not {drawn}");
    }
}

/// The part of a text from `begin` to the next `end`, both included if `end` is not empty.
fn part<'a>(text: &'a str, begin: &str, end: &str) -> &'a str {
    let text = &text[text.find(begin).unwrap()..];
    let length = text[begin.len()..].find(end).unwrap() + begin.len();
    &text[..length]
}

#[test]
fn the_tutorial_shows_what_its_commands_print_and_draw() {
    let place = Place::new();
    assert_eq!(compare_document(&place, "docs/tutorial.md"), 9);
    compare_picture(&place, "mesh.svg", "mesh.svg");
    let tutorial = std::fs::read_to_string(root().join("docs/tutorial.md")).unwrap();
    let study = part(&tutorial, "title = ", "```");
    place.write("two.toml", study);
    place.succeed("study two.toml");
    compare_picture(&place, "timeline.svg", "rowloom-two/timeline-1.svg");
    let quick = std::fs::read_to_string(root().join("configs/quick.toml")).unwrap();
    let sweep = part(&quick, "[[sweep]]\nname = \"what if\"", "\n[[sweep]]");
    place.write("quick.toml", format!("{}{sweep}", part(&quick, "#", "[[sweep]]")));
    place.succeed("study quick.toml");
    compare_picture(&place, "what-if.svg", "rowloom-quick/what-if-speed-up-devices.svg");
}

#[test]
fn the_summary_of_a_sample_trace_is_what_the_documents_show() {
    let place = Place::new();
    std::fs::create_dir(place.path("traces")).unwrap();
    let sample = "traces/sample-stream.json";
    std::fs::copy(root().join(sample), place.path(sample)).unwrap();
    let document = std::fs::read_to_string(root().join("docs/trace.md")).unwrap();
    let shown = part(&document, "$ rowloom trace", "```").split_once('\n').unwrap().1;
    let output = printed(&place, &format!("trace {sample}"));
    assert!(output.starts_with(shown), "{shown}\n{output}");
}

#[test]
fn simulated_clusters_take_the_times_that_the_documents_show() {
    let place = Place::new();
    let network = std::fs::read_to_string(root().join("configs/networks/ndr400.toml")).unwrap();
    let staged = network.replace("gpu_direct = true", "gpu_direct = false");
    assert_ne!(network, staged);
    place.write("staged.toml", staged);
    let document = std::fs::read_to_string(root().join("docs/cluster.md")).unwrap();
    let rows: Vec<&str> = document.lines().filter(|line| line.starts_with("| `rowloom run ")).collect();
    assert_eq!(rows.len(), 2);
    for row in rows {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let words = cells[0].trim_matches('`').strip_prefix("rowloom ").unwrap();
        for (time, device) in [(cells[1], "sim:node8x8"), (cells[2], "sim:node8x8?network=staged.toml")] {
            let output = printed(&place, &words.replace("sim:node8x8", device));
            let line = output.lines().find(|line| label(line) == "time").unwrap();
            assert!(line.ends_with(&format!("  {time} per product in virtual time")), "{row}: {line}");
        }
    }
}
