//! Times the dense CPU kernels and the text reader beside NumPy and pandas: products in GFLOP/s, sums of columns in GB/s, text in MB/s.
//!
//! ```text
//! cargo bench --bench dense                   # products of 512, 1024 and 2048; 1 GiB of columns; 358 × 5248 numbers of text
//! cargo bench --bench dense -- --python PYTHON
//! ```
//!
//! With `--python`, a Python with NumPy and pandas does the same: `a @ b`, `mean(axis=0)`, `numpy.loadtxt` and `pandas.read_csv`. Both sides
//! take turns, three times, because the speed of a shared machine changes. All cores are used on both sides. Each figure is the best of
//! all turns. This program asserts no speed.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use rayon::prelude::*;
use rowloom::kernel::colmean::{block_rows, partial_sums};
use rowloom::kernel::gemm::{multiply_packed, multiply_rows};
use rowloom::kernel::scaling::scaling;
use rowloom::machine::Machine;
use rowloom::matrix::MultiVector;
use rowloom::matrix::io::ReadOptions;
use rowloom::matrix::io::text::read_text;
use rowloom::runtime::Pool;

/// The same measurements in Python; the file of text is its argument. Each line is a name and seconds.
const PEER: &str = r#"
import sys, time, numpy, pandas
def best(name, f, repeats):
    times = []
    for _ in range(repeats):
        start = time.perf_counter(); f(); times.append(time.perf_counter() - start)
    print(name, min(times), sep="\t")
for dtype, name in ((numpy.float64, "f64"), (numpy.float32, "f32")):
    for n in (512, 1024, 2048):
        a = numpy.random.rand(n, n).astype(dtype); b = numpy.random.rand(n, n).astype(dtype)
        best(f"product {name} {n}", lambda: a @ b, 7)
x = numpy.random.rand(25576, 5248)
best("means", lambda: x.mean(axis=0), 3)
best("variances", lambda: x.var(axis=0), 1)
best("text, loadtxt", lambda: numpy.loadtxt(sys.argv[1]), 2)
best("text, pandas", lambda: pandas.read_csv(sys.argv[1], sep=" ", header=None), 2)
"#;

/// The shortest time of each measurement in all turns.
type Times = BTreeMap<String, f64>;

fn note(times: &mut Times, name: String, seconds: f64) {
    let shortest = times.entry(name).or_insert(seconds);
    *shortest = shortest.min(seconds);
}

fn shortest(repeats: usize, mut run: impl FnMut()) -> f64 {
    let mut timed = |_| {
        let started = Instant::now();
        run();
        started.elapsed().as_secs_f64()
    };
    (0..repeats).map(&mut timed).fold(f64::INFINITY, f64::min)
}

fn products<T: rowloom::kernel::cpu::Kernels + rowloom::kernel::gemm::PackedProduct>(times: &mut Times) {
    for n in [512, 1024, 2048] {
        let (a, b) = (MultiVector::<T>::random(n, n, 1).unwrap(), MultiVector::<T>::random(n, n, 2).unwrap());
        let mut c = MultiVector::<T>::zeros(n, n).unwrap();
        let plain = scaling(1.0, 0.0);
        let seconds = shortest(7, || multiply_packed(plain, a.view(), b.view(), c.view_mut()).unwrap());
        note(times, format!("product {} {n}", T::DTYPE), seconds);
        let seconds = shortest(7, || multiply_rows(plain, a.view(), b.view(), c.view_mut()).unwrap());
        note(times, format!("reproducible product {} {n}", T::DTYPE), seconds);
    }
}

fn columns(times: &mut Times) {
    let x = MultiVector::<f64>::random(25_576, 5248, 1).unwrap();
    let block_rows = block_rows(x.rows() as u64, x.k() as u64) as usize;
    let count = x.rows().div_ceil(block_rows) * x.k();
    let (mut sums, mut deviations) = (vec![0.0; count], vec![0.0; count]);
    let seconds = shortest(3, || partial_sums(x.view(), block_rows, &mut sums, None).unwrap());
    note(times, "means".into(), seconds);
    let seconds = shortest(3, || {
        partial_sums(x.view(), block_rows, &mut sums, Some(&mut deviations)).unwrap();
    });
    note(times, "variances".into(), seconds);
    // The triad of STREAM over as many bytes: one third each of two arrays that are read and one that is written.
    let (values, third) = (x.data(), x.data().len() / 3);
    let mut to = vec![0.0; third];
    let seconds = shortest(3, || {
        let from = values[..third].par_chunks(1 << 16).zip(values[third..2 * third].par_chunks(1 << 16));
        to.par_chunks_mut(1 << 16).zip(from).for_each(|(to, (b, c))| {
            to.iter_mut().zip(b.iter().zip(c)).for_each(|(to, (b, c))| *to = b + 3.0 * c);
        });
    });
    note(times, "triad".into(), seconds);
}

/// A recording of 358 rows of 64 channels by 82 samples, with exponents and from 3 to 17 digits.
fn recording() -> String {
    let x = MultiVector::<f64>::random(358, 5248, 3).unwrap();
    let mut text = String::new();
    for row in 0..x.rows() {
        for (column, value) in x.row(row).iter().enumerate() {
            let separator = if column == 0 { "" } else { " " };
            let digits = 2 + (row * 31 + column * 7) % 15;
            write!(text, "{separator}{:.digits$e}", value * 1e-5).unwrap();
        }
        text.push('\n');
    }
    text
}

/// Runs [`PEER`] once.
fn peer(python: &str, text: &Path, times: &mut Times) {
    let output = Command::new(python).args(["-c", PEER]).arg(text).output().expect("Python starts");
    assert!(output.status.success(), "Python with NumPy and pandas is needed");
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let (name, seconds) = line.split_once('\t').expect("a name and seconds");
        note(times, name.into(), seconds.parse().expect("seconds"));
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1).filter(|argument| argument != "--bench");
    let python = match (arguments.next().as_deref(), arguments.next()) {
        (Some("--python"), Some(python)) => Some(python),
        (None, _) => None,
        _ => panic!("the only option is --python PYTHON"),
    };
    let machine = Machine::detect();
    let pool = Pool::new(&machine, None).expect("threads");
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("recording.txt");
    let text = recording();
    std::fs::write(&path, &text).expect("a file");
    println!("{} threads", pool.threads());
    let (mut ours, mut theirs) = (Times::new(), Times::new());
    for _ in 0..3 {
        pool.install(|| {
            products::<f64>(&mut ours);
            products::<f32>(&mut ours);
            columns(&mut ours);
            let seconds = shortest(5, || drop(read_text::<f64>(&path, &ReadOptions::default()).unwrap()));
            for name in ["text, loadtxt", "text, pandas"] {
                note(&mut ours, name.into(), seconds);
            }
        });
        python.iter().for_each(|python| peer(python, &path, &mut theirs));
    }
    let table_bytes = (25_576 * 5248 * 8) as f64;
    for (name, seconds) in &ours {
        let rate = match name.rsplit_once(' ') {
            Some((kind, n)) if kind.contains("product") => {
                format!("{:.1} GFLOP/s", 2.0 * n.parse::<f64>().expect("a size").powi(3) / seconds * 1e-9)
            }
            _ if name.starts_with("text") => format!("{:.0} MB/s", text.len() as f64 / seconds * 1e-6),
            _ => format!("{:.1} GB/s", table_bytes / seconds * 1e-9),
        };
        let peer = theirs.get(name.strip_prefix("reproducible ").unwrap_or(name));
        let peer = peer.map(|peer| format!(", Python {:.2} ms, {:.2} times", peer * 1e3, peer / seconds));
        println!("{name}: {:.2} ms, {rate}{}", seconds * 1e3, peer.unwrap_or_default());
    }
}
