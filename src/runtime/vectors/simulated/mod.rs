//! Vectors and products on simulated devices: shapes and times without values.

mod machine;
mod product;

pub use machine::{SimulatedMachine, SimulatedMemory, no_values, simulated_peer_copies};
pub use product::{SimulatedVectors, TimeParts};
