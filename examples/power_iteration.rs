//! Block power iteration on vectors that stay on the devices.
//!
//! The matrix is the five-point Laplacian of an n x n grid. Its eigenvalues are known,
//! `4 - 2 cos(i pi / (n + 1)) - 2 cos(j pi / (n + 1))`, so the result can be checked.
//!
//! `cargo run --release --example power_iteration [DEVICES]`

use std::f64::consts::PI;
use std::process::ExitCode;

use rowloom::solver::{PowerSettings, power_iteration, start_vectors};
use rowloom::{Csr, Runtime};

const N: usize = 20;
const K: usize = 12;
const WANTED: usize = 5;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(error.exit_code())
        }
    }
}

fn run() -> rowloom::Result<()> {
    let devices = std::env::args().nth(1).unwrap_or_else(|| "auto".into());
    let a = laplacian(N)?;
    let mut product = Runtime::open(&devices)?.product(&a).columns(K).uses(1000).build()?;
    let mut x = start_vectors(&mut product)?;
    let settings = PowerSettings::new(WANTED).tolerance(1e-6).iterations(3000);
    let report = power_iteration(&mut product, &mut x, &settings)?;

    println!(
        "{} iterations in {:.1} ms, of which products {:.1} ms and vector operations {:.1} ms",
        report.iterations,
        report.total_s * 1e3,
        report.product_s * 1e3,
        report.vector_s * 1e3
    );
    assert!(report.converged, "the iteration has not converged");
    for (found, known) in report.eigenvalues.iter().zip(largest_eigenvalues(N, WANTED)) {
        println!("{found:.12}, exact {known:.12}");
        assert!((found - known).abs() < 1e-8, "an eigenvalue is wrong");
    }
    Ok(())
}

/// The five-point Laplacian: the pattern of a generated stencil with the Laplacian's values.
fn laplacian(n: usize) -> rowloom::Result<Csr<f64>> {
    let stencil = Csr::<f64>::generate(&format!("stencil5,n={n}"))?;
    let pattern = stencil.view();
    let mut values = Vec::with_capacity(pattern.nnz());
    for row in 0..pattern.rows() {
        let (columns, _) = pattern.row(row);
        values.extend(columns.iter().map(|&column| if column as usize == row { 4.0 } else { -1.0 }));
    }
    let (pointers, columns) = (pattern.row_pointers().to_vec(), pattern.columns().to_vec());
    Csr::try_new(pattern.rows(), pattern.cols(), pointers, columns, values)
}

/// The `count` largest eigenvalues of the Laplacian, largest first.
fn largest_eigenvalues(n: usize, count: usize) -> Vec<f64> {
    let angle = |i: usize| (i as f64 * PI / (n + 1) as f64).cos();
    let mut all: Vec<f64> = (1..=n)
        .flat_map(|i| (1..=n).map(move |j| (i, j)))
        .map(|(i, j)| 4.0 - 2.0 * angle(i) - 2.0 * angle(j))
        .collect();
    all.sort_by(|a, b| b.total_cmp(a));
    all.truncate(count);
    all
}
