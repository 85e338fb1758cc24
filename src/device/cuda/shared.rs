//! State shared by the threads of a device: whether it is lost or closing, the running kernel, and the number of queued
//! requests.

use std::sync::{Mutex, OnceLock, PoisonError};

use super::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use super::{Fault, FaultKind};

/// State shared by the threads of a device.
#[derive(Debug, Default)]
pub struct Shared {
    lost: OnceLock<String>,
    closing: AtomicBool,
    computing: Mutex<Option<&'static str>>,
    queued: AtomicUsize,
}

impl Shared {
    /// Marks the device as lost. The first reason is kept, and every later operation fails with it.
    pub fn mark_lost(&self, why: &str) -> Fault {
        let computing = self.computing.lock().unwrap_or_else(PoisonError::into_inner);
        let message = self.lost.get_or_init(|| match *computing {
            Some(kernel) => format!("{why}, while {kernel} was running; the card's context is lost"),
            None => format!("{why}; the card's context is lost"),
        });
        Fault::new(FaultKind::Lost, message.clone())
    }

    /// A fault if the device is lost or closing.
    pub fn check_alive(&self) -> Result<(), Fault> {
        match self.lost.get() {
            Some(message) => Err(Fault::new(FaultKind::Lost, message.clone())),
            None if self.closing.load(Ordering::Relaxed) => {
                Err(Fault::new(FaultKind::Lost, "the device is closing"))
            }
            None => Ok(()),
        }
    }

    /// Marks the device as closing: no further operation is issued.
    pub fn close(&self) {
        self.closing.store(true, Ordering::Relaxed);
    }

    /// Sets the number of requests queued for the owner thread.
    pub fn set_queued(&self, queued: usize) {
        self.queued.store(queued, Ordering::Relaxed);
    }

    /// The number of requests queued for the owner thread.
    pub fn queued(&self) -> usize {
        self.queued.load(Ordering::Relaxed)
    }

    /// Sets the running kernel, which is named if the context is lost.
    pub fn set_running_kernel(&self, kernel: Option<&'static str>) {
        *self.computing.lock().unwrap_or_else(PoisonError::into_inner) = kernel;
    }
}
