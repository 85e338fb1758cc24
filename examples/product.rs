//! A product Y = A X on the processors of this machine.
//!
//! `cargo run --release --example product`

use rowloom::{Csr, MultiVector, Runtime};

fn main() -> rowloom::Result<()> {
    let runtime = Runtime::open("auto")?;
    let a = Csr::<f64>::generate("stencil27,n=24")?;
    let x = MultiVector::from_fn(a.cols(), 32, |row, column| ((row + 3 * column) % 7) as f64 - 3.0)?;
    let mut product = runtime.product(a).columns(32).build()?;
    let y = product.apply(&x)?;
    println!("Y has {} rows; the first is {:?}", y.rows(), &y.row(0)[..4]);
    println!("{}", product.explain());
    Ok(())
}
