//! The start and the end of MPI.
//!
//! MPI is initialised here only if the program has not done so, and ended only if it was initialised here. It ends on the thread that
//! initialised it, as MPI demands: when the last communicator is dropped there, or else when the process exits.

#![allow(unsafe_code)] // MPI's C functions

use std::ffi::c_int;
use std::ptr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::{self, ThreadId};

use ::mpi::ffi;

use crate::error::{Error, Reason, Result};

/// Held during every call of MPI.
static CALLS: Mutex<()> = Mutex::new(());

/// The environment in use that was initialised here.
static CURRENT: Mutex<Weak<Environment>> = Mutex::new(Weak::new());

/// Serialises the calls of MPI.
pub fn serialised() -> MutexGuard<'static, ()> {
    CALLS.lock().unwrap_or_else(PoisonError::into_inner)
}

pub fn failed(reason: impl Into<Reason>) -> Error {
    Error::device("network", reason)
}

/// MPI, initialised.
#[derive(Debug)]
pub struct Environment {
    /// The thread that must end MPI; `None` if the program does.
    initialised_by: Option<ThreadId>,
}

impl Environment {
    /// MPI as the program has initialised it, or initialised now.
    pub fn initialised() -> Result<Arc<Self>> {
        let mut current = CURRENT.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(environment) = current.upgrade() {
            return Ok(environment);
        }
        if is_initialised() {
            return Self::of_program();
        }
        let mut provided = 0;
        let code = {
            let _serialised = serialised();
            // SAFETY: MPI was never initialised; it takes null pointers for the arguments of the program, and writes one number.
            unsafe {
                let (no_count, no_words) = (ptr::null_mut(), ptr::null_mut());
                ffi::MPI_Init_thread(no_count, no_words, ffi::RSMPI_THREAD_SERIALIZED, &raw mut provided)
            }
        };
        if code != 0 {
            return Err(failed(format!("MPI cannot be initialised: error {code}")));
        }
        let environment = Arc::new(Self { initialised_by: Some(thread::current().id()) });
        *current = Arc::downgrade(&environment);
        if provided < serialised_level() {
            return Err(failed(
                "this MPI library does not allow calls from several threads; use one built with threads",
            ));
        }
        Ok(environment)
    }

    /// MPI as the program has initialised it.
    pub fn of_program() -> Result<Arc<Self>> {
        if !is_initialised() {
            return Err(failed("MPI is not initialised; initialise it, or use mpi::communicator()"));
        }
        if is_finalised() {
            return Err(failed("MPI has ended in this process and cannot be started again"));
        }
        let mut provided = 0;
        {
            let _serialised = serialised();
            // SAFETY: MPI is initialised and writes one number.
            unsafe { ffi::MPI_Query_thread(&raw mut provided) };
        }
        if provided < serialised_level() {
            return Err(failed(
                "the program initialised MPI for calls from one thread; initialise it with MPI_Init_thread and MPI_THREAD_SERIALIZED, or with MPI_THREAD_MULTIPLE if its other threads call MPI too",
            ));
        }
        Ok(Arc::new(Self { initialised_by: None }))
    }
}

/// The least level of threads.
fn serialised_level() -> c_int {
    // SAFETY: a constant of the library.
    unsafe { ffi::RSMPI_THREAD_SERIALIZED }
}

fn is_initialised() -> bool {
    let (_serialised, mut flag) = (serialised(), 0);
    // SAFETY: allowed at any time; writes one number.
    unsafe { ffi::MPI_Initialized(&raw mut flag) };
    flag != 0
}

/// Whether MPI has ended.
pub fn is_finalised() -> bool {
    let (_serialised, mut flag) = (serialised(), 0);
    // SAFETY: allowed at any time; writes one number.
    unsafe { ffi::MPI_Finalized(&raw mut flag) };
    flag != 0
}

impl Drop for Environment {
    fn drop(&mut self) {
        match self.initialised_by {
            Some(thread) if thread == thread::current().id() => finalise(),
            // The process ends without an error of the launcher if MPI ends then.
            // SAFETY: the function takes nothing and does not unwind.
            Some(_) => drop(unsafe { libc::atexit(finalise_at_exit) }),
            None => {}
        }
    }
}

extern "C" fn finalise_at_exit() {
    finalise();
}

fn finalise() {
    if is_finalised() {
        return;
    }
    let _serialised = serialised();
    // SAFETY: MPI is initialised and has not ended. All messages have ended: each holds the environment.
    unsafe { ffi::MPI_Finalize() };
}
