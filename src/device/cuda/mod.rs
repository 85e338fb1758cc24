//! Real NVIDIA cards, through libraries that are found at run time.

mod forms;
mod kernel_cache;
mod loader;
mod modules;
mod nvrtc;
mod workshop;

pub use forms::Architecture;
pub use modules::Modules;
