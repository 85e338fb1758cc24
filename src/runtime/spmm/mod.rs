//! The job of a product with a sparse A: its memory layout on devices and the operations of each task.

mod as_job;
mod borrowed_matrix;
mod launch;
mod lists;
mod matrix;
mod prepared_product;
mod settings;
mod spmm_job;

pub use as_job::compute_by_reference;
pub use launch::VectorOperands;
pub use matrix::Matrix;
pub use prepared_product::PreparedProduct;
pub use settings::Settings;
