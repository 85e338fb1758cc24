//! What the documents say is so: the files they point to, the commands and flags they show, the kernels, the JSON.

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
fn links_lead_to_files_that_are_there() {
    let mut links = 0;
    for (path, text) in documents() {
        for part in text.split("](").skip(1) {
            let target = part.split(')').next().unwrap_or_default();
            let file = target.split('#').next().unwrap_or_default();
            if target.contains("://") || file.is_empty() {
                continue;
            }
            links += 1;
            assert!(path.with_file_name(file).exists(), "{}: {target}", path.display());
        }
    }
    assert!(links > 20, "{links} links were found");
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
fn commands_of_results_have_no_words_in_place_of_arguments() {
    for (path, text) in documents()
        .into_iter()
        .filter(|(path, _)| path.components().any(|part| part.as_os_str() == "results"))
    {
        for command in commands(&text) {
            let placeholder = command.split_whitespace().find(|word| {
                let letters = word.trim_matches(|letter: char| !letter.is_ascii_alphabetic());
                word.starts_with('(')
                    || letters.len() > 1 && letters.chars().all(|letter| letter.is_ascii_uppercase())
            });
            let is_variable = placeholder.is_some_and(|word| word.starts_with('$'));
            assert!(
                placeholder.is_none() || is_variable,
                "{}: rowloom {command}: {placeholder:?}",
                path.display()
            );
        }
    }
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
fn the_constants_of_automatic_devices_are_those_of_the_code() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let read = |name: &str| std::fs::read_to_string(root.join(name)).unwrap();
    let files = [
        "adapt/course",
        "runtime/product/adaptation/mod",
        "runtime/product/adaptation/opening",
        "runtime/product/adaptation/sharing",
    ];
    let code: String = files.iter().map(|file| read(&format!("src/{file}.rs"))).collect();
    let mut compared = 0;
    for row in read("docs/planner.md").lines().filter(|line| line.starts_with("| `")) {
        let mut cells = row.split('|').skip(1).map(str::trim);
        let (Some(name), Some(value)) = (cells.next(), cells.next()) else { continue };
        let name = name.trim_matches('`');
        if !name.chars().all(|letter| letter.is_ascii_uppercase() || letter == '_') {
            continue;
        }
        let constant = |line: &str| {
            line.trim_start_matches("pub(super) ").strip_prefix(&format!("const {name}: ")).map(str::to_owned)
        };
        let defined = code.lines().find_map(constant);
        let defined =
            defined.and_then(|line| Some(line.split(" = ").nth(1)?.trim_end_matches(';').to_owned()));
        assert_eq!(defined.as_deref(), Some(value), "docs/planner.md: {name}");
        compared += 1;
    }
    assert!(compared > 10, "only {compared} constants were compared");
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
        ("plan.json", format!("plan {hub} --devices sim:h200x2 --chunks 40")),
        ("plan.json", "plan gen:stencil5,n=200 -k 4 --devices cpu,emu:0 --mode stream".into()),
        ("trace.json", "trace t".into()),
        ("trace.json", "trace s".into()),
    ] {
        place.succeed(&format!("{words} --json=report.json"));
        validate(schema, &place.path("report.json"));
    }
}
