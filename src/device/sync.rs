//! Synchronisation primitives of pinned memory and of a card's threads. The module `model` compiles the same files with modelled
//! primitives.

pub use std::hint::spin_loop;
pub use std::sync::atomic;
pub use std::thread::sleep;
pub use std::time::Instant;

pub use crossbeam::channel::{Receiver, Sender};
