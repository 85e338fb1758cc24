//! What an author of a study is told: its keys and kernels, all that is missing at once, and a summary with the winner.

use crate::support::Place;

/// Two kernels on one matrix, and a device that does not exist.
const STUDY: &str = "
title = 'Authored'
[measure]
warmup = 1
repeat = 8
[[sweep]]
name = 'kernels'
subject = 'kernel'
matrices = 'gen:stencil27,n=12'
k = 32
kernels = ['serial_csr', 'cpu_csr']
threads = 2
[[sweep]]
name = 'conversions'
subject = 'conversion'
matrices = 'gen:stencil5,n=30'
[[sweep]]
name = 'simulated'
matrices = 'gen:stencil5,n=2'
k = 4
devices = ['sim:h200x8', 'cuda:77']
";

/// Text without line breaks: help and notes are wrapped.
fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn the_help_has_every_key_of_a_study_and_the_names_of_its_kernels() {
    let place = Place::new();
    let help = words(&place.succeed("study --help").stdout);
    let sweep = "[[sweep]]\nname = 's'\nmatrices = 'gen:stencil5,n=9'\n";
    // The error for a key that is near no other lists all keys of its table.
    for (text, least) in [
        (format!("zzzzzzzz = 1\ntitle = 't'\n{sweep}"), 5),
        (format!("title = 't'\n{sweep}zzzzzzzz = 1"), 15),
        (format!("title = 't'\n[measure]\nzzzzzzzz = 1\n{sweep}"), 4),
    ] {
        place.write("a.toml", text);
        let said = words(&place.run("study a.toml").stderr);
        let (_, keys) = said.split_once("the keys are ").unwrap_or_else(|| panic!("{said}"));
        let keys: Vec<&str> = keys.split(", ").collect();
        assert!(keys.len() >= least, "{said}");
        for key in keys {
            assert!(help.contains(key), "{key} is not in the help");
        }
    }
    for kernel in ["serial_csr", "cpu_csr", "csr_vector", "hybrid"] {
        assert!(help.contains(kernel), "{kernel}");
    }
}

#[test]
fn errors_name_all_missing_keys_and_the_help_that_lists_the_kernels() {
    let place = Place::new();
    place.write("a.toml", "[[sweep]]\nk = 8\n");
    place.fail("study a.toml", 3, "title is missing; [[sweep]] number 1 has no name and no");
    for (subject, matrix, command) in [
        ("run", "gen:stencil5,n=9", "`rowloom run --help`"),
        ("kernel", "gen:stencil5,n=9", "`rowloom run --help`"),
        ("gemm", "gen:dense,rows=9,cols=8", "`rowloom gemm --help`"),
    ] {
        let sweep = format!("name = 's'\nsubject = '{subject}'\nmatrices = '{matrix}'\nkernels = 'zzz'");
        place.write("a.toml", format!("title = 't'\n[[sweep]]\n{sweep}"));
        let outcome = place.run("study a.toml");
        assert_eq!(outcome.code, 2, "{}", outcome.stderr);
        assert!(words(&outcome.stderr).contains(command), "{subject}: {}", outcome.stderr);
    }
    let outcome = place.run("gemm gen:dense,rows=9,cols=8 gen:dense,rows=8,cols=7 --kernel zzz");
    assert!(!words(&outcome.stderr).contains("rowloom run --help"), "{}", outcome.stderr);
}

#[test]
fn a_study_writes_tables_for_a_paper_and_its_summary_names_the_winners() {
    let place = Place::new();
    place.write("a.toml", STUDY);
    let outcome = place.succeed("study a.toml --output out");
    let shown = words(&outcome.stdout);
    assert!(shown.contains("answer kernels: The fastest is "), "{shown}");
    assert!(shown.contains("× faster than"), "{shown}");
    let names = place.names_in("out");
    assert!(names.contains(&"results.md".to_owned()), "{names:?}");
    for name in &names {
        assert!(!name.contains("conversions-conversions") && !name.contains("kernels-kernels"), "{names:?}");
    }
    assert!(names.contains(&"conversions.svg".to_owned()), "{names:?}");
    let tables = place.read("out/results.md");
    for part in [
        "- rowloom: ",
        "# Authored",
        "## kernels",
        "## conversions",
        "| verified |",
        "| cpu_csr on 1 thread |",
    ] {
        assert!(tables.contains(part), "{part}: {tables}");
    }
    // Serial kernels use one of the two threads.
    assert!(tables.contains(" 1 | serial_csr |") && tables.contains(" 2 | cpu_csr |"), "{tables}");
    // The absent device `cuda:77` has a record without times, and the summary counts records with times.
    let results: serde_json::Value = serde_json::from_str(&place.read("out/results.json")).unwrap();
    let records = results["records"].as_array().unwrap();
    let measured = records.iter().filter(|record| !record["times"]["median"].is_null()).count();
    assert_eq!(measured + 1, records.len());
    assert!(shown.contains(&format!("results {measured} ")), "{shown}");
    let report = place.read("out/report.html");
    assert!(
        report.contains(" of 8 devices have no work in this plan."),
        "the timeline is silent on idle devices"
    );
    assert!(!report.contains("over serial"), "the baseline has one name");
    // The same command replaces its own tables; another file of that name is kept.
    place.succeed("study a.toml --output out");
    place.write("out/results.md", "# My paper\n");
    assert_eq!(place.run("study a.toml --output out").code, 2);
}
