//! Prepare once, run often: products on this machine's threads.

mod pool;
mod product;

pub use pool::Pool;
pub use product::{Chunk, FormatChoice, Options, Prepared, prepare};
