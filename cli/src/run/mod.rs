//! `rowloom run`, `gemm` and `colmean`: compute, measure, verify, report.

pub mod colmean;
pub mod colmean_output;
pub mod dense;
pub mod gemm;
pub mod product;
#[cfg(feature = "mpi")]
pub mod ranks;
#[cfg(feature = "mpi")]
pub mod ranks_report;
#[cfg(feature = "mpi")]
pub mod ranks_start;
pub mod recording;
pub mod repeat;
pub mod report;
pub mod simulated;
pub mod workload;
