//! Block power iteration: A is prepared once and multiplied thousands of times.
//!
//! The matrix is the five-point Laplacian of an n x n grid. Its eigenvalues are known,
//! `4 - 2 cos(i pi / (n + 1)) - 2 cos(j pi / (n + 1))`, so the result can be checked: the space spanned by the K columns
//! converges to the eigenvectors of the K largest eigenvalues.
//!
//! `cargo run --release --example power_iteration`

use std::f64::consts::PI;

use rowloom::machine::memory_limit_bytes;
use rowloom::matrix::generate;
use rowloom::{Csr, MultiVector, Runtime};

const N: usize = 30;
const K: usize = 8;
const PRODUCTS: u64 = 3000;

fn main() -> rowloom::Result<()> {
    let a = laplacian(N)?;
    let mut product = Runtime::open("cpu")?.product(&a).columns(K).uses(PRODUCTS).build()?;

    // An asymmetric start vector, so that it has a component along every eigenvector.
    let mut x = MultiVector::from_fn(a.rows(), K, |row, column| ((row * (2 * column + 3)) as f64).sin())?;
    let mut y = MultiVector::zeros(a.rows(), K)?;
    orthonormalise(&mut x);
    for _ in 1..PRODUCTS {
        product.apply_into(&x, &mut y)?;
        std::mem::swap(&mut x, &mut y);
        orthonormalise(&mut x);
    }
    product.apply_into(&x, &mut y)?;
    let seconds = product.last_report().map_or(0.0, |report| report.seconds());

    // The trace of X' A X is the sum of the K largest eigenvalues once X spans their space.
    let found: f64 = x.data().iter().zip(y.data()).map(|(x, y)| x * y).sum();
    let known: f64 = largest_eigenvalues(N, K).iter().sum();
    let error = (found / known - 1.0).abs();
    println!("{PRODUCTS} products, the last in {:.1} µs", seconds * 1e6);
    println!(
        "sum of the {K} largest eigenvalues: {found:.12}, exact {known:.12}, relative error {error:.1e}"
    );
    assert!(error < 1e-8, "the iteration has not converged");
    Ok(())
}

/// The five-point Laplacian: the pattern of a generated stencil with the Laplacian's values.
fn laplacian(n: usize) -> rowloom::Result<Csr<f64>> {
    let stencil = generate::<f64>(&format!("stencil5,n={n}"), 1, memory_limit_bytes())?.matrix;
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

/// Makes the columns of X orthonormal, each against those before it (modified Gram-Schmidt).
fn orthonormalise(x: &mut MultiVector<f64>) {
    let (k, width) = (x.k(), x.leading_dimension());
    let data = x.data_mut();
    for column in 0..k {
        for before in 0..column {
            let along: f64 = data.chunks(width).map(|row| row[before] * row[column]).sum();
            data.chunks_mut(width).for_each(|row| row[column] -= along * row[before]);
        }
        let length = data.chunks(width).map(|row| row[column] * row[column]).sum::<f64>().sqrt();
        data.chunks_mut(width).for_each(|row| row[column] /= length);
    }
}
