//! Commands about the program and the machine: `devices`, `demo`, `completions`, `man`.

pub mod completions;
pub mod demo;
pub mod devices;
pub mod man;
