//! Reading allocates no memory for sizes that a file merely declares: tested in a process whose address space is too small for
//! them.

use std::fs;
use std::io::{BufWriter, Write};
use std::process::Command;

use rowloom::Error;
use rowloom::internal::matrix::io::{ReadOptions, read, read_dense};

const IS_CHILD: &str = "ROWLOOM_TEST_INSIDE_LIMIT";
const ADDRESS_SPACE_KIB: u64 = 1 << 20;

/// Runs the named test of this file again, in a process with a limited address space.
fn rerun_with_limited_address_space(test: &str) {
    let output = Command::new("bash")
        .arg("-c")
        .arg(format!(
            "ulimit -v {ADDRESS_SPACE_KIB} && exec \"$0\" --exact read_limits::{test} --nocapture --test-threads 1"
        ))
        .arg(std::env::current_exe().unwrap())
        .env(IS_CHILD, "1")
        .output()
        .unwrap();
    let text =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
}

#[test]
fn declared_sizes_are_refused_without_allocating() {
    if std::env::var_os(IS_CHILD).is_none() {
        return rerun_with_limited_address_space("declared_sizes_are_refused_without_allocating");
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.mtx");
    let limited = ReadOptions { memory_limit_bytes: 512 << 20, ..ReadOptions::default() };
    for size in [
        "1099511627776 5 1",
        "18446744073709551615 5 1",
        "1099511627776 1099511627776 1",
        "200000000 5 1",
        "5 5 1000000000000000",
        "5 5 18446744073709551615",
        "18446744073709551615 4294967295 18446744073709551615",
    ] {
        fs::write(&path, format!("%%MatrixMarket matrix coordinate real general\n{size}\n1 1 1\n")).unwrap();
        // With a limit, the declared sizes are refused; without one, the system refuses the memory, which is an error too.
        for options in [limited, ReadOptions::default()] {
            let error = read::<f64>(&path, &options).map(|loaded| loaded.matrix.rows()).unwrap_err();
            assert!(matches!(error, Error::DoesNotFit { .. } | Error::Input { .. }), "{size}: {error}");
        }
    }
    for size in ["1000000 1000000", "18446744073709551615 4294967295"] {
        fs::write(&path, format!("%%MatrixMarket matrix array real general\n{size}\n1\n")).unwrap();
        let error =
            read_dense::<f64>(&path, &ReadOptions::default()).map(|dense| dense.values.k()).unwrap_err();
        assert!(matches!(error, Error::Input { .. }), "{size}: {error}");
    }
    // A matrix that fits is read in the same process.
    fs::write(&path, "%%MatrixMarket matrix coordinate real general\n1000000 5 1\n1 1 1\n").unwrap();
    assert_eq!(read::<f64>(&path, &limited).unwrap().matrix.rows(), 1_000_000);
}

/// The value of a line of `/proc/self/status`, in bytes.
fn status_bytes(name: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    line.trim_start_matches(':').trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

#[test]
fn reading_takes_at_most_2_2_times_the_finished_matrix() {
    const FILE: &str = "ROWLOOM_TEST_FILE";
    if let Some(path) = std::env::var_os(FILE) {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build().unwrap();
        let before = status_bytes("VmRSS");
        let loaded = pool.install(|| read::<f64>(path.as_ref(), &ReadOptions::default())).unwrap();
        let peak = status_bytes("VmHWM") - before;
        let ratio = peak as f64 / loaded.matrix.bytes() as f64;
        println!("peak {:.1} MB, {ratio:.2} times the matrix", peak as f64 / 1e6);
        assert!(ratio <= 2.2, "{ratio}");
        return;
    }
    // Entries by columns, as in the collection; every part of the text has entries of many rows.
    let (rows, cols) = (50_000usize, 40_000usize);
    let folder = tempfile::tempdir().unwrap();
    for (name, banner, value) in
        [("real", "real general", " 0.12345678901234"), ("pattern", "pattern symmetric", "")]
    {
        let path = folder.path().join(name);
        let mut file = BufWriter::new(fs::File::create(&path).unwrap());
        let square = rows.max(cols);
        writeln!(file, "%%MatrixMarket matrix coordinate {banner}\n{square} {square} {}", cols * 60).unwrap();
        for column in 1..=cols {
            for entry in 0..60 {
                // Pseudo-random distances below the diagonal, distinct within a column.
                writeln!(file, "{} {column}{value}", column + 1 + (entry * 163 + column * 7) % 9973).unwrap();
            }
        }
        drop(file);
        let output = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "read_limits::reading_takes_at_most_2_2_times_the_finished_matrix",
                "--nocapture",
            ])
            .env(FILE, &path)
            .output()
            .unwrap();
        let text =
            String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && text.contains("times the matrix"), "{text}");
        println!("{name}: {text}");
    }
}
