//! The generic code that programs use, for `f64` and `f32`, compiled once with the library.
//!
//! At the optimisation levels 0 and 1 the compiler takes such code from the library, where it stands there: programs, tests, examples and
//! benchmarks that multiply then compile none of it, and are built in a tenth of the time. At the levels 2 and 3 every crate compiles its
//! own, so a release build leaves this module out.
//!
//! Nothing calls these functions.

use std::path::Path;

use crate::error::Result;
use crate::kernel::gemm::PackedProduct;
use crate::matrix::{Csr, MultiVector};
use crate::runtime::{Cluster, DenseOperand, Product, RowBlock, Runtime, Vectors};
use crate::solver::{PowerSettings, SubspaceSettings, power_iteration, start_vectors, subspace_iteration};

/// For `f64`.
pub fn of_f64(runtime: &Runtime, cluster: &Cluster, path: &Path) -> Result<()> {
    all::<f64>(runtime, cluster, path)
}

/// For `f32`.
pub fn of_f32(runtime: &Runtime, cluster: &Cluster, path: &Path) -> Result<()> {
    all::<f32>(runtime, cluster, path)
}

fn all<T: PackedProduct>(runtime: &Runtime, cluster: &Cluster, path: &Path) -> Result<()> {
    let a = Csr::<T>::read(path)?;
    host_product(runtime, &a)?;
    product_on_vectors(&mut runtime.product(&a).build()?)?;
    product_of_ranks(cluster, Csr::<T>::generate("")?)?;
    dense(runtime, &MultiVector::<T>::random(1, 1, 0)?)
}

fn host_product<T: PackedProduct>(runtime: &Runtime, a: &Csr<T>) -> Result<()> {
    let mut product = runtime.product(a).build()?;
    let x = MultiVector::<T>::zeros(1, 1)?;
    let mut y = product.apply(&x)?;
    product.apply_into(&x, &mut y)?;
    product.apply_scaled(1.0, &x, 1.0, &mut y)?;
    product.bind(&x, &mut y, |bound| {
        bound.apply()?;
        bound.apply_scaled(1.0, 1.0)
    })?;
    let mut locked = product.page_locked_y()?;
    if let Some(y) = &mut locked {
        product.apply_into(&x, y)?;
    }
    product.prepare()?;
    product.explain();
    let mut transposed = product.transposed()?;
    transposed.apply_into(&x, &mut y)
}

fn product_on_vectors<T: PackedProduct>(product: &mut Product<'_, T>) -> Result<()> {
    let (mut x, mut y): (Vectors<T>, Vectors<T>) = (product.x_vectors()?, product.vectors()?);
    let mut host = MultiVector::<T>::zeros(1, 1)?;
    x.copy_from(&host)?;
    x.copy_to(&mut host)?;
    x.copy_rows_from(0, &host.view())?;
    x.copy_rows_to(0, host.view_mut())?;
    product.apply_into(&x, &mut y)?;
    product.apply_scaled(1.0, &x, 1.0, &mut y)?;
    y.axpby(1.0, &x, 1.0)?;
    y.scale(1.0)?;
    y.scale_columns(&[])?;
    y.fill(0.0)?;
    y.dot(&x)?;
    y.norm()?;
    y.gram(&x)?;
    x.times(&host, &mut y)?;
    let mut sums = y.scalars()?;
    y.dot_into(&x, &mut sums)?;
    y.norm_into(&mut sums)?;
    y.scale(&sums)?;
    y.axpby(&sums, &x, &sums)?;
    sums.values()?;
    y.synchronize()?;
    let mut start = start_vectors(product)?;
    power_iteration(product, &mut start, &PowerSettings::new(1))?;
    subspace_iteration(product, &mut start, &SubspaceSettings::new(crate::solver::SpectrumEnd::Largest, 1))?;
    Ok(())
}

fn product_of_ranks<T: PackedProduct>(cluster: &Cluster, matrix: Csr<T>) -> Result<()> {
    let mut product = cluster.product(RowBlock { first_row: 0, total_rows: 1, matrix }).build()?;
    let (x, mut y) = (product.x_vectors()?, product.vectors()?);
    product.apply_into(&x, &mut y)?;
    product.apply_scaled(1.0, &x, 1.0, &mut y)
}

fn dense<T: PackedProduct>(runtime: &Runtime, a: &MultiVector<T>) -> Result<()> {
    let mut c = MultiVector::<T>::zeros(1, 1)?;
    let mut gemm = runtime.gemm(DenseOperand::from(a), 1).build()?;
    gemm.apply(a, &mut c)?;
    gemm.apply_scaled(1.0, a, 1.0, &mut c)?;
    gemm.bind(a, &mut c, |bound| bound.apply_scaled(1.0, 1.0))?;
    runtime.column_sums(DenseOperand::from(a)).build()?.apply()?;
    Ok(())
}
