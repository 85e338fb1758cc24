//! Kernels for the CPU's vector units, all of canonical order.
//!
//! `chains` and `blocks` hold the bodies, written once over the register types of `vector` and `x86`; `select`
//! compiles them for each instruction set and width. `grouping`, `hubs` and `tuning` decide which rows run side by
//! side; `rows_plan` and `sell_plan` keep those decisions; `running` carries them out; `product` is the face.

mod blocks;
mod chains;
mod grouping;
mod hubs;
mod layout;
mod product;
mod rows_plan;
mod running;
mod select;
mod sell_plan;
mod tuning;
mod vector;
#[cfg(target_arch = "x86_64")]
mod x86;

pub use product::CpuProduct;
pub use rows_plan::CpuSettings;
pub use select::Kernels;
