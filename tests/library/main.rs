//! The library through its public names, one claim's file each. One crate, because each test crate links the whole library.

mod bad_matrix_market;
mod devices_agree;
mod kernels_agree;
mod layering;
mod read_limits;
mod report_sample;
mod reproducible;
mod shared_matrices;
mod statistics;
mod trace_samples;
