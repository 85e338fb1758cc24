//! An emulated CUDA device: runs the text of `kernels/*.cu` on the CPU and checks everything it does.

mod bridge;
mod entries;
mod fault;
mod launch;
mod memory;
mod processor;
mod region;
mod rendezvous;
#[cfg(test)]
mod shared_words;

pub use fault::{AccessKind, Index3, KernelFault, Wrong};

#[cfg(test)]
mod fault_tests;
#[cfg(test)]
mod kernel_tests;
