//! Synchronisation primitives of pinned memory and of a card's threads. The module `model` compiles the same files with modelled
//! primitives.

pub use std::hint::spin_loop;
pub use std::sync::atomic;
pub use std::thread::sleep;
use std::time::Duration;
pub use std::time::Instant;

use crossbeam::channel::TryRecvError;
pub use crossbeam::channel::{Receiver, Sender};

/// How long a thread polls for its next message. To wake a thread that is blocked takes 5 to 50 µs, as long as several short operations.
const POLL_TIME: Duration = Duration::from_micros(50);

/// The next message, which is polled for before the thread blocks; `None` once the channel is closed.
pub fn receive<T>(receiver: &Receiver<T>) -> Option<T> {
    let started = Instant::now();
    loop {
        match receiver.try_recv() {
            Ok(message) => return Some(message),
            Err(TryRecvError::Disconnected) => return None,
            Err(TryRecvError::Empty) if started.elapsed() < POLL_TIME => spin_loop(),
            Err(TryRecvError::Empty) => return receiver.recv().ok(),
        }
    }
}
