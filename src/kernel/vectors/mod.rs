//! Operations on dense multivectors: row-wise ones, sums over rows in a canonical order, and the packing of rows.

pub mod order;
pub mod rows;
pub mod sums;
mod table;
#[cfg(test)]
mod tests;

pub use order::{OwnedBlocks, Sum, WEIGH_BLOCK_ROWS};
pub use rows::Factor;
pub use sums::PartialResults;
pub use table::{VECTOR_KERNELS, VectorKernel, VectorKernelInfo, VectorShape};
