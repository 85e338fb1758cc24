//! `rowloom run`, `gemm` and `colmean`: compute, measure, verify, report.

pub mod colmean;
pub mod colmean_output;
pub mod gemm;
pub mod job;
pub mod product;
#[cfg(feature = "mpi")]
pub mod ranks;
#[cfg(feature = "mpi")]
pub mod ranks_report;
pub mod recording;
pub mod repeat;
pub mod report;
pub mod request;
pub mod workload;
