//! Products with a sparse A: the interface of programs, memory layout on devices, and the operations of each task.

mod accelerator;
mod adaptation;
mod binder;
mod borrowed_inputs;
mod job;
mod matrix;
mod opened;
mod operand;
mod outputs;
mod prepared;
mod product;
mod product_builder;
mod registrations;
mod settings;
mod vectors;

pub use accelerator::VectorOperands;
pub use matrix::Matrix;
pub use operand::{Input, Output};
pub use prepared::Prepared;
pub use product::{Bound, Product};
pub use product_builder::{ProductBuilder, ProductOptions, Transfer};
pub use settings::{Scaling, Settings, WATCHDOG_TIMEOUT};
pub use vectors::Vectors;
