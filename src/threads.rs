//! Threads outside the thread pool. A thread that the system refuses to start is an error of the CPU, never a panic.

use std::thread::{Builder, JoinHandle};

use crate::error::{Error, Result};

/// Bytes that one thread reads and writes sooner than it hands them to another thread. A hand-over and the report of its end take 40 µs
/// and more on a machine whose cores sleep (`benches/results/dense-h200.md`); this many bytes, most of them in a cache, take about 20 µs.
pub const SERIAL_BYTES: u64 = 256 << 10;

/// Starts a thread.
pub fn start(name: &str, work: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>> {
    Builder::new().name(name.into()).spawn(work).map_err(refused)
}

/// An error if no thread can be started now. To be called before a dependency starts a thread and would panic.
pub fn check() -> Result<()> {
    // The thread does nothing, so it cannot panic.
    start("rowloom-check", || ()).map(|thread| drop(thread.join()))
}

/// The error for a thread that the system refused to start.
pub fn refused(error: impl Into<Box<dyn std::error::Error>>) -> Error {
    let reason = format!("no thread can be started: {}; raise the limit of threads", error.into());
    Error::device("cpu", reason)
}
