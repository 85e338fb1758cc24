//! Dense products: the interface of programs, and the operations of each task.

mod gemm_job;
mod product;

pub use product::{Gemm, GemmBuilder};
