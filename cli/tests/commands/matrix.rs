//! `rowloom inspect`, `convert` and `generate`.

use crate::support::{Place, SMALL};

fn small() -> Place {
    let place = Place::new();
    place.write("small.mtx", SMALL);
    place
}

/// Entries of a Matrix Market file, sorted.
fn entries(text: &str) -> Vec<(u64, u64, f64)> {
    let lines = text.lines().filter(|line| !line.starts_with('%')).skip(1);
    let mut entries: Vec<(u64, u64, f64)> = lines
        .map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            (words[0].parse().unwrap(), words[1].parse().unwrap(), words[2].parse().unwrap())
        })
        .collect();
    entries.sort_by(|left, right| left.partial_cmp(right).unwrap());
    entries
}

#[test]
fn inspect_reports_shape_and_entries() {
    let place = small();
    let table = place.succeed("inspect small.mtx").stdout;
    assert!(table.contains("3 x 4") && table.contains("6 nonzeros"), "{table}");
    for label in ["new columns", "as ELL (padded)", "as ELL without padding"] {
        assert!(table.contains(label), "'{label}' is not in: {table}");
    }
    let long = place
        .succeed("inspect gen:uniform,rows=1200,degree=1100")
        .stdout
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ");
    assert!(long.contains("median 1,100, 99% up to 1,100, longest 1,100"), "{long}");
    let report = place.json("inspect small.mtx --json");
    assert_eq!(report["command"], "inspect");
    assert_eq!(report["matrix"]["rows"], 3);
    assert_eq!(report["matrix"]["cols"], 4);
    assert_eq!(report["matrix"]["nnz"], 6);
    assert_eq!(report["matrix"]["field"], "real");
}

#[test]
fn inspect_draws_the_nonzeros() {
    let place = small();
    place.succeed("inspect small.mtx --spy small.svg");
    let picture = place.read("small.svg");
    assert!(picture.contains("<svg") && picture.trim_end().ends_with("</svg>"));
    place.fail("inspect small.mtx --spy none/small.svg", 1, "none/small.svg");
    place.fail("inspect small.mtx --spy small.png", 2, "small.png must end in .svg");
    place.fail("inspect none.mtx --spy small", 2, "small must end in .svg");
    assert!(!place.path("small.png").exists());
}

#[test]
fn a_damaged_or_missing_file_is_named_with_the_reason() {
    let place = small();
    place.write("short.mtx", SMALL.replace("3 4 7\n", ""));
    place.fail("inspect short.mtx", 3, "short.mtx");
    place.fail("inspect none.mtx", 3, "none.mtx");
    place.fail("inspect .", 3, "folder");
}

#[test]
fn a_matrix_survives_every_format() {
    let place = small();
    place.succeed("convert small.mtx a.rlm");
    place.succeed("convert a.rlm b.mtx.gz");
    let report = place.json("convert b.mtx.gz c.mtx --json");
    assert_eq!(report["matrix"]["nnz"], 6);
    assert_eq!(entries(&place.read("c.mtx")), entries(SMALL));
    assert_eq!(place.names(), ["a.rlm", "b.mtx.gz", "c.mtx", "small.mtx"]);
    let hash = |file: &str| place.json(&format!("run {file} -k 3 --repeat 1 --json"))["y_hash"].clone();
    assert_eq!(hash("small.mtx"), hash("a.rlm"));
}

#[test]
fn parallel_conversions_equal_serial_ones() {
    let place = small();
    let report = place.json("convert small.mtx --check --json");
    let checks = report["checks"].as_array().unwrap();
    assert_eq!(checks.len(), 3);
    assert!(checks.iter().all(|check| check["equal"] == true), "{checks:?}");
    let table = place.succeed("convert gen:rmat,scale=10,degree=8 --check --dtype f32").stdout;
    assert_eq!(table.matches("yes").count(), 3, "{table}");
    assert_eq!(place.names(), ["small.mtx"]);
}

#[test]
fn a_padded_ell_beyond_memory_is_refused_with_the_number() {
    let table = Place::new().run("convert gen:arrow,rows=2000000 --check");
    assert_eq!(table.code, 0, "{}", table.stderr);
    assert!(table.stdout.contains("refused by both"), "{}", table.stdout);
    assert!(table.stderr.contains("TiB"), "{}", table.stderr);
}

#[test]
fn conversion_targets_need_a_known_ending() {
    let place = small();
    place.fail("convert small.mtx small.xyz", 2, ".mtx, .mtx.gz, .npz or .rlm");
    place.fail("convert small.mtx none/small.rlm", 1, "none/small.rlm");
    place.fail("convert none.mtx a.rlm", 3, "none.mtx");
    std::fs::create_dir(place.path("folder.mtx")).unwrap();
    place.fail("convert small.mtx folder.mtx", 1, "folder.mtx");
    assert_eq!(place.names(), ["folder.mtx", "small.mtx"]);
}

#[test]
fn a_failed_conversion_leaves_the_old_file() {
    let place = small();
    place.succeed("convert small.mtx out.mtx");
    let before = place.read("out.mtx");
    place.write("damaged.mtx", SMALL.replace("1.5", "1,5"));
    place.fail("convert damaged.mtx out.mtx", 3, "damaged.mtx:3");
    assert_eq!(place.read("out.mtx"), before);
}

#[test]
fn damaged_caches_are_refused() {
    let place = small();
    place.succeed("convert small.mtx a.rlm");
    let mut bytes = std::fs::read(place.path("a.rlm")).unwrap();
    let last = bytes.len() - 1;
    bytes.truncate(last);
    place.write("cut.rlm", &bytes);
    place.fail("inspect cut.rlm", 3, "cut.rlm");
}

#[test]
fn generated_matrices_depend_on_their_keys_and_seed_only() {
    let place = Place::new();
    let report = place.json("generate stencil5,n=10 a.mtx --json");
    assert_eq!(report["matrix"]["rows"], 100);
    assert_eq!(report["matrix"]["nnz"], 460);
    assert_eq!(report["matrix"]["synthetic"], true);
    place.succeed("generate gen:uniform,rows=50,degree=4 b.mtx --seed 7");
    place.succeed("generate uniform,rows=50,degree=4 c.mtx --seed 7 --threads 1");
    place.succeed("generate uniform,rows=50,degree=4 d.mtx --seed 8");
    assert_eq!(place.read("b.mtx"), place.read("c.mtx"));
    assert_ne!(entries(&place.read("b.mtx")), entries(&place.read("d.mtx")));
    assert_eq!(place.json("inspect a.mtx --json")["matrix"]["nnz"], 460);
}

#[test]
fn mistakes_in_a_generator_are_named() {
    let place = Place::new();
    for (words, part) in
        [("moebius", "moebius"), ("stencil5", "n"), ("stencil5,n=10,m=3", "m"), ("stencil5,n=ten", "ten")]
    {
        place.fail(&format!("generate {words} a.mtx"), 2, part);
    }
    place.fail("generate stencil27,n=1200 a.mtx", 3, "limit");
    place.fail("generate stencil5,n=10 a.txt", 2, ".mtx");
    assert!(place.succeed("generate --help").stdout.contains("rmat,scale=N,degree=N"));
    assert!(place.names().is_empty());
}

#[test]
fn a_generated_matrix_stays_labelled_synthetic_through_every_file() {
    let place = Place::new();
    for file in ["a.mtx", "a.mtx.gz", "a.npz", "a.rlm"] {
        place.succeed(&format!("generate like,name=cage4 {file}"));
        let report = place.json(&format!("inspect {file} --json"));
        assert_eq!(report["matrix"]["synthetic"], true, "{file}: {report}");
    }
}
