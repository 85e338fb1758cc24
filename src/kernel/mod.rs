//! Kernels: what each one needs, in which order it adds, and the bodies that run on a CPU.

pub mod cpu;
pub mod isa;
pub mod order;
pub mod partition;
