//! Times the dense CPU kernels and the text reader: products in GFLOP/s, sums of columns in GB/s, text in MB/s.
//!
//! ```text
//! cargo bench --bench dense                   # products of 512, 1024 and 2048; 1 GiB of columns; 358 × 5248 numbers of text
//! cargo bench --bench dense -- --python PYTHON
//! ```
//!
//! With `--python`, a Python with NumPy and pandas does the same: `a @ b`, `mean(axis=0)`, `numpy.loadtxt` and `pandas.read_csv`. All
//! cores are used on both sides. Times are the shortest of several. This program asserts no speed.

use std::fmt::Write;
use std::process::Command;
use std::time::Instant;

use rowloom::kernel::colmean::{block_rows, partial_sums};
use rowloom::kernel::gemm::{multiply_packed, multiply_rows};
use rowloom::kernel::scaling::scaling;
use rowloom::machine::Machine;
use rowloom::matrix::MultiVector;
use rowloom::matrix::io::ReadOptions;
use rowloom::matrix::io::text::read_text;
use rowloom::runtime::Pool;

/// The same measurements in Python; the file of text is its argument.
const PEER: &str = r#"
import sys, time, numpy, pandas
def best(f, repeats):
    times = []
    for _ in range(repeats):
        start = time.perf_counter(); f(); times.append(time.perf_counter() - start)
    return min(times)
for dtype in (numpy.float64, numpy.float32):
    for n in (512, 1024, 2048):
        a = numpy.random.rand(n, n).astype(dtype); b = numpy.random.rand(n, n).astype(dtype)
        t = best(lambda: a @ b, 7)
        print(f"numpy a @ b {dtype.__name__} n = {n}: {t*1e3:.2f} ms, {2*n**3/t*1e-9:.1f} GFLOP/s")
x = numpy.random.rand(25576, 5248)
t = best(lambda: x.mean(axis=0), 5); print(f"numpy mean(axis=0): {t*1e3:.1f} ms, {x.nbytes/t*1e-9:.1f} GB/s")
t = best(lambda: x.var(axis=0), 2); print(f"numpy var(axis=0): {t*1e3:.1f} ms")
t = best(lambda: numpy.loadtxt(sys.argv[1]), 2); print(f"numpy.loadtxt: {t*1e3:.1f} ms")
t = best(lambda: pandas.read_csv(sys.argv[1], sep=" ", header=None), 3); print(f"pandas.read_csv: {t*1e3:.1f} ms")
"#;

fn shortest(repeats: usize, mut run: impl FnMut()) -> f64 {
    let mut timed = |_| {
        let started = Instant::now();
        run();
        started.elapsed().as_secs_f64()
    };
    (0..repeats).map(&mut timed).fold(f64::INFINITY, f64::min)
}

fn products<T: rowloom::kernel::cpu::Kernels + rowloom::kernel::gemm::PackedProduct>() {
    for n in [512, 1024, 2048] {
        let (a, b) = (MultiVector::<T>::random(n, n, 1).unwrap(), MultiVector::<T>::random(n, n, 2).unwrap());
        let mut c = MultiVector::<T>::zeros(n, n).unwrap();
        let report = |name: &str, seconds: f64| {
            let rate = 2.0 * (n as f64).powi(3) / seconds * 1e-9;
            println!("{name} {} n = {n}: {:.2} ms, {rate:.1} GFLOP/s", T::DTYPE, seconds * 1e3);
        };
        let plain = scaling(1.0, 0.0);
        let seconds = shortest(7, || multiply_packed(plain, a.view(), b.view(), c.view_mut()).unwrap());
        report("cpu_gemm", seconds);
        let seconds = shortest(7, || multiply_rows(plain, a.view(), b.view(), c.view_mut()).unwrap());
        report("cpu_gemm_rows", seconds);
    }
}

fn columns() {
    let x = MultiVector::<f64>::random(25_576, 5248, 1).unwrap();
    let block_rows = block_rows(x.rows() as u64, x.k() as u64) as usize;
    let count = x.rows().div_ceil(block_rows) * x.k();
    let (mut sums, mut deviations) = (vec![0.0; count], vec![0.0; count]);
    let bytes = size_of_val(x.data()) as f64;
    let seconds = shortest(5, || partial_sums(x.view(), block_rows, &mut sums, None).unwrap());
    println!("cpu_colmean, sums: {:.1} ms, {:.1} GB/s", seconds * 1e3, bytes / seconds * 1e-9);
    let seconds = shortest(5, || {
        partial_sums(x.view(), block_rows, &mut sums, Some(&mut deviations)).unwrap();
    });
    println!("cpu_colmean, sums and deviations: {:.1} ms, {:.1} GB/s", seconds * 1e3, bytes / seconds * 1e-9);
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
    pool.install(|| {
        products::<f64>();
        products::<f32>();
        columns();
        let seconds = shortest(7, || drop(read_text::<f64>(&path, &ReadOptions::default()).unwrap()));
        let rate = text.len() as f64 / seconds * 1e-6;
        println!("text of {:.1} MB: {:.1} ms, {rate:.0} MB/s", text.len() as f64 * 1e-6, seconds * 1e3);
    });
    if let Some(python) = python {
        let status = Command::new(python).args(["-c", PEER]).arg(&path).status();
        assert!(status.is_ok_and(|status| status.success()), "Python with NumPy and pandas is needed");
    }
}
