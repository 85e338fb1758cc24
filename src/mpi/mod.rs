//! Ranks that are processes of an MPI job, started with `mpirun`. Built with the feature `mpi`.
//!
//! A program that does not use MPI itself calls [`communicator`], which initialises MPI; MPI ends with the last communicator. A program that
//! uses MPI calls [`from_communicator`] with a communicator of its own, whose ranks then compute. MPI stays as the program initialised
//! it, and the program ends it, after it has dropped what it got from here.
//!
//! All messages are on a duplicate of the communicator, so they never meet messages of the program. Errors are returned on this duplicate
//! only: the error handlers of the program stay.
//!
//! Messages are MPI's own non-blocking ones. They are in host memory, which is page-locked where a device copies from it or to it, or
//! in the memory of a card if the library says that it takes it (CUDA-aware MPI). The library is asked at run time, since a program may
//! be started with another one than it was built with.
//!
//! MPI must allow calls from several threads, one at a time (`MPI_THREAD_SERIALIZED`): a thread of Rowloom makes calls during products and
//! sums. Between calls of Rowloom it makes none, so a program whose own calls are all on the thread that calls Rowloom needs nothing
//! else. A program that calls MPI on other threads meanwhile initialises it with `MPI_THREAD_MULTIPLE`.

#![allow(unsafe_code)] // a constructor with a promise of the caller

mod environment;
mod ranks;

use std::sync::Arc;
use std::time::Duration;

use ::mpi::ffi;
use ::mpi::topology;
use environment::Environment;

use crate::device::completion::RANK_TIMEOUT;
use crate::device::network::Communicator;
use crate::error::Result;

/// All ranks of this MPI job. MPI is initialised if the program has not done so; it then ends when the last communicator is dropped, and
/// cannot be started again in the process.
pub fn communicator() -> Result<Arc<dyn Communicator>> {
    let environment = Environment::initialised()?;
    // SAFETY: the communicator of all ranks is valid while MPI is initialised.
    unsafe { ranks::duplicate(environment, ffi::RSMPI_COMM_WORLD, RANK_TIMEOUT) }
}

/// The ranks of a communicator of the program, which all of them call. The communicator is duplicated, and can be freed afterwards.
pub fn from_communicator(communicator: &impl topology::Communicator) -> Result<Arc<dyn Communicator>> {
    // SAFETY: the object keeps its communicator valid.
    unsafe { from_raw(communicator.as_raw(), RANK_TIMEOUT) }
}

/// The same for a handle of MPI, with the time after which a silent rank counts as hung.
///
/// # Safety
///
/// MPI is initialised, and the handle is a valid communicator between processes of one group.
pub unsafe fn from_raw(communicator: ffi::MPI_Comm, timeout: Duration) -> Result<Arc<dyn Communicator>> {
    let environment = Environment::of_program()?;
    // SAFETY: as promised by the caller.
    unsafe { ranks::duplicate(environment, communicator, timeout) }
}
