//! SIGINT and SIGTERM: a first one stops at the next safe point, a second one at once; exit code 130 both times.
//!
//! Outside of work that has something to save, the first signal already ends the program.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

use crate::error::{Error, Result};

/// The exit code of an interrupted command.
const EXIT_CODE: i32 = 130;

/// Whether someone asked the program to stop.
#[derive(Debug)]
pub struct Interrupt {
    asked: Arc<AtomicBool>,
    at_once: Arc<AtomicBool>,
}

impl Interrupt {
    /// Takes over both signals, once for the whole program; until [`Self::defer`] a signal ends it at once.
    pub fn watch() -> Result<&'static Self> {
        static INTERRUPT: OnceLock<Interrupt> = OnceLock::new();
        if INTERRUPT.get().is_none() {
            let installed = Self::install()
                .map_err(|error| Error::Internal(format!("signals cannot be watched: {error}")))?;
            // Commands start one after the other, so nobody else can have been here meanwhile.
            let _ = INTERRUPT.set(installed);
        }
        let interrupt = INTERRUPT.get().ok_or_else(|| Error::Internal("signals are not watched".into()))?;
        interrupt.at_once.store(true, Ordering::SeqCst);
        Ok(interrupt)
    }

    fn install() -> std::io::Result<Self> {
        let interrupt =
            Self { asked: Arc::new(AtomicBool::new(false)), at_once: Arc::new(AtomicBool::new(true)) };
        for signal in [SIGINT, SIGTERM] {
            // Order matters: "at once" is looked at before this same signal arms it for the next.
            flag::register_conditional_shutdown(signal, EXIT_CODE, interrupt.at_once.clone())?;
            flag::register(signal, interrupt.asked.clone())?;
            flag::register(signal, interrupt.at_once.clone())?;
        }
        Ok(interrupt)
    }

    /// From here on the first signal only asks: there is something to save.
    pub fn defer(&self) {
        self.at_once.store(false, Ordering::SeqCst);
    }

    /// Whether a signal came.
    pub fn asked(&self) -> bool {
        self.asked.load(Ordering::SeqCst)
    }

    /// What a signal sets.
    pub fn flag(&self) -> &AtomicBool {
        &self.asked
    }

    /// [`Error::Interrupted`] if a signal came.
    pub fn check(&self) -> Result<()> {
        if self.asked() { Err(Error::Interrupted) } else { Ok(()) }
    }
}
