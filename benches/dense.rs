//! Times the dense CPU kernels and the text reader beside NumPy and pandas: products in GFLOP/s, sums of columns in GB/s, text in MB/s.
//!
//! ```text
//! cargo bench --bench dense                   # products of 512, 1024 and 2048; 1 GiB of columns; 358 × 5248 numbers of text
//! cargo bench --bench dense -- --python PYTHON
//! ```
//!
//! With `--python`, a Python with NumPy and pandas does the same: `a @ b`, `mean(axis=0)`, `numpy.loadtxt` and `pandas.read_csv`. Both sides
//! take turns, three times, because the speed of a shared machine changes. All cores are used on both sides. Each figure is the best of
//! all turns. Every result is checked after it was timed, on both sides; a wrong one ends the program with exit code 1 and without figures.
//! This program asserts no speed.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use rayon::prelude::*;
use rowloom::internal::error::Error;
use rowloom::internal::kernel::check::Operator;
use rowloom::internal::kernel::colmean::{block_rows, partial_sums};
use rowloom::internal::kernel::gemm::{multiply_packed, multiply_rows};
use rowloom::internal::kernel::scaling::scaling;
use rowloom::internal::machine::Machine;
use rowloom::internal::matrix::MultiVector;
use rowloom::internal::matrix::io::ReadOptions;
use rowloom::internal::matrix::io::text::read_text;
use rowloom::internal::runtime::Pool;
use rowloom_cli::measure::weighed;

/// The same measurements in Python; the file of text is its argument. Each line is a name and seconds. A wrong result is an error.
const PEER: &str = r#"
import sys, time, numpy, pandas
def best(name, f, repeats, is_right):
    times = []
    for _ in range(repeats):
        start = time.perf_counter(); result = f(); times.append(time.perf_counter() - start)
    if not is_right(result):
        sys.exit(f"{name}: the result is wrong")
    print(name, min(times), sep="\t")
def near(tolerance):
    return lambda one, other: bool((numpy.abs(one - other) <= tolerance * numpy.abs(other)).all())
for dtype, name in ((numpy.float64, "f64"), (numpy.float32, "f32")):
    for n in (512, 1024, 2048):
        a = numpy.random.rand(n, n).astype(dtype); b = numpy.random.rand(n, n).astype(dtype)
        # All terms are positive: C r = A (B r) within n rounding errors.
        r = numpy.random.rand(n); expected = a.astype(float) @ (b.astype(float) @ r)
        agree = near(2 * n * numpy.finfo(dtype).eps)
        best(f"product {name} {n}", lambda: a @ b, 7, lambda c: agree(c.astype(float) @ r, expected))
x = numpy.random.rand(25576, 5248)
means = numpy.ones(len(x)) @ x / len(x)
best("means", lambda: x.mean(axis=0), 3, lambda found: near(1e-10)(found, means))
squares = sum(((rows - means) ** 2).sum(axis=0) for rows in numpy.array_split(x, 100)) / len(x)
best("variances", lambda: x.var(axis=0), 1, lambda found: near(1e-10)(found, squares))
numbers = numpy.array([[float(word) for word in line.split()] for line in open(sys.argv[1])])
best("text, loadtxt", lambda: numpy.loadtxt(sys.argv[1]), 2, lambda found: (found == numbers).all())
best("text, pandas", lambda: pandas.read_csv(sys.argv[1], sep=" ", header=None), 2,
     lambda found: near(1e-14)(found.to_numpy(), numbers))
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

/// An error if a result is wrong.
fn require(is_right: bool, what: &str) -> rowloom::Result<()> {
    match is_right {
        true => Ok(()),
        false => Err(Error::Verification(format!("{what}: the result is wrong, so there are no figures"))),
    }
}

fn products<T: rowloom::internal::kernel::cpu::Kernels + rowloom::internal::kernel::gemm::PackedProduct>(
    times: &mut Times,
) -> rowloom::Result<()> {
    for n in [512, 1024, 2048] {
        let (a, b) = (MultiVector::<T>::random(n, n, 1).unwrap(), MultiVector::<T>::random(n, n, 2).unwrap());
        let unwritten = T::from_f64(f64::NAN);
        let mut c = MultiVector::<T>::filled(n, n, unwritten).unwrap();
        let plain = scaling(1.0, 0.0);
        // The reference is too slow for products of this size; all rows are checked by weighted sums.
        let is_right = |c: &MultiVector<T>| -> rowloom::Result<bool> {
            Ok(weighed(Operator::Dense(a.view()), b.view(), c.view())?.passed)
        };
        let name = format!("product {} {n}", T::DTYPE);
        let seconds = shortest(7, || multiply_packed(plain, a.view(), b.view(), c.view_mut()).unwrap());
        require(is_right(&c)?, &name)?;
        note(times, name, seconds);
        c.data_mut().fill(unwritten);
        let name = format!("reproducible product {} {n}", T::DTYPE);
        let seconds = shortest(7, || multiply_rows(plain, a.view(), b.view(), c.view_mut()).unwrap());
        require(is_right(&c)?, &name)?;
        note(times, name, seconds);
    }
    Ok(())
}

/// Whether the partial sums of blocks of rows, and their squared deviations, are those of plain loops.
fn partials_are_right(
    x: &MultiVector<f64>,
    block_rows: usize,
    sums: &[f64],
    deviations: Option<&[f64]>,
) -> bool {
    let near = |one: f64, other: f64, size: f64| (one - other).abs() <= 1e-11 * size;
    let blocks = 0..x.rows().div_ceil(block_rows);
    blocks.into_par_iter().all(|block| {
        let rows = || block * block_rows..x.rows().min((block + 1) * block_rows);
        let mut expected = vec![(0.0, 0.0, 0.0); x.k()];
        for row in rows() {
            for ((sum, size, _), value) in expected.iter_mut().zip(x.row(row)) {
                *sum += value;
                *size += value.abs();
            }
        }
        for row in rows() {
            for ((sum, _, squares), value) in expected.iter_mut().zip(x.row(row)) {
                let deviation = value - *sum / rows().len() as f64;
                *squares += deviation * deviation;
            }
        }
        expected.iter().enumerate().all(|(column, &(sum, size, squares))| {
            let at = block * x.k() + column;
            near(sums[at], sum, size) && deviations.is_none_or(|found| near(found[at], squares, squares))
        })
    })
}

fn columns(times: &mut Times) -> rowloom::Result<()> {
    let x = MultiVector::<f64>::random(25_576, 5248, 1).unwrap();
    let block_rows = block_rows(x.rows() as u64, x.k() as u64) as usize;
    let count = x.rows().div_ceil(block_rows) * x.k();
    let (mut sums, mut deviations) = (vec![f64::NAN; count], vec![f64::NAN; count]);
    let seconds = shortest(3, || partial_sums(x.view(), block_rows, &mut sums, None).unwrap());
    require(partials_are_right(&x, block_rows, &sums, None), "means")?;
    note(times, "means".into(), seconds);
    sums.fill(f64::NAN);
    let seconds = shortest(3, || {
        partial_sums(x.view(), block_rows, &mut sums, Some(&mut deviations)).unwrap();
    });
    require(partials_are_right(&x, block_rows, &sums, Some(&deviations)), "variances")?;
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
    let is_right = |(at, to): (usize, &f64)| *to == values[at] + 3.0 * values[third + at];
    require(to.iter().enumerate().all(is_right), "triad")?;
    note(times, "triad".into(), seconds);
    Ok(())
}

/// Whether `read` has the numbers of `text`.
fn numbers_are_right(read: &MultiVector<f64>, text: &str) -> bool {
    let same_row = |(row, line): (usize, &str)| {
        let numbers = line.split(' ').map(str::parse::<f64>);
        row < read.rows() && numbers.eq(read.row(row).iter().copied().map(Ok))
    };
    text.lines().count() == read.rows() && text.lines().enumerate().all(same_row)
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
fn peer(python: &str, text: &Path, times: &mut Times) -> rowloom::Result<()> {
    let output = Command::new(python).args(["-c", PEER]).arg(text).output().expect("Python starts");
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let last = said.lines().last().unwrap_or("it said nothing");
        return Err(Error::Verification(format!(
            "Python, which needs NumPy and pandas, ended without figures: {last}"
        )));
    }
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let (name, seconds) = line.split_once('\t').expect("a name and seconds");
        note(times, name.into(), seconds.parse().expect("seconds"));
    }
    Ok(())
}

fn main() -> rowloom::Result<()> {
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
            products::<f64>(&mut ours)?;
            products::<f32>(&mut ours)?;
            columns(&mut ours)?;
            let read = || read_text::<f64>(&path, &ReadOptions::default());
            let seconds = shortest(5, || drop(read().unwrap()));
            require(numbers_are_right(&read()?.values, &text), "text")?;
            for name in ["text, loadtxt", "text, pandas"] {
                note(&mut ours, name.into(), seconds);
            }
            Ok::<_, Error>(())
        })?;
        python.iter().try_for_each(|python| peer(python, &path, &mut theirs))?;
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
    Ok(())
}
