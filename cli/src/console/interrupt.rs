//! SIGINT and SIGTERM end the program with exit code 130 and leave no partial file.
//!
//! A signal ends the program at once with one line that says so, and unfinished files are removed. A command that measures
//! holds a [`Measuring`]: a signal then prints a note and sets a flag, and the command ends after the current product or case,
//! however long that takes, and reports what is finished. Around other work whose results are written, commands call
//! [`Interrupt::defer`]: a signal then leaves them [`STOP_GRACE`] to end by themselves, and a write that is under way
//! [`WRITE_GRACE`] more. A second signal ends the program at once.
//!
//! A write beyond the limit of the file size fails like one to a full disk; its signal is ignored.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, mpsc};
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::iterator::Signals;
use signal_hook::low_level;

use super::Console;
use rowloom::internal::error::{Error, Result};
use rowloom::internal::files;

/// The exit code of an interrupted command.
const EXIT_CODE: i32 = 130;

/// How long a command that does not measure may take to end by itself after the first signal.
const STOP_GRACE: Duration = Duration::from_millis(500);

/// How much longer a write that is under way then may take.
const WRITE_GRACE: Duration = Duration::from_millis(250);

/// How often a second signal and an unfinished write are looked for meanwhile.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// How long the program waits until `error: interrupted` is written: no program may read the pipe of standard error.
const MESSAGE_TIMEOUT: Duration = Duration::from_millis(100);

/// Whether a signal asked the program to stop.
#[derive(Debug)]
pub struct Interrupt {
    asked: AtomicBool,
    deferred: AtomicBool,
    /// Where the line goes that an immediate end prints.
    console: Mutex<Option<Console>>,
    /// What is being measured, if anything is: where the note goes, and what ends before the command does.
    measured: Mutex<Option<(Console, &'static str)>>,
}

/// While it lives, a signal lets the command end its current product or case and report.
#[derive(Debug)]
pub struct Measuring(&'static Interrupt);

impl Drop for Measuring {
    fn drop(&mut self) {
        self.0.set_measured(None);
    }
}

impl Interrupt {
    /// Handles both signals from now on, once for the whole program.
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
            let interrupt = INTERRUPT.get_or_init(|| Self {
                asked: AtomicBool::new(false),
                deferred: AtomicBool::new(false),
                console: Mutex::new(None),
                measured: Mutex::new(None),
            });
            let handle = move || interrupt.handle(&mut signals);
            std::thread::Builder::new().name("rowloom-signals".into()).spawn(handle).map_err(failed)?;
        }
        INTERRUPT.get().ok_or_else(|| Error::Internal("signals are not watched".into()))
    }

    /// Waits for a signal and ends the program, at once or where the command does not end by itself.
    fn handle(&self, signals: &mut Signals) {
        while signals.wait().next().is_none() {}
        let measured = self.measured.lock().ok().and_then(|measured| measured.clone());
        self.asked.store(true, Ordering::SeqCst);
        if let Some((console, last)) = measured {
            let note =
                format!("interrupted: ending after the current {last}; press Ctrl-C again to stop at once");
            in_background(move || console.note(&note));
            while signals.wait().next().is_none() {}
        } else if !self.deferred.load(Ordering::SeqCst) || !is_second_signal_within_grace(signals) {
            let console = self.console.lock().ok().and_then(|console| console.clone());
            let said = in_background(move || {
                console.iter().for_each(|console| console.error(&Error::Interrupted));
            });
            let _ = said.recv_timeout(MESSAGE_TIMEOUT);
        }
        files::discard_unfinished();
        low_level::exit(EXIT_CODE);
    }

    /// Begins a command: a signal ends the program at once, with a line on `console`.
    pub fn begin(&self, console: &Console) {
        self.deferred.store(false, Ordering::SeqCst);
        if let Ok(mut place) = self.console.lock() {
            *place = Some(console.clone());
        }
    }

    /// From now on a signal leaves the command a short time to end by itself.
    pub fn defer(&self) {
        self.deferred.store(true, Ordering::SeqCst);
    }

    /// While the result lives, a signal sets the flag and the command ends after the current `last`, such as a product.
    pub fn measure(&'static self, console: &Console, last: &'static str) -> Measuring {
        self.defer();
        self.set_measured(Some((console.clone(), last)));
        Measuring(self)
    }

    fn set_measured(&self, measured: Option<(Console, &'static str)>) {
        if let Ok(mut place) = self.measured.lock() {
            *place = measured;
        }
    }

    /// Whether a signal came.
    pub fn asked(&self) -> bool {
        self.asked.load(Ordering::SeqCst)
    }

    /// [`Error::Interrupted`] if a signal came.
    pub fn check(&self) -> Result<()> {
        if self.asked() { Err(Error::Interrupted) } else { Ok(()) }
    }
}

/// Waits for a second signal as long as the first one leaves the command to end by itself.
fn is_second_signal_within_grace(signals: &mut Signals) -> bool {
    let start = Instant::now();
    let grace = || if files::unfinished().is_empty() { STOP_GRACE } else { STOP_GRACE + WRITE_GRACE };
    while start.elapsed() < grace() {
        if signals.pending().next().is_some() {
            return true;
        }
        std::thread::sleep(POLL_INTERVAL);
    }
    false
}

/// Does `say` on a thread of its own, so that a full pipe cannot keep a second signal from ending the program. The receiver gets
/// something when it is done.
fn in_background(say: impl FnOnce() + Send + 'static) -> mpsc::Receiver<()> {
    let (done, said) = mpsc::channel();
    // Where no thread can be started, nothing is said.
    let _ = std::thread::Builder::new().name("rowloom-message".into()).spawn(move || {
        say();
        let _ = done.send(());
    });
    said
}
