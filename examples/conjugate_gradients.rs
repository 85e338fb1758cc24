//! Conjugate gradients on vectors that stay on the devices, for K right-hand sides at once.
//!
//! `cargo run --release --example conjugate_gradients [DEVICES [MATRIX [K [ITERATIONS]]]]`
//!
//! The matrix is a file with a symmetric positive definite matrix, or a generated stencil, `gen:stencil27,n=96`, whose pattern gets the
//! values of a Laplacian. Step lengths are quotients of scalars that stay on the device: no iteration waits for it, and convergence is
//! tested every 20 iterations. With ITERATIONS as many are timed, after a warm-up solve.

use std::process::ExitCode;
use std::time::Instant;

use rowloom::{Csr, Error, MultiVector, Product, Result, Runtime};

/// Residuals relative to the right-hand side.
const TOLERANCE: f64 = 1e-10;
/// Iterations from one test of convergence to the next.
const TEST_INTERVAL: u64 = 20;
const MOST_ITERATIONS: u64 = 10_000;

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
    let number =
        |word: &str| word.parse::<u64>().map_err(|_| Error::usage(format!("'{word}' is not a whole number")));
    let runtime = Runtime::open(word(0).unwrap_or("auto"))?;
    let name = word(1).unwrap_or("gen:stencil5,n=50");
    let a = if name.starts_with("gen:") { laplacian(name)? } else { Csr::read(name)? };
    let columns = word(2).map(number).transpose()?.map_or(vec![1, 8], |k| vec![k as usize]);
    let iterations = word(3).map(number).transpose()?;
    for k in columns {
        let mut product = runtime.product(&a).columns(k).uses(10_000).build()?;
        let b = MultiVector::<f64>::random(a.rows(), k, 1)?;
        if iterations.is_some() {
            solve(&mut product, &b, iterations)?;
        }
        let start = Instant::now();
        let (x, count) = solve(&mut product, &b, iterations)?;
        let seconds = start.elapsed().as_secs_f64();
        let residuals = residuals(&mut product, &b, &x)?;
        let largest = residuals.iter().fold(0.0, |most: f64, residual| most.max(*residual));
        println!("{} rows, {} nonzeros, K = {k}: {count} iterations", a.rows(), a.nnz());
        println!("seconds: {seconds:.6}");
        println!("residual: {largest:.3e}");
        assert!(iterations.is_some() || largest < 10.0 * TOLERANCE, "the iteration has not converged");
    }
    Ok(())
}

/// X with A X = B, and the number of iterations: as many as given, or until all columns have converged.
fn solve(
    product: &mut Product<'_, f64>,
    b: &MultiVector<f64>,
    iterations: Option<u64>,
) -> Result<(MultiVector<f64>, u64)> {
    let (mut x, mut r) = (product.vectors()?, product.vectors()?);
    let (mut p, mut q) = (product.vectors()?, product.vectors()?);
    r.copy_from(b)?;
    p.axpby(1.0, &r, 0.0)?;
    let (mut old_rr, mut rr, mut pq) = (r.scalars()?, r.scalars()?, r.scalars()?);
    r.dot_into(&r, &mut rr)?;
    let least: Vec<f64> = rr.values()?.iter().map(|square| TOLERANCE * TOLERANCE * square).collect();
    let mut count = 0;
    while count < iterations.unwrap_or(MOST_ITERATIONS) {
        product.apply_into(&p, &mut q)?;
        p.dot_into(&q, &mut pq)?;
        x.axpby(&rr / &pq, &p, 1.0)?;
        r.axpby(-(&rr / &pq), &q, 1.0)?;
        std::mem::swap(&mut old_rr, &mut rr);
        r.dot_into(&r, &mut rr)?;
        p.axpby(1.0, &r, &rr / &old_rr)?;
        count += 1;
        if iterations.is_none() && count % TEST_INTERVAL == 0 {
            let squares = rr.values()?;
            if squares.iter().zip(&least).all(|(square, least)| square <= least) {
                break;
            }
        }
    }
    let mut solution = MultiVector::zeros(x.rows(), x.columns())?;
    x.copy_to(&mut solution)?;
    Ok((solution, count))
}

/// The norms of the columns of B - A X, relative to those of B.
fn residuals(product: &mut Product<'_, f64>, b: &MultiVector<f64>, x: &MultiVector<f64>) -> Result<Vec<f64>> {
    let (mut on_x, mut r) = (product.vectors()?, product.vectors()?);
    on_x.copy_from(x)?;
    r.copy_from(b)?;
    let norms = r.norm()?;
    product.apply_scaled(-1.0, &on_x, 1.0, &mut r)?;
    Ok(r.norm()?.iter().zip(norms).map(|(residual, norm)| residual / norm).collect())
}

/// The pattern of a generated stencil with the values of a Laplacian: -1 for each neighbour, and on the diagonal the most neighbours
/// that a point has.
fn laplacian(spec: &str) -> Result<Csr<f64>> {
    let stencil = Csr::<f64>::generate(spec)?;
    let pattern = stencil.view();
    let neighbours = |row: usize| pattern.row(row).0.iter().filter(|&&column| column as usize != row).count();
    let most = (0..pattern.rows()).map(neighbours).max().unwrap_or(0) as f64;
    let mut values = Vec::with_capacity(pattern.nnz());
    for row in 0..pattern.rows() {
        let (columns, _) = pattern.row(row);
        values.extend(columns.iter().map(|&column| if column as usize == row { most } else { -1.0 }));
    }
    let (pointers, columns) = (pattern.row_pointers().to_vec(), pattern.columns().to_vec());
    Csr::try_new(pattern.rows(), pattern.cols(), pointers, columns, values)
}
