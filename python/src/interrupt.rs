//! Work that Ctrl-C interrupts.
//!
//! Python runs signal handlers in the main thread only, between two of its own instructions. Work of the main thread that may take long
//! therefore runs on a thread of its own, while the main thread waits and looks for signals. After a signal whose handler raises, the
//! call ends at once. The work ends by itself: it owns all that it uses, and its flag asks it to stop where it can.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use pyo3::prelude::*;
use rowloom::{Error, Result};

use crate::error::{detached, finished};

/// How often the main thread looks for signals.
const SIGNAL_POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Calls that are expected to be shorter are not interrupted: a thread of their own would cost more than it is worth.
const SHORT_CALL: Duration = Duration::from_millis(30);
/// The expected speed of a first call: 1 GiB in a second.
const FIRST_NS_PER_MIB: u64 = 1_000_000;
const MIB: u128 = 1 << 20;
/// The speed of calls with fewer bytes says nothing about larger ones.
const MIN_MEASURED_BYTES: u64 = 1 << 16;

/// Runs `work` with the interpreter's lock released. In the main thread, a signal whose handler raises ends the call, and sets the flag
/// that `work` gets.
///
/// `kept` are the Python objects whose memory `work` uses. They are released with the interpreter's lock, unless a signal came: releasing
/// them without it takes a lock that a child that is forked meanwhile would find locked for ever.
pub fn interruptible<K: Send + Sync + 'static, R: Send + 'static>(
    py: Python<'_>,
    kept: K,
    work: impl FnOnce(&AtomicBool) -> Result<R> + Send + 'static,
) -> PyResult<R> {
    let cancel = Arc::new(AtomicBool::new(false));
    if !is_main_thread() {
        return detached(py, || work(&cancel));
    }
    let (sender, mut receiver) = sync_channel(1);
    let flag = cancel.clone();
    let kept = Arc::new(kept);
    let kept_by_work = kept.clone();
    let run = move || {
        let result = catch_unwind(AssertUnwindSafe(|| work(&flag)));
        drop(kept_by_work);
        // The receiver is gone after a signal.
        let _ = sender.send(result);
    };
    let started = thread::Builder::new().name("rowloom-call".into()).spawn(run);
    if let Err(error) = started {
        let reason = format!("a thread cannot be started: {error}; raise the limit of threads");
        return finished(Ok(Err(Error::device("cpu", reason))));
    }
    loop {
        let waiting = &mut receiver;
        match py.detach(move || waiting.recv_timeout(SIGNAL_POLL_INTERVAL)) {
            Ok(result) => return finished(result),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                return finished(Ok(Err(Error::Internal("a thread ended without a result".into()))));
            }
        }
        if let Err(raised) = py.check_signals() {
            cancel.store(true, Ordering::Relaxed);
            return Err(raised);
        }
    }
}

/// An error if the caller of this work is gone.
pub fn check(cancel: &AtomicBool) -> Result<()> {
    if cancel.load(Ordering::Relaxed) { Err(Error::Interrupted) } else { Ok(()) }
}

/// Whether this is the thread in which Python handles signals. After a fork it is the only thread of the child.
fn is_main_thread() -> bool {
    // Safety: both calls only return numbers.
    unsafe { libc::gettid() == libc::getpid() }
}

/// The speed of calls of one kind, by the last one.
#[derive(Default)]
pub struct Pace {
    /// Nanoseconds for each MiB that the last call read and wrote, at least 1; 0 before the first call.
    ns_per_mib: AtomicU64,
}

impl Pace {
    /// Whether a call that reads and writes this many bytes is expected to be short.
    pub fn is_short(&self, bytes: u64) -> bool {
        let ns_per_mib = match self.ns_per_mib.load(Ordering::Relaxed) {
            0 => FIRST_NS_PER_MIB,
            known => known,
        };
        u128::from(ns_per_mib) * u128::from(bytes) / MIB < SHORT_CALL.as_nanos()
    }

    /// Measures a call that reads and writes this many bytes.
    pub fn measure<R>(&self, bytes: u64, cancel: Option<&AtomicBool>, call: impl FnOnce() -> R) -> R {
        let start = Instant::now();
        let result = call();
        let elapsed = start.elapsed();
        // A call that was cancelled has done less. The time of a small one is that of the call itself.
        let is_whole = cancel.is_none_or(|cancel| !cancel.load(Ordering::Relaxed));
        if is_whole && (bytes >= MIN_MEASURED_BYTES || elapsed >= SHORT_CALL) {
            let ns = elapsed.as_nanos() * MIB / u128::from(bytes.max(1));
            self.ns_per_mib.store(u64::try_from(ns).unwrap_or(u64::MAX).max(1), Ordering::Relaxed);
        }
        result
    }
}
