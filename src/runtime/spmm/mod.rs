//! Products with a sparse A: the interface of programs, memory layout on devices, and the operations of each task.

mod adaptation;
mod borrowed_matrix;
pub mod cluster;
mod launch;
mod matrix;
mod operand;
mod prepared_product;
mod product;
mod product_builder;
#[cfg(all(test, feature = "emulator"))]
mod registration_tests;
mod settings;
mod spmm_job;
mod vectors;

pub use launch::VectorOperands;
pub use matrix::Matrix;
pub use operand::{Input, Output, PageLocked};
pub(in crate::internal::runtime) use operand::{host_input, host_output};
pub use prepared_product::PreparedProduct;
pub use product::{Bound, Product};
pub use product_builder::{ProductBuilder, ProductOptions, Transfer};
pub use settings::Settings;
pub use vectors::{ExportedRows, SimulatedVectors, TimeParts, Vectors};
pub(in crate::internal::runtime) use vectors::{RankLists, Span};
