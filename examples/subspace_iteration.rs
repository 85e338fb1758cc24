//! Chebyshev-filtered subspace iteration on vectors that stay on the devices.
//!
//! `cargo run --release --example subspace_iteration [DEVICES [MATRIX [K [DEGREE [ITERATIONS]]]]]`
//!
//! Without a matrix: the smallest eigenvalues of the seven-point Laplacian of an n x n x n grid, which are sums of three numbers
//! `2 - 2 cos(i pi / (n + 1))`. With a symmetric matrix, a file or `gen:KIND,...`: its largest eigenvalues, compared with
//! Lanczos iteration on the host. With ITERATIONS as many iterations are timed, after a warm-up solve.

use std::f64::consts::PI;
use std::process::ExitCode;

use rowloom::solver::{SolverReport, SpectrumEnd, SubspaceSettings, start_vectors, subspace_iteration};
use rowloom::{Csr, Error, Product, Result, Runtime};

/// Residuals relative to the spectrum's largest absolute value.
const TOLERANCE: f64 = 1e-9;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(error.exit_code())
        }
    }
}

fn run() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let word = |index: usize| arguments.get(index).map(String::as_str);
    let number = |index: usize, default: u64| match word(index) {
        None => Ok(default),
        Some(word) => word.parse().map_err(|_| Error::usage(format!("'{word}' is not a whole number"))),
    };
    let runtime = Runtime::open(word(0).unwrap_or("auto"))?;
    let (k, degree) = (number(2, 16)? as usize, number(3, 20)?);
    match (word(1), word(4)) {
        (None, _) => laplacian(&runtime),
        (Some(name), None) => matrix(&runtime, &read(name)?, k, degree),
        (Some(name), Some(_)) => timed(&runtime, &read(name)?, k, degree, number(4, 1)?),
    }
}

fn read(name: &str) -> Result<Csr<f64>> {
    match name.starts_with("gen:") {
        true => Csr::generate(name),
        false => Csr::read(name),
    }
}

/// The smallest eigenvalues of a Laplacian, compared with their closed form.
fn laplacian(runtime: &Runtime) -> Result<()> {
    const N: usize = 12;
    let a = laplacian_matrix(N)?;
    let mut product = runtime.product(&a).columns(16).uses(1000).build()?;
    let settings = SubspaceSettings::new(SpectrumEnd::Smallest, 10).tolerance(TOLERANCE);
    let mut x = start_vectors(&mut product)?;
    let report = subspace_iteration(&mut product, &mut x, &settings)?;
    print(&product, &report);
    assert!(report.converged, "the iteration has not converged");
    for (found, known) in report.eigenvalues.iter().zip(smallest_eigenvalues(N, settings.wanted)) {
        println!("{found:.12}, exact {known:.12}");
        assert!((found - known).abs() < 1e-10, "an eigenvalue is wrong");
    }
    Ok(())
}

/// The largest eigenvalues of a symmetric matrix, checked by their residuals and by Lanczos iteration on the host.
fn matrix(runtime: &Runtime, a: &Csr<f64>, k: usize, degree: u64) -> Result<()> {
    let mut product = runtime.product(a).columns(k).uses(1000).build()?;
    let wanted = k.div_ceil(2);
    let end = SpectrumEnd::Largest;
    let settings = SubspaceSettings::new(end, wanted).degree(degree).tolerance(TOLERANCE).iterations(200);
    let mut x = start_vectors(&mut product)?;
    let report = subspace_iteration(&mut product, &mut x, &settings)?;
    print(&product, &report);
    for (value, residual) in report.eigenvalues.iter().zip(&report.residuals) {
        println!("{value:.12}, residual {residual:.1e}");
    }
    assert!(report.converged, "the iteration has not converged");

    let (lanczos, steps) = largest_by_lanczos(a);
    let difference = (lanczos / report.eigenvalues[0] - 1.0).abs();
    println!("Lanczos on the host: {lanczos:.12} after {steps} steps, relative difference {difference:.1e}");
    assert!(difference < 1e-8, "the two methods differ");
    Ok(())
}

/// The largest eigenvalue by Lanczos iteration without restart, and the number of steps. Lost orthogonality adds copies of
/// eigenvalues and leaves the largest one as it is.
fn largest_by_lanczos(a: &Csr<f64>) -> (f64, usize) {
    const MOST_STEPS: usize = 3000;
    let dot = |x: &[f64], y: &[f64]| x.iter().zip(y).map(|(x, y)| x * y).sum::<f64>();
    let matrix = a.view();
    let mut x: Vec<f64> = (0..a.rows()).map(|row| (row as f64 + 0.5).sin()).collect();
    let length = dot(&x, &x).sqrt();
    x.iter_mut().for_each(|x| *x /= length);
    let (mut before, mut off_diagonal) = (vec![0.0; x.len()], 0.0);
    // The diagonal of the tridiagonal matrix, and the squares of the numbers beside it.
    let (mut diagonal, mut squares): (Vec<f64>, Vec<f64>) = (Vec::new(), Vec::new());
    let mut largest = f64::NEG_INFINITY;
    while diagonal.len() < MOST_STEPS {
        let mut y: Vec<f64> = (0..a.rows())
            .map(|row| {
                let (columns, values) = matrix.row(row);
                columns.iter().zip(values).map(|(&column, value)| value * x[column as usize]).sum()
            })
            .collect();
        let projection = dot(&x, &y);
        for (y, (x, before)) in y.iter_mut().zip(x.iter().zip(&before)) {
            *y -= projection * x + off_diagonal * before;
        }
        diagonal.push(projection);
        off_diagonal = dot(&y, &y).sqrt();
        if off_diagonal == 0.0 {
            return (largest_of_tridiagonal(&diagonal, &squares), diagonal.len());
        }
        if diagonal.len().is_multiple_of(50) {
            let found = largest_of_tridiagonal(&diagonal, &squares);
            if found - largest < 1e-12 * found.abs() {
                return (found, diagonal.len());
            }
            largest = found;
        }
        squares.push(off_diagonal * off_diagonal);
        y.iter_mut().for_each(|y| *y /= off_diagonal);
        before = std::mem::replace(&mut x, y);
    }
    (largest, diagonal.len())
}

/// The largest eigenvalue of a symmetric tridiagonal matrix, by bisection: a number is above all eigenvalues if all pivots of the
/// matrix less that number are negative.
fn largest_of_tridiagonal(diagonal: &[f64], squares: &[f64]) -> f64 {
    let is_above = |number: f64| {
        let mut pivot = diagonal[0] - number;
        let mut all = pivot < 0.0;
        for (entry, square) in diagonal[1..].iter().zip(squares) {
            pivot = entry - number - square / pivot;
            all = all && pivot < 0.0;
        }
        all
    };
    let size = |values: &[f64]| values.iter().fold(0.0f64, |most, value| most.max(value.abs()));
    let bound = 1.0 + size(diagonal) + 2.0 * size(squares).sqrt();
    let (mut low, mut high) = (-bound, bound);
    while high - low > 1e-15 * bound && low < 0.5 * (low + high) && 0.5 * (low + high) < high {
        let middle = 0.5 * (low + high);
        if is_above(middle) { high = middle } else { low = middle }
    }
    high
}

/// The time of a fixed number of iterations, after a warm-up.
fn timed(runtime: &Runtime, a: &Csr<f64>, k: usize, degree: u64, iterations: u64) -> Result<()> {
    let mut product = runtime.product(a).columns(k).uses(1000).build()?;
    let settings = SubspaceSettings::new(SpectrumEnd::Largest, k.div_ceil(2));
    let settings = settings.degree(degree).tolerance(0.0).iterations(iterations);
    for warm_up in [true, false] {
        let mut x = start_vectors(&mut product)?;
        let report = subspace_iteration(&mut product, &mut x, &settings)?;
        if !warm_up {
            print(&product, &report);
            println!("seconds: {:.6}", report.total_s);
            println!("product seconds: {:.6}", report.product_s);
            let words = |values: &[f64]| {
                values.iter().map(|value| format!("{value:.15e}")).collect::<Vec<_>>().join(" ")
            };
            println!("eigenvalues: {}", words(&report.eigenvalues));
            println!("residuals: {}", words(&report.residuals));
        }
    }
    Ok(())
}

fn print(product: &Product<'_, f64>, report: &SolverReport) {
    let a = product.matrix();
    println!("{} rows, {} nonzeros, {} columns", a.rows(), a.nnz(), product.columns());
    println!(
        "{} iterations, {} products: {:.1} ms, of which products {:.1} ms and vector operations {:.1} ms",
        report.iterations,
        report.products,
        report.total_s * 1e3,
        report.product_s * 1e3,
        report.vector_s * 1e3
    );
}

/// The seven-point Laplacian: the pattern of a generated stencil with the Laplacian's values.
fn laplacian_matrix(n: usize) -> Result<Csr<f64>> {
    let stencil = Csr::<f64>::generate(&format!("stencil7,n={n}"))?;
    let pattern = stencil.view();
    let mut values = Vec::with_capacity(pattern.nnz());
    for row in 0..pattern.rows() {
        let (columns, _) = pattern.row(row);
        values.extend(columns.iter().map(|&column| if column as usize == row { 6.0 } else { -1.0 }));
    }
    let (pointers, columns) = (pattern.row_pointers().to_vec(), pattern.columns().to_vec());
    Csr::try_new(pattern.rows(), pattern.cols(), pointers, columns, values)
}

/// The `count` smallest eigenvalues of the Laplacian, ascending.
fn smallest_eigenvalues(n: usize, count: usize) -> Vec<f64> {
    let line: Vec<f64> = (1..=n).map(|i| 2.0 - 2.0 * (i as f64 * PI / (n + 1) as f64).cos()).collect();
    let mut all: Vec<f64> = line
        .iter()
        .flat_map(|x| {
            line.iter().flat_map({
                let line = &line;
                move |y| line.iter().map(move |z| x + y + z)
            })
        })
        .collect();
    all.sort_by(f64::total_cmp);
    all.truncate(count);
    all
}
