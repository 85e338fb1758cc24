//! The flags of planning in the words of the runtime: devices, options, tuning, simulated clusters.

pub mod cluster;
pub mod plan_file;
pub mod planning;
pub mod tune;
