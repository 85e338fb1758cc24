//! Pinned memory and the threads of a card under a model checker (shuttle).
//!
//! `pinned.rs` and, in `cuda`, `owner.rs`, `completion_thread.rs`, `events.rs` and `shared.rs` are compiled a second time, with the
//! primitives of [`sync`], which let shuttle switch threads at every access, and with a modelled card instead of the CUDA driver.

#![allow(dead_code, clippy::duplicate_mod)] // compiles files a second time, with more than the model uses

mod card;
mod cuda;
#[path = "../pinned.rs"]
mod pinned;
mod sync;
mod tests;

use super::{Fault, FaultKind, Fence, LaneKind, Launch};

/// Completions, in the order of their reports.
#[derive(Debug, Clone)]
struct Reports(sync::Sender<(Fence, Result<(), Fault>)>);

impl Reports {
    fn send(&self, fence: Fence, _start_ns: u64, _end_ns: u64, result: Result<(), Fault>) {
        let _ = self.0.send((fence, result));
    }
}
