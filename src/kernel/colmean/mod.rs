//! Sums, means and variances of the columns of a dense matrix.
//!
//! Kernels compute partial results: for each block of rows a row of sums and, if wanted, a row of sums of squared deviations from the
//! block's means. [`Totals`] merges them in the order of blocks, on a GPU `colmean_totals.cu` those from the first block on. [`order`]
//! defines blocks and the order of all additions.

mod cpu;
pub mod order;
pub mod reference;
mod table;
#[cfg(test)]
mod tests;
mod totals;
mod verify;

pub use cpu::partial_sums;
pub use order::block_rows;
pub use table::{COLMEAN_KERNELS, entry_point, launch_shape, totals_entry_point, totals_launch_shape};
pub use totals::Totals;
pub use verify::verify;
