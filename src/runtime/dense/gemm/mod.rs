//! Dense products: the interface of programs, and the operations of each task.

mod cpu_rate;
mod gemm_job;
mod product;

pub use product::{BoundGemm, Gemm, GemmBuilder};
