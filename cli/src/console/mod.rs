//! What people and scripts see: streams, tables, JSON objects, errors, signals, and files that may be replaced.

pub mod advice;
pub mod device_names;
pub mod interrupt;
pub mod launch;
pub mod overwrite;
mod prose;
pub mod reasons;
pub mod report;
pub mod streams;
pub mod table;

pub use streams::{Bar, Console, check_target, write_file};
