//! What the documents say of the program is so: the commands and flags they show, the kernels, the JSON.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::support::Place;
use crate::support::python::validate;
use rowloom::internal::kernel::TABLE;
use rowloom::internal::kernel::vectors::VECTOR_KERNELS;

/// Every document and its text.
fn documents() -> Vec<(PathBuf, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let readmes =
        ["README.md", "configs/README.md", "kernels/README.md", "traces/README.md", "benches/fit/README.md"];
    let mut paths: Vec<PathBuf> = readmes.map(|name| root.join(name)).into();
    for folder in ["docs", "benches/results"] {
        let files = std::fs::read_dir(root.join(folder)).unwrap().map(|entry| entry.unwrap().path());
        paths.extend(files.filter(|path| path.extension().is_some_and(|extension| extension == "md")));
    }
    paths.into_iter().map(|path| (path.clone(), std::fs::read_to_string(path).unwrap())).collect()
}

/// Lines of code that call the program, and calls inside of sentences, without the program's name.
fn commands(text: &str) -> Vec<String> {
    let mut commands = Vec::new();
    let mut in_code = false;
    let mut whole = String::new();
    for line in text.lines() {
        if line.starts_with("```") {
            in_code = !in_code;
        } else if in_code {
            whole.push_str(line.trim_end_matches('\\'));
            if !line.ends_with('\\') {
                let line = std::mem::take(&mut whole);
                commands.extend(line.trim_start_matches("$ ").strip_prefix("rowloom ").map(str::to_owned));
            }
        } else {
            let quoted = line.split('`').skip(1).step_by(2);
            commands.extend(quoted.filter_map(|code| code.strip_prefix("rowloom ")).map(str::to_owned));
        }
    }
    commands
}

#[test]
fn commands_and_flags_that_are_shown_exist() {
    let place = Place::new();
    let mut helps: BTreeMap<String, String> = BTreeMap::new();
    let mut shown = 0;
    for (path, text) in documents() {
        for command in commands(&text) {
            let mut words = command
                .split(" #")
                .next()
                .unwrap_or_default()
                .split('|')
                .next()
                .unwrap_or_default()
                .split_whitespace();
            let Some(name) = words.next().filter(|name| !name.starts_with(['-', '='])) else { continue };
            let help =
                helps.entry(name.into()).or_insert_with(|| place.succeed(&format!("{name} --help")).stdout);
            for flag in words.filter(|word| word.starts_with('-')) {
                // A value behind an equals sign, as in --json=FILE, which help shows as --json[=<FILE>].
                let flag = flag.split('=').next().unwrap_or_default();
                let known = |word: &str| word.split(['[', ',']).next() == Some(flag);
                assert!(help.split_whitespace().any(known), "{}: rowloom {command}: {flag}", path.display());
            }
            shown += 1;
        }
    }
    assert!(shown > 30, "{shown} commands were found");
}

#[test]
fn the_first_example_is_the_one_that_is_compiled() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let example = std::fs::read_to_string(root.join("examples/product.rs")).unwrap();
    let program = &example[example.find("use ").unwrap()..];
    for name in ["README.md", "docs/programs.md"] {
        let text = std::fs::read_to_string(root.join(name)).unwrap();
        let shown = text.split("```rust\n").nth(1).and_then(|block| block.split("```").next());
        assert_eq!(shown, Some(program), "{name}");
    }
}

#[test]
fn the_catalogue_has_every_kernel() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let catalogue = std::fs::read_to_string(root.join("docs/kernels.md")).unwrap();
    for kernel in TABLE {
        let row = catalogue
            .lines()
            .find(|line| line.starts_with('|') && line.contains(&format!("`{}`", kernel.name)));
        let order = if kernel.order == rowloom::internal::kernel::Order::Canonical {
            "| canonical |"
        } else {
            "| free |"
        };
        assert!(row.is_some_and(|row| row.contains(order)), "{} {order}", kernel.name);
    }
    for kernel in VECTOR_KERNELS {
        assert!(catalogue.contains(&format!("`{}`", kernel.name)), "{}", kernel.name);
    }
}

#[test]
fn every_key_of_the_json_outputs_is_in_the_documents() {
    let place = Place::new();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let text = std::fs::read_to_string(root.join("docs/json.md")).unwrap();
    for words in [
        "generate stencil5,n=12 a.mtx --json",
        "inspect a.mtx --json",
        "convert a.mtx a.rlm --check --json",
        "run a.mtx -k 4 --devices cpu,emu:0 --trace t.json --json",
        "plan a.mtx -k 4 --json",
        "trace t.json --json",
        "bench a.mtx -k 4 --kernels serial_csr,cpu_csr --repeat 3 --devices cpu --json",
        "devices --json",
        "gemm gen:dense,rows=9,cols=5 gen:dense,rows=5,cols=4 --repeat 1 --json",
        "colmean gen:recording,rows=9,channels=2,samples=3 --repeat 1 --json",
    ] {
        let report = place.json(words);
        let row = format!("| `{}` |", report["command"].as_str().unwrap());
        let row = text.lines().find(|line| line.starts_with(&row)).unwrap_or_default();
        for key in
            report.as_object().unwrap().keys().filter(|key| !["rowloom", "command"].contains(&key.as_str()))
        {
            assert!(row.contains(&format!("`{key}`")), "docs/json.md has no {key} of rowloom {words}");
        }
    }
}

#[test]
fn outputs_are_what_their_schemas_say() {
    let place = Place::new();
    let hub = "gen:hub,rows=3000,degree=4,hubs=2 -k 4";
    for (schema, words) in [
        ("run.json", "run gen:stencil5,n=20 -k 4 --dtype f32".to_string()),
        (
            "run.json",
            "run gen:stencil5,n=20 --devices cpu,emu:0?lost_at_operation=4 --mode stream --verify --trace t"
                .into(),
        ),
        ("run.json", format!("run {hub} --devices sim:h200x2 --chunks 9 --trace s")),
        ("run.json", "run gen:empty,rows=5 -k 2 --verify".into()),
        ("gemm.json", "gemm gen:dense,rows=9,cols=5 gen:dense,rows=5,cols=4 --verify".into()),
        (
            "gemm.json",
            "gemm gen:dense,rows=90,cols=50 gen:dense,rows=50,cols=4 --devices sim:h200x2 --dtype f32".into(),
        ),
        (
            "colmean.json",
            "colmean gen:recording,rows=9,channels=2,samples=3 --devices cpu,emu:0 --verify --repeat 1"
                .into(),
        ),
        ("colmean.json", "colmean gen:recording,rows=9,channels=2,samples=3 --devices sim:h200".into()),
        ("plan.json", format!("plan {hub} --devices sim:h200x2 --chunks 40")),
        ("plan.json", "plan gen:stencil5,n=200 -k 4 --devices cpu,emu:0 --mode stream".into()),
        ("trace.json", "trace t".into()),
        ("trace.json", "trace s".into()),
    ] {
        place.succeed(&format!("{words} --json=report.json"));
        validate(schema, &place.path("report.json"));
    }
}
