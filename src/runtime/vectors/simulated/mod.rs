//! Products on simulated devices: shapes and times without values.

mod peer_copies;
mod simulated_vectors;

pub use peer_copies::simulated_peer_copies;
pub use simulated_vectors::{SimulatedVectors, TimeParts};
