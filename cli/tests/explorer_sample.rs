//! An explorer of 500 matrices with 8 cases each, written to `target/tmp`, so that `.ci/view_explorer` can open it in a browser and
//! measure how fast it is.
//!
//! Its numbers are made up: they show the page, not a machine.

use std::fs;
use std::path::Path;

use rowloom_cli::plots::{
    ExplorerCase, ExplorerData, ExplorerFile, ExplorerMatrix, Timed, Timing, explorer_html,
};

const MATRICES: usize = 500;
/// Most bytes of the page.
const MAX_BYTES: usize = 3_000_000;
const GROUPS: [&str; 10] = [
    "Williams",
    "Janna",
    "SNAP",
    "GHS_psdef",
    "Fluorem",
    "LAW",
    "Schenk",
    "gen:stencil27",
    "gen:rmat",
    "Oberwolfach",
];
const CPU_KERNELS: [&str; 9] = [
    "serial_csr",
    "cpu_csr",
    "cpu_sell",
    "cpu_ell",
    "cpu_ell_unpadded",
    "cpu_merge",
    "cpu_rows",
    "cpu_tiles",
    "cpu_blocks",
];
const GPU_KERNELS: [&str; 14] = [
    "csr_scalar_v2",
    "csr_vector",
    "csr_subwarp_b16l16v1",
    "csr_subwarp_b32l8v2",
    "csr_ways_b16l16v1w2",
    "csr_runs",
    "csr_pieces",
    "csr_merge",
    "csr_adaptive",
    "ell_row",
    "sell_32",
    "sell_sorted",
    "hybrid",
    "row_groups",
];
/// Precision and K of the cases on each device.
const CASES: [(&str, u64); 4] = [("f64", 1), ("f64", 8), ("f64", 32), ("f32", 8)];

/// A pseudo-random number between 0 and 1, the same for the same seed.
fn noise(seed: usize) -> f64 {
    (seed as f64 * 12.9898).sin().mul_add(43_758.545_3, 0.0).rem_euclid(1.0)
}

/// Where the nonzeros of a made-up matrix are: bands around the diagonal, or scattered.
fn pattern(index: usize) -> Vec<String> {
    let width = 1.0 + 30.0 * noise(index * 5 + 3).powi(2);
    let cell = |row: usize, column: usize| {
        let away = (row as f64 - column as f64).abs();
        let scattered = noise(index * 1024 + row * 32 + column) < 0.08 * noise(index * 5 + 4);
        let level = if away <= width { 7.0 * (1.0 - away / (width + 1.0)) } else { 0.0 };
        char::from(b'0' + if scattered { 2 } else { level.ceil().min(7.0) as u8 })
    };
    (0..32).map(|row| (0..32).map(|column| cell(row, column)).collect()).collect()
}

fn matrix(index: usize) -> ExplorerMatrix {
    let group = GROUPS[index % GROUPS.len()];
    let rows = 10f64.powf(3.0 + 3.6 * noise(index)) as u64;
    let mean = 10f64.powf(0.4 + 1.8 * noise(index + 7000));
    let variation = if group == "gen:stencil27" { 0.0 } else { 10f64.powf(-2.0 + 3.2 * noise(index + 9000)) };
    let name = match group.strip_prefix("gen:") {
        Some(kind) => format!("{kind},n={index}"),
        None => format!("made_up_{index}"),
    };
    let argument = match group.starts_with("gen:") {
        true => format!("gen:{name}"),
        false => format!("suitesparse:{group}/{name}"),
    };
    ExplorerMatrix {
        name,
        group: group.into(),
        argument,
        rows,
        cols: rows,
        nnz: (rows as f64 * mean) as u64,
        longest_row: Some((mean * (1.0 + 8.0 * variation)).ceil()),
        row_variation: Some(variation),
        long_row_share: Some(if variation > 3.0 { noise(index + 1) * 0.6 } else { 0.0 }),
        empty_row_share: Some(if variation > 1.0 { noise(index + 2) * 0.2 } else { 0.0 }),
        new_columns: Some(0.05 + 0.95 * noise(index + 3)),
        near_share: Some(noise(index + 4)),
        pattern: pattern(index),
    }
}

/// A made-up time of a result that is verified, except for one in about 300.
fn timing(seconds: f64, seed: usize) -> Timing {
    if noise(seed + 11) < 0.003 {
        return if noise(seed + 12) < 0.2 { Timing::Wrong } else { Timing::Unverified };
    }
    let spread = 0.004 + 0.03 * noise(seed + 13).powi(3);
    let (low_s, high_s) = (Some(seconds * (1.0 - spread)), Some(seconds * (1.0 + spread)));
    Timing::Verified { median_s: seconds, low_s, high_s }
}

fn case(index: usize, of: &ExplorerMatrix, on_card: bool, (dtype, k): (&str, u64)) -> ExplorerCase {
    let seed = index * 64 + k as usize + usize::from(on_card) * 7 + usize::from(dtype == "f32") * 3;
    let speed = if on_card { 2.5e11 } else { 6e9 } * if dtype == "f32" { 1.7 } else { 1.0 };
    let floor_s = 4e-6 + of.nnz as f64 * (12.0 + k as f64) / (speed * 8.0);
    let locality = of.new_columns.unwrap_or(1.0);
    let kernels: &[&str] = if on_card { &GPU_KERNELS } else { &CPU_KERNELS };
    let serial = |number: usize| if kernels.get(number) == Some(&"serial_csr") { 6.0 } else { 1.0 };
    let own_s = |number: usize| {
        serial(number) * floor_s * (1.0 + 0.12 * number as f64 + 1.5 * noise(seed * 31 + number))
    };
    let best = (0..kernels.len()).min_by(|&a, &b| own_s(a).total_cmp(&own_s(b))).unwrap();
    let own = kernels.iter().enumerate().map(|(number, name)| Timed {
        name: (*name).into(),
        library: None,
        timing: if number + 1 == kernels.len() && index.is_multiple_of(4) {
            Timing::NotRun
        } else {
            timing(own_s(number), seed * 31 + number)
        },
    });
    let libraries: &[(&str, &str)] = match on_card {
        true => &[
            ("cusparse", "ALG1 row-major"),
            ("cusparse", "ALG2 row-major"),
            ("cusparse", "ALG2 column-major"),
        ],
        false => &[("mkl", "CSR"), ("scipy", "CSR")],
    };
    let peers = libraries.iter().enumerate().map(|(number, (library, algorithm))| Timed {
        name: format!("{library} {algorithm}"),
        library: Some((*library).into()),
        timing: {
            let slower = if *library == "scipy" { 2.0 } else { 0.75 + 0.15 * number as f64 };
            let gain = (k as f64).powf(0.12)
                * (0.9 + 0.5 * (1.0 - locality))
                * (0.75 + 1.1 * noise(seed * 17 + number));
            timing(own_s(best) * slower * gain * 1.1, seed * 17 + number)
        },
    });
    let chosen = if noise(seed + 5) < 0.85 { best } else { (best + 1) % kernels.len() };
    let device = if on_card { "cuda:0 (made-up GPU)" } else { "cpu (64 threads)" };
    let name = kernels[chosen];
    ExplorerCase {
        file: usize::from(on_card),
        matrix: index,
        dtype: dtype.into(),
        k,
        device: device.into(),
        command: "bench".into(),
        flags: format!(
            "--devices {} --against {} --threads 64 --warmup 3 --seed 1",
            if on_card { "cuda:0" } else { "cpu" },
            if on_card { "cusparse" } else { "mkl,scipy" }
        ),
        chosen: Some(name.into()),
        reason: Some(format!(
            "{name}: made-up words about lanes over the columns of X and rows of medium length; predicted kernel time {:.1} µs, \
             next best {} {:.1} µs",
            own_s(chosen) * 0.9e6,
            kernels[(chosen + 1) % kernels.len()],
            own_s(chosen) * 1e6
        )),
        measured: own.chain(peers).collect(),
    }
}

fn sample() -> ExplorerData {
    let matrices: Vec<ExplorerMatrix> = (0..MATRICES).map(matrix).collect();
    let places = [false, true].into_iter().flat_map(|on_card| CASES.map(|case| (on_card, case)));
    let places: Vec<_> = places.collect();
    let cases = matrices
        .iter()
        .enumerate()
        .flat_map(|(index, of)| places.iter().map(move |&(on_card, shape)| case(index, of, on_card, shape)));
    let file =
        |name: &str| ExplorerFile { name: name.into(), about: "made up by a test, not measured".into() };
    ExplorerData {
        title: "Performance explorer: made-up numbers".into(),
        files: vec![file("made-up-cpu.json"), file("made-up-card.json")],
        cases: cases.collect(),
        left_out: vec!["12 results: simulated, so that its time is a prediction".into()],
        matrices,
    }
}

#[test]
fn an_explorer_of_500_matrices_with_8_cases_each_has_at_most_3_mb() {
    let data = sample();
    assert_eq!(data.cases.len(), 8 * MATRICES);
    let page = explorer_html(&data);
    assert!(page.len() <= MAX_BYTES, "{} bytes", page.len());
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    fs::write(folder.join("sample-explorer.html"), &page).unwrap();
    println!("{} bytes", page.len());
}

#[test]
fn names_cannot_end_the_script_or_become_markup() {
    let hostile = "</script><script>alert(1)</script><img src=x onerror=alert(1)>\u{2028}'\"&";
    let matrix = ExplorerMatrix { name: hostile.into(), group: hostile.into(), ..matrix(0) };
    let mut case = case(0, &matrix, false, CASES[0]);
    case.device = hostile.into();
    case.reason = Some(hostile.into());
    let file = ExplorerFile { name: hostile.into(), about: hostile.into() };
    let data = ExplorerData {
        title: hostile.into(),
        files: vec![file],
        matrices: vec![matrix],
        cases: vec![case],
        left_out: vec![hostile.into()],
    };
    let page = explorer_html(&data);
    assert!(!page.contains("<script>alert") && !page.contains("<img"), "a name is markup");
    assert!(page.contains("default-src 'none'"), "the page may make requests");
    fs::write(Path::new(env!("CARGO_TARGET_TMPDIR")).join("hostile-explorer.html"), page).unwrap();
}
