//! Opening CUDA in the background: starting the driver and creating contexts take 0.1 s each, which a matrix can be read
//! in.

#![allow(unsafe_code)] // ends the process

use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use super::context::Context;
use super::driver::Driver;
use super::nvrtc::Nvrtc;

/// Contexts with the numbers of their cards.
pub type Contexts = Vec<(u32, Arc<Context>)>;

/// The thread that opens CUDA, until its contexts are taken.
static OPENING: Mutex<Option<JoinHandle<Contexts>>> = Mutex::new(None);

/// Starts a thread that starts the driver, loads NVRTC, and creates a context for each of `cards`, or for every card if
/// `None`. The first call in a process has an effect.
///
/// [`Driver::get`] and everything that needs a context wait for this thread. A failure is not reported here: whoever needs
/// the driver or the context tries again and gets the error.
pub fn start_opening(cards: Option<Vec<u32>>) {
    let mut opening = OPENING.lock().unwrap_or_else(PoisonError::into_inner);
    if opening.is_some() || Driver::if_known().is_some() {
        return;
    }
    let thread = thread::Builder::new().name("open CUDA".into());
    // Without the thread, CUDA is opened by its first user.
    *opening = thread.spawn(move || open(cards)).ok();
}

fn open(cards: Option<Vec<u32>>) -> Contexts {
    let _span = tracing::info_span!("open CUDA").entered();
    let Ok(driver) = Driver::get() else { return Vec::new() };
    // Independent of the driver, and needed only once the plan is made.
    let _ =
        thread::Builder::new().name("load NVRTC".into()).spawn(move || Nvrtc::installed(driver.cuda_major));
    let cards = cards.unwrap_or_else(|| (0..driver.cards).collect());
    cards.into_iter().filter_map(|card| Some((card, Context::create(card).ok()?))).collect()
}

/// The contexts that the thread has created, once. Waits for the thread.
pub fn take_contexts() -> Contexts {
    let mut opening = OPENING.lock().unwrap_or_else(PoisonError::into_inner);
    // The lock is held meanwhile, so that every caller waits.
    opening.take().and_then(|thread| thread.join().ok()).unwrap_or_default()
}

/// Ends the process with `exit_code` if CUDA is still being opened. The driver's exit handlers must not run while another
/// thread is inside the driver.
pub fn end_process_if_opening(exit_code: u8) {
    // Whoever holds the lock is waiting for the thread.
    let is_opening = OPENING
        .try_lock()
        .map_or(true, |opening| opening.as_ref().is_some_and(|thread| !thread.is_finished()));
    if is_opening {
        // The process ends with its exit code even if nobody reads its output.
        let _ = (std::io::stdout().flush(), std::io::stderr().flush());
        // SAFETY: ends the process without exit handlers; all output is flushed.
        unsafe { libc::_exit(i32::from(exit_code)) }
    }
}

#[cfg(test)]
mod tests {
    use super::super::cards::context;
    use super::*;

    #[test]
    fn who_needs_cuda_waits_for_the_opening_thread() {
        start_opening(Some(vec![0]));
        assert_eq!(context(0).is_ok(), Driver::get().is_ok());
        assert!(OPENING.lock().unwrap().is_none(), "the thread was not waited for");
        start_opening(None);
        assert!(OPENING.lock().unwrap().is_none(), "the driver is opened already");
        assert!(take_contexts().is_empty());
        end_process_if_opening(1);
    }
}
