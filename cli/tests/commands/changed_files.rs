//! Files that another program changes during a command: exit code 3 and no result, or the right result.

use std::os::unix::fs::FileExt;
use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;
use std::time::Instant;

use crate::support::Place;
use crate::support::random::Random;

/// How many products have their cache changed: this variable, else [`QUICK_CASES`].
const CASES: &str = "ROWLOOM_TEST_CHANGED_CACHES";
const QUICK_CASES: usize = 24;

/// Shifted columns, identical columns, a common pattern, rows of any length, long rows; smaller ones for the emulator.
const MATRICES: [[&str; 2]; 5] = [
    ["band,rows=40000,width=3", "band,rows=2000,width=3"],
    ["fem3,n=10", "fem3,n=4"],
    ["stencil27,n=20", "stencil27,n=8"],
    ["rmat,scale=13,degree=8", "rmat,scale=8,degree=8"],
    ["hub,rows=40000,hubs=3,degree=4", "hub,rows=500,hubs=1,degree=4"],
];

const CPU_KERNELS: [&str; 5] = ["auto", "cpu_csr", "cpu_ell_padded", "cpu_ell_unpadded", "cpu_sell"];
const GPU_KERNELS: [&str; 6] = ["auto", "csr_subwarp", "csr_adaptive", "sell", "row_groups", "hybrid"];

/// Changes the file in place in one of several ways.
fn change(place: &Place, random: &mut Random) -> String {
    let file = std::fs::File::options().write(true).open(place.path("a.rlm")).unwrap();
    let length = file.metadata().unwrap().len();
    let cut = random.below(length);
    match random.below(4) {
        0 => {
            file.set_len(cut).unwrap();
            format!("cut to {cut} bytes")
        }
        1 => {
            file.set_len(0).unwrap();
            "cut to nothing".into()
        }
        2 => {
            file.set_len(cut).unwrap();
            file.set_len(length).unwrap();
            format!("zeros from byte {cut}")
        }
        _ => {
            let bytes: Vec<u8> = match random.below(2) {
                0 => vec![0xff; (length - cut) as usize],
                _ => (cut..length).map(|_| random.below(256) as u8).collect(),
            };
            file.write_all_at(&bytes, cut).unwrap();
            format!("overwritten from byte {cut}")
        }
    }
}

#[test]
fn a_cache_that_changes_during_products_gives_exit_code_3_or_the_right_y() {
    let cases = std::env::var(CASES).map_or(QUICK_CASES, |count| count.parse().unwrap());
    let mut random = Random::new(21);
    let (mut refused, mut right) = (0, 0);
    for case in 0..cases {
        let place = Place::new();
        let devices = ["cpu", "cpu,emu:0", "emu:0"][random.below(3) as usize];
        let mut kernel = match devices {
            "cpu" => CPU_KERNELS[random.below(5) as usize],
            "emu:0" => GPU_KERNELS[random.below(6) as usize],
            _ => "auto",
        };
        let matrix = MATRICES[case % MATRICES.len()][usize::from(devices != "cpu")];
        place.succeed(&format!("generate {matrix} a.rlm --quiet"));
        let k = [1, 3, 8][random.below(3) as usize];
        // The emulator is slow.
        let repeat = if devices == "cpu" { 100 } else { 3 };
        let words = |kernel: &str| {
            let reproducible = if kernel == "auto" { "--reproducible " } else { "" };
            format!(
                "run a.rlm -k {k} --devices {devices} --kernel {kernel} {reproducible}--repeat {repeat} --output"
            )
        };
        let mut start = Instant::now();
        // Some kernels have no form for one column, or for long rows.
        if place.run(&format!("{} expected.npy", words(kernel))).code == 2 {
            kernel = "auto";
            start = Instant::now();
            place.succeed(&format!("{} expected.npy", words(kernel)));
        }
        let undisturbed = start.elapsed();
        let words = words(kernel);
        let mut command = place.process(&format!("{words} y.npy"));
        let expected = std::fs::read(place.path("expected.npy")).unwrap();
        let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        std::thread::sleep(undisturbed.mul_f64(random.below(1000) as f64 / 1000.0));
        let changed = change(&place, &mut random);
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        let label = format!("case {case}: {matrix}, {changed}: {words}: {said}");
        assert_eq!(output.status.signal(), None, "{label}");
        match output.status.code() {
            Some(3) => {
                refused += 1;
                assert!(said.starts_with("error: a.rlm: "), "{label}");
                assert!(!place.path("y.npy").exists(), "{label}");
            }
            Some(0) => {
                right += 1;
                assert!(std::fs::read(place.path("y.npy")).unwrap() == expected, "{label}");
            }
            _ => panic!("{:?}: {label}", output.status),
        }
    }
    println!("{cases} changed caches: {refused} times exit code 3, {right} times the right Y");
    assert!(refused > cases / 4, "{refused} of {cases} changes came during the command");
}
