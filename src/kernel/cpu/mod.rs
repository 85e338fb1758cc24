//! Kernels for the CPU's vector units.

mod blocks;
mod chains;
mod grouping;
mod layout;
mod product;
mod select;
mod tuning;
mod vector;
#[cfg(target_arch = "x86_64")]
mod x86;

pub use layout::RowLayout;
pub use product::{CpuSettings, RowsPlan};
pub use select::Kernels;
pub use tuning::Tuning;
