//! SIGINT and SIGTERM end the program with exit code 130 and leave no partial file.
//!
//! A signal ends the program at once, and unfinished files are removed. Commands that measure call [`Interrupt::defer`]:
//! the first signal then only sets a flag, so that the results so far are still reported; a second signal ends the program
//! at once. A write that is under way when the first signal arrives has [`WRITE_GRACE`] to finish.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level;

use crate::error::{Error, Result};
use crate::files;

/// The exit code of an interrupted command.
const EXIT_CODE: i32 = 130;

/// How long a write may go on after the first signal.
const WRITE_GRACE: Duration = Duration::from_millis(500);

/// How often an unfinished write is looked for meanwhile.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Whether a signal asked the program to stop.
#[derive(Debug)]
pub struct Interrupt {
    asked: AtomicBool,
    deferred: AtomicBool,
}

impl Interrupt {
    /// Handles both signals from now on, once for the whole program; until [`Self::defer`] a signal ends it at once.
    pub fn watch() -> Result<&'static Self> {
        static INTERRUPT: OnceLock<Interrupt> = OnceLock::new();
        if INTERRUPT.get().is_none() {
            let failed = |error| Error::Internal(format!("signals cannot be watched: {error}"));
            let mut signals = Signals::new([SIGINT, SIGTERM]).map_err(failed)?;
            let interrupt = INTERRUPT
                .get_or_init(|| Self { asked: AtomicBool::new(false), deferred: AtomicBool::new(false) });
            let handle = move || signals.forever().for_each(|_| interrupt.signalled());
            std::thread::Builder::new().name("rowloom-signals".into()).spawn(handle).map_err(failed)?;
        }
        let interrupt = INTERRUPT.get().ok_or_else(|| Error::Internal("signals are not watched".into()))?;
        interrupt.deferred.store(false, Ordering::SeqCst);
        Ok(interrupt)
    }

    /// What a signal does.
    fn signalled(&self) {
        let first = !self.asked.swap(true, Ordering::SeqCst);
        if first && self.deferred.load(Ordering::SeqCst) && writes_finish(WRITE_GRACE) {
            return;
        }
        files::discard_unfinished();
        low_level::exit(EXIT_CODE);
    }

    /// From now on the first signal only sets the flag.
    pub fn defer(&self) {
        self.deferred.store(true, Ordering::SeqCst);
    }

    /// Whether a signal came.
    pub fn asked(&self) -> bool {
        self.asked.load(Ordering::SeqCst)
    }

    /// The flag that a signal sets.
    pub fn flag(&self) -> &AtomicBool {
        &self.asked
    }

    /// [`Error::Interrupted`] if a signal came.
    pub fn check(&self) -> Result<()> {
        if self.asked() { Err(Error::Interrupted) } else { Ok(()) }
    }
}

/// Whether all writes that are under way now finish within `grace`.
fn writes_finish(grace: Duration) -> bool {
    let writes = files::unfinished();
    let start = Instant::now();
    loop {
        let now = files::unfinished();
        if !writes.iter().any(|write| now.contains(write)) {
            return true;
        }
        if start.elapsed() >= grace {
            return false;
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}
