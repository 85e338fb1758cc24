//! A product of all ranks of an MPI job, and an eigenvalue by power iteration.
//!
//! `cargo build --release --features mpi --example ranks && mpirun -n 4 target/release/examples/ranks 64 32`

use std::time::Instant;

use rowloom::matrix::Dtype;
use rowloom::runtime::RowBlock;
use rowloom::{Csr, MultiVector, Runtime};
use xxhash_rust::xxh3::xxh3_64;

/// The rows `rows` of the 7-point stencil of an n x n x n grid.
fn stencil(n: u64, rows: std::ops::Range<u64>) -> rowloom::Result<Csr<f64>> {
    let (mut pointers, mut columns, mut values) = (vec![0], Vec::new(), Vec::new());
    for row in rows.clone() {
        let at = [row % n, row / n % n, row / (n * n)];
        let mut entry = |column: u64, value| {
            columns.push(column as u32);
            values.push(value);
        };
        for (axis, step) in [(2, n * n), (1, n), (0, 1)] {
            (at[axis] > 0).then(|| entry(row - step, -1.0));
        }
        entry(row, 6.0);
        for (axis, step) in [(0, 1), (1, n), (2, n * n)] {
            (at[axis] + 1 < n).then(|| entry(row + step, -1.0));
        }
        pointers.push(columns.len() as u64);
    }
    Csr::try_new((rows.end - rows.start) as usize, (n * n * n) as usize, pointers, columns, values)
}

fn main() -> rowloom::Result<()> {
    let number =
        |at: usize, otherwise: u64| std::env::args().nth(at).map_or(Ok(otherwise), |text| text.parse());
    let (Ok(n), Ok(k)) = (number(1, 32), number(2, 8)) else {
        return Err(rowloom::Error::usage("the arguments are the size of the grid and K"));
    };
    let k = k as usize;
    let communicator = rowloom::mpi::communicator()?;
    let cluster = Runtime::over(communicator.clone())?;
    // Equal rows have equal costs, so the row pointers of seven entries per row stand for those of the matrix.
    let total = n * n * n;
    let pointers: Vec<u64> = (0..=total).map(|row| 7 * row).collect();
    let bounds = cluster.row_bounds(&pointers, k, Dtype::F64)?;
    let rank = communicator.rank();
    let own = bounds[rank]..bounds[rank + 1];
    let matrix = stencil(n, own.clone())?;
    let block = RowBlock { first_row: own.start, total_rows: total, matrix };
    let mut product = cluster.product(block).columns(k).build()?;

    let (mut x, mut y) = (product.vectors()?, product.vectors()?);
    let value = |row: usize, column: usize| 1.0 / (1 + (own.start as usize + row) % 97 + column) as f64;
    let start = MultiVector::from_fn(x.rows(), k, value)?;
    x.copy_from(&start)?;
    product.apply_into(&x, &mut y)?;
    let mut rows = MultiVector::zeros(y.rows(), k)?;
    y.copy_to(&mut rows)?;
    let parts = communicator.all_gather(bytemuck::cast_slice(rows.data()))?;
    let hash = xxh3_64(&parts.concat());

    const PRODUCTS: u32 = 20;
    communicator.barrier()?;
    let begin = Instant::now();
    for _ in 0..PRODUCTS {
        product.apply_into(&x, &mut y)?;
    }
    communicator.barrier()?;
    let seconds = begin.elapsed().as_secs_f64() / f64::from(PRODUCTS);

    let mut largest = 0.0;
    for _ in 0..50 {
        let norms = x.norm()?;
        x.scale_columns(&norms.iter().map(|norm| 1.0 / norm).collect::<Vec<_>>())?;
        product.apply_into(&x, &mut y)?;
        largest = x.dot(&y)?[0];
        std::mem::swap(&mut x, &mut y);
    }
    if rank == 0 {
        let ranks = communicator.size();
        println!("{ranks} ranks, {total} rows, K = {k}: Y has hash {hash:016x}");
        println!("{:.3} ms per product, largest eigenvalue {largest:.12}", seconds * 1e3);
    }
    Ok(())
}
