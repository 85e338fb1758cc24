//! Threads outside the thread pool. A thread that the system refuses to start is an error of the CPU, never a panic.

use std::thread::{Builder, JoinHandle};

use crate::error::{Error, Result};

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
    Error::Device { device: "cpu".into(), reason }
}
