//! Lanczos iteration on vectors that stay on the devices, from K start vectors at once: the largest eigenvalue of a symmetric matrix.
//!
//! `cargo run --release --example lanczos [DEVICES [N [K]]]`
//!
//! The matrix is the five-point Laplacian of an N x N grid, whose largest eigenvalue is known. The coefficients of 25 steps stay on
//! the device; then they are read together, and convergence is tested. No step waits for the device.

use std::f64::consts::PI;
use std::process::ExitCode;
use std::time::Instant;

use rowloom::runtime::Scalars;
use rowloom::solver::start_vectors;
use rowloom::{Csr, Error, Product, Result, Runtime};

/// Steps from one test of convergence to the next.
const TEST_INTERVAL: usize = 25;
const MOST_STEPS: usize = 1000;
const TOLERANCE: f64 = 1e-12;

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
    let number = |index: usize| {
        let word = arguments.get(index).map(String::as_str);
        let parsed = word.map(|word| {
            word.parse::<usize>().map_err(|_| Error::usage(format!("'{word}' is not a whole number")))
        });
        parsed.transpose()
    };
    let runtime = Runtime::open(arguments.first().map_or("auto", String::as_str))?;
    let n = number(1)?.unwrap_or(20);
    let a = laplacian(n)?;
    let known = 4.0 + 4.0 * (PI / (n + 1) as f64).cos();
    for k in number(2)?.map_or(vec![1, 8], |k| vec![k]) {
        let mut product = runtime.product(&a).columns(k).uses(1000).build()?;
        let start = Instant::now();
        let (found, steps) = largest_eigenvalues(&mut product)?;
        println!("K = {k}: {steps} steps in {:.1} ms", start.elapsed().as_secs_f64() * 1e3);
        for found in found {
            println!("{found:.12}, exact {known:.12}");
            assert!((found - known).abs() < 1e-8, "the eigenvalue is wrong");
        }
    }
    Ok(())
}

/// For each start vector the largest eigenvalue, and the number of steps. Lost orthogonality adds copies of eigenvalues and leaves
/// the largest one as it is.
fn largest_eigenvalues(product: &mut Product<'_, f64>) -> Result<(Vec<f64>, usize)> {
    let (mut x, mut y, mut before) = (start_vectors(product)?, product.vectors()?, product.vectors()?);
    let scalars = || x.scalars();
    let mut projections = (0..TEST_INTERVAL).map(|_| scalars()).collect::<Result<Vec<Scalars<f64>>>>()?;
    // The norm of a step, and before them that of the last step of the interval before.
    let mut norms = (0..=TEST_INTERVAL).map(|_| scalars()).collect::<Result<Vec<Scalars<f64>>>>()?;
    let mut length = x.scalars()?;
    x.norm_into(&mut length)?;
    x.scale(1.0 / &length)?;
    let k = product.columns();
    let (mut diagonals, mut squares) = (vec![Vec::new(); k], vec![Vec::new(); k]);
    let mut found = vec![f64::NEG_INFINITY; k];
    for steps in (TEST_INTERVAL..=MOST_STEPS).step_by(TEST_INTERVAL) {
        for step in 0..TEST_INTERVAL {
            product.apply_into(&x, &mut y)?;
            x.dot_into(&y, &mut projections[step])?;
            y.axpby(-&projections[step], &x, 1.0)?;
            y.axpby(-&norms[step], &before, 1.0)?;
            y.norm_into(&mut norms[step + 1])?;
            y.scale(1.0 / &norms[step + 1])?;
            std::mem::swap(&mut before, &mut x);
            std::mem::swap(&mut x, &mut y);
        }
        for step in 0..TEST_INTERVAL {
            let (projection, norm) = (projections[step].values()?, norms[step + 1].values()?);
            for column in 0..k {
                diagonals[column].push(projection[column]);
                squares[column].push(norm[column] * norm[column]);
            }
        }
        norms.swap(0, TEST_INTERVAL);
        let last: Vec<f64> =
            diagonals.iter().zip(&squares).map(|(d, s)| largest_of_tridiagonal(d, s)).collect();
        let converged = last.iter().zip(&found).all(|(last, found)| last - found < TOLERANCE * last.abs());
        found = last;
        if converged {
            return Ok((found, steps));
        }
    }
    Ok((found, MOST_STEPS))
}

/// The largest eigenvalue of a symmetric tridiagonal matrix, by bisection: a number is above all eigenvalues if all pivots of the
/// matrix less that number are negative. `squares` are those of the numbers beside the diagonal.
fn largest_of_tridiagonal(diagonal: &[f64], squares: &[f64]) -> f64 {
    let is_above = |number: f64| {
        let mut pivot = f64::INFINITY;
        let squares = std::iter::once(&0.0).chain(squares);
        diagonal.iter().zip(squares).all(|(entry, square)| {
            pivot = entry - number - square / pivot;
            pivot < 0.0
        })
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

/// The five-point Laplacian: the pattern of a generated stencil with the Laplacian's values.
fn laplacian(n: usize) -> Result<Csr<f64>> {
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
