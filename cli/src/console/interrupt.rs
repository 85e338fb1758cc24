//! SIGINT and SIGTERM end the program with exit code 130 and leave no partial file.
//!
//! A signal ends the program at once, and unfinished files are removed. Commands that measure call [`Interrupt::defer`]:
//! the first signal then only sets a flag, so that the results so far are still reported. The command has [`STOP_GRACE`] to
//! end by itself, and a write that is under way then has [`WRITE_GRACE`] more; after that, and with a second signal, the program
//! ends at once.
//!
//! A write beyond the limit of the file size fails like one to a full disk; its signal is ignored.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::iterator::Signals;
use signal_hook::low_level;

use rowloom::internal::error::{Error, Result};
use rowloom::internal::files;

/// The exit code of an interrupted command.
const EXIT_CODE: i32 = 130;

/// How long a command may take to end by itself after the first signal.
const STOP_GRACE: Duration = Duration::from_millis(500);

/// How much longer a write that is under way then may take.
const WRITE_GRACE: Duration = Duration::from_millis(250);

/// How often a second signal and an unfinished write are looked for meanwhile.
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
            let failed = |error: std::io::Error| {
                let reason = format!(
                    "signals cannot be watched: {error}; raise the limit of threads or of open files"
                );
                Error::device("cpu", reason)
            };
            // The flag is never read: a handler of any kind keeps the signal from ending the program.
            signal_hook::flag::register(SIGXFSZ, Arc::default()).map_err(failed)?;
            let mut signals = Signals::new([SIGINT, SIGTERM]).map_err(failed)?;
            let interrupt = INTERRUPT
                .get_or_init(|| Self { asked: AtomicBool::new(false), deferred: AtomicBool::new(false) });
            let handle = move || interrupt.handle(&mut signals);
            std::thread::Builder::new().name("rowloom-signals".into()).spawn(handle).map_err(failed)?;
        }
        let interrupt = INTERRUPT.get().ok_or_else(|| Error::Internal("signals are not watched".into()))?;
        interrupt.deferred.store(false, Ordering::SeqCst);
        Ok(interrupt)
    }

    /// Waits for a signal and ends the program, at once or where the command does not end by itself.
    fn handle(&self, signals: &mut Signals) {
        while signals.wait().next().is_none() {}
        self.asked.store(true, Ordering::SeqCst);
        if self.deferred.load(Ordering::SeqCst) {
            let start = Instant::now();
            let grace = || if files::unfinished().is_empty() { STOP_GRACE } else { STOP_GRACE + WRITE_GRACE };
            while signals.pending().next().is_none() && start.elapsed() < grace() {
                std::thread::sleep(POLL_INTERVAL);
            }
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
