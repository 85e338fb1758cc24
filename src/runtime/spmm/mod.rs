//! Y = A X on the devices of a plan: memory layout, and the operations of each task.

mod accelerator;
mod binder;
mod borrowed_inputs;
mod job;
mod opened;
mod outputs;
mod prepared;
mod settings;

pub use accelerator::VectorOperands;
pub use prepared::Prepared;
pub use settings::{Scaling, Settings, WATCHDOG_TIMEOUT};
