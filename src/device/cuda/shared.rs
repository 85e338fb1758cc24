//! What all threads of a device know: whether it is lost, whether it is closing, which kernel runs, and how much is to
//! be issued.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use crate::device::{Fault, FaultKind};

/// The state that a device's threads share.
#[derive(Debug, Default)]
pub struct Shared {
    lost: OnceLock<String>,
    closing: AtomicBool,
    computing: Mutex<Option<&'static str>>,
    orders: AtomicUsize,
}

impl Shared {
    /// The device is gone, for the first reason given. Every later operation fails with it.
    pub fn mark_lost(&self, why: &str) -> Fault {
        let computing = self.computing.lock().unwrap_or_else(PoisonError::into_inner);
        let message = self.lost.get_or_init(|| match *computing {
            Some(kernel) => format!("{why}, while {kernel} ran; the card's context is lost"),
            None => format!("{why}; the card's context is lost"),
        });
        Fault::new(FaultKind::Lost, message.clone())
    }

    /// An error if the device is gone or closing.
    pub fn check_alive(&self) -> Result<(), Fault> {
        match self.lost.get() {
            Some(message) => Err(Fault::new(FaultKind::Lost, message.clone())),
            None if self.closing.load(Ordering::Relaxed) => {
                Err(Fault::new(FaultKind::Lost, "the device is closing"))
            }
            None => Ok(()),
        }
    }

    /// Nothing more is issued.
    pub fn close(&self) {
        self.closing.store(true, Ordering::Relaxed);
    }

    /// Takes note of how many orders the owner has before it.
    pub fn set_queued(&self, orders: usize) {
        self.orders.store(orders, Ordering::Relaxed);
    }

    /// How many orders the owner has before it.
    pub fn orders(&self) -> usize {
        self.orders.load(Ordering::Relaxed)
    }

    /// Takes note of the kernel that runs, to be named should the context be lost meanwhile.
    pub fn set_running_kernel(&self, kernel: Option<&'static str>) {
        *self.computing.lock().unwrap_or_else(PoisonError::into_inner) = kernel;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_reason_and_its_kernel_stay() {
        let shared = Shared::default();
        assert!(shared.check_alive().is_ok());
        shared.set_running_kernel(Some("csr_vector_f64"));
        let fault = shared.mark_lost("an illegal address");
        assert!(fault.message.contains("csr_vector_f64") && fault.kind == FaultKind::Lost, "{fault:?}");
        shared.set_running_kernel(None);
        assert_eq!(shared.mark_lost("something later"), fault);
        assert_eq!(shared.check_alive(), Err(fault));
    }

    #[test]
    fn a_closing_device_takes_nothing() {
        let shared = Shared::default();
        shared.close();
        assert_eq!(shared.check_alive().unwrap_err().kind, FaultKind::Lost);
    }
}
